package trial

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
)

// TestLoaded holds that a run has the figures of its window, the tail by which settings are compared among them, and that a load which was
// not the planned one is reported and deletes nothing.
func TestLoaded(t *testing.T) {
	l := &Loaded{Served: newServed(t, "/", document), Shot: Shot{Rate: 5, Lasting: time.Second, Seed: 10}}
	run, err := l.Run(t.Context(), lab.Setting{Procs: 3, CPUs: 0.9}, 4)
	if err != nil {
		t.Fatal(err)
	}
	if run.Error != "" || run.GOMAXPROCS != 3 || run.Ops != 10 || run.Seconds <= 0 {
		t.Errorf("%+v", run)
	}
	if m := run.Metrics; lab.ReadyTail.In(m) != 0.0025 || lab.P99.In(m) != 0.003 || lab.CPUPerRequest.In(m) <= 0 || lab.ErrorShare.In(m) != 0.2 {
		t.Errorf("%v", m)
	}
	if want := lab.MarkLoad + ": late; and more"; !strings.Contains(strings.Join(run.Marks, "\n"), want) {
		t.Errorf("marks %q, want %q", run.Marks, want)
	}
	if l.Shot.Seed != 10 {
		t.Errorf("a run has changed the seed to %d", l.Shot.Seed)
	}

	l.Served = newServed(t, "/die", document)
	if run, err = l.Run(t.Context(), lab.Setting{CPUs: 1}, 1); err != nil || !strings.Contains(run.Error, "it was asked to die") {
		t.Errorf("a server that dies: %+v, %v", run, err)
	}
	l.Served = newServed(t, "/", document)
	l.Service.Args = []string{"sh", "-c", "echo no port; exit 4"}
	if run, err = l.Run(t.Context(), lab.Setting{CPUs: 1}, 1); err != nil || !strings.Contains(run.Error, "no port") || run.Metrics == nil {
		t.Errorf("a server that does not start: %+v, %v", run, err)
	}
	l.Served = newServed(t, "/", "no document")
	if _, err = l.Run(t.Context(), lab.Setting{CPUs: 1}, 1); err == nil || !strings.Contains(err.Error(), "generating load") {
		t.Errorf("a generator that fails: %v", err)
	}
}

// TestLoadedTogether: servers run at the same time, each in its network, and change sides with each block.
func TestLoadedTogether(t *testing.T) {
	served := newServed(t, "/", document)
	l := &Loaded{Served: served, Shot: Shot{Rate: 5, Lasting: time.Second, Seed: 10}}
	for range 2 {
		side, err := runner.NewNetwork()
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { side.Close() })
		l.Sides = append(l.Sides, served.In(side))
	}
	for block := range 2 {
		runs, err := l.Several(t.Context(), []lab.Setting{{Procs: 3, CPUs: 0.9}, {Procs: 4, CPUs: 0.9}}, block)
		if err != nil || len(runs) != 2 {
			t.Fatal(err)
		}
		for i, run := range runs {
			if run.Error != "" || run.GOMAXPROCS != 3+i || run.Ops != 10 || lab.P99.In(run.Metrics) != 0.003 {
				t.Errorf("block %d: %+v", block, run)
			}
		}
		if a, b := runs[0], runs[1]; a.Start.After(b.Start.Add(time.Duration(b.Seconds*1e9))) || b.Start.After(a.Start.Add(time.Duration(a.Seconds*1e9))) {
			t.Errorf("block %d: one after the other: %v for %v s, %v for %v s", block, a.Start, a.Seconds, b.Start, b.Seconds)
		}
	}
	if _, err := l.Run(t.Context(), lab.Setting{CPUs: 0.9}, 0); err != nil {
		t.Fatal(err)
	}
	if _, harm := l.Beside(); harm != "what others use can't be seen" && harm != lab.BesideOthers { // the generator here reports no slices
		t.Errorf("%q", harm)
	}
	l.Safe = true
	if _, err := l.Run(t.Context(), lab.Setting{CPUs: 0.9}, 0); err != nil {
		t.Fatal(err)
	}
	if _, harm := l.Beside(); harm != "" {
		t.Errorf("%q, though it is said to be safe", harm)
	}
}

// A windowed is a window that is all there is of a server.
type windowed Window

func (w windowed) Load(context.Context, Shot) (Window, error) { return Window(w), nil }
func (windowed) Close() lab.Run {
	return lab.Run{Metrics: map[string]float64{}, Others: 0.5}
}

// TestQuiet holds what a run records about what was left out of its window.
func TestQuiet(t *testing.T) {
	for name, c := range map[string]struct {
		calm, stood int64
		others      *loadtest.Others
		slo         bool
		want        lab.Run // without Marks
		marked      bool
	}{
		"pauses alone are seen":    {980, 20, nil, false, lab.Run{Kept: 0.98, Others: 0.5}, true},
		"a neighbour, too":         {600, 5, &loadtest.Others{CPUs: 0.4, Left: 395}, false, lab.Run{Kept: 0.6, Others: 0.4, Sliced: true}, false},
		"one that does not matter": {995, 5, &loadtest.Others{CPUs: 0.1}, false, lab.Run{Kept: 0.995, Sliced: true}, false},
		"too few are quiet":        {300, 20, &loadtest.Others{CPUs: 0.9, Left: 680}, false, lab.Run{Kept: 0.3, Others: 0.9}, false},
		"an SLO is of all":         {600, 20, &loadtest.Others{CPUs: 0.4, Left: 380}, true, lab.Run{Kept: 0.6, Others: 0.4}, false},
	} {
		g := loadtest.Summary{Requests: 1000, FromReady: loadtest.Latencies{Count: 1000}}
		g.Machine = &loadtest.Machine{Stood: c.stood, Others: c.others, Calm: loadtest.Latencies{Count: c.calm}}
		if c.slo {
			g.SLO = &loadtest.SLO{}
		}
		w, err := Sight{Lasted: time.Second, Seen: time.Second}.Window(g)
		if err != nil {
			t.Fatal(err)
		}
		run, _, err := Once(t.Context(), time.Now, func() (Opened, error) { return windowed(w), nil }, Shot{})
		if err != nil {
			t.Fatal(err)
		}
		if run.Kept != c.want.Kept || run.Others != c.want.Others || run.Sliced != c.want.Sliced || c.marked != (run.Marks != nil) {
			t.Errorf("%s: %+v", name, run)
		}
	}
}
