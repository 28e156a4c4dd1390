package unthrottle

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
)

var _ Logger = (*slog.Logger)(nil)

// start takes away what may be in the test's environment, and puts GOMAXPROCS back when the test ends.
func start(t *testing.T) {
	t.Helper()
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestSetAppliesAndUndoes(t *testing.T) {
	start(t)
	before := runtime.GOMAXPROCS(0)
	want := before + 1
	p := Policy{RoundFunc: func(float64) int { return want }, Max: want}
	// The limit of this machine is not known here, so the number comes in through a decision made by hand.
	d := Decide(limited(1, want), p)
	undo := undoTo(runtime.GOMAXPROCS(0), d.apply())
	if got := runtime.GOMAXPROCS(0); got != want || !d.Changed || d.Before != before {
		t.Fatalf("GOMAXPROCS %d, want %d: %+v", got, want, d)
	}
	if kept, ok := Last(); !ok || kept.Procs != want || !kept.Changed {
		t.Errorf("Last: %+v, %v", kept, ok)
	}
	undo()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("after undo GOMAXPROCS is %d, want %d", got, before)
	}
	runtime.GOMAXPROCS(want)
	undo() // a second time does nothing
	if got := runtime.GOMAXPROCS(0); got != want {
		t.Errorf("undo worked twice: GOMAXPROCS %d", got)
	}
}

func TestUndoOfAUsersNumber(t *testing.T) {
	start(t)
	mine := runtime.GOMAXPROCS(0) + 2 // no runtime would choose that
	runtime.GOMAXPROCS(mine)
	d := Decide(limited(float64(mine+1), mine+1), Go)
	undoTo(mine, d.apply())()
	if got := runtime.GOMAXPROCS(0); got != mine {
		t.Errorf("after undo GOMAXPROCS is %d, want the %d that was there", got, mine)
	}
}

func TestSetLeavesAlone(t *testing.T) {
	start(t)
	before := runtime.GOMAXPROCS(0)
	for _, d := range []Decision{
		Decide(limited(float64(before), before), Ceil),                         // right already
		Decide(cgroup.Limits{}, Go),                                            // unknown
		Decide(limited(1, 8), Off),                                             // not wanted
		Decide(limited(float64(before+1), before+1), Policy{User: before + 1}), // the user's, even where the program changed it since
	} {
		d.apply()
		if got := runtime.GOMAXPROCS(0); got != before || d.Changed {
			t.Errorf("%v: GOMAXPROCS %d, want %d", d, got, before)
		}
	}
}

func TestSetHonoursEnvironment(t *testing.T) {
	start(t)
	before := runtime.GOMAXPROCS(0)
	t.Setenv("GOMAXPROCS", strconv.Itoa(before+3))
	d, _ := Set(Options{})
	if d.By != ByEnvironment || d.Procs != before+3 || runtime.GOMAXPROCS(0) != before {
		t.Errorf("got %+v, GOMAXPROCS %d", d, runtime.GOMAXPROCS(0))
	}
	for _, bad := range []string{"", "0", "2500m", "-1"} {
		t.Setenv("GOMAXPROCS", bad)
		if d, undo := Set(Options{}); d.By == ByEnvironment {
			t.Errorf("GOMAXPROCS=%q counts as set: %+v", bad, d)
		} else {
			undo()
		}
	}
}

func TestSetRequestFromEnvironment(t *testing.T) {
	start(t)
	t.Setenv("MY_REQUEST", "1500m")
	d, undo := Set(Options{Policy: Policy{Min: 1, RequestEnv: "MY_REQUEST"}})
	undo()
	if d.Policy.Request != 1.5 {
		t.Errorf("request %v, want 1.5", d.Policy.Request)
	}
	t.Setenv("MY_REQUEST", "lots")
	d, undo = Set(Options{Policy: Policy{Min: 1, RequestEnv: "MY_REQUEST"}})
	undo()
	if d.Policy.Request != 0 || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Error(), "MY_REQUEST=lots: want a number") {
		t.Errorf("warnings %v", d.Warnings)
	}
}

func TestSetFromEnvWarns(t *testing.T) {
	start(t)
	t.Setenv("UNTHROTTLE", "flor")
	t.Setenv("UNTHROTTLE_MAX", "1")
	setFromEnv()
	d, ok := Last()
	if !ok || d.Procs != 1 || len(d.Warnings) != 1 {
		t.Errorf("got %+v, %v", d, ok)
	}
}

func TestLogger(t *testing.T) {
	start(t)
	var b strings.Builder
	logger := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	t.Setenv("GOMAXPROCS", "1")
	Set(Options{Logger: logger})
	n := strconv.Itoa(runtime.GOMAXPROCS(0))
	want := `level=INFO msg="unthrottle: GOMAXPROCS=1: GOMAXPROCS=1 is set in the environment; GOMAXPROCS stays at ` + n + `" gomaxprocs=` + n + " before=" + n + "\n"
	if b.String() != want {
		t.Errorf("got  %s\nwant %s", b.String(), want)
	}
}

func TestWatcher(t *testing.T) {
	now := Decide(limited(2, 8), Go)
	var applied, told []int
	procs := 0
	w := watcher{
		decide: func() *Decision { d := now; return &d },
		procs:  func() int { return procs },
		apply:  func(d *Decision) { applied = append(applied, d.Procs); procs = d.Procs; d.Changed = true },
		notify: func(d *Decision) {
			told = append(told, d.Procs)
			if !d.Changed {
				t.Error("told before it was applied")
			}
		},
	}
	w.look()
	w.look() // nothing new
	now = Decide(limited(3, 8), Go)
	w.look()
	now = Decide(limited(2.5, 8), Go) // the same number from another limit: pools may care
	w.look()
	now = Decide(limited(2.5, 2), Go) // fewer CPUs
	w.look()
	now = Decide(cgroup.Limits{State: cgroup.None, Affinity: 8}, Go) // no limit any more
	w.look()
	moved := limited(2.5, 8)
	moved.From = "/sys/fs/cgroup/other"
	now = Decide(moved, Go)
	w.look()
	w.look()
	want := []int{2, 3, 3, 2, 8, 3}
	if !equal(applied, want) || !equal(told, want) {
		t.Errorf("applied %v, told %v, want %v", applied, told, want)
	}

	procs = 5 // somebody else, the runtime for example
	w.look()
	w.look()
	if !equal(applied, append(want, 3)) || !equal(told, want) {
		t.Errorf("after another number: applied %v, told %v", applied, told)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestWatchEnds(t *testing.T) {
	start(t)
	ctx, cancel := context.WithCancel(context.Background())
	told := 0
	Watch(ctx, Options{Policy: Off}, func(d Decision) {
		told++
		cancel()
	})
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
