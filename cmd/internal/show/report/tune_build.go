package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// NewTune makes the document of a study so far.
func NewTune(s *tune.Study) (*Tune, error) {
	d := &Tune{
		Header:    Header{Version: Version, Verb: "tune", MadeBy: s.MadeBy, Time: s.Time},
		Subject:   TuneSubject{Kind: s.Plan.Kind, Name: s.Plan.Name, Command: s.Plan.Program, URL: s.Plan.URL, Load: s.Plan.Load, Units: s.Plan.Units, Unit: s.Plan.Unit()},
		LimitCPUs: s.Plan.CPUs, Environment: s.Environment, Margin: s.Plan.Margin, Objective: string(s.Plan.Objective),
		Command: s.Plan.Command, Seed: s.Plan.Seed,
		Loads: []TuneLoad{}, Settings: []TuneSetting{}, Runs: []TuneRun{}, Metrics: []lab.Metric{}, Warnings: []string{},
	}
	d.LimitKind = s.Environment.LimitKind
	if s.Plan.AsksLimit() {
		if err := d.addLimits(s); err != nil {
			return nil, err
		}
		d.warn(s)
		d.endedBy(s.Failure)
		return d, nil
	}
	if s.Plan.Kind == tune.ServerKind {
		d.TailMargin = s.Plan.Tail
	}
	p := s.Pilot
	if p == nil {
		d.Verdict = TuneVerdict{Kind: string(search.Undecided), Text: "Interrupted before anything was measured."}
		return d, nil
	}
	d.Margin, _ = s.Margins()
	d.Current = TuneCurrent{Procs: p.Procs, Why: p.Why, GoDefault: p.GoDefault}
	d.Varied = newTuneVaried(s.Plan)
	d.Seconds, d.Finished = s.Spent(), true
	for _, r := range s.Runs {
		d.Runs = append(d.Runs, newTuneRun(s.Plan, r))
	}
	d.AtOnce = newTuneAtOnce(s)
	d.Metrics = tuneUsed(s.Runs)
	verdicts := make([]search.TuneVerdict, len(p.Loads))
	for i := range p.Loads {
		t, err := s.Search(i)
		if err != nil {
			return nil, err
		}
		verdicts[i] = t.Verdict()
		d.Loads = append(d.Loads, d.newLoad(s, i, t, verdicts[i]))
		d.Settings = append(d.Settings, tuneSettings(s, i, t, verdicts[i])...)
		d.Finished = d.Finished && verdicts[i].Done
	}
	d.Loads[0].Why = append(d.Loads[0].Why, whyGC(s, verdicts[0])...)
	main := d.Loads[0]
	d.Verdict = TuneVerdict{Kind: main.Kind, Procs: main.Procs, GOGC: main.GOGC, Vary: main.Vary, Text: main.Text, Also: main.Also}
	if len(d.Loads) > 1 {
		d.Verdict.Also = append(d.Verdict.Also, byLoad(d.Loads)...)
	}
	if d.Verdict.Kind == string(search.Change) {
		d.Verdict.How = howToSet(s, d.Verdict)
	}
	d.sortLoads()
	d.warn(s)
	d.endedBy(s.Failure)
	return d, nil
}

// endedBy makes the error that ended a study what is read first. What is known all the same comes after it.
func (d *Tune) endedBy(failure string) {
	if failure == "" {
		return
	}
	d.Failure, d.Finished = failure, false
	v := &d.Verdict
	v.Text, v.Also = "Error: "+strings.TrimSuffix(failure, ".")+".", append([]string{v.Text}, v.Also...)
}

