package exectrace

import (
	"math"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// A script makes the events of a program that was never run. Times are ms.
type script struct {
	p   *program
	now float64
}

func newScript(procs int) *script {
	s := &script{p: newProgram(newNames()), now: 1000}
	s.add(event{kind: other})
	s.add(event{kind: procs_, id: int64(procs)})
	for i := range procs {
		s.proc(i, idle)
	}
	return s
}

const procs_ = procs // the parameter above has its name

func (s *script) add(e event) {
	e.at = int64(s.now * 1e6)
	s.p.take(e)
}

func (s *script) proc(i int, to state)         { s.add(event{kind: proc, id: int64(i), to: to}) }
func (s *script) goroutine(id int64, to state) { s.add(event{kind: goroutine, id: id, to: to}) }
func (s *script) waitNetwork(id int64, name int32) {
	s.add(event{kind: goroutine, id: id, to: waiting, net: true, name: name})
}
func (s *script) wait(ms float64) { s.now += ms }

// work is dense: an event every 0.1 ms.
func (s *script) work(ms float64) {
	for end := s.now + ms; s.now < end-1e-9; {
		s.now += 0.1
		s.add(event{kind: other})
	}
}

func (s *script) trace(o Options) *Trace {
	t := &Trace{}
	analyse(t, s.p, o)
	return t
}

// counted is a kernel that may have throttled the program all the time.
var counted = freeze.Kernel{Counts: true, Most: time.Hour}

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if math.Abs(got-want) > by {
		t.Errorf("%s is %.4f, want %.4f", what, got, want)
	}
}

// TestThrottled: two Ps work for 25 ms of each period of 100 ms and are frozen for 75: a quota of half a CPU.
func TestThrottled(t *testing.T) {
	s := newScript(2)
	serves := s.p.names.number(frame{function: "main.handle", root: "net/http.(*conn).serve", serves: true})
	s.proc(0, running)
	s.proc(1, running)
	s.goroutine(1, running)
	for i := range 50 {
		s.waitNetwork(2, serves)
		s.work(10)
		s.goroutine(2, runnable)
		s.goroutine(2, running)
		s.work(15)
		s.add(event{kind: begin, name: s.p.names.number(frame{function: "GC concurrent mark phase"})})
		s.wait(75)
		s.add(event{kind: end, name: s.p.names.number(frame{function: "GC concurrent mark phase"})})
		if i%10 == 0 {
			s.goroutine(3, runnable)
		}
	}
	s.waitNetwork(2, serves)
	got := s.trace(Options{Kernel: counted})
	if got.Cause != freeze.Throttled || !got.Sure || got.Rhythm.Period != 100*time.Millisecond {
		t.Fatalf("%s (%v) %v: %s", got.Cause, got.Sure, got.Rhythm.Period, got.Why)
	}
	near(t, "the frozen share", got.Frozen, 0.75, 0.001)
	near(t, "the quota", got.CPUs, 0.5, 0.001)
	near(t, "busy Ps", got.Busy, 2, 0.001)
	near(t, "the collector's share of frozen time", got.GC.Frozen, 1, 0)
	if got.CPUsBy != "procs" || got.GC.Cycles != 50 || len(got.Freezes) != 50 || got.Left != 0 || len(got.Longest) != longest {
		t.Errorf("%s, %d cycles, %d freezes, %d left, %d longest", got.CPUsBy, got.GC.Cycles, len(got.Freezes), got.Left, len(got.Longest))
	}
	m := got.Longest[0]
	if len(m.Running) != 2 || m.Running[1].Function != "main.handle" || !m.Serving || !m.GC || m.Procs != 2 || !m.Refill || m.Length() != 75*time.Millisecond {
		t.Errorf("%+v", m)
	}
	// From the 10th ms of a period to its end: 15 ms of work and the freeze.
	h := got.Handlers
	if h == nil || h.What != "net/http" || h.Count != 50 || h.Frozen != 50 {
		t.Fatalf("%+v", h)
	}
	near(t, "a handler's time", h.Took.P99.Seconds(), 0.090, 0.0001)
	near(t, "what freezes added", h.Added.P50.Seconds(), 0.075, 0.0001)
	near(t, "the rest", h.Rest.Max.Seconds(), 0.015, 0.0001)
	if got.Silence.Sparse || got.Silence.P99 > time.Millisecond {
		t.Errorf("%+v", got.Silence)
	}
}

