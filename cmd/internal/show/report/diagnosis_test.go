package report

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// rulesOf are findings in short: rule/severity.
func rulesOf(findings []finding.Finding) string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Rule+"/"+f.Severity.String())
	}
	return strings.Join(all, " ")
}

// pulses are an observation of ten seconds with a freeze at the end of each period of 100 ms, or at any time.
func pulses(frozen time.Duration, rhythm bool) *heartbeat.Observation {
	var gaps []freeze.Gap
	for i := range 99 {
		end := time.Duration(i+1) * 100 * time.Millisecond
		if !rhythm {
			end += time.Duration(i*i*7919%83) * time.Millisecond // no multiple of anything
		}
		if frozen > 0 {
			late := time.Duration(i%5-2) * time.Millisecond // a quota is not used up in the same time always
			gaps = append(gaps, freeze.Gap{Start: end - frozen + late, End: end})
		}
	}
	o := &heartbeat.Observation{}
	o.Add(heartbeat.Pulse{At: 10 * time.Second, Beats: 5000, Freezes: gaps})
	return o
}

func limitedTo(cpus float64) cgroup.Limits {
	quota := cgroup.Quota{QuotaMicros: int64(1e5 * cpus), PeriodMicros: 1e5}
	return cgroup.Limits{State: cgroup.Limited, CPUs: cpus, From: "/sys/fs/cgroup/a", Affinity: 4, Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup/a", Quota: quota}}}
}

// TestWatchFindings asks the rules of ps about a group in which a heartbeat was. How many Ps its programs have is not known
// there: no rule says anything of them.
func TestWatchFindings(t *testing.T) {
	const wall = 10 * time.Second
	throttled := heartbeat.Evidence{
		Wall: wall, Limit: cgroup.Limited, Throttling: cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 100, Throttled: 99, ThrottledTime: 7 * time.Second}},
		ThreadsKnown: true, Run: 3 * time.Second, Used: 3 * time.Second, Waited: 9 * time.Second, CPUs: 4, Busy: 4 * time.Second,
	}
	seldom := throttled
	seldom.Owner.Throttled, seldom.Owner.ThrottledTime = 2, 20*time.Millisecond
	busy := heartbeat.Evidence{
		Wall: wall, Limit: cgroup.None, ThreadsKnown: true, Run: 10 * time.Second, Used: 10 * time.Second, Waited: 10 * time.Second, CPUs: 4, Busy: 40 * time.Second,
	}
	itself := busy
	itself.Run, itself.Used, itself.Waited = 40*time.Second, 40*time.Second, 40*time.Second
	none := cgroup.Limits{State: cgroup.None, Affinity: 4}
	for _, c := range []struct {
		name  string
		limit cgroup.Limits
		seen  *heartbeat.Observation
		e     heartbeat.Evidence
		want  string
	}{
		{"throttled", limitedTo(0.3), pulses(70*time.Millisecond, true), throttled, "throttled throttled/critical"},
		{"seldom throttled", limitedTo(0.3), pulses(0, false), seldom, "none throttled/info"},
		{"busy", none, pulses(5*time.Millisecond, false), busy, "contended contended/warning"},
		{"it waits for itself", none, pulses(0, false), itself, "none "},
		{"nothing is known", cgroup.Limits{}, pulses(0, false), heartbeat.Evidence{Wall: wall}, "none "},
		{"by a level above", none, pulses(40*time.Millisecond, true), heartbeat.Evidence{Wall: wall, Limit: cgroup.None}, "throttled throttled/critical"},
	} {
		d := NewWatch(WatchFacts{Limit: c.limit, Seen: c.seen, Evidence: c.e})
		if got := d.Cause + " " + rulesOf(d.Findings); got != c.want {
			t.Errorf("%s: got %q, want %q: %q", c.name, got, c.want, d.Why)
		}
	}
}

