package conduct

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Tune is what flags ask of a tune, wherever its runs are.
type Tune struct {
	Command  string    // unthrottle tune
	Plan     tune.Plan // what needs no parsing
	Rate     quantity.RateRange
	Arrivals load.Arrivals
	GOGC     []int // empty: none
	NoShort  bool  // -c is another flag's
}

// TuneFormats are what a tune's document can be written as.
func TuneFormats() map[string]verb.Writer[*report.Tune] {
	formats := verb.SheetFormats(view.Tune)
	formats["csv"], formats["bench"] = verb.Plainly(report.TuneCSV), verb.Plainly(report.TuneGo)
	return formats
}

// ShowTune shows what there is of a tune. more are warnings besides its own.
func (s *Study) ShowTune(results *verb.Results[*report.Tune], soFar *tune.Study, journal, next string, interrupted bool, more ...string) error {
	doc, err := report.NewTune(soFar)
	if err != nil {
		return err
	}
	doc.Header.MadeBy = verb.MadeBy()
	doc.Warnings = append(doc.Warnings, more...)
	if interrupted {
		doc.Resume = next
	}
	err = results.Finish(doc, nil)
	if err == nil && !results.JSON {
		fmt.Fprintf(s.IO.Err, "\nunthrottle: the runs are in %s\n", plain.Line(journal))
	}
	s.Failed = s.Fail.Verdict(report.Found(doc.Checks()), 0)
	return err
}

// Load adds the flags of the load.
func (t *Tune) Load(l *verb.Flags, in *pflag.FlagSet) {
	in.Var(quantity.Value(&t.Rate, quantity.ParseRateRange, "500, or 100..1000"), "rate", "R\trequests a second (as many as use 65% of the limit); 100..1000 ramps evenly within each window")
	in.Var(quantity.Value(&t.Plan.Shares, parseShares, "40%,65%,90%"), "rates", "LIST\tseveral rates, by the share of the limit that the current setting uses: 40%,65%,90%")
	l.Exclude("use one of them", "rate", "rates")
	short := "c"
	if t.NoShort {
		short = ""
	}
	verb.Number(in, &t.Plan.Conns, "conns", short, 1, "N\tuse a closed loop of N connections instead; with --rate, N connections at most")
	Arrivals(in, &t.Arrivals)
	Burst(in, &t.Plan.Burst, "load-burst")
	verb.Duration(in, &t.Plan.WarmUp, "warmup", 0, "D\thow long to load before each window (until the CPU time per request has settled, at least 1s)")
	verb.Duration(in, &t.Plan.Window, "for", 100*time.Millisecond, "D\tthe window (5s, or longer for 2,000 requests)")
	in.Var(quantity.Value(&t.Plan.SLO, CheckSLO, SLOExample), "slo", "SLO\tp99=50ms,errors=0.1%: a setting that breaks it loses")
}

// Tried adds the flags of what is tried. most is what is called max; 0: nothing is.
func (t *Tune) Tried(l *verb.Flags, in *pflag.FlagSet, most int) {
	words, example := map[string]int{}, "1,2,4"
	if most > 0 {
		words["max"], example = most, "1,2,4,max"
	}
	parse := func(text string) ([]int, error) { return quantity.ParseWholes(text, words) }
	in.Var(quantity.Value(&t.Plan.Procs, parse, example), "procs", "LIST\ttry only these GOMAXPROCS, besides the current one")
	in.BoolVar(&t.Plan.All, "all", false, "try every GOMAXPROCS from 1 to all CPUs")
	l.Exclude("use one of them", "procs", "all")
	in.Var(quantity.Value(&t.GOGC, parseGOGC, "400, or --gogc none"), "gogc", "LIST\talso try these GOGC (400 or so if a small heap is collected many times a second), or none")
}

// AtOnce adds the flag that says whether settings may run at the same time.
func AtOnce(in *pflag.FlagSet, how *string, about string) {
	*how = "auto"
	in.Var(verb.OneOf(how, "auto", tune.AtOnceYes, tune.AtOnceNo), "at-once", "HOW\trun settings at the same time if there is room: yes, no, or auto, "+about+" (auto)")
}

// Judged adds the flags of how it is judged.
func (t *Tune) Judged(in *pflag.FlagSet) {
	in.Var(verb.OneOf(&t.Plan.Objective, search.P99, search.CPU, search.Throughput, search.Time), "objective", "O\tjudge by p99, cpu, throughput or time alone (p99, or time, together with cpu)")
	Margin(in, &t.Plan.Margin)
	TailMargin(in, &t.Plan.Tail)
	verb.Number(in, &t.Plan.Pairs, "pairs", "", 0, "N\tthe fewest paired comparisons that a change may rest on (as many as show it)")
	verb.Number(in, &t.Plan.Blocks, "blocks", "", 0, "N\tat most N blocks in which all settings run (12)")
	verb.Duration(in, &t.Plan.Budget, "budget", 0, "D\thow long it may take (as long as it needs)")
	in.Uint64Var(&t.Plan.Seed, "seed", 0, "N\tseed for the order of the runs and the arrivals")
}

