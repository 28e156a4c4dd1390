package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// limitStudy is of a server that holds p99=50ms at 150 requests a second and CPU.
func limitStudy(t *testing.T) *tune.Study {
	return limitStudyOf(t, func(_ int, try tune.LimitTry) int64 {
		if try.CPUs < 1 {
			return 100
		}
		return 1
	})
}

// limitStudyOf has the given number of slow requests, of 500, in the nth window of a setting at the user's rate.
func limitStudyOf(t *testing.T, slow func(n int, try tune.LimitTry) int64, change ...func(*tune.Plan)) *tune.Study {
	t.Helper()
	s := newStudy(t, []tune.Load{{Rate: 1, Tail: "p50"}}, cheapAtOne, nil)
	s.Pilot, s.Runs = nil, nil
	s.Plan.Limits, s.Defaults, s.Plan.SLO, s.Plan.Rate = []float64{1, 0.5}, []int{2, 2}, "p99=50ms", 100
	for _, c := range change {
		c(&s.Plan)
	}
	if s.Plan.LimitsMemory() {
		s.Plan.Limits, s.Defaults = nil, []int{2}
	}
	n := map[tune.LimitTry]int{}
	for {
		l, err := s.Limits()
		if err != nil {
			t.Fatal(err)
		}
		w, more := l.Next()
		if !more {
			return s
		}
		w.Valid, w.Seconds, w.Held = true, 7, w.Rate <= 150*w.CPUs // what it can do
		w.Metrics = map[string]float64{"p99-latency-ns": 30e6 / w.CPUs, "cpu-ns/req": 2e6}
		if w.Phase != tune.CurvePhase {
			try := tune.LimitTry{Under: w.Under, Procs: w.Procs, Default: w.Procs == 2}
			w.Requests = 500
			goals, err := tune.Goals(s.Plan.SLO)
			if err != nil {
				t.Fatal(err)
			}
			w.Beyond = slices.Repeat([]int64{slow(n[try], try)}, len(goals))
			w.Held = w.Beyond[0] <= 5
			if w.Valid = w.Beyond[0] >= 0; !w.Valid { // the generator has spoilt it
				w.Beyond = nil
			}
			if s.Plan.LimitsMemory() && w.Beyond != nil && w.Beyond[0] == 500 {
				w.Killed, w.Error, w.Metrics = true, "out of memory: limit "+quantity.Bytes(w.Memory), map[string]float64{}
			}
			n[try]++
		}
		if s.Plan.LimitsMemory() { // what more of it saves
			saves := map[bool]float64{true: 0.8, false: 1}[w.Memory == 0 || w.Memory >= 512*mib]
			if w.Error == "" {
				w.Metrics["cpu-ns/req"] = 2e6 * saves * (1 + 0.01*float64(len(s.Windows)%3))
			}
			w.Metrics["peak-RSS-bytes"], w.Metrics["program-file-bytes"] = 100*mib, 40*mib+1
			if w.Memory > 0 {
				w.Metrics["peak-RSS-bytes"] = min(100*mib, float64(w.Memory))
			}
		}
		s.Windows = append(s.Windows, w)
	}
}

func TestNewTuneLimits(t *testing.T) {
	s := limitStudy(t)
	d, err := NewTune(s)
	if err != nil {
		t.Fatal(err)
	}
	if v := d.Verdict; v.Kind != "change" || v.LimitCPUs != 1 || v.Procs != 2 || !d.Finished || len(v.How) != 3 {
		t.Errorf("%+v", d.Verdict)
	}
	if len(d.Limits) != 2 || d.Limits[0].CPUs != 0.5 || d.Limits[0].Will || !d.Limits[1].Will || d.Limits[1].Settings[0].Rate < 100 || d.Limits[1].CPU != 0.002 {
		t.Errorf("%+v", d.Limits)
	}
	s.Windows[0].Marks, s.Windows[3].Marks, s.Windows[3].Valid = []string{lab.MarkSteal + ": 9 %", lab.MarkSteal}, []string{lab.MarkSteal}, false
	if d, err = NewTune(s); err != nil || !slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.HasPrefix(w, "in 2 of 23 windows at your rate the hyper") }) ||
		!slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.HasPrefix(w, "in 1 of 59 windows the generator") }) {
		t.Errorf("%q, %v", d.Warnings, err)
	}
	s.Windows = s.Windows[:3]
	if d, err = NewTune(s); err != nil || d.Finished || d.Verdict.Kind != "undecided" {
		t.Errorf("%+v, %v", d.Verdict, err)
	}
}

