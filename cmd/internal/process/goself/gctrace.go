// Package goself answers: what does a Go program say about itself? In go the lines that it writes to stderr with GODEBUG=gctrace=1, which
// needs no preparation, and readings of its /metrics page, in the text format of Prometheus. Out come its garbage collections and what they
// cost; what happened in its runtime between two readings; and how many CPUs its Ps wanted for each that they got. Pages that Prometheus'
// own client writes have these figures on their own, most of them only if its collector is asked for all of them.
//
// It fetches no page and starts no program.
package goself

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GCTrace is what makes a program write a line for each collection, as a part of GODEBUG.
const GCTrace = "gctrace=1"

// A Cycle is one collection.
type Cycle struct {
	CPU   time.Duration // of marking, by goroutines that allocate and by workers, but those on Ps that were idle
	Live  int64         // bytes that were left
	Goal  int64         // bytes by which it should have finished
	Procs int           // GOMAXPROCS
}

// ParseCycle reads a line such as
//
//	gc 12 @0.345s 3%: 0.018+0.48+0.003 ms clock, 0.14+0.08/0.30/0.12+0.02 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 8 P
//
// Its CPU times are of: stopping the world, assists / background work / idle Ps, stopping the world again. The pauses are not counted: the
// runtime books each on every P, whether it had work or not, so that at 500 Ps a millisecond is half a second. What is counted is time that
// Ps were held, which is more than CPU time where threads wait for a CPU.
func ParseCycle(line []byte) (c Cycle, ok bool) {
	if !bytes.HasPrefix(line, []byte("gc ")) {
		return c, false
	}
	var cpu, heap bool
	for _, part := range strings.Split(string(line), ",") {
		part = strings.TrimSpace(part)
		switch {
		case strings.HasSuffix(part, " ms cpu"):
			c.CPU, cpu = parseMarking(strings.TrimSuffix(part, " ms cpu"))
		case strings.HasSuffix(part, " MB goal"):
			c.Goal = megabytes(strings.TrimSuffix(part, " MB goal"))
		case strings.HasSuffix(part, " MB") && strings.Contains(part, "->"):
			sizes := strings.Split(strings.TrimSuffix(part, " MB"), "->")
			c.Live, heap = megabytes(sizes[len(sizes)-1]), len(sizes) == 3
		case strings.HasSuffix(part, " P"), strings.HasSuffix(part, " P (forced)"):
			c.Procs, _ = strconv.Atoi(strings.Fields(part)[0])
		}
	}
	return c, cpu && heap && c.Procs > 0
}

// parseMarking sums up the marking of 0.14+0.08/0.30/0.12+0.02.
func parseMarking(text string) (time.Duration, bool) {
	terms := strings.Split(text, "+")
	if len(terms) != 3 {
		return 0, false
	}
	work := strings.Split(terms[1], "/")
	if len(work) != 3 {
		return 0, false
	}
	var marking float64
	for i, term := range []string{work[0], work[1], terms[0], terms[2]} {
		ms, err := strconv.ParseFloat(term, 64)
		if err != nil || !(ms >= 0 && ms < 1e12) {
			return 0, false
		}
		if i < 2 {
			marking += ms
		}
	}
	return time.Duration(marking * float64(time.Millisecond)), true
}

func megabytes(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n << 20
}

// A GCLog collects the lines that a program writes.
type GCLog struct {
	mu     sync.Mutex
	cycles []Cycle
}

// most is how many collections are kept: at 1,000 a second those of some minutes.
const most = 1 << 18

// Line takes a line of the program's stderr, if it is one of a collection.
func (l *GCLog) Line(line []byte) (taken bool) {
	c, ok := ParseCycle(line)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cycles) < most {
		l.cycles = append(l.cycles, c)
	}
	return true
}

// Mark is a place in the log, for Since.
func (l *GCLog) Mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.cycles)
}

// A GCSummary is what the collections of some time were.
type GCSummary struct {
	Collections int
	CPU         time.Duration
	Live, Goal  int64 // medians
	Procs       int   // the last one's; 0: there was none
}

// Since sums up what has come since a mark.
func (l *GCLog) Since(mark int) (s GCSummary) {
	l.mu.Lock()
	cycles := slices.Clone(l.cycles[min(mark, len(l.cycles)):])
	l.mu.Unlock()
	if len(cycles) == 0 {
		return s
	}
	s.Collections, s.Procs = len(cycles), cycles[len(cycles)-1].Procs
	for _, c := range cycles {
		s.CPU += c.CPU
	}
	slices.SortFunc(cycles, func(a, b Cycle) int { return int(a.Live>>20) - int(b.Live>>20) })
	s.Live = cycles[len(cycles)/2].Live
	slices.SortFunc(cycles, func(a, b Cycle) int { return int(a.Goal>>20) - int(b.Goal>>20) })
	s.Goal = cycles[len(cycles)/2].Goal
	return s
}
