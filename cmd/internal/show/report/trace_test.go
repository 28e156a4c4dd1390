package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

func tracedFor(wall time.Duration, cause freeze.Cause) *exectrace.Trace {
	return &exectrace.Trace{
		Go: "1.26", Wall: wall, Cause: cause, Sure: true, Procs: []exectrace.Setting{{Procs: 8}},
		Rhythm: freeze.Rhythm{Period: 100 * time.Millisecond},
	}
}

// TestTraceQuota holds which period and which quota are said.
func TestTraceQuota(t *testing.T) {
	for name, c := range map[string]struct {
		cause     freeze.Cause
		from      string
		cpus      float64
		by        string
		period    bool
		wantFrom  string
		implied   bool
		impliedBy string
		sparse    bool
	}{
		"found":              {freeze.Throttled, "", 0.5, "samples", true, "rhythm", true, "samples", false},
		"found, sparse":      {freeze.Throttled, "", 0.5, "samples", true, "rhythm", true, "samples", true},
		"by Ps, sparse":      {freeze.Throttled, "", 0.5, "procs", true, "rhythm", false, "", true},
		"given":              {freeze.Throttled, "given", 0.5, "procs", true, "given", true, "Ps", false},
		"contended":          {freeze.Contended, "", 0, "", false, "", false, "", false},
		"contended, limited": {freeze.Contended, "limit", 0, "", true, "limit", false, "", false},
		"can't be told":      {freeze.Throttled, "", 0, "", true, "rhythm", false, "", false},
	} {
		trace := tracedFor(5*time.Second, c.cause)
		trace.CPUs, trace.CPUsBy, trace.Silence.Sparse = c.cpus, c.by, c.sparse
		d, err := NewTrace(TraceFacts{Trace: trace, PeriodFrom: c.from})
		if err != nil {
			t.Fatal(err)
		}
		if (d.Period != nil) != c.period || d.PeriodFrom != c.wantFrom || (d.ImpliedCPUs != nil) != c.implied || d.ImpliedBy != c.impliedBy {
			t.Errorf("%s: period %v from %q, implied %v by %q", name, d.Period, d.PeriodFrom, d.ImpliedCPUs, d.ImpliedBy)
		}
	}
}

// TestTraceQuotaAgrees: what a program is said to have got in throttled periods is its limit, where that is known, or it is
// not said. A profile that lost most of its samples said 0.03 CPUs of 0.5.
func TestTraceQuotaAgrees(t *testing.T) {
	for _, c := range []struct {
		state cgroup.State
		cpus  float64
		by    string
		said  bool
	}{
		{cgroup.Limited, 0.03, "samples", false},
		{cgroup.Limited, 0.37, "samples", false},
		{cgroup.Limited, 0.45, "samples", true},
		{cgroup.Limited, 0.53, "procs", true},
		{cgroup.Limited, 4.35, "procs", false}, // 16 Ps that wait for a CPU
		{cgroup.Hidden, 0.03, "samples", true},
	} {
		trace := tracedFor(5*time.Second, freeze.Throttled)
		trace.CPUs, trace.CPUsBy = c.cpus, c.by
		limits := cgroup.Limits{State: c.state}
		if c.state == cgroup.Limited {
			limits.CPUs = 0.5
		}
		d, err := NewTrace(TraceFacts{Trace: trace, PID: 1, Limits: &limits})
		if err != nil {
			t.Fatal(err)
		}
		if said := d.ImpliedCPUs != nil; said != c.said {
			t.Errorf("%s, %v CPUs by %s: said %v", c.state, c.cpus, c.by, said)
		}
	}
}

