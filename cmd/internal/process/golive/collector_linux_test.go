package golive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
)

// checkCollector: the program of the matrix holds some hundred KB, or megabytes with many Ps, and has collected three times.
func checkCollector(t *testing.T, p *Process, f flavour) {
	t.Helper()
	c, err := p.Collector()
	if err != nil {
		t.Error(err)
		return
	}
	byPercent := max(6<<20, c.Live+(c.Live+c.Roots)*3/2)
	if c.Percent != 150 || c.Limit != 90<<20 || c.Live < 32<<10 || c.Live > 16<<20 || c.Roots == 0 || c.Roots > 16<<20 ||
		c.Goal > byPercent || c.Goal < byPercent*9/10 || c.Other == 0 || c.Other > 90<<20 {
		t.Errorf("%+v", c)
	}
	if f.name == "unoptimised" {
		if c.Known {
			t.Errorf("without inlined atomics it is not known where the times are: %+v", c)
		}
	} else if !c.Known || c.In <= 0 || c.Busy < c.In {
		t.Errorf("times %v of %v, known: %v", c.In, c.Busy, c.Known)
	}
}

// A program's collector is what its own runtime/metrics report, however GOGC and GOMEMLIMIT were set, and off.
func TestCollector(t *testing.T) {
	for _, version := range ofMatrix(oldestAndNewest) {
		key := fmt.Sprint(version, sources(t, "collector"))
		path := cached(t, version+"-collector", key, func(path string) error {
			return goBuild(version, path, "collector", []string{"CGO_ENABLED=0"}, []string{"-ldflags=-s -w"})
		})
		for _, env := range [][]string{{"GOGC="}, {"GOGC=400"}, {"GOGC=off"}, {"GOGC=off", "GOMEMLIMIT=40MiB"}, {"GOMEMLIMIT=14MiB"}, {"SET=70", "LIMIT=33554432"}} {
			t.Run(version+" "+strings.Join(env, " "), func(t *testing.T) {
				c := start(t, append(env, "GOMAXPROCS=2"), "/bin/sh", "-c", `echo begin; read go; exec "$0"`, path)
				if _, err := io.WriteString(c.in, "\n"); err != nil {
					t.Fatal(err)
				}
				var p *Process
				for range 3 {
					text, err := c.out.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if p == nil {
						p = open(t, c.Process.Pid)
					}
					sameCollector(t, p, text)
					if _, err := io.WriteString(c.in, "\n"); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

func sameCollector(t *testing.T, p *Process, said string) {
	t.Helper()
	got, err := p.Collector()
	if err != nil {
		t.Fatal(err)
	}
	var want Collector
	var in, busy float64
	if _, err := fmt.Sscan(said, &want.Percent, &want.Limit, &want.Live, &want.Roots, &want.Goal, &in, &busy); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	if got.Percent != want.Percent || got.Limit != want.Limit || got.Live != want.Live || got.Roots != want.Roots || !got.Known {
		t.Errorf("%+v, it says %s", got, said)
	}
	if math.Abs(float64(got.Goal)-float64(want.Goal)) > 0.05*float64(want.Goal) { // what it says is of a moment before
		t.Errorf("goal %d, it says %d", got.Goal, want.Goal)
	}
	if math.Abs(got.In.Seconds()-in) > 1e-6 || math.Abs(got.Busy.Seconds()-busy) > 1e-6 {
		t.Errorf("%v of %v, it says %v of %v s", got.In, got.Busy, in, busy)
	}
}

// What isn't a collector, and a program without one, are not taken for one.
func TestNoCollector(t *testing.T) {
	p := open(t, start(t, []string{"PROCS=2"}, target(t, runtime.Version(), flavours[0])).Process.Pid)
	at := p.runtime.v.collector
	p.runtime.v.collector = nil
	if c, err := p.Collector(); !errors.Is(err, ErrNoSched) {
		t.Errorf("no place: %+v, %v", c, err)
	}
	p.runtime.v.collector = []uint64{p.runtime.v.gomaxprocs, p.runtime.v.allp[0], p.runtime.v.sched}
	if c, err := p.Collector(); !errors.Is(err, errUnproven) {
		t.Errorf("other variables: %+v, %v", c, err)
	}
	p.runtime.v.collector = append(p.runtime.v.collector, at...)
	if c, err := p.Collector(); err != nil || c.Percent != 100 || c.Limit != math.MaxInt64 {
		t.Errorf("among others: %+v, %v", c, err)
	}
}

func TestParseCollector(t *testing.T) {
	m, err := readImage(strings.NewReader(string(synthetic(62, "go1.26.8"))), fileSize)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	right := func() []byte {
		b := make([]byte, collectorSize)
		le.PutUint32(b[atPercent:], 200)
		for at, v := range map[int]uint64{
			atLimit: 100 << 20, atMinimum: 8 << 20, atGoal: 150 << 20, atLive: 50 << 20, atStacks: 1 << 20, atGlobals: 1 << 20,
			atInUse: 70 << 20, atFree: 4 << 20, atAlloc: 500 << 20, atFreed: 440 << 20, atMapped: 80 << 20,
		} {
			le.PutUint64(b[at:], v)
		}
		return b
	}
	// Of 100 MiB 16 hold no objects, and 3 % of the rest are kept.
	goal := uint64(84<<20 - (84<<20)/100*3)
	want := Collector{Percent: 200, Limit: 100 << 20, Live: 50 << 20, Roots: 2 << 20, Other: 16 << 20, Goal: goal}
	c, ok := m.parseCollector(right())
	if !ok || c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if room := c.Room(); math.Round(room) != 61 {
		t.Errorf("room for %.0f %%", room)
	}
	if room := new(Collector).Room(); !math.IsInf(room, 1) {
		t.Errorf("of nothing: %v", room)
	}
	for what, change := range map[string]func(b []byte){
		"a least heap that is another's": func(b []byte) { le.PutUint64(b[atMinimum:], 8<<20+1) },
		"GOGC is no percentage":          func(b []byte) { le.PutUint32(b[atPercent:], 1<<31) },
		"a limit below zero":             func(b []byte) { le.PutUint64(b[atLimit:], 1<<63) },
		"more in use than there is":      func(b []byte) { le.PutUint64(b[atInUse:], 81<<20) },
		"nothing is mapped":              func(b []byte) { le.PutUint64(b[atMapped:], 0) },
		"an odd heap":                    func(b []byte) { le.PutUint64(b[atLive:], 1<<60) },
		"nothing at all":                 func(b []byte) { clear(b) },
		"zeros that fit":                 func(b []byte) { clear(b[:atInUse]) },
	} {
		b := right()
		change(b)
		if c, ok := m.parseCollector(b); ok {
			t.Errorf("%s: %+v", what, c)
		}
	}
	off := right()
	le.PutUint32(off[atPercent:], math.MaxUint32)
	le.PutUint64(off[atMinimum:], leastHeap(-1, 4<<20))
	le.PutUint64(off[atGoal:], math.MaxUint64)
	if c, ok := m.parseCollector(off); !ok || c.Percent != -1 || c.Goal != goal {
		t.Errorf("off: %+v", c)
	}
	for what, times := range map[string][statsSize / 8]uint64{
		"sums that don't fit":  {1, 2, 3, 4, 11, 0, 0, 0, 20, 0, 100},
		"more idle than there": {1, 2, 3, 4, 10, 0, 0, 0, 95, 0, 100},
		"a sum that overflows": {1 << 63, 1 << 63, 3, 4, 7, 0, 0, 0, 0, 0, 100},
	} {
		var c Collector
		m.parseStats(&c, bytesOf(times))
		if c.Known {
			t.Errorf("%s: %+v", what, c)
		}
	}
	m.parseStats(&c, bytesOf([statsSize / 8]uint64{1, 2, 3, 4, 10, 0, 0, 0, 20, 70, 100}))
	if !c.Known || c.In != 10 || c.Busy != 80 {
		t.Errorf("times: %+v", c)
	}
}

func bytesOf(words [statsSize / 8]uint64) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}