// TestTraceFindings asks the rules of ps about a traced program.
func TestTraceFindings(t *testing.T) {
	one := limitedTo(1)
	for _, c := range []struct {
		name string
		f    TraceFacts
		want string
	}{
		{"alone", TraceFacts{Trace: &exectrace.Trace{Wall: time.Second, Cause: freeze.Throttled, Throttled: 0.3, Busy: 8, Procs: []exectrace.Setting{{Procs: 8}}}}, "throttled/critical"},
		{
			"with its limit and CPU samples",
			TraceFacts{
				Trace: &exectrace.Trace{
					Wall: time.Second, Cause: freeze.Throttled, Throttled: 0.3, Busy: 7.5, Procs: []exectrace.Setting{{Procs: 8}},
					Samples: &exectrace.Samples{CPU: time.Second},
				},
				PID: 7, Limits: &one,
			},
			"too-many-ps/critical throttled/critical",
		},
		{"contended", TraceFacts{Trace: &exectrace.Trace{Wall: time.Second, Cause: freeze.Contended, Contended: 0.1}}, "contended/info"},
		{"none", TraceFacts{Trace: &exectrace.Trace{Wall: time.Second, Cause: freeze.None}}, ""},
		{
			"unsure, and the kernel has counted",
			TraceFacts{
				Trace: &exectrace.Trace{Wall: time.Second, Cause: freeze.Unsure},
				Stat:  &[2]cgroup.Counters{{Known: true}, {Known: true, Periods: 10, Throttled: 5, ThrottledTime: time.Second}},
			},
			"throttled/warning",
		},
	} {
		d, err := NewTrace(c.f)
		if err != nil {
			t.Fatal(err)
		}
		if got := rulesOf(d.Findings); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTraceUsed: what findings say of the CPU time is by the samples only where those can be right. A server that is frozen takes
// them for as long as it was asked to, and writes the trace for longer.
func TestTraceUsed(t *testing.T) {
	half := limitedTo(0.5)
	counted := []host.Reading{
		{At: time.Unix(0, 0), Counters: cgroup.Counters{Known: true, CPUKnown: true}},
		{At: time.Unix(16, 0), Counters: cgroup.Counters{Known: true, CPUKnown: true, CPU: 8 * time.Second, Periods: 160, Throttled: 160}},
	}
	for _, c := range []struct {
		sampled  time.Duration
		readings []host.Reading
		want     string
	}{
		{940 * time.Millisecond, counted, "it used 0.5 CPUs, all that the limit allows"},
		{940 * time.Millisecond, nil, ""},
		{7 * time.Second, counted, "it used 0.44 CPUs"},
	} {
		d, err := NewTrace(TraceFacts{
			Trace: &exectrace.Trace{
				Wall: 16 * time.Second, Cause: freeze.Throttled, Throttled: 0.7, Busy: 14, Procs: []exectrace.Setting{{Procs: 16}},
				Samples: &exectrace.Samples{CPU: c.sampled},
			},
			PID: 7, Limits: &half, Readings: c.readings,
		})
		if err != nil {
			t.Fatal(err)
		}
		used := ""
		for _, f := range d.Findings {
			for _, e := range f.Evidence {
				if strings.HasPrefix(e, "it used ") {
					used = e
				}
			}
		}
		if used != c.want {
			t.Errorf("%v of samples: %q, want %q", c.sampled, used, c.want)
		}
	}
}

// TestFindingsSource: a program whose environment has its GOMAXPROCS is not advised to import something, which would leave it unchanged,
// nor one whose limit can't be seen from inside its container.
func TestFindingsSource(t *testing.T) {
	p := &cpuprofile.Profile{CPU: 10 * time.Second, Duration: 10 * time.Second, Samples: 1000, Classes: make([]cpuprofile.Use, len(cpuprofile.Classes())), Root: &cpuprofile.Frame{}}
	one := limitedTo(1)
	for _, c := range []struct {
		set        choice.Source
		outOfSight bool
		fix        string
	}{
		{"", false, `import _ "github.com/unthrottle/unthrottle/auto"`},
		{"", true, "set the limit on the container itself"},
		{choice.FromEnvironment, false, "take it out if"},
	} {
		traced, err := NewTrace(TraceFacts{
			Trace: &exectrace.Trace{Wall: time.Second, Cause: freeze.None, Procs: []exectrace.Setting{{Procs: 16}}}, PID: 7, Limits: &one, Live: 16, Set: c.set, OutOfSight: c.outOfSight,
		})
		if err != nil {
			t.Fatal(err)
		}
		profiled := NewProfile(ProfileFacts{Profile: p, PID: 7, Limits: &one, Live: 16, Set: c.set, OutOfSight: c.outOfSight})
		for verb, findings := range map[string][]finding.Finding{"trace": traced.Findings, "profile": profiled.Findings} {
			if len(findings) != 1 || !strings.Contains(findings[0].Fix, c.fix) {
				t.Errorf("%s: %+v, want %s", verb, findings, c.fix)
			}
		}
	}
}

// TestProfileFindings asks the rules of ps about a profiled program. Without the kernel's count it is never throttled.
func TestProfileFindings(t *testing.T) {
	p := &cpuprofile.Profile{CPU: 10 * time.Second, Duration: 10 * time.Second, Samples: 1000, Classes: make([]cpuprofile.Use, len(cpuprofile.Classes())), Root: &cpuprofile.Frame{}}
	one, four := limitedTo(1), limitedTo(4)
	group := func(cpus float64) []host.Reading { // all of its programs
		return []host.Reading{
			{At: time.Unix(0, 0), Counters: cgroup.Counters{CPUKnown: true}},
			{At: time.Unix(10, 0), Counters: cgroup.Counters{CPUKnown: true, CPU: time.Duration(cpus * 10e9)}},
		}
	}
	counted := []host.Reading{{Counters: cgroup.Counters{Known: true}}, {Counters: cgroup.Counters{Known: true, Periods: 100, Throttled: 99}}}
	for _, c := range []struct {
		name string
		f    ProfileFacts
		want string
	}{
		{"alone", ProfileFacts{}, ""},
		{"all of a limit", ProfileFacts{LimitGiven: 1, Live: 2}, ""},
		{"too many Ps", ProfileFacts{LimitGiven: 1, Live: 192}, "too-many-ps/warning"},
		{"too many Ps that want CPUs", ProfileFacts{LimitGiven: 1, Live: 192, Demand: &goself.Demand{Wanted: 56, Got: 1}, DemandOver: "profile"}, "too-many-ps/critical"},
		{"with the kernel's count", ProfileFacts{PID: 7, Limits: &one, Readings: counted}, "throttled/warning"},
		{"with others in its group", ProfileFacts{PID: 7, Limits: &four, Live: 1, Readings: group(4)}, "too-few-ps/warning"},
		{"with others in its group, idle itself", ProfileFacts{PID: 7, Limits: &four, Live: 2, Readings: group(2)}, ""},
		{"one P", ProfileFacts{LimitGiven: 4, MetricsProcs: 1}, "too-few-ps/warning"},
	} {
		c.f.Profile = p
		if got := rulesOf(NewProfile(c.f).Findings); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestFolding(t *testing.T) {
	fifth, none := 0.02, 1e-9
	rhythm := WatchRhythm{Period: 0.02, Phase: 0.013, Offset: 0.008}
	for _, c := range []struct {
		period *float64
		cause  string
		want   Folding
	}{
		{nil, "none", Folding{Period: 0.1}},
		{&none, "throttled", Folding{Period: 0.1}},
		{&fifth, "contended", Folding{Period: 0.02}},
		{&fifth, "throttled", Folding{0.02, 0.013, true, 0.008}},
	} {
		if got := folding(c.period, c.cause, rhythm); got != c.want {
			t.Errorf("%v, %s: got %+v, want %+v", c.period, c.cause, got, c.want)
		}
	}
}

// TestWatchSecond compares each second with a sum over all freezes.
func TestWatchSecond(t *testing.T) {
	d := &Watch{}
	for at := 0.07; at < 9; at += 0.31 {
		d.Freezes = append(d.Freezes, Freeze{Start: at, End: at + 0.15})
	}
	for n := range 10 {
		var want WatchSecond
		for _, f := range d.Freezes {
			want.Frozen += max(0, min(f.End, float64(n+1))-max(f.Start, float64(n)))
			if f.End > float64(n) && f.End <= float64(n+1) {
				want.Freezes, want.Longest = want.Freezes+1, max(want.Longest, f.End-f.Start)
			}
		}
		if got := d.Second(n); math.Abs(got.Frozen-want.Frozen) > 1e-9 || got.Freezes != want.Freezes || got.Longest != want.Longest {
			t.Errorf("second %d: got %+v, want %+v", n, got, want)
		}
	}
	longest := (&Watch{Freezes: []Freeze{{Start: 1, End: 2}, {Start: 3, End: 6}, {Start: 7, End: 9}}}).LongestFreezes(2)
	if len(longest) != 2 || longest[0].Start != 3 || longest[1].Start != 7 {
		t.Errorf("the longest are %v", longest)
	}
}

// TestWatchCost: what the heartbeat costs is worth a warning where the group misses it.
func TestWatchCost(t *testing.T) {
	for _, c := range []struct {
		limit cgroup.Limits
		cpu   float64
		warns bool
	}{
		{cgroup.Limits{State: cgroup.None}, 0.025, false}, // as on an idle virtual machine
		{cgroup.Limits{State: cgroup.None}, 0.06, true},
		{limitedTo(0.5), 0.021, false},
		{limitedTo(0.5), 0.03, true},
		{limitedTo(0.05), 0.004, true},
		{limitedTo(8), 0.04, false},
	} {
		o := &heartbeat.Observation{}
		o.Add(heartbeat.Pulse{At: 10 * time.Second, Beats: 5000, CPU: time.Duration(c.cpu * 1e10)})
		d := NewWatch(WatchFacts{Limit: c.limit, Seen: o, Evidence: heartbeat.Evidence{Wall: 10 * time.Second}})
		if warns := len(d.Warnings) > 0; warns != c.warns {
			t.Errorf("%.3f of a CPU under %v: %q", c.cpu, c.limit.CPUs, d.Warnings)
		}
	}
}

// TestNextInPod: what comes next of a pod is a command that reaches it from where the reader is, and never an address within it.
func TestNextInPod(t *testing.T) {
	lines := func(next []Advice) (all []string) {
		for _, a := range next {
			all = append(all, a.Lines...)
		}
		return all
	}
	const url = "http://localhost:6060/debug/pprof/profile?seconds=5"
	for name, c := range map[string]struct {
		next []Advice
		want []string
	}{
		"throttled": {(&Trace{Pod: "shop/api", Source: url, Cause: "throttled"}).Next(), []string{"kubectl unthrottle explain api -n shop", "kubectl unthrottle tune KIND/NAME -n shop"}},
		"contended": {(&Trace{Pod: "shop/api", Source: url, Cause: "contended"}).Next(), []string{"kubectl unthrottle watch api -n shop"}},
		"unsure":    {(&Trace{Pod: "shop/api", Source: url, Cause: "unsure", Saved: "t"}).Next(), []string{"kubectl unthrottle watch api -n shop", "go tool trace t"}},
		"profile": {(&Profile{Pod: "shop/api", Source: url}).Next(), []string{
			"kubectl unthrottle profile api -n shop --process localhost:6060 --save base.pb.gz", "go tool pprof -http=: base.pb.gz",
			"kubectl unthrottle profile api -n shop --process localhost:6060 --base base.pb.gz",
		}},
		"kept": {(&Profile{Pod: "shop/api", Source: url, Saved: "p"}).Next()[1:], []string{"kubectl unthrottle profile api -n shop --process localhost:6060 --base p"}},
	} {
		if got := lines(c.next); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
