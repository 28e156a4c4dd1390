package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
)

// The quantities by which settings of tune are compared, besides the percentiles, which have the names p50, p90 and p99.
const (
	TuneCPU       = "cpu" // of a unit of work
	TuneTime      = "time"
	TuneRate      = "throughput"
	TuneThrottled = "throttled"
	TunePooled    = "pooled" // the tail of whole windows: there is an effect of it
)

// tuneMeasures are what a quantity may be measured as, the first one first.
var tuneMeasures = map[string][]lab.Measure{
	"p50":    {lab.P50},
	"p90":    {lab.P90},
	"p99":    {lab.ReadyTail, lab.P99}, // the p99 that settings are compared by
	TuneCPU:  {lab.CPUPerRequest, lab.CPUPerOp, lab.CPUTime},
	TuneTime: {lab.OpTime, lab.WallTime},
	TuneRate: {lab.RequestRate},
}

// A TuneKey identifies a setting, under any load.
type TuneKey struct {
	Procs, GOGC int
	Vary        lab.Pairs
}

// Key is that of the setting.
func (s TuneSetting) Key() TuneKey { return TuneKey{s.Procs, s.GOGC, lab.NewPairs(s.Vary)} }

// Key is that of the run's setting.
func (r TuneRun) Key() TuneKey { return TuneKey{r.Procs, r.GOGC, lab.NewPairs(r.Vary)} }

// key is that of what is best.
func (l TuneLoad) key() TuneKey { return TuneKey{l.Procs, l.GOGC, lab.NewPairs(l.Vary)} }

// counts: the run is one that settings are compared by, not one of the pilot, nor one that explains something.
func (r TuneRun) counts() bool { return r.Phase == "race" || r.Phase == "confirm" }

// good: the run has figures.
func (r TuneRun) good() bool { return r.Valid && r.Error == "" }

// Main is the load that the verdict rests on, a number in loads; -1: none.
func (d *Tune) Main() int {
	if n := d.Verdict.Load; n >= 0 && n < len(d.Loads) {
		return n
	}
	if n := slices.IndexFunc(d.Loads, func(l TuneLoad) bool { return l.Main }); n >= 0 {
		return n
	}
	return min(0, len(d.Loads)-1)
}

// MainLoad is the load that the verdict rests on; without any figure if it rests on none.
func (d *Tune) MainLoad() (l TuneLoad) {
	if n := d.Main(); n >= 0 {
		l = d.Loads[n]
	}
	return l
}

// WithGOGC reports whether any setting sets GOGC.
func (d *Tune) WithGOGC() bool {
	return slices.ContainsFunc(d.Settings, func(s TuneSetting) bool { return s.GOGC != 0 })
}

// WithProcs reports whether settings differ in GOMAXPROCS, or might have.
func (d *Tune) WithProcs() bool {
	return len(d.Varied) == 0 || slices.ContainsFunc(d.Settings, func(s TuneSetting) bool { return s.Procs != 0 })
}