func (d *Tune) newLoad(s *tune.Study, i int, t *search.Tune, v search.TuneVerdict) TuneLoad {
	p := s.Pilot
	l := p.Loads[i]
	words := tuneWords{
		TuneVerdict: v, plan: s.Plan, load: l, tail: l.Tail, unit: s.Plan.Unit(), perRun: p.PerRun / s.Pace(), spent: d.Seconds, budget: s.Plan.Budget.Seconds(), late: s.OutOfTime(i), failed: s.Failure != "",
		beside: s.Beside(i), again: again(s, i), cpus: s.Environment.CPUs, limit: p.GOMEMLIMIT, standIn: p.Base, peaks: [2]float64{peak(s, i, v.Current), peak(s, i, v.Leader)}, memory: p.Memory,
	}
	words.killed = killed(s, i, t, v)
	if p.GC != nil {
		words.alive = [2]int64{p.GC.Live, p.Holds(v.Leader.GOGC)}
	}
	first, later := s.WindowsAt(i)
	out := TuneLoad{
		Rate: l.Rate, Share: l.Share, Closed: l.Closed, Capacity: p.Capacity, FirstWindow: first.Seconds(), Window: later.Seconds(), WarmUp: l.WarmUp.Seconds(), Rush: l.Rush, Tail: l.Tail,
		SLO: s.Plan.SLO, Noise: map[string]TuneNoise{}, Main: i == 0, Kind: words.kind(), Procs: variedProcs(s.Plan, v.Procs), GOGC: v.GOGC, Vary: varyOf(s.Plan, v.Vary), GOMEMLIMIT: p.GOMEMLIMIT,
		Text: words.headline(), MoreRuns: v.More, MoreSeconds: words.moreSeconds(), Pairs: v.Pairs, Fresh: v.Fresh, Agreed: v.Agreed, Disturbed: v.Disturbed, Blocks: v.Blocks, Invalid: v.Invalid, Done: v.Done,
	}
	said := func(texts ...string) []string {
		return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	}
	out.Also, out.Why = said(words.fallen(), words.inPlace(), words.failedEarly(), words.details(), words.outOfMemory(), words.next()), said(words.contradiction())
	if l.Rate > 0 {
		out.Arrivals, out.Burst = arrivals(s.Plan), s.Plan.Burst
		if from := s.Plan.From; from > 0 {
			out.RateFrom, out.RateTo = from, quantity.EndRate(l.Rate, from)
		}
		out.RateFile, out.RateSum = s.Plan.Times, s.Plan.TimesSum
	} else {
		out.Connections = s.Plan.Conns
	}
	for m, n := range t.Noise() {
		out.Noise[string(m)] = TuneNoise{n.SD, n.Low, n.High}
	}
	if out.Effects = newTuneEffects(v.Effects); v.Stands && v.Kind != search.Change { // they are not of what is advised
		out.Effects = []TuneEffect{}
	}
	for _, f := range v.Fallen {
		out.Fallen = append(out.Fallen, TuneFallen{Procs: f.Procs, Error: f.Failure, Killed: f.Killed})
	}
	return out
}

// killed are the settings of a load that are out as they were killed for lack of memory, where the one that they are compared with never was.
func killed(s *tune.Study, load int, t *search.Tune, v search.TuneVerdict) (out []search.Standing) {
	if !s.Survives(load, v.Current) {
		return nil
	}
	fell := func(c search.Candidate) bool {
		return slices.ContainsFunc(v.Fallen, func(f search.Fallen) bool { return f.Candidate == c })
	}
	for _, standing := range t.Standings() {
		if standing.Dropped != nil && standing.Dropped.Killed && !fell(standing.Candidate) {
			out = append(out, standing)
		}
	}
	return out
}

// again is how many attempts were lost, as something else ran at the same time.
func again(s *tune.Study, load int) (n int) {
	for _, r := range s.Runs {
		if r.Load == load {
			n += max(0, r.Again)
		}
	}
	return n
}

// peak is the memory that a setting uses at its peak, in a typical run; 0: it is not known.
func peak(s *tune.Study, load int, c search.Candidate) float64 {
	var peaks []float64
	for _, r := range s.Runs {
		if v, known := lab.PeakMemory.Of(r.Metrics); known && r.Load == load && r.Search.Candidate() == c && r.Search.Phase != tune.Explain && r.Valid && r.Error == "" {
			peaks = append(peaks, v)
		}
	}
	if len(peaks) == 0 {
		return 0
	}
	return sample.Summarise(peaks).Median
}

func newTuneEffects(effects []search.Effect) []TuneEffect {
	out := []TuneEffect{}
	for _, e := range effects {
		out = append(out, TuneEffect{
			Metric: string(e.Metric), Says: string(e.Says), From: e.From, To: e.To, Ratio: e.Ratio, Low: e.Lo, High: e.Hi, Pairs: e.Pairs,
			RankLow: e.RankLo, RankHigh: e.RankHi, P: e.P,
		})
	}
	return out
}