// TestLateProfile: a program that stands still a lot begins its profile late. The CPU that it got is that of the periods in it; the others
// don't count at all, rather than as periods in which it got none.
func TestLateProfile(t *testing.T) {
	s := newScript(2)
	s.proc(0, running)
	s.proc(1, running)
	s.goroutine(1, running)
	s.goroutine(2, running)
	for i := range 100 {
		for range 5 { // on two Ps: a sample each, of 10 ms
			s.work(5)
			if i >= 80 && i < 95 {
				s.add(event{kind: sample, id: 1})
			}
		}
		s.wait(75)
	}
	s.add(event{kind: other})
	got := s.trace(Options{Kernel: counted})
	if got.Cause != freeze.Throttled || got.CPUsBy != "samples" {
		t.Fatalf("%s, CPU by %q: %s", got.Cause, got.CPUsBy, got.Why)
	}
	near(t, "the quota", got.CPUs, 0.5, 0.001)
}

// TestHidden: after each freeze the program has nothing to do for 10 ms, then waits for a request that the kernel has but no thread takes.
func TestHidden(t *testing.T) {
	s := newScript(1)
	for i := range 60 {
		s.proc(0, running)
		s.goroutine(1, running)
		s.work(20)
		if i%3 != 0 {
			s.wait(80)
			continue
		}
		s.goroutine(1, waiting)
		s.proc(0, idle)
		s.wait(80)
	}
	s.add(event{kind: other})
	got := s.trace(Options{Kernel: counted})
	if got.Cause != freeze.Throttled {
		t.Fatalf("%s: %s", got.Cause, got.Why)
	}
	// Without chance, which is 8 % of the phase: all silences with nothing to do end there.
	near(t, "the hidden share", got.Hidden, 0.8/3, 0.001)
	near(t, "the frozen share", got.Frozen, 0.8, 0.001)
	if n := len(got.Freezes); n != 60 || !got.Freezes[0].Idle {
		t.Errorf("%d freezes", n)
	}
	got = s.trace(Options{Kernel: freeze.Kernel{Counts: true, Most: got.Wall * 6 / 10}})
	near(t, "the throttled share, of which the kernel counted less", got.Throttled, 0.6, 0.001)
}

// TestComputing: a goroutine alone computes for 8 ms at each tick. Its silences have a rhythm, and aren't freezes.
func TestComputing(t *testing.T) {
	for _, sampled := range []bool{false, true} {
		s := newScript(2)
		for range 60 {
			s.proc(0, running)
			s.goroutine(1, running)
			s.work(12)
			if sampled {
				s.add(event{kind: sample, id: 1})
			}
			s.wait(8)
			if sampled {
				s.add(event{kind: sample, id: 1})
			}
			s.goroutine(1, waiting)
			s.proc(0, idle)
			s.wait(80)
		}
		got := s.trace(Options{})
		want := freeze.Unsure
		if sampled { // 2 samples of 10 ms for 20 ms of running
			want = freeze.None
		}
		if got.Cause != want || got.Frozen != 0 {
			t.Errorf("sampled %v: %s, frozen %v: %s", sampled, got.Cause, got.Frozen, got.Why)
		}
	}
}

