package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// tuned is a document of three settings: 2 is the current one, 1 is the best, 4 was dropped.
func tuned() *Tune {
	metrics := func(p99, cpu float64) map[string]BenchSummary {
		return map[string]BenchSummary{"p99-latency-ns": {N: 3, Median: p99}, "cpu-ns/req": {N: 3, Median: cpu}}
	}
	d := &Tune{
		Metrics: []lab.Metric{{Unit: "p99-latency-ns"}, {Unit: "cpu-ns/req"}}, Subject: TuneSubject{Kind: "server"},
		Loads: []TuneLoad{{Rate: 10, Tail: "p90"}, {Rate: 20, Main: true, Pairs: 2, Effects: []TuneEffect{{Metric: "p99", Ratio: 0.5, High: 0.6}, {Metric: "cpu"}}}},
		Settings: []TuneSetting{
			{Load: 1, Procs: 4, Dropped: "slow", Metrics: metrics(9, 9), Versus: []TuneEffect{{Metric: "p99", Ratio: 2}}},
			{Load: 1, Procs: 1, Best: true, Front: true, Metrics: metrics(4, 8), Versus: []TuneEffect{{Metric: "p99", Ratio: 0.4}, {Metric: "cpu", Ratio: 0.9}}, Broken: 1, Runs: 3},
			{Load: 1, Procs: 2, Current: true, Front: true, Metrics: metrics(5, 7)},
			{Load: 0, Procs: 2, Current: true},
		},
	}
	d.Verdict.Load = 1
	steps := func(throttled int64) []TuneStep { return []TuneStep{{Length: 1, Periods: 10, Throttled: throttled}} }
	for i, procs := range []int{2, 1, 4, 1} {
		d.Runs = append(d.Runs, TuneRun{Load: 1, Phase: "race", Block: 1 + i/3, Procs: procs, Valid: true, Metrics: map[string]float64{"p99-latency-ns": 5}, Axis: steps(1)})
	}
	for _, procs := range []int{2, 1} {
		d.Runs = append(d.Runs, TuneRun{Load: 1, Phase: "confirm", Block: 3, Procs: procs, Valid: procs == 2, Axis: steps(8), Invalid: []string{"late"}})
	}
	d.Runs = append(d.Runs, TuneRun{Load: 1, Phase: "explain", Procs: 2, Valid: true, Axis: steps(10)})
	return d
}

func procsOf(settings []TuneSetting) (procs []int) {
	for _, s := range settings {
		procs = append(procs, s.Procs)
	}
	return procs
}

func TestTuneAt(t *testing.T) {
	d := tuned()
	if d.Main() != 1 || d.MainLoad().Rate != 20 {
		t.Errorf("the main load is %d", d.Main())
	}
	d.Verdict.Load = 7
	if d.Main() != 1 {
		t.Errorf("without a number the main load is %d", d.Main())
	}
	if got := fmt.Sprint(d.Keys()); got != "[GOMAXPROCS=2 GOMAXPROCS=1 GOMAXPROCS=4]" {
		t.Errorf("settings: %s", got)
	}
	a := d.At(1)
	if a.Rival == nil || a.Rival.Procs != 1 || a.Current().Procs != 2 || len(a.Runs) != 6 || a.Tail != "p99" {
		t.Errorf("rival %+v, %d runs, tail %s", a.Rival, len(a.Runs), a.Tail)
	}
	if got := procsOf(a.Ordered()); !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("in the order %v", got)
	}
	if got := procsOf(a.Front()); !slices.Equal(got, []int{2, 1}) {
		t.Errorf("the front is %v", got)
	}
	if _, ok := a.Figure(d.Runs[5], "p99"); ok {
		t.Error("a run that is not valid has a figure")
	}
	if b := d.At(0); b.Rival != nil || b.Tail != "p90" || b.Front() != nil || b.Quantity(TuneEffect{Metric: "p99"}) != "p90" {
		t.Errorf("at the other load: %+v", b)
	}
	if (&Tune{}).Main() != -1 || (&Tune{}).MainLoad().Percentile() != "p99" {
		t.Error("a document without loads has one")
	}
}