func short(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// tuneUsed lists the metrics that occur.
func tuneUsed(runs []tune.Run) []lab.Metric {
	occurs := map[string]bool{}
	for _, r := range runs {
		for unit := range r.Metrics {
			occurs[unit] = true
		}
	}
	var described []lab.Metric
	for _, m := range lab.Measures {
		if about := cmp.Or(m.Tune, m.Bench); about != "" {
			described = append(described, m.Metric(about))
		}
	}
	return inOrder(described, occurs)
}

// newTuneVaried says what was varied.
func newTuneVaried(p tune.Plan) (varied []TuneVaried) {
	_, variables := lab.NewPairs(p.Varied(0)).Fill(p.Program)
	for i, k := range p.Vary {
		v := TuneVaried{Name: k.Name, Values: k.Values, In: "arguments"}
		if slices.Contains(variables, p.Varied(0)[i]) {
			v.In = "environment"
		}
		varied = append(varied, v)
	}
	return varied
}

// variedProcs is a GOMAXPROCS that was varied; 0: it was not.
func variedProcs(p tune.Plan, procs int) int {
	if p.ByProcs() {
		return procs
	}
	return 0
}

// varyOf are the values of a setting.
func varyOf(p tune.Plan, n int) []lab.Pair {
	if len(p.Vary) == 0 {
		return nil
	}
	return p.Varied(n)
}

func newTuneRun(p tune.Plan, r tune.Run) TuneRun {
	out := TuneRun{
		Load: r.Load, Phase: string(r.Search.Phase), Block: r.Search.Block, Seed: r.Search.Seed,
		Procs: variedProcs(p, r.Search.Procs), GOGC: r.Search.GOGC, Vary: varyOf(p, r.Search.Vary),
		Start: r.Start.Format(time.RFC3339), Seconds: r.Seconds, Valid: r.Valid, Invalid: r.Notes, SLOHeld: r.SLOHeld,
		Metrics: r.Metrics, Curve: curvePoints(r.Curve), Marks: r.Marks, AtOnce: r.AtOnce, Error: r.Error, Killed: r.Killed,
	}
	for _, s := range r.Axis {
		out.Axis = append(out.Axis, TuneStep(s))
	}
	return out
}

// newTuneAtOnce says what was made at the same time; nil: that was not tried.
func newTuneAtOnce(s *tune.Study) *TuneAtOnce {
	if s.Pilot.AtOnce == nil {
		return nil
	}
	a := &TuneAtOnce{Most: s.Pilot.AtOnce.Most, InTurn: s.InTurn()}
	for _, r := range s.Runs {
		if r.AtOnce > 0 {
			a.Runs++
		}
	}
	return a
}

func curvePoints(curve []trial.Point) (out []CurvePoint) {
	for _, p := range curve {
		out = append(out, CurvePoint(p))
	}
	return out
}

// tuneSettings are the candidates of a load, the best first.
func tuneSettings(s *tune.Study, load int, t *search.Tune, v search.TuneVerdict) (settings []TuneSetting) {
	best := search.Candidate{Procs: v.Procs, GOGC: v.GOGC, Vary: v.Vary}
	if !v.Stands && (v.Kind == search.Undecided || v.Kind == search.Trade) {
		best = v.Leader
	}
	words := tuneWords{TuneVerdict: v, plan: s.Plan, tail: s.Pilot.Loads[load].Tail, unit: s.Plan.Unit()}
	overMemory := killed(s, load, t, v)
	for _, standing := range t.Standings() {
		c := standing.Candidate
		out := TuneSetting{
			Load: load, Procs: variedProcs(s.Plan, c.Procs), GOGC: c.GOGC, Vary: varyOf(s.Plan, c.Vary), Current: standing.Current, Front: standing.Front, Pairs: standing.Pairs, Dropped: words.dropped(standing.Dropped),
			Metrics: map[string]BenchSummary{}, Versus: []TuneEffect{}, Curve: []CurvePoint{},
		}
		values := map[string][]float64{}
		var curves [][]trial.Point
		for _, r := range s.Runs {
			if r.Load != load || r.Search.Candidate() != c {
				continue
			}
			if r.Search.Phase == tune.Explain {
				continue
			}
			out.Runs++
			switch {
			case r.Error != "":
				out.Failed++
				continue
			case !r.Valid:
				continue
			}
			for unit, value := range r.Metrics {
				values[unit] = append(values[unit], value)
			}
			curves = append(curves, r.Curve)
		}
		if gc := collected(s, load, c); gc != nil {
			out.GC = &TuneGC{PerSecond: gc.PerSecond, CPUShare: gc.CPUShare, Live: gc.Live, Goal: gc.Goal}
		}
		if s.Plan.SLO != "" {
			out.Broken, out.Judged = standing.Broken, standing.Runs
		}
		out.Best = c == best && out.Runs > 0
		out.Killed = slices.ContainsFunc(overMemory, func(k search.Standing) bool { return k.Candidate == c })
		for unit, v := range values {
			out.Metrics[unit] = sample.Summarise(v)
		}
		if !standing.Current {
			out.Versus = newTuneEffects(standing.Effects)
		}
		out.Curve = medianCurve(curves)
		settings = append(settings, out)
	}
	return settings
}

// collected is what is known of a setting's garbage collection: from the run that was made to explain it, or from the middle one of its
// runs. For a setting that was not run it is what the pilot saw, if that ran with it.
func collected(s *tune.Study, load int, c search.Candidate) *tune.GC {
	var seen []*tune.GC
	for _, r := range s.Runs {
		switch {
		case r.Load != load || r.Search.Candidate() != c || r.GC == nil:
		case r.Search.Phase == tune.Explain:
			return r.GC
		case r.Valid:
			seen = append(seen, r.GC)
		}
	}
	if len(seen) > 0 {
		slices.SortFunc(seen, func(a, b *tune.GC) int { return cmp.Compare(a.CPUShare, b.CPUShare) })
		return seen[len(seen)/2]
	}
	if load == 0 && c == s.Pilot.Looked() {
		return s.Pilot.GC
	}
	return nil
}

// medianCurve is at each percentile that all curves have the median of their times.
func medianCurve(curves [][]trial.Point) []CurvePoint {
	out := []CurvePoint{}
	if len(curves) == 0 {
		return out
	}
	at := map[float64][]float64{}
	for _, c := range curves {
		for _, p := range c {
			at[p.Percentile] = append(at[p.Percentile], p.Seconds)
		}
	}
	for _, percentile := range slices.Sorted(maps.Keys(at)) {
		if len(at[percentile]) == len(curves) {
			out = append(out, CurvePoint{Percentile: percentile, Seconds: sample.Summarise(at[percentile]).Median})
		}
	}
	return out
}

// sortLoads puts the loads into the order of their rates; all that name one by its number follow.
func (d *Tune) sortLoads() {
	order := make([]int, len(d.Loads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.Loads[a].Rate, d.Loads[b].Rate) })
	place := make([]int, len(order))
	loads := make([]TuneLoad, len(order))
	for at, i := range order {
		place[i], loads[at] = at, d.Loads[i]
	}
	d.Loads = loads
	d.Verdict.Load = place[0]
	for i := range d.Settings {
		d.Settings[i].Load = place[d.Settings[i].Load]
	}
	slices.SortStableFunc(d.Settings, func(a, b TuneSetting) int { return cmp.Compare(a.Load, b.Load) })
	for i := range d.Runs {
		d.Runs[i].Load = place[d.Runs[i].Load]
	}
}

