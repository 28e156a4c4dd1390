package exectrace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"runtime"
)

// Events of a trace that traces are forged of here; see internal/trace/tracev2 of the Go tree.
const (
	frequencyEvent   = 8
	procsEvent       = 9  // time, GOMAXPROCS, stack
	procStatusEvent  = 13 // time, P, status
	goStatusEvent    = 25 // time, goroutine, thread, status
	stwBeginEvent    = 26 // time, kind, stack
	goLabelEvent     = 39 // time, label
	taskBeginEvent   = 40 // time, task, parent, name, stack
	regionBeginEvent = 42 // time, task, name, stack
	syncEvent        = 50
	clockEvent       = 51 // time, monotonic, s, ns

	statusRunnable, statusRunning = 1, 2 // of a goroutine
	statusBusy, statusIdle        = 1, 2 // of a P
)

// A forge writes a trace of Go 1.26: as many equal things as one likes. Times are in ns.
type forge struct {
	w    *bufio.Writer
	gen  uint64
	time uint64
}

// forged is a trace that is written while it is read.
func forged(write func(*forge)) io.Reader {
	r, w := io.Pipe()
	go func() {
		f := &forge{w: bufio.NewWriterSize(w, 64<<10)}
		f.w.WriteString("go 1.26 trace\x00\x00\x00")
		write(f)
		f.w.Flush()
		w.Close()
	}()
	return r
}

// generation writes one.
func (f *forge) generation(write func()) {
	f.gen++
	f.batch(math.MaxUint32, varints([]byte{syncEvent, frequencyEvent}, 1e9), varints([]byte{clockEvent}, 0, 0, 1, 1))
	write()
	f.w.WriteByte(generationEnd)
}

func (f *forge) batch(thread uint64, parts ...[]byte) {
	data := bytes.Join(parts, nil)
	f.w.Write(varints([]byte{eventBatch}, f.gen, thread, f.time, uint64(len(data))))
	if _, err := f.w.Write(data); err != nil {
		runtime.Goexit() // it is no longer read
	}
}

// many writes n things to batches of a thread, each of which begins with head.
func (f *forge) many(thread uint64, n int, head []byte, one func(b []byte, i int) []byte) {
	b := bytes.Clone(head)
	for i := range n {
		if b = one(b, i); len(b) > 60<<10 {
			f.batch(thread, b)
			b = append(b[:0], head...)
		}
	}
	f.batch(thread, b)
}

// busy gives a thread a P, as it has to have for most events.
func (f *forge) busy(thread uint64) {
	f.batch(thread, varints([]byte{procStatusEvent}, 1, thread, statusBusy))
}

// computing gives it a goroutine, too.
func (f *forge) computing(thread uint64) {
	f.busy(thread)
	f.batch(thread, varints([]byte{goStatusEvent}, 1, 1<<40, thread, statusRunning))
}

// tables writes a string and a stack of one frame, both 1.
func (f *forge) tables() {
	f.batch(math.MaxUint32, varints([]byte{stringsEvent, stringEvent}, 1, 1), []byte("f"))
	f.batch(math.MaxUint32, varints([]byte{stacksEvent, stackEvent}, 1, 1, 7, 1, 1, 1))
}

