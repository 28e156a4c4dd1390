package trial

import (
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
)

// TestLoaded holds that a run has the figures of its window, the tail by which settings are compared among them, and that a
// load which was not the planned one is told and deletes nothing.
func TestLoaded(t *testing.T) {
	l := &Loaded{newServed(t, "/", document), Shot{Rate: 5, Lasting: time.Second, Seed: 10}}
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