// warn says what the figures don't carry.
func (d *Tune) warn(s *tune.Study) {
	warn := func(format string, args ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)) }
	switch {
	case s.Pilot != nil && s.Pilot.Bias != tune.Bias{}:
		least := quantity.Share(s.Pilot.Bias.CPU)
		if s.Plan.Tail < s.Pilot.Bias.Tail {
			least += ", and of the tail below " + quantity.Share(s.Pilot.Bias.Tail) + ","
		}
		warn("the limit is emulated: differences below %s can't be told from the emulation's own; unthrottle help docs/run.md says how close it is to the kernel's", least)
	case d.LimitKind == "emulated":
		warn("the limit is emulated: throttling and latency are close to the kernel's, not equal; unthrottle help docs/run.md says how close")
	}
	if s.Pilot != nil {
		d.Warnings = append(d.Warnings, s.Pilot.Warnings...)
		told := slices.ContainsFunc(d.Loads, func(l TuneLoad) bool { return l.MoreRuns > 0 }) // by the runs, which know better
		if short := s.TooShort(); short != "" && !d.Finished && !told {
			warn("%s", short)
		}
	}
	for _, l := range d.Loads {
		if s.Plan.Foreign() && l.Tail == "" {
			warn("the load tells no percentile: settings are compared by the time and the CPU time of a unit of work, and their tail is not known")
		} else if s.Plan.Foreign() && l.Tail != "p99" {
			warn("the load tells no p99: settings are compared by their %s", l.Tail)
		} else if s.Plan.Kind == tune.ServerKind && l.Tail != "p99" {
			warn("a window of %s has too few requests for a p99: settings are compared by their %s; --for takes longer windows", time.Duration(l.Window*float64(time.Second)).String(), l.Tail)
		}
	}
	if s.Plan.Kind == tune.ServerKind && s.Plan.CPUs > 0 && float64(s.Environment.CPUs) < s.Plan.CPUs+1 {
		warn("the load's generator shares %s with the program, which may use %s", quantity.CPUs(float64(s.Environment.CPUs)), short(s.Plan.CPUs))
	}
	failed, invalid, void, beside := 0, 0, 0, 0
	var marks [][]string // of each run, or window at the user's rate
	for _, r := range s.Runs {
		of := r.Marks
		if r.Error != "" {
			failed++
			of = slices.DeleteFunc(slices.Clone(of), func(m string) bool { return strings.HasPrefix(m, lab.MarkRetried) }) // it did not run then either
		}
		marks = append(marks, of)
		if !r.Valid {
			invalid++
		}
	}
	for _, w := range s.Windows {
		if w.Phase != tune.CurvePhase {
			marks = append(marks, w.Marks)
		}
		switch {
		case !w.Valid:
			void++
		case w.Disturbed:
			beside++
		}
	}
	unit := "runs"
	if len(s.Windows) > 0 {
		unit = "windows at your rate"
	}
	of := len(marks)
	disturbed := disturbances(marks)
	for _, about := range slices.Sorted(maps.Keys(disturbed)) {
		n := disturbed[about]
		switch about {
		case lab.MarkSteal:
			warn("in %d of %d %s the hypervisor took CPU time away", n, of, unit)
		case lab.MarkOthers:
			warn("in %d of %d %s other processes used the CPUs as well", n, of, unit)
		case lab.MarkStood:
			warn("in %d of %d %s the machine itself stood still: requests that were due then are not in the latencies", n, of, unit)
		case lab.MarkAgain:
			warn("%d of %d %s %s made again, as something else ran beside %s", n, of, unit, were(n), them(n))
		case lab.MarkUnseen:
			warn("%d of %d %s %s made again, as too little of %s was seen", n, of, unit, were(n), them(n))
		case lab.MarkKilled:
			warn("in %d of %d %s the program did not end on SIGTERM and was killed", n, of, unit)
		default:
			warn("in %d of %d %s the program failed at first, and ran when it was tried again", n, of, unit)
		}
	}
	if void > 0 {
		warn("in %d of %d windows the generator did not send as planned, or saw the answers late: they don't count, and were repeated", void, len(s.Windows))
	}
	if beside > 0 {
		warn("in %d of %d windows something else had the machine: they don't count, and were repeated", beside, len(s.Windows))
	}
	if failed > 0 {
		warn("%d of %d runs failed", failed, of)
	}
	if invalid > 0 {
		warn("%d of %d runs %s not valid and %[3]s repeated; the document says why", invalid, of, were(invalid))
	}
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// disturbances counts the runs in which the host disturbed, by what it did.
func disturbances(marks [][]string) map[string]int {
	disturbed := map[string]int{}
	for _, of := range marks {
		for _, about := range []string{lab.MarkSteal, lab.MarkOthers, lab.MarkStood, lab.MarkKilled, lab.MarkRetried, lab.MarkAgain, lab.MarkUnseen} {
			if slices.ContainsFunc(of, func(mark string) bool { return strings.HasPrefix(mark, about) }) {
				disturbed[about]++
			}
		}
	}
	return disturbed
}