func TestTuneEffects(t *testing.T) {
	d := tuned()
	a := d.At(1)
	for procs, want := range map[int]float64{1: 0.4, 4: 2, 2: 0} {
		s := a.Settings[slices.IndexFunc(a.Settings, func(s TuneSetting) bool { return s.Procs == procs })]
		if e, ok := a.Effect(s, "p99"); e.Ratio != want || ok != (want > 0) {
			t.Errorf("%d: %v, %v", procs, e.Ratio, ok)
		}
	}
	for says, want := range map[string]string{"better": "better", "open": "not known yet", "not worse": "not worse", "": "does not decide"} {
		if got := (TuneEffect{Says: says}).SaidInFull(); got != want {
			t.Errorf("%q is said as %q", says, got)
		}
	}
	for want, s := range map[string]TuneSetting{"": {Procs: 2}, "GOMAXPROCS=1": {Procs: 1}, "GOGC=400": {Procs: 2, GOGC: 400}, "GOMAXPROCS=4 GOGC=400": {Procs: 4, GOGC: 400}} {
		if got := a.Take(s); got != want {
			t.Errorf("to take it: %q, want %q", got, want)
		}
	}
}

func TestTuneTail(t *testing.T) {
	for want, change := range map[string]func(*Tune){
		"p99":    func(*Tune) {},
		"p90":    func(d *Tune) { d.Loads[1].Tail, d.Metrics[0].Unit = "p90", "x" },
		TuneTime: func(d *Tune) { d.Subject.Kind = "job" },
		TuneRate: func(d *Tune) { d.Objective, d.Runs[0].Metrics["req/s"], d.Metrics[1].Unit = TuneRate, 5, "req/s" },
		"p50": func(d *Tune) {
			d.Loads[1].Tail, d.Metrics[0].Unit, d.Runs[0].Metrics["p50-latency-ns"] = "p50", "p50-latency-ns", 1
		},
		"time too": func(d *Tune) { d.Metrics[0].Unit, d.Runs[0].Metrics["ns/op"] = "ns/op", 5 },
	} {
		d := tuned()
		change(d)
		if got := d.At(1).Tail; got != strings.TrimSuffix(want, " too") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestTuneThrottling(t *testing.T) {
	d := tuned()
	all := d.At(1).Throttling()
	got := ""
	for _, x := range all {
		got += fmt.Sprintf("%d: %v of %d; ", x.Setting.Procs, x.Share, len(x.Runs))
	}
	if want := "1: 0.1 of 2; 2: 0.45 of 2; 4: 0.1 of 1; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if NeverThrottled(all) != "" || NeverThrottled(nil) != "" {
		t.Error("the sentences on it are wrong")
	}
	for i := range d.Runs {
		d.Runs[i].Axis = []TuneStep{{Length: 1, Periods: 10}}
	}
	if NeverThrottled(d.At(1).Throttling()) == "" {
		t.Error("nothing is said where nothing was throttled")
	}
}

func TestTuneRequests(t *testing.T) {
	d := tuned()
	a := d.At(1)
	if a.Requests() != 0 {
		t.Error("requests without percentiles")
	}
	a.Runs[0].Curve = []CurvePoint{{Count: 5}, {Count: 1000}}
	if n := a.Requests(); n != 1000 || math.Abs(Carried(n)-99) > 1e-9 || Carried(5) >= 0 {
		t.Errorf("%d requests carry %v", n, Carried(n))
	}
	a.Noise = map[string]TuneNoise{"p99": {0.378, 0.25, 0.7}, "cpu": {1, 0.1, 11}}
	if v, low, high, ok := a.NoiseOf("p99"); !ok || math.Abs(v-0.459) > 0.001 || math.Abs(low-0.284) > 0.001 || math.Abs(high-1.014) > 0.001 {
		t.Errorf("noise %v, %v to %v", v, low, high)
	}
	if _, _, _, ok := a.NoiseOf("cpu"); ok {
		t.Error("what is beyond measure is noise")
	}
}

func TestTuneNotes(t *testing.T) {
	d := tuned()
	a := d.At(1)
	got := strings.Join(append(a.Notes(), a.ChangesNote()), "\n")
	const want = `GOMAXPROCS=4 was dropped: slow
GOMAXPROCS=1 missed the SLO in 1 of 3 runs
Changes are against the current setting, by the blocks in which both ran, and intervals are 95 % ones. CPU and p99 are the current setting's times the change, the rest are medians of all runs. p99 is that of typical seconds, counted from when requests were ready to be sent.`
	if got != want {
		t.Errorf("got %s", got)
	}
	for want, l := range map[string]TuneLoad{
		"not finished": {Kind: "change"}, "set 2 with GOGC=100": {Kind: "change", Procs: 2, GOGC: 100, Done: true}, "keep 4": {Kind: "keep", Procs: 4, Done: true}, "keep 2, or trade": {Kind: "trade", Procs: 2, Done: true}, "undecided": {Kind: "undecided", Done: true},
	} {
		if got := (&TuneAt{TuneLoad: l}).Advice(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := d.Failures(); len(got) != 1 || got[0] != "fresh pair 3, GOMAXPROCS=1 at 20/s not valid: late" {
		t.Errorf("failures: %q", got)
	}
	for range 20 {
		d.Runs = append(d.Runs, TuneRun{Error: "exit status 2"})
	}
	if got := d.Failures(); len(got) != failuresMost+1 || got[failuresMost] != "and 11 more" {
		t.Errorf("failures: %q", got)
	}
}

func TestTuneEnough(t *testing.T) {
	d := &Tune{Verdict: TuneVerdict{LimitCPUs: 1}, Limits: []TuneLimit{
		{CPUs: 0.5, Of: 5}, {CPUs: 1, Of: 5, Will: true, Settings: []TuneLimitRates{{Procs: 2, Rate: 5}, {Procs: 1, Rate: 7}}}, {CPUs: 2, Will: true}, {CPUs: 4},
	}}
	got := ""
	for i := range d.Limits {
		got += d.Enough(&d.Limits[i]) + ";"
	}
	if got != "no;yes, smallest;yes;;" {
		t.Error(got)
	}
	if l := &d.Limits[1]; !l.Better(l.Rates(1)) || l.Better(l.Rates(2)) || l.Rates(3) != nil || !slices.Equal(d.LimitProcs(), []int{1, 2}) {
		t.Error("the better of two rates is not found")
	}
}

func TestSane(t *testing.T) {
	d := tuned()
	d.Margin, d.Seconds, d.Loads[0].Rate, d.Runs[0].Metrics["x"], d.Runs[0].Metrics["y"] = math.NaN(), 1e300, 7, math.Inf(-1), 3
	s := Sane(d)
	if s.Margin != 0 || s.Seconds != 0 || s.Loads[0].Rate != 7 || len(s.Runs[0].Metrics) != 2 || s.Settings[0].Dropped != "slow" {
		t.Errorf("got %+v", s)
	}
	if d.Seconds != 1e300 || len(d.Runs[0].Metrics) != 3 {
		t.Error("the document was changed")
	}
}

// TestBeside: for any blocks of a setting, its figure and the current setting's give the change that is between them, and they are those of
// the sentence.
func TestBeside(t *testing.T) {
	for name, d := range tuneDocuments(t) {
		for i := range d.Loads {
			a := d.At(i)
			for _, s := range a.Settings {
				for _, of := range []string{a.Tail, TuneCPU} {
					e, changed := a.Effect(s, of)
					figure, ok := a.Beside(s, of)
					if !changed || a.Current() == nil {
						continue
					}
					base, known := a.Beside(*a.Current(), of)
					if !ok || !known || math.Abs(figure/base/e.Ratio-1) > 1e-9 {
						t.Errorf("%s, %v: %s %v beside %v is not %v", name, s.Key(), of, figure, base, e.Ratio)
					}
					if said, ok := a.find(a.Effects, of); ok && a.Rival != nil && s.Key() == a.Rival.Key() && math.Abs(figure/said.To-1) > 1e-9 {
						t.Errorf("%s: %s is %v in the table, and %v in the sentence", name, of, figure, said.To)
					}
				}
			}
		}
	}
}