const mib = 1 << 20

// memoryStudy is of a server that is killed under 64 MiB, and that 512 MiB make cheaper than 128.
func memoryStudy(t *testing.T, memories ...int64) *tune.Study {
	return limitStudyOf(t, memoryNeeded, ofMemories(memories...))
}

func memoryNeeded(_ int, try tune.LimitTry) int64 {
	if try.Memory == 64*mib {
		return 500
	}
	return 1
}

func ofMemories(memories ...int64) func(*tune.Plan) {
	return func(p *tune.Plan) { p.Memories, p.GOMEMLIMIT = memories, true }
}

// What is said of limits, with what is known.
func TestLimitWords(t *testing.T) {
	flat := func(half, one int64) func(int, tune.LimitTry) int64 {
		return func(_ int, try tune.LimitTry) int64 { return map[bool]int64{true: half, false: one}[try.CPUs == 0.5] }
	}
	budget := func(d time.Duration) func(*tune.Plan) { return func(p *tune.Plan) { p.Budget = d } }
	var out strings.Builder
	tell := func(name string, s *tune.Study) {
		d, err := NewTune(s)
		if err != nil {
			t.Fatal(err)
		}
		if n := quantity.Words(d.Verdict.Text); n > HeadlineWords {
			t.Errorf("%s: %d words: %s", name, n, d.Verdict.Text)
		}
		fmt.Fprintf(&out, "# %s\n%s: %s\n%s\n", name, d.Verdict.Kind, d.Verdict.Text, strings.Join(d.Verdict.Also, "\n"))
		for i := range d.Limits {
			l := &d.Limits[i]
			fmt.Fprintf(&out, "%s | %d of %d | %s | %s\n", d.LimitText(l), l.Held, l.Of, l.Slower(), d.Enough(l))
		}
		for _, h := range d.Verdict.How {
			fmt.Fprintf(&out, "%s: %s\n", h.Where, h.Text)
		}
		fmt.Fprintln(&out)
	}
	tell("enough", limitStudy(t))
	tell("the smallest is", limitStudyOf(t, flat(0, 0)))
	tell("only with one P", limitStudyOf(t, func(n int, try tune.LimitTry) int64 {
		if try.CPUs == 0.5 || try.Procs == 2 {
			return 60 + int64(n%3)
		}
		return int64(n % 2)
	}))
	tell("only with one P, and the default is open", limitStudyOf(t, func(n int, try tune.LimitTry) int64 {
		switch {
		case try.Procs == 2 && n%5 == 4:
			return 30
		case try.CPUs == 0.5:
			return 60
		}
		return 0
	}))
	tell("bad windows now and then", limitStudyOf(t, func(n int, try tune.LimitTry) int64 {
		if try.CPUs == 0.5 && n%8 == 7 {
			return 30
		}
		return 1
	}))
	tell("bad windows more often", limitStudyOf(t, func(n int, try tune.LimitTry) int64 {
		if try.CPUs == 0.5 && n%4 == 3 {
			return 30
		}
		return 1
	}))
	tell("none", limitStudyOf(t, flat(500, 60)))
	tell("none in time", limitStudyOf(t, flat(100, 1), budget(80*time.Second)))
	tell("a short budget", limitStudyOf(t, flat(100, 1), budget(10*time.Second)))
	tell("no time for the rates", limitStudyOf(t, flat(100, 1), budget(3*time.Minute)))
	tell("time for a small one", limitStudyOf(t, func(n int, _ tune.LimitTry) int64 { return int64(n % 5 / 4 * 40) }, budget(100*time.Second)))
	tell("no time at all", limitStudyOf(t, flat(100, 1), budget(time.Second)))
	tell("the generator", limitStudyOf(t, flat(-1, -1)))
	tell("the generator, under the smaller one", limitStudyOf(t, flat(-1, 1)))
	tell("several goals", limitStudyOf(t, flat(100, 1), func(p *tune.Plan) { p.SLO = "p50=5ms,p99=50ms" }))
	tell("failures", limitStudyOf(t, flat(100, 0), func(p *tune.Plan) { p.SLO = "errors=1%" }))
	tell("no limit", limitStudyOf(t, flat(100, 1), func(p *tune.Plan) { p.Limits = []float64{0.5, 0} }))
	s := limitStudy(t)
	s.Windows = s.Windows[:12]
	tell("interrupted", s)
	for i := range s.Windows {
		if w := &s.Windows[i]; w.CPUs == 0.5 {
			w.Error, w.NoStart, w.Metrics, w.Beyond = "it was not ready", true, nil, nil
		}
	}
	tell("no start", s)
	s = limitStudy(t)
	for i := range s.Windows {
		s.Windows[i].Requests, s.Windows[i].Beyond = 0, nil
	}
	tell("an older file", s)
	tell("memory", memoryStudy(t, 64*mib, 128*mib, 256*mib, 512*mib))
	s = memoryStudy(t, 64*mib, 128*mib)
	for i := range s.Windows {
		if w := &s.Windows[i]; w.Killed {
			w.NoStart, w.Metrics, w.Beyond = true, nil, nil
		}
	}
	tell("killed as it started", s)
	tell("more memory saves nothing", memoryStudy(t, 128*mib, 256*mib))
	tell("only without a memory limit", memoryStudy(t, 64*mib, 0))
	tell("killed under all", limitStudyOf(t, func(int, tune.LimitTry) int64 { return 500 }, ofMemories(64*mib, 96*mib+1)))
	tell("too full", memoryStudy(t, 64*mib, 112*mib))
	tell("the next smaller is too full", memoryStudy(t, 112*mib, 256*mib))
	tell("memory, no time to compare", limitStudyOf(t, memoryNeeded, ofMemories(64*mib, 128*mib, 512*mib), budget(3*time.Minute)))
	tell("a GOMEMLIMIT of its own", limitStudyOf(t, memoryNeeded, ofMemories(96*mib+1, 512*mib), func(p *tune.Plan) { p.GOMEMLIMIT = false }))
	golden(t, "testdata/tune-limit-words.txt", out.String())
}

func TestLimitNotes(t *testing.T) {
	d := &Tune{Loads: []TuneLoad{{Rate: 120}}, Limits: []TuneLimit{{Settings: []TuneLimitRates{{Procs: 1}}}}}
	const rates = "The rates are the highest at which each GOMAXPROCS holds the SLO; → marks the better one"
	const guess = " They are of one search each, and nothing confirms them."
	if got := d.RatesNote(); got != rates+"."+guess {
		t.Error(got)
	}
	d.Limits[0].Settings[0].Default = true
	if got := d.RatesNote(); got != rates+", * what Go chooses by itself."+guess {
		t.Error(got)
	}
	const held = "Held: windows at your rate of 120/s in which the better one held it"
	for want, columns := range map[string][]string{
		held + ".":                           nil,
		held + "; p99 is of these.":          {"p99"},
		held + "; p99 and CPU are of these.": {"p99", "CPU"},
	} {
		if got := d.HeldNote(columns...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