// TestSparse: two loops that the runtime's monitor disturbs every 10 ms.
func TestSparse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		frozen  float64 // ms of each period of 100
		samples bool
		cause   freeze.Cause
		sure    bool
		share   float64
	}{
		{"clean", 0, false, freeze.Unsure, false, 0},
		{"clean, sampled", 0, true, freeze.None, true, 0},
		{"half", 50, false, freeze.Throttled, false, .45},
		{"half, sampled", 50, true, freeze.Throttled, true, .45},
	} {
		s := newScript(2)
		s.proc(0, running)
		s.proc(1, running)
		s.goroutine(1, running)
		s.goroutine(2, running)
		for range 60 {
			for run := 0.0; run < 100-tt.frozen; run += 10 {
				s.wait(10)
				if tt.samples {
					s.add(event{kind: sample, id: 1})
					s.add(event{kind: sample, id: 2})
				} else {
					s.add(event{kind: other})
				}
			}
			s.wait(tt.frozen)
			s.add(event{kind: other})
		}
		got := s.trace(Options{Kernel: counted})
		if got.Cause != tt.cause || got.Sure != tt.sure || !got.Silence.Sparse {
			t.Errorf("%s: %s, sure %v, sparse %v: %s %s", tt.name, got.Cause, got.Sure, got.Silence.Sparse, got.Why, got.Doubt)
		}
		near(t, tt.name, got.Frozen, tt.share, 0.01)
		if !tt.sure && got.Doubt == "" {
			t.Errorf("%s: no doubt is told", tt.name)
		}
	}
}

// TestNothing: a program that does nothing is not frozen; if it wakes at a rhythm, that may hide a quota.
func TestNothing(t *testing.T) {
	for _, ticker := range []bool{false, true} {
		s := newScript(2)
		for i := range 100 {
			s.wait(50)
			if !ticker {
				s.wait(float64(i*i%37) * 1.7)
			}
			s.add(event{kind: other})
		}
		got := s.trace(Options{})
		if got.Cause != freeze.None || got.Sure == ticker || got.Frozen != 0 || len(got.Freezes) != 0 {
			t.Errorf("ticker %v: %s, sure %v: %s", ticker, got.Cause, got.Sure, got.Why)
		}
		near(t, "the idle share", got.Idle, 1, 0.001)
	}
}

// TestManySilences: the short ones are left out, and that is reported.
func TestManySilences(t *testing.T) {
	slowtest.Plain(t)
	s := newScript(1)
	s.proc(0, running)
	s.goroutine(1, running)
	for i := range maxSilences + 1000 {
		s.wait(1.1 + float64(i%4))
		s.add(event{kind: other})
	}
	got := s.trace(Options{})
	if len(s.p.silences) > maxSilences || got.Silence.Floor <= time.Millisecond || len(got.Warnings) != 1 {
		t.Errorf("%d silences, floor %v, warnings %q", len(s.p.silences), got.Silence.Floor, got.Warnings)
	}
	if len(got.Freezes) > maxFreezes || got.Left == 0 {
		t.Errorf("%d freezes, %d left", len(got.Freezes), got.Left)
	}
}

// TestLatency mixes times that are kept and times in steps, which are a 32nd of a power of two wrong at most.
func TestLatency(t *testing.T) {
	var all times
	for i := range int64(900) {
		all.quick.add((i + 1) * 1e6)
	}
	for i := range int64(100) {
		all.add((901 + i) * 1e6)
	}
	l := all.latency()
	near(t, "p50", l.P50.Seconds(), 0.5, 0.02)
	near(t, "p99", l.P99.Seconds(), 0.99, 0.001)
	near(t, "max", l.Max.Seconds(), 1, 0)
	if l := (&times{}).latency(); l != (Latency{}) {
		t.Errorf("of nothing: %+v", l)
	}
}

func TestOverlap(t *testing.T) {
	freezes := []Freeze{{Start: 10, End: 20}, {Start: 30, End: 40}}
	for _, tt := range [][3]time.Duration{{0, 10, 0}, {0, 15, 5}, {12, 14, 2}, {15, 35, 10}, {0, 100, 20}, {20, 30, 0}, {50, 60, 0}} {
		if got := newFrozen(freezes).overlap(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%d to %d: %d, want %d", tt[0], tt[1], got, tt[2])
		}
	}
}