// Keys are all settings, each once: the current one, the best one, and then the others.
func (d *Tune) Keys() (keys []TuneKey) {
	add := func(k TuneKey) {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	main := d.Main()
	for _, first := range []func(TuneSetting) bool{
		func(s TuneSetting) bool { return s.Current },
		func(s TuneSetting) bool { return s.Best && s.Load == main },
		func(TuneSetting) bool { return true },
	} {
		for _, s := range d.Settings {
			if first(s) {
				add(s.Key())
			}
		}
	}
	if len(d.Limits) > 0 {
		add(TuneKey{Procs: d.Current.Procs})
	}
	for _, procs := range d.LimitProcs() {
		add(TuneKey{Procs: procs})
	}
	return keys
}

// LimitProcs are the GOMAXPROCS that were tried under any of the limits.
func (d *Tune) LimitProcs() (procs []int) {
	for _, l := range d.Limits {
		for _, s := range l.Settings {
			if !slices.Contains(procs, s.Procs) {
				procs = append(procs, s.Procs)
			}
		}
	}
	slices.Sort(procs)
	return procs
}

// Rates are what was found of a GOMAXPROCS under the limit; nil: it was not tried.
func (l *TuneLimit) Rates(procs int) *TuneLimitRates {
	for i := range l.Settings {
		if l.Settings[i].Procs == procs {
			return &l.Settings[i]
		}
	}
	return nil
}

// Better reports whether, of several settings, no other has a higher rate.
func (l *TuneLimit) Better(of *TuneLimitRates) bool {
	return len(l.Settings) > 1 && of.Rate > 0 && !slices.ContainsFunc(l.Settings, func(s TuneLimitRates) bool { return s.Rate > of.Rate })
}

// A TuneAt is what is known at one load, and which of it counts.
type TuneAt struct {
	TuneLoad
	Number   int
	Settings []TuneSetting // the best first
	Runs     []TuneRun     // that settings are compared by
	Rival    *TuneSetting  // that Effects are of; nil: none
	Tail     string        // the quantity by which settings are compared first

	metrics map[string]string // of a quantity: the metric that it is measured as
	foreign bool              // the load is another generator's, and its p99 too
}

// At looks a load up.
func (d *Tune) At(load int) *TuneAt {
	a := &TuneAt{TuneLoad: d.Loads[load], Number: load, metrics: d.measured(), foreign: d.Subject.foreign()}
	for _, s := range d.Settings {
		if s.Load == load {
			a.Settings = append(a.Settings, s)
		}
	}
	for _, r := range d.Runs {
		if r.Load == load && r.counts() {
			a.Runs = append(a.Runs, r)
		}
	}
	for i, s := range a.Settings {
		if !s.Current && s.Best {
			a.Rival = &a.Settings[i]
		}
	}
	a.Tail = a.tail(d)
	return a
}

// measured finds what the quantities are measured as.
func (d *Tune) measured() map[string]string {
	occurs, metrics := map[string]bool{}, map[string]string{}
	for _, m := range d.Metrics {
		occurs[m.Unit] = true
	}
	for quantity, measures := range tuneMeasures {
		if i := slices.IndexFunc(measures, func(m lab.Measure) bool { return occurs[string(m)] }); i >= 0 {
			metrics[quantity] = string(measures[i])
		}
	}
	return metrics
}

// tail is a percentile, the time of a job, or what was asked for.
func (a *TuneAt) tail(d *Tune) string {
	switch {
	case d.Objective == TuneRate && a.has(TuneRate):
		return TuneRate
	case d.Subject.Kind == "job" || d.Subject.Kind == "gobench" || d.Subject.foreign() && a.TuneLoad.Tail == "":
		return TuneTime
	case a.TuneLoad.Tail != "" && a.has(a.TuneLoad.Tail):
		return a.TuneLoad.Tail
	case a.has("p99"):
		return "p99"
	case !a.has("p50") && a.has(TuneTime):
		return TuneTime
	}
	return a.Percentile()
}

// has: the quantity is known of any setting or run.
func (a *TuneAt) has(quantity string) bool {
	return slices.ContainsFunc(a.Settings, func(s TuneSetting) bool { _, ok := a.Median(s, quantity); return ok }) ||
		slices.ContainsFunc(a.Runs, func(r TuneRun) bool { _, ok := r.Metrics[a.metrics[quantity]]; return ok })
}

// Percentile is the highest that a window can carry.
func (l TuneLoad) Percentile() string { return cmp.Or(l.Tail, "p99") }

// Metric is what a quantity is measured as; "" if it isn't.
func (a *TuneAt) Metric(quantity string) string { return a.metrics[quantity] }

// Current is the setting that the others are compared with; nil: it has not been run.
func (a *TuneAt) Current() *TuneSetting {
	if i := slices.IndexFunc(a.Settings, func(s TuneSetting) bool { return s.Current }); i >= 0 {
		return &a.Settings[i]
	}
	return nil
}

// Median is that of a setting's runs.
func (a *TuneAt) Median(s TuneSetting, quantity string) (float64, bool) {
	m, ok := s.Metrics[a.metrics[quantity]]
	return m.Median, ok && m.N > 0
}

// Beside is the figure that is next to the change of a setting, in seconds or a second, so that each of them gives its change: the current
// setting's, which is that of the blocks with its rival or else of all its runs, times the change.
func (a *TuneAt) Beside(s TuneSetting, quantity string) (figure float64, ok bool) {
	ratio := 1.0
	if !s.Current {
		e, ok := a.Effect(s, quantity)
		if !ok {
			return a.medianOf(&s, quantity)
		}
		ratio = e.Ratio
	}
	if e, ok := a.find(a.Effects, quantity); ok && e.From > 0 {
		return e.From * ratio, true
	}
	figure, ok = a.medianOf(a.Current(), quantity)
	return figure * ratio, ok
}

func (a *TuneAt) medianOf(s *TuneSetting, quantity string) (float64, bool) {
	if s == nil {
		return 0, false
	}
	v, ok := a.Median(*s, quantity)
	in := lab.Measure(a.metrics[quantity])
	return in.In(map[string]float64{string(in): v}), ok
}

// Figure is a run's value; false if it has none that counts.
func (a *TuneAt) Figure(r TuneRun, quantity string) (float64, bool) {
	v, ok := r.Metrics[a.metrics[quantity]]
	return v, ok && r.good() && v > 0
}

// Quantity is what an effect is of. What search compares by is called p99 also where a window carries a lower percentile.
func (a *TuneAt) Quantity(e TuneEffect) string {
	switch e.Metric {
	case "p99":
		return a.Percentile()
	}
	return e.Metric
}

// Effect is what a quantity does from the current setting to another.
func (a *TuneAt) Effect(s TuneSetting, quantity string) (TuneEffect, bool) {
	if s.Current {
		return TuneEffect{}, false
	}
	return a.find(s.Versus, quantity)
}

func (a *TuneAt) find(effects []TuneEffect, quantity string) (TuneEffect, bool) {
	for _, e := range effects {
		if a.Quantity(e) == quantity {
			return e, e.Ratio > 0
		}
	}
	return TuneEffect{}, false
}

// Interval reports whether there were enough pairs for one.
func (e TuneEffect) Interval() bool { return e.High > 0 }

// Ordered are the settings as they are drawn: the best and the current one next to each other, those that were dropped last.
func (a *TuneAt) Ordered() []TuneSetting {
	place := func(s TuneSetting) int {
		switch {
		case s.Best && !s.Current:
			return 0
		case a.Rival != nil && s.Key() == a.Rival.Key():
			return 1
		case s.Current:
			return 2
		case s.Dropped != "":
			return 4
		}
		return 3
	}
	settings := slices.Clone(a.Settings)
	slices.SortStableFunc(settings, func(a, b TuneSetting) int { return cmp.Compare(place(a), place(b)) })
	return settings
}

// RunsOf are the runs of a setting.
func (a *TuneAt) RunsOf(s TuneSetting) (runs []TuneRun) {
	for _, r := range a.Runs {
		if r.Key() == s.Key() {
			runs = append(runs, r)
		}
	}
	return runs
}

// Paired reports whether a run and that of the current setting, or of its rival, in the same block or pair can be compared.
func (a *TuneAt) Paired(s TuneSetting) bool {
	return a.Rival != nil && a.Current() != nil && (s.Current || s.Key() == a.Rival.Key())
}

// Front are the settings that no other beats in every metric that decides, the cheapest first.
func (a *TuneAt) Front() (front []TuneSetting) {
	for _, s := range a.Settings {
		if s.Front {
			front = append(front, s)
		}
	}
	cpu := func(s TuneSetting) float64 { v, _ := a.Median(s, TuneCPU); return v }
	slices.SortStableFunc(front, func(a, b TuneSetting) int { return cmp.Compare(cpu(a), cpu(b)) })
	return front
}

// NoiseOf is by how much a quantity differs from run to run: one standard deviation and its interval, as shares. False: it
// is not known.
func (a *TuneAt) NoiseOf(quantity string) (sd, low, high float64, ok bool) {
	const most = 10 // e to that is no longer noise
	n, ok := a.Noise[quantity]
	return math.Exp(n.SD) - 1, math.Exp(n.Low) - 1, math.Exp(n.High) - 1, ok && n.SD > 0 && n.High < most
}

// Requests is how many a run has, by its percentiles; 0: not known.
func (a *TuneAt) Requests() (n int64) {
	for _, s := range a.Settings {
		for _, p := range s.Curve {
			n = max(n, p.Count)
		}
	}
	for _, r := range a.Runs { // a setting's curve, of several runs, need not have counts
		if k := len(r.Curve); n == 0 && k > 0 {
			n = r.Curve[k-1].Count
		}
	}
	return n
}

// Carried is the percentile beyond which this many requests say nothing; below 0: they say nothing of any.
func Carried(requests int64) float64 {
	return 100 * (1 - loadtest.BeyondLeast/float64(max(requests, 1)))
}

// A TuneThrottling is how a setting was throttled, by its last runs.
type TuneThrottling struct {
	Setting TuneSetting
	Runs    []TuneRun
	Share   float64 // of the periods
}

// throttlingRuns is by how many runs a setting's throttling is shown.
const throttlingRuns = 6

// Throttling is that of all settings of which it is known.
func (a *TuneAt) Throttling() (all []TuneThrottling) {
	for _, s := range a.Ordered() {
		t := TuneThrottling{Setting: s}
		for _, r := range a.RunsOf(s) {
			if _, of := r.ThrottledPeriods(); of > 0 && r.good() {
				t.Runs = append(t.Runs, r)
			}
		}
		t.Runs = t.Runs[max(0, len(t.Runs)-throttlingRuns):]
		var throttled, periods int64
		for _, r := range t.Runs {
			n, of := r.ThrottledPeriods()
			throttled, periods = throttled+n, periods+of
		}
		if periods > 0 {
			t.Share = float64(throttled) / float64(periods)
			all = append(all, t)
		}
	}
	return all
}
