package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
)

// addLimits fills in what was found of each of several limits, and which of them is enough.
func (d *Tune) addLimits(s *tune.Study) {
	d.LimitCPUs = 0
	d.Loads = []TuneLoad{{Rate: s.Plan.Rate, Arrivals: arrivals(s.Plan), SLO: s.Plan.SLO, Main: true, Tail: "p99", Window: s.LimitWindow().Seconds(), Noise: map[string]float64{}}}
	for _, w := range s.Windows {
		d.Seconds += w.Seconds
	}
	finished := true
	for _, try := range s.Tries() {
		m, err := s.MaxRate(try)
		if err != nil {
			continue // tune.Read has refused such a file
		}
		a := m.Answer()
		finished = finished && a.Done
		rates := TuneLimitRates{Procs: try.Procs, Default: try.Default, Rate: a.Sustained.Rate, Text: answerText(a), Windows: []LoadWindow{}}
		for _, w := range s.Windows {
			if w.CPUs == try.CPUs && w.Procs == try.Procs && w.Phase == tune.CurvePhase {
				rates.Windows = append(rates.Windows, limitWindow(w, s.LimitWindow()))
			}
		}
		if n := len(d.Limits); n == 0 || d.Limits[n-1].CPUs != try.CPUs {
			d.Limits = append(d.Limits, TuneLimit{CPUs: try.CPUs, Settings: []TuneLimitRates{}})
		}
		l := &d.Limits[len(d.Limits)-1]
		l.Settings = append(l.Settings, rates)
	}
	var enough, below *TuneLimit
	measured := false
	for i := range d.Limits {
		l := &d.Limits[i]
		best, _ := s.Best(l.CPUs)
		l.Held, l.Of = s.Held(best)
		l.Will = l.Of >= tune.HoldWindows && l.Held == l.Of
		l.P99, l.CPU = atRate(s, best, lab.P99), atRate(s, best, lab.CPUPerRequest)
		measured = measured || l.Of > 0
		if l.Will && enough == nil {
			enough = l
			if i > 0 {
				below = &d.Limits[i-1]
			}
		}
	}
	d.Finished = finished && (enough != nil || measured && d.Limits[len(d.Limits)-1].Of >= tune.HoldWindows)
	d.Verdict = TuneVerdict{Kind: string(search.Undecided)}
	switch {
	case enough != nil:
		best, _ := s.Best(enough.CPUs)
		byItself := byGo(s, enough.CPUs)
		d.Current = TuneCurrent{Procs: byItself, Why: "what Go chooses under this limit", GoDefault: byItself}
		d.Verdict = TuneVerdict{Kind: string(search.Change), Procs: best.Procs, LimitCPUs: enough.CPUs, Text: enoughText(s.Plan, best.Procs, enough, below)}
		if best.Procs == byItself {
			d.Verdict.Also = append(d.Verdict.Also, "That is Go's default there, so only the limit has to be set.")
		}
	case d.Finished:
		d.Verdict.Text = noneEnoughText(s.Plan)
	default:
		d.Verdict.Text = fmt.Sprintf("Interrupted after %d windows: which limit is enough for %s is not known yet.", len(s.Windows), rateText(s.Plan.Rate))
	}
	d.Loads[0].Kind, d.Loads[0].Procs, d.Loads[0].Text, d.Loads[0].Done = d.Verdict.Kind, d.Verdict.Procs, d.Verdict.Text, d.Finished
}

// enoughText names the smallest limit that held the objective, and what the next smaller did.
func enoughText(p tune.Plan, procs int, enough, below *TuneLimit) string {
	text := fmt.Sprintf("A limit of %s is enough, with GOMAXPROCS=%d: it held %s at %s in %d of %d windows, with a p99 of %s.",
		cpusText(enough.CPUs), procs, p.SLO, rateText(p.Rate), enough.Held, enough.Of, quantity.Brief(enough.P99))
	if below != nil && below.Of > 0 {
		text += fmt.Sprintf(" The next smaller, %s, held it in %d of %d, with a p99 of %s.", cpusText(below.CPUs), below.Held, below.Of, quantity.Brief(below.P99))
	}
	return text
}

func noneEnoughText(p tune.Plan) string {
	return fmt.Sprintf("Undecided: none of these limits holds %s at %s in all of %d windows. A larger limit, a lower rate or a looser objective would tell more.",
		p.SLO, rateText(p.Rate), tune.HoldWindows)
}

func arrivals(p tune.Plan) string {
	if p.Const {
		return "const"
	}
	return "poisson"
}

func limitWindow(w tune.LimitWindow, lasting time.Duration) LoadWindow {
	return LoadWindow{
		Phase: w.Step, Rate: w.Rate, Held: w.Held, Valid: w.Valid, P50: lab.P50.In(w.Metrics), P99: lab.P99.In(w.Metrics),
		Failed: int64(math.Round(lab.ErrorShare.In(w.Metrics) * w.Rate * lasting.Seconds())), Missed: w.Error,
	}
}

// atRate is the median of a measure over the windows at the user's rate.
func atRate(s *tune.Study, try tune.LimitTry, m lab.Measure) float64 {
	var values []float64
	for _, w := range s.Windows {
		if w.CPUs == try.CPUs && w.Procs == try.Procs && w.Phase == tune.HoldPhase && w.Valid && m.In(w.Metrics) > 0 {
			values = append(values, m.In(w.Metrics))
		}
	}
	if len(values) == 0 {
		return 0
	}
	return sample.Summarise(values).Median
}

// byGo is what Go chooses under a limit.
func byGo(s *tune.Study, cpus float64) int {
	if i := slices.Index(s.Plan.Limits, cpus); i >= 0 && i < len(s.Defaults) {
		return s.Defaults[i]
	}
	return 0
}

func cpusText(cpus float64) string {
	switch cpus {
	case 0:
		return "no limit"
	case 1:
		return "1 CPU"
	}
	return short(cpus) + " CPUs"
}
