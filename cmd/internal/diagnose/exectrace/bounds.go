package exectrace

import (
	"encoding/binary"
	"fmt"
)

// What a trace becomes, and not only its bytes, is bounded: some bytes of it become many more in memory, and a trace may come from anyone.
// The reader of a generation, golang.org/x/exp/trace, has no bounds of its own. What is said about it here was measured with the generators
// of hostile_test.go; what a trace of a large machine has is from the runtime's own limits.
const (
	// A batch is 64 KiB of a thread's events, or what the thread has when the generation ends. The runtime ends a program with
	// 10,000 threads, and 48 MiB are 768 whole batches: this is four times of both. The reader takes 600 bytes for each.
	mostBatches = 50_000

	// A trace has a generation a second. A busy program writes 5 MB of it, so that two GiB, the most that is taken, are 400.
	mostGenerations = 20_000

	// The tables of a generation. A function or a file has a string, and so has a label, a task and a message of the program; a
	// place in the program is a frame. A profiler of 192 CPUs takes 20,000 samples a second. The largest programs have some
	// 300,000 functions. The reader takes some 100 bytes for each of these.
	mostStrings = 1 << 20
	mostStacks  = 1 << 20
	mostFrames  = 1 << 20
	mostSamples = 1 << 20

	// What lives at a time. A program of a million goroutines has 2 GB of stacks, and writes 8 MB a second of their states
	// alone. The reader takes 200 bytes for each, and the analysis 120. GOMAXPROCS is a number of CPUs: Linux has up to 8192.
	mostGoroutines = 1 << 20
	mostProcs      = 1 << 16
	mostTasks      = 1 << 20 // and regions
	mostNested     = 1000    // phases of a goroutine, a P or the program: there are five kinds, and each event looks at all of them

	// Names of the whole trace: pairs of functions, labels, phases. A large program has tens of thousands.
	mostNames     = 1 << 20
	mostNameBytes = 64 << 20

	// Changes of GOMAXPROCS that are kept. A program changes it when its limit changes.
	mostSettings = 1000

	// Goroutines that are looked at, all in all, to say which were there in the longest silences: some 2 s. Only those that run or wait for
	// a P are. A thousand of these in each of the some 700 silences that are among the hundred longest when they come, if they come in any
	// order, are less than a hundredth of it.
	mostSteps = 100_000_000
)

// A leftOut is why a generation is not in the result. Those after it are.
type leftOut struct{ what string }

func (l *leftOut) Error() string { return l.what }

func tooMany(most int, what string) error {
	return &leftOut{fmt.Sprintf("it has more than %d %s, which no program has", most, what)}
}

// A tally counts what a generation's tables hold, before the reader makes them.
type tally struct {
	batches, strings, stacks, samples int
	frames                            map[uint64]struct{} // by program counter
}

// Events of the tables, see internal/trace/tracev2 of the Go tree. A batch of a table begins with its first event.
const (
	stacksEvent     = 2
	stackEvent      = 3 // id, number of frames; of each program counter, function, file, line
	stringsEvent    = 4
	stringEvent     = 5 // id, length, bytes
	cpuSamplesEvent = 6
	cpuSampleEvent  = 7 // time, thread, P, goroutine, stack
)

// add counts a batch. What isn't a table is counted as one; where a table is damaged the reader will stop, too.
func (t *tally) add(batch []byte) error {
	if t.batches++; t.batches > mostBatches {
		return tooMany(mostBatches, "parts")
	}
	if len(batch) == 0 {
		return nil
	}
	events := fields{batch[1:]}
	switch batch[0] {
	case stringsEvent:
		return t.addStrings(&events)
	case stacksEvent:
		return t.addStacks(&events)
	case cpuSamplesEvent:
		for events.event(cpuSampleEvent) && events.skip(5) {
			if t.samples++; t.samples > mostSamples {
				return tooMany(mostSamples, "CPU samples")
			}
		}
	}
	return nil
}

func (t *tally) addStrings(events *fields) error {
	for events.event(stringEvent) && events.skip(1) {
		length, ok := events.number()
		if !ok || length > uint64(len(events.left)) {
			return nil
		}
		events.left = events.left[length:]
		if t.strings++; t.strings > mostStrings {
			return tooMany(mostStrings, "strings")
		}
	}
	return nil
}

func (t *tally) addStacks(events *fields) error {
	for events.event(stackEvent) && events.skip(1) {
		frames, ok := events.number()
		if !ok {
			return nil
		}
		if t.stacks++; t.stacks > mostStacks {
			return tooMany(mostStacks, "stacks")
		}
		for range frames {
			pc, ok := events.number()
			if !ok || !events.skip(3) {
				return nil
			}
			if t.frames == nil {
				t.frames = map[uint64]struct{}{}
			}
			if t.frames[pc] = struct{}{}; len(t.frames) > mostFrames {
				return tooMany(mostFrames, "frames")
			}
		}
	}
	return nil
}

// fields are the varints of a batch that are left.
type fields struct{ left []byte }

func (f *fields) event(kind byte) bool {
	if len(f.left) == 0 || f.left[0] != kind {
		return false
	}
	f.left = f.left[1:]
	return true
}

func (f *fields) number() (uint64, bool) {
	v, n := binary.Uvarint(f.left)
	if n <= 0 {
		return 0, false
	}
	f.left = f.left[n:]
	return v, true
}

func (f *fields) skip(n int) bool {
	for range n {
		if _, ok := f.number(); !ok {
			return false
		}
	}
	return true
}
