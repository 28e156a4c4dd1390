package report

import (
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// addLimits fills in what was found of each of several limits, and which of them is enough.
func (d *Tune) addLimits(s *tune.Study) error {
	limits, err := s.Limits()
	if err != nil {
		return err
	}
	byMemory := s.Plan.LimitsMemory()
	if !byMemory {
		d.LimitCPUs = 0
	}
	d.Loads = []TuneLoad{{Rate: s.Plan.Rate, Arrivals: arrivals(s.Plan), Burst: s.Plan.Burst, SLO: s.Plan.SLO, Main: true, Tail: "p99", Window: s.LimitWindow().Seconds(), Noise: map[string]TuneNoise{}}}
	if byMemory {
		d.Loads[0].WarmUp, d.Loads[0].Overload = s.LimitWarmUp().Seconds(), s.LimitRush(s.Plan.Rate)
	}
	for _, w := range s.Windows {
		d.Seconds += w.Seconds
	}
	for _, try := range s.Tries() {
		a := limits.Highest(try)
		setting := TuneLimitRates{
			Procs: try.Procs, Default: try.Default, AtRate: newTuneAtRate(limits.Hold(try)),
			Rate: a.Sustained.Rate, Text: answerText(a), Windows: []LoadWindow{},
		}
		for _, w := range s.Windows {
			if w.Under == try.Under && w.Procs == try.Procs && w.Phase == tune.CurvePhase {
				setting.Windows = append(setting.Windows, limitWindow(w, s.LimitWindow()))
			}
		}
		if n := len(d.Limits); n == 0 || d.Limits[n-1].under() != try.Under {
			d.Limits = append(d.Limits, TuneLimit{CPUs: try.CPUs, Memory: try.Memory, Memlimit: s.Plan.GOMEMLIMITUnder(try.Memory)})
		}
		l := &d.Limits[len(d.Limits)-1]
		l.Settings = append(l.Settings, setting)
	}
	enough := -1
	for i := range d.Limits {
		l := &d.Limits[i]
		try := limits.Counts(l.under())
		h := limits.Hold(try)
		l.Answer, l.Procs, l.Held, l.Of, l.Will = string(h.Answer), try.Procs, h.Held, h.Of, h.Answer == tune.Holds
		l.P99, l.CPU = atRate(s, try, lab.P99), atRate(s, try, lab.CPUPerRequest)
		if byMemory {
			l.Peak, l.File = int64(atRate(s, try, lab.PeakMemory)), int64(atRate(s, try, lab.ProgramFile))
		}
		if l.Will && enough < 0 {
			enough = i
		} else if enough >= 0 && byMemory {
			l.Beside = newTuneBeside(s, d.Limits[enough].under(), try.Under)
		}
	}
	answer, anything := limits.Unfinished()
	words := limitWords{d: d, plan: s.Plan, windows: len(s.Windows), late: limits.OutOfTime(), failed: s.Failure != "", unfinished: answer, unfinishedRates: anything && !answer}
	words.usual, words.takes = s.LimitsTake()
	d.Finished = !anything || words.late
	d.Verdict = TuneVerdict{Kind: string(search.Undecided)}
	if enough < 0 {
		d.Verdict.Text, d.Verdict.Also = words.notShown()
	} else {
		l := &d.Limits[enough]
		d.Current = TuneCurrent{Procs: l.Settings[0].Procs, Why: "what Go chooses under this limit", GoDefault: l.Settings[0].Procs}
		d.Verdict = TuneVerdict{Kind: string(search.Change), Procs: l.Procs, LimitCPUs: l.CPUs, How: howToLimit(l)}
		if byMemory {
			d.Verdict.LimitCPUs, d.Verdict.Memory, d.Verdict.How = 0, l.Memory, howToLimitMemory(l)
		}
		d.Verdict.Text, d.Verdict.Also = words.enough(enough)
	}
	d.Loads[0].Kind, d.Loads[0].Procs, d.Loads[0].Text, d.Loads[0].Done = d.Verdict.Kind, d.Verdict.Procs, d.Verdict.Text, d.Finished
	return nil
}

func newTuneAtRate(h tune.Hold) *TuneAtRate {
	if h.Of+h.Void+h.Disturbed == 0 {
		return nil
	}
	return &TuneAtRate{
		Answer: string(h.Answer), Held: h.Held, Of: h.Of, Void: h.Void, Disturbed: h.Disturbed, Hit: h.Share.Hit, Objective: h.Goal.Text, Allowed: h.Goal.Allowed, Failures: h.Goal.Failures,
		Killed:   h.Killed,
		Requests: h.Share.Of, Beyond: h.Share.Hits, Share: h.Share.Share, Low: h.Share.Low, High: h.Share.High, More: h.More, Again: h.Again, NoStart: h.NoStart,
	}
}

// AtRate is what the windows at the user's rate say of the setting that the limit's answer is of; nil: there were none, or the document is
// from a time when they were only counted.
func (l *TuneLimit) AtRate() *TuneAtRate {
	if s := l.Rates(l.Procs); s != nil && s.AtRate != nil && s.AtRate.Objective != "" {
		return s.AtRate
	}
	return nil
}

// Other is a setting under the limit that is not Go's default; nil: none.
func (l *TuneLimit) Other() *TuneLimitRates {
	if i := slices.IndexFunc(l.Settings, func(s TuneLimitRates) bool { return !s.Default }); i >= 0 {
		return &l.Settings[i]
	}
	return nil
}

// ByGo reports whether the limit's answer is of what Go chooses on its own.
func (l *TuneLimit) ByGo() bool {
	s := l.Rates(l.Procs)
	return s == nil || s.Default
}

func arrivals(p tune.Plan) string {
	switch {
	case p.Times != "":
		return string(load.Recorded)
	case p.Const:
		return string(load.Constant)
	}
	return string(load.Poisson)
}

func limitWindow(w tune.LimitWindow, lasting time.Duration) LoadWindow {
	return LoadWindow{
		Phase: w.Step, Rate: w.Rate, Held: w.Held, Valid: w.Valid, P50: lab.P50.In(w.Metrics), P99: lab.P99.In(w.Metrics),
		Failed: int64(math.Round(lab.ErrorShare.In(w.Metrics) * w.Rate * lasting.Seconds())), Missed: w.Error,
	}
}

// under is what windows were held to that are of this limit.
func (l *TuneLimit) under() tune.Under { return tune.Under{CPUs: l.CPUs, Memory: l.Memory} }

// newTuneBeside compares what a request costs under a limit with what it costs under the one that is enough.
func newTuneBeside(s *tune.Study, enough, under tune.Under) *TuneBeside {
	costs := map[tune.Under][]float64{}
	for _, w := range s.Windows {
		if w.Phase == tune.BesidePhase && w.Valid && !w.Disturbed {
			costs[w.Under] = append(costs[w.Under], lab.CPUPerRequest.In(w.Metrics))
		}
	}
	n := min(len(costs[enough]), len(costs[under]))
	if c := sample.Compare(costs[enough][:n], costs[under][:n]); c.Ratio > 0 {
		return &TuneBeside{Pairs: c.Pairs, Ratio: c.Ratio, Low: c.Low, High: c.High}
	}
	return nil
}

// atRate is the median of a measure over the windows at the user's rate.
func atRate(s *tune.Study, try tune.LimitTry, m lab.Measure) float64 {
	var values []float64
	for _, w := range s.Windows {
		if w.Under == try.Under && w.Procs == try.Procs && w.Phase != tune.CurvePhase && w.Valid && m.In(w.Metrics) > 0 {
			values = append(values, m.In(w.Metrics))
		}
	}
	if len(values) == 0 {
		return 0
	}
	return sample.Summarise(values).Median
}