// howToSet says how the verdict is put into practice.
func howToSet(s *tune.Study, v TuneVerdict) []TuneHow {
	values := lab.NewPairs(v.Vary)
	command, variables := values.Fill(s.Plan.Program)
	before, now := lab.NewPairs(s.Plan.Varied(0)).Fill(s.Plan.Program)
	env := environment(v.Procs, v.GOGC, s.Pilot.GOMEMLIMIT, variedProcs(s.Plan, s.Pilot.Procs), variables, now)
	unset := slices.ContainsFunc(env, func(x variable) bool { return x.value == "" })
	if unset || !slices.Equal(command, before) { // it is not by variables alone
		return []TuneHow{{"command", strings.TrimSpace(env.String() + " " + ShellWords(command))}}
	}
	var kube, unit []string
	for _, x := range env {
		kube = append(kube, "- name: "+x.name+"\n  value: "+strconv.Quote(x.value)) // which YAML reads the same
		unit = append(unit, "Environment="+systemdWord(x.name+"="+x.value))
	}
	how := []TuneHow{
		{"environment", env.String() + " " + ShellWords(command)},
		{"Kubernetes", "# in the container's spec; or: kubectl set env deployment/NAME " + env.String() + "\nenv:\n" + strings.Join(kube, "\n")},
		{"systemd", "# systemctl edit NAME.service\n[Service]\n" + strings.Join(unit, "\n")},
	}
	var imports, code []string
	if v.Procs != 0 && v.Procs != s.Pilot.Procs {
		imports = append(imports, `import "github.com/unthrottle/unthrottle"`)
		code = append(code, policyCode(s.Plan.CPUs, s.Environment.CPUs, v.Procs))
	}
	if v.GOGC > 0 {
		imports = append(imports, `import "github.com/unthrottle/unthrottle/heapfloor"`)
		code = append(code, "heapfloor.Keep(32 << 20) // in place of GOGC: it follows the heap")
		if s.Pilot.GOMEMLIMIT != "" {
			imports = append(imports, `import "github.com/unthrottle/unthrottle/memory"`)
			code = append(code, "memory.Set(memory.Options{}) // in place of GOMEMLIMIT: it follows the limit")
		} else {
			how[1].Text = "# where the container has a memory limit, set GOMEMLIMIT to 90 % of it as well\n" + how[1].Text
		}
	}
	if len(code) == 0 {
		return how
	}
	return append(how, TuneHow{"Go", strings.Join(append(imports, code...), "\n")})
}

