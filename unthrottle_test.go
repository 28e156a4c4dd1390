package unthrottle

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
)

var _ Logger = (*slog.Logger)(nil)

// start clears what may be in the test's environment, and restores GOMAXPROCS when the test ends.
func start(t *testing.T) {
	t.Helper()
	t.Setenv("GOMAXPROCS", "")
	t.Setenv("UNTHROTTLE", "")
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
	undo := d.set()
	if got := runtime.GOMAXPROCS(0); got != want || !d.Changed || d.Before != before || d.Now != want {
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
	mine := runtime.GOMAXPROCS(0) + 2 // a number that no runtime would choose
	runtime.GOMAXPROCS(mine)
	d := Decide(limited(1, 1), Ceil)
	undo := d.set()
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Errorf("GOMAXPROCS is %d", got)
	}
	undo()
	if got := runtime.GOMAXPROCS(0); got != mine {
		t.Errorf("after undo GOMAXPROCS is %d, want the %d that was there", got, mine)
	}
}

func TestSetLeavesAlone(t *testing.T) {
	start(t)
	before := runtime.GOMAXPROCS(0)
	for _, d := range []Decision{
		Decide(limited(float64(before), before), Ceil), // right already
		Decide(cgroup.Limits{}, Go),                    // unknown
		Decide(limited(1, 8), Off),                     // not wanted
		Decide(limited(float64(before+1), before+1), Policy{operator: operator{procs: before + 1}}), // the user's, even where the program changed it since
	} {
		d.set()
		if got := runtime.GOMAXPROCS(0); got != before || d.Changed || d.Now != before {
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

// TestOperator: with UNTHROTTLE=off nothing is set, whichever the call and the policy.
func TestOperator(t *testing.T) {
	start(t)
	before := runtime.GOMAXPROCS(0)
	t.Setenv("UNTHROTTLE", "off")
	o := Options{Policy: Policy{Name: "mine", Min: before + 1, RoundFunc: func(float64) int { return before + 1 }}}
	d, undo := Set(o)
	undo()
	ctx, cancel := context.WithCancel(context.Background())
	Watch(ctx, o, func(w Decision) {
		cancel()
		for _, d := range []Decision{d, w} {
			if d.Procs != 0 || d.Now != before || d.Changed || runtime.GOMAXPROCS(0) != before ||
				!strings.HasPrefix(d.String(), "GOMAXPROCS unchanged: UNTHROTTLE=off is set in the environment; GOMAXPROCS stays at ") {
				t.Errorf("%+v: %v", d, d)
			}
		}
	})
}

func TestFromEnv(t *testing.T) {
	start(t)
	t.Setenv("UNTHROTTLE", "ceil")
	t.Setenv("UNTHROTTLE_HEADROOM", "much")
	d, undo := Set(FromEnv())
	undo()
	if d.Policy.Name != "ceil" || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Error(), "UNTHROTTLE_HEADROOM=much: want a number") {
		t.Errorf("%+v, %v", d.Policy, d.Warnings)
	}
}

// TestUndoInAnyOrder: the newest Set that is left counts, and the last undo brings back what was there at first.
func TestUndoInAnyOrder(t *testing.T) {
	for _, order := range []string{"012", "021", "102", "120", "201", "210"} {
		start(t)
		before := runtime.GOMAXPROCS(0)
		var undo [3]func()
		for i := range undo {
			d := Decide(limited(float64(before+9-i), before+9), Ceil)
			undo[i] = d.set()
		}
		left := []int{before, before + 9, before + 8, before + 7} // what is in force without any, and with each as the newest
		undone := [4]bool{}
		for _, at := range order {
			i := int(at - '0')
			undo[i]()
			undone[i+1] = true
			newest := 3
			for undone[newest] {
				newest--
			}
			if got := runtime.GOMAXPROCS(0); got != left[newest] {
				t.Errorf("order %s: after undoing %d GOMAXPROCS is %d, want %d", order, i, got, left[newest])
			}
		}
	}
}

// TestLoweredByTheProgram: a number that is neither the runtime's nor ours is not raised, until the program sets another.
func TestLoweredByTheProgram(t *testing.T) {
	start(t)
	want := func(procs int, by Basis, changed bool, cpus float64) {
		t.Helper()
		d := Decide(limited(cpus, 64), Ceil)
		d.set()
		if d.Now != procs || d.By != by || d.Changed != changed || runtime.GOMAXPROCS(0) != procs {
			t.Errorf("%v: %d by %q, want %d by %q", d, d.Now, d.By, procs, by)
		}
	}
	runtime.GOMAXPROCS(41)
	want(41, ByProgram, false, 50)
	want(41, ByProgram, false, 60)
	want(33, ByLimit, true, 33) // a limit below it counts
	want(41, ByProgram, true, 60)
	runtime.GOMAXPROCS(63) // a number above the limit can't be granted
	want(60, ByLimit, true, 60)
	want(62, ByLimit, true, 62) // ours is raised
	if d, _ := Last(); strings.Contains(d.String(), "the program has set") {
		t.Error(d)
	}
	runtime.GOMAXPROCS(40)
	d := Decide(limited(50, 64), Ceil)
	d.set()
	if want := "GOMAXPROCS=40: limit 50 CPUs at /sys/fs/cgroup/app; policy ceil: 50; the program has set GOMAXPROCS to 40, which is not raised"; d.String() != want {
		t.Errorf("got  %s\nwant %s", d, want)
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

type nilLogger struct{ n int }

func (l *nilLogger) Info(string, ...any) { l.n++ }
func (l *nilLogger) Warn(string, ...any) { l.n++ }

// TestLoggers: any printf does, and one that panics ends nothing.
func TestLoggers(t *testing.T) {
	start(t)
	t.Setenv("UNTHROTTLE_MAX", "none")
	o := FromEnv()
	var lines []string
	o.Logf = func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	o.Logger = (*nilLogger)(nil)
	o.Policy = Off
	Set(o)
	want := []string{"unthrottle: UNTHROTTLE_MAX=none: want a whole number above zero", "unthrottle: GOMAXPROCS unchanged: policy off; GOMAXPROCS stays at " + strconv.Itoa(runtime.GOMAXPROCS(0))}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", lines, want)
	}
}

// TestWatches: if two run, the one that began last sets GOMAXPROCS, and the other one says so, until the last one ends.
func TestWatches(t *testing.T) {
	start(t)
	before := runtime.GOMAXPROCS(0)
	told := map[string][]Decision{}
	watch := func(name string, cpus int) *watcher {
		w := &watcher{
			decide: func() *Decision { d := Decide(limited(float64(cpus), 64), Ceil); return &d },
			procs:  func() int { return runtime.GOMAXPROCS(0) },
			notify: func(d *Decision) { told[name] = append(told[name], *d) },
		}
		w.apply = func(d *Decision) { d.lead(w) }
		begin(w)
		w.look()
		return w
	}
	old, young := watch("old", before+1), watch("young", before+2)
	for i := 0; i < 3; i++ {
		old.look()
		young.look()
	}
	if got := runtime.GOMAXPROCS(0); got != before+2 {
		t.Errorf("GOMAXPROCS %d, want %d", got, before+2)
	}
	end(young)
	old.look()
	if got := runtime.GOMAXPROCS(0); got != before+1 {
		t.Errorf("after the young one's end GOMAXPROCS %d, want %d", got, before+1)
	}
	end(old)
	if len(told["young"]) != 1 || len(told["old"]) != 3 {
		t.Fatalf("told %v", told)
	}
	for i, want := range []struct{ now, warnings int }{{before + 1, 0}, {before + 2, 1}, {before + 1, 0}} {
		if d := told["old"][i]; d.Now != want.now || len(d.Warnings) != want.warnings {
			t.Errorf("%d: told of %d with %v, want %d", i, d.Now, d.Warnings, want.now)
		}
	}
}

func TestWatcher(t *testing.T) {
	now := Decide(limited(2, 8), Go)
	var applied, told []int
	procs := 0
	w := watcher{
		decide: func() *Decision { d := now; return &d },
		procs:  func() int { return procs },
		apply:  func(d *Decision) { applied = append(applied, d.Procs); procs = d.Procs; d.Now, d.Changed = procs, true },
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
	now = Decide(cgroup.Limits{State: cgroup.None, Affinity: 8}, Go) // no longer a limit
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

	procs = 5 // something else, such as the runtime
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