// Take completes a plan by what needed parsing.
func (t *Tune) Take(p *tune.Plan) {
	p.Const = t.Arrivals == load.Constant
	if t.Rate.To > 0 {
		if p.Rate = t.Rate.Mean(); t.Rate.From != t.Rate.To {
			p.From = t.Rate.From
		}
	}
	p.GOGC, p.NoGOGC = t.GOGC, t.GOGC != nil && len(t.GOGC) == 0
}

// KeepGOGC leaves GOGC as the user has set it, if none was asked for.
func (t *Tune) KeepGOGC(p *tune.Plan) {
	p.NoGOGC = p.NoGOGC || t.GOGC == nil
}

// Check checks what is tried, and how it is judged.
func (t *Tune) Check(p tune.Plan) error {
	if p.Margin < 0.001 {
		return hint.Usage("--margin 1% takes smaller differences than the usual 5%", "--margin=%s: no number of runs would be enough for that", quantity.Number(100*p.Margin)+"%")
	}
	if p.Kind == tune.ServerKind && p.Objective == search.Time || p.Kind != tune.ServerKind && (p.Objective == search.P99 || p.Objective == search.Throughput) {
		return hint.Usage("a server has p99, cpu and throughput, a job or benchmark time and cpu", "--objective=%s can't be measured here", p.Objective)
	}
	if p.Burst > load.MostBurst {
		return hint.Usage("--load-burst 20", "--load-burst=%d: %d requests at once are the most", p.Burst, load.MostBurst)
	}
	if p.Burst > 1 && (p.Kind != tune.ServerKind || p.Conns > 0 && p.Rate == 0) {
		return hint.Usage("leave --conns out, or --load-burst", "--load-burst says how the requests of a rate are spread, and needs a rate")
	}
	check := search.TuneConfig{Current: 1, Candidates: p.Procs, Objective: p.Objective, Margin: p.Margin, TailMargin: p.Tail, Pairs: p.Pairs, MaxBlocks: p.Blocks}
	if _, err := search.NewTune(check); err != nil {
		return hint.Usage(t.Command+" --help", "%w", err)
	}
	return nil
}

// CheckLimits checks a question for one of several limits. others are flags of one limit that not all commands have.
func (t *Tune) CheckLimits(l *verb.Flags, p tune.Plan, example string, others ...string) error {
	if p.Kind != tune.ServerKind || p.SLO == "" || p.Rate == 0 {
		return hint.Usage(t.Command+" --cpus 0.5,1,2 --slo p99=50ms --rate 200 "+example, "which of several limits is enough is only known for a server with an --slo and a --rate")
	}
	if name := l.FirstGiven(append(others, "procs", "all", "gogc", "objective", "pairs", "blocks", "at-once")...); name != "" {
		return hint.Usage("leave it out, or name one limit", "--%s is for one limit; with several the question is which one is enough", name)
	}
	return nil
}

// Goal takes from the command line of --resume how far the tune goes, and refuses all that is planned already.
func (t *Tune) Goal(l *verb.Flags, file string, old *tune.Study) (changed *tune.Reach, err error) {
	goal, fixed := old.Reach(), ""
	l.Cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "resume", "output", "json", "color", "fail-on":
		case "budget", "pairs", "blocks":
			changed = &goal
			if old.Plan.AsksLimit() {
				fixed = f.Name
			}
		default:
			fixed = f.Name
		}
	})
	if fixed != "" {
		return nil, hint.Usage("leave it out, or start a new tune", "--resume takes its plan from the file, and no --%s", fixed)
	}
	if changed == nil {
		return nil, nil
	}
	if err := t.Check(t.Plan); err != nil {
		return nil, err
	}
	for name, change := range map[string]func(){
		"budget": func() { goal.Budget = t.Plan.Budget },
		"pairs":  func() { goal.Pairs = t.Plan.Pairs },
		"blocks": func() { goal.Blocks = t.Plan.Blocks },
	} {
		if l.Given(name) {
			change()
		}
	}
	if *changed, err = old.Further(goal); err != nil {
		return nil, hint.With(fmt.Errorf("going on with %s: %w", file, err),
			"unthrottle report "+file+" shows what it has", "a larger --budget, --pairs or --blocks may go on with it")
	}
	return changed, nil
}

// parseShares reads shares of what a server can do.
func parseShares(text string) ([]float64, error) {
	shares, err := quantity.ParseList(text, quantity.ParseShare)
	for _, s := range shares {
		if s < 0.01 || s > 2 {
			return nil, fmt.Errorf("%s is out of range: a share of what the server can do is from 1%% to 200%%", quantity.Share(s))
		}
	}
	return shares, err
}

// parseGOGC reads values of GOGC; none is an empty list.
func parseGOGC(text string) ([]int, error) {
	if text == "none" {
		return []int{}, nil
	}
	return quantity.ParseWholes(text, nil)
}