// TestTraceKernel holds what the kernel's counts are divided by: as many CPUs as the program can use at once.
func TestTraceKernel(t *testing.T) {
	before := host.Reading{Counters: cgroup.Counters{Known: true, Periods: 100, Throttled: 10, ThrottledTime: time.Second}}
	after := host.Reading{Counters: cgroup.Counters{Known: true, Periods: 150, Throttled: 50, ThrottledTime: 6 * time.Second}}
	d, err := NewTrace(TraceFacts{
		Trace: tracedFor(5*time.Second, freeze.Throttled), Readings: []host.Reading{before, {}, after}, Limits: &cgroup.Limits{Affinity: 2}, PID: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if k := d.Kernel; k == nil || k.From != "meter" || k.Periods != 50 || k.ThrottledPeriods != 40 || *k.PeriodsShare != 0.8 || k.CPUs != 2 || k.ThrottledShare != 0.5 {
		t.Errorf("got %+v", d.Kernel)
	}
	for _, readings := range [][]host.Reading{nil, {before}, {before, {}}} {
		if d, err := NewTrace(TraceFacts{Trace: tracedFor(5*time.Second, freeze.None), Readings: readings}); err != nil || d.Kernel != nil {
			t.Errorf("%v: got %+v, %v", readings, d.Kernel, err)
		}
	}
	stat := [2]cgroup.Counters{after.Counters, before.Counters}
	if d, err := NewTrace(TraceFacts{Trace: tracedFor(5*time.Second, freeze.None), Stat: &stat}); err == nil {
		t.Errorf("got %+v for counts that go back", d.Kernel)
	}
}

// TestTraceDoubts holds when the reader is warned.
func TestTraceDoubts(t *testing.T) {
	stat := func(throttled int64, each time.Duration) *[2]cgroup.Counters {
		return &[2]cgroup.Counters{{Known: true}, {Known: true, Periods: 50, Throttled: throttled, ThrottledTime: time.Duration(throttled) * each}}
	}
	for name, c := range map[string]struct {
		cause freeze.Cause
		share float64
		wall  time.Duration
		stat  *[2]cgroup.Counters
		want  string
	}{
		"fine":                     {freeze.Throttled, 0.5, 5 * time.Second, stat(50, 8*50*time.Millisecond), ""},
		"short":                    {freeze.None, 0, time.Second, nil, "is short"},
		"the kernel says none":     {freeze.Throttled, 0.5, 5 * time.Second, stat(0, 0), "counted no throttled period"},
		"the kernel says more":     {freeze.None, 0, 5 * time.Second, stat(50, 8*50*time.Millisecond), "the kernel counted more"},
		"the kernel says some":     {freeze.None, 0, 5 * time.Second, stat(2, 8*50*time.Millisecond), ""},
		"the kernel says far more": {freeze.Throttled, 0.2, 5 * time.Second, stat(50, 8*50*time.Millisecond), "the kernel counted more"},
	} {
		trace := tracedFor(c.wall, c.cause)
		trace.Throttled, trace.Frozen = c.share, c.share
		d, err := NewTrace(TraceFacts{Trace: trace, Stat: c.stat})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.Warnings, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestTraceDelay: a trace that took longer than was asked for says so.
func TestTraceDelay(t *testing.T) {
	for _, c := range []struct {
		asked, took time.Duration
		frozen      float64
		want        string // "": nothing
	}{
		{0, 0, 0.9, ""},
		{4 * time.Second, 4900 * time.Millisecond, 0.9, ""},
		{4 * time.Second, 13 * time.Second, 0.7, "it was asked for 4 s; the server took 13 s to hand it over, as it was frozen"},
		{4 * time.Second, 13 * time.Second, 0.1, "it was asked for 4 s; the server took 13 s to hand it over"},
	} {
		trace := tracedFor(5*time.Second, freeze.Throttled)
		trace.Frozen = c.frozen
		d, err := NewTrace(TraceFacts{Trace: trace, Asked: c.asked, Took: c.took})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.Warnings, "\n"); got != c.want {
			t.Errorf("%v, %v: got %q, want %q", c.asked, c.took, got, c.want)
		}
	}
}

// TestTraceLast: the freeze that the recording ended with does not lead the list, however long it was.
func TestTraceLast(t *testing.T) {
	trace := tracedFor(5*time.Second, freeze.Throttled)
	trace.Longest = nil
	for _, end := range []time.Duration{5*time.Second - 100*time.Microsecond, time.Second, 2 * time.Second} {
		var m exectrace.Moment
		m.Start, m.End = end-70*time.Millisecond, end
		trace.Longest = append(trace.Longest, m)
	}
	d, err := NewTrace(TraceFacts{Trace: trace})
	if err != nil {
		t.Fatal(err)
	}
	var ends []float64
	for _, m := range d.Longest {
		ends = append(ends, m.End)
	}
	if want := []float64{1, 2, 4.9999}; !slices.Equal(ends, want) {
		t.Errorf("they end at %v, want %v", ends, want)
	}
}

func TestTraceLengths(t *testing.T) {
	d := &Trace{}
	if half, longest := d.Lengths(); half != 0 || longest != 0 {
		t.Errorf("of nothing %v and %v", half, longest)
	}
	for _, f := range []Freeze{{Start: 5, End: 8}, {Start: 1, End: 2}, {Start: 3, End: 2}, {Start: 10, End: 12}} {
		d.Freezes = append(d.Freezes, TraceFreeze{Freeze: f})
	}
	if half, longest := d.Lengths(); half != 2 || longest != 3 {
		t.Errorf("half of them took %v, the longest %v", half, longest)
	}
}