func varints(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// An amplifier is a trace whose bytes become many more in memory, or take many steps: n things in each of some generations.
type amplifier struct {
	name        string
	generations int
	n           int    // what it takes to do harm, for the test with the memory
	says        string // in the error or a warning
	write       func(f *forge, n int)
}

// amplifiers are the ways that are known.
var amplifiers = []amplifier{
	{"batches", 1, 5_500_000, "it has more than 50000 parts", func(f *forge, n int) {
		for range n {
			f.batch(5, []byte{0})
		}
	}},
	{"threads", 1, 5_500_000, "it has more than 50000 parts", func(f *forge, n int) {
		for i := range n {
			f.batch(uint64(i), varints([]byte{procsEvent}, 1, 2, 0))
		}
	}},
	{"GOMAXPROCS", 3, 11_000_000, "", func(f *forge, n int) {
		f.computing(1)
		f.many(1, n, nil, func(b []byte, i int) []byte { return varints(append(b, procsEvent), 1, uint64(1+i%2), 0) })
	}},
	{"strings", 1, 9_000_000, "more than 1048576 strings", func(f *forge, n int) {
		f.many(1, n, []byte{stringsEvent}, func(b []byte, i int) []byte { return varints(append(b, stringEvent), uint64(i+1), 0) })
	}},
	{"stacks", 1, 8_000_000, "more than 1048576 stacks", func(f *forge, n int) {
		f.many(1, n, []byte{stacksEvent}, func(b []byte, i int) []byte { return varints(append(b, stackEvent), uint64(i+1), 0) })
	}},
	{"frames", 1, 50_000, "more than 1048576 frames", func(f *forge, n int) {
		f.many(1, n, []byte{stacksEvent}, func(b []byte, i int) []byte {
			b = varints(append(b, stackEvent), uint64(i+1), 120)
			for k := range uint64(120) {
				b = varints(b, uint64(i)*120+k, 1, 1, 1)
			}
			return b
		})
	}},
	{"samples", 1, 7_000_000, "more than 1048576 CPU samples", func(f *forge, n int) {
		f.many(1, n, []byte{cpuSamplesEvent}, func(b []byte, i int) []byte { return varints(append(b, cpuSampleEvent), 1, 1, 1, 1, 0) })
	}},
	{"goroutines", 1, 2_500_000, "more than 1048576 goroutines", func(f *forge, n int) {
		f.many(1, n, nil, func(b []byte, i int) []byte {
			return varints(append(b, goStatusEvent), 1, uint64(i+1), math.MaxUint64, statusRunnable)
		})
	}},
	{"goroutines of all generations", 8, 600_000, "there are more than 1048576 goroutines", func(f *forge, n int) {
		f.many(1, n, nil, func(b []byte, i int) []byte {
			return varints(append(b, goStatusEvent), 1, f.gen<<32+uint64(i), math.MaxUint64, statusRunnable)
		})
	}},
	{"Ps", 1, 6_000_000, "more than 65536 Ps", func(f *forge, n int) {
		f.many(1, n, nil, func(b []byte, i int) []byte { return varints(append(b, procStatusEvent), 1, uint64(i), statusIdle) })
	}},
	{"tasks", 1, 5_000_000, "more than 1048576 tasks", func(f *forge, n int) {
		f.tables()
		f.computing(1)
		f.many(1, n, nil, func(b []byte, i int) []byte { return varints(append(b, taskBeginEvent), 1, uint64(i+1), 0, 1, 0) })
	}},
	{"regions", 1, 6_000_000, "more than 1048576 tasks and regions", func(f *forge, n int) {
		f.tables()
		f.computing(1)
		f.many(1, n, nil, func(b []byte, i int) []byte { return varints(append(b, regionBeginEvent), 1, uint64(i+1), 1, 0) })
	}},
	{"phases", 1, 100_000, "more than 1000 phases in one another", func(f *forge, n int) {
		f.many(2, n, []byte{stringsEvent}, func(b []byte, i int) []byte { return varints(append(b, stringEvent), uint64(i+1), 0) })
		f.computing(1)
		f.many(1, n, nil, func(b []byte, i int) []byte { return varints(append(b, stwBeginEvent), 1, uint64(i+1), 0) })
	}},
	{"labels", 4, 400_000, "more than 1048576 names", func(f *forge, n int) {
		f.many(2, n, []byte{stringsEvent}, func(b []byte, i int) []byte {
			b = varints(append(b, stringEvent), uint64(i+1), 16)
			return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, f.gen), uint64(i))
		})
		f.computing(1)
		f.many(1, n, nil, func(b []byte, i int) []byte { return varints(append(b, goLabelEvent), 1, uint64(i+1)) })
	}},
	{"generations", 25_000, 1, "more than 20000 generations", func(f *forge, n int) {
		f.computing(1)
	}},
}

func (a amplifier) trace(generations, n int) io.Reader {
	return forged(func(f *forge) {
		for range generations {
			f.generation(func() { a.write(f, n) })
		}
	})
}

// silent is a trace of runnable goroutines and silences, each a little longer than the last.
func silent(goroutines, silences int) io.Reader {
	return forged(func(f *forge) {
		f.generation(func() {
			f.many(1, goroutines, nil, func(b []byte, i int) []byte {
				return varints(append(b, goStatusEvent), 1, uint64(i+1), math.MaxUint64, statusRunnable)
			})
			f.computing(1)
			f.time += uint64(goroutines)
			f.many(1, silences, nil, func(b []byte, i int) []byte {
				return varints(append(b, procsEvent), uint64(30_000_000+200*i), 2, 0)
			})
		})
	})
}