// systemdWord quotes a word that a unit file would otherwise read as something else.
func systemdWord(word string) string {
	word = strings.ReplaceAll(word, "%", "%%")
	if strings.ContainsAny(word, " \t\"'\\") {
		return strconv.Quote(word)
	}
	return word
}

// policyCode is the line of Go that gives this number under this limit, by a policy that uses the limit if one does.
func policyCode(limit float64, cpus, procs int) string {
	l := cgroup.Limits{State: cgroup.Limited, CPUs: limit, Affinity: cpus}
	for _, policy := range []unthrottle.Policy{unthrottle.Go, unthrottle.Ceil, unthrottle.Floor} {
		if limit > 0 && unthrottle.Decide(l, policy).Procs == procs {
			name := strings.ToUpper(policy.Name[:1]) + policy.Name[1:]
			return fmt.Sprintf("unthrottle.Set(unthrottle.Options{Policy: unthrottle.%s}) // %d at a limit of %s; unthrottle.Watch follows changes", name, procs, short(limit))
		}
	}
	if procs > cpus {
		return fmt.Sprintf("runtime.GOMAXPROCS(%d)", procs)
	}
	return fmt.Sprintf("unthrottle.Set(unthrottle.Options{Policy: unthrottle.Policy{Name: \"tuned\", Min: %d, Max: %d}})", procs, procs)
}
