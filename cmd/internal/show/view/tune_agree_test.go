package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// A drawnProgram is what a tune is of: what a setting does to its costs, how much runs differ, and what may happen to one.
type drawnProgram struct {
	random   *rand.Rand
	tail     map[int]float64 // by GOMAXPROCS, as a factor
	cpu      map[int]float64
	gogc     float64         // what a GOGC does to its CPU time
	noise    [2]float64      // of the tail, and of the CPU time
	errors   map[int]float64 // share of its requests, in %
	fails    map[int]float64 // share of its runs
	beside   float64         // share of the runs during which something else ran
	sliced   bool
	void     float64 // share of the runs that are not valid
	slo      float64 // seconds; 0: none
	killed   bool    // it fails for lack of memory
	throttle map[int]float64
}

func (p *drawnProgram) run(s *tune.Study, next search.TuneRun) tune.Run {
	noise := func(sd float64) float64 { return math.Exp(sd * p.random.NormFloat64()) }
	chance := func(share float64) bool { return p.random.Float64() < share }
	cpu := 5e6 * p.cpu[next.Procs] * noise(p.noise[1])
	tail := 40e6 * p.tail[next.Procs] * noise(p.noise[0])
	if next.GOGC != 0 {
		cpu, tail = cpu*p.gogc, tail*p.gogc
	}
	r := tune.Run{
		Search: next, Valid: true, SLOHeld: true,
		Run: lab.Run{Start: time.Unix(0, 0).UTC(), Seconds: 6, LimitKind: "cgroup-v2", Metrics: map[string]float64{
			string(lab.ThrottledShare): 100 * p.throttle[next.Procs], string(lab.PeakMemory): 20 << 20,
		}},
	}
	switch {
	case chance(p.fails[next.Procs]):
		r.Error, r.Killed, r.Metrics = "exit code 2", p.killed, map[string]float64{}
		if p.killed {
			r.Error, r.Kills = "out of memory: limit 64Mi", 2
		}
		return r
	case s.Plan.Kind == tune.JobKind:
		r.Metrics[string(lab.WallTime)], r.Metrics[string(lab.CPUTime)] = tail/1e7, cpu/1e7
	default:
		for m, v := range map[lab.Measure]float64{
			lab.P50: tail / 8, lab.P90: tail / 2, lab.P99: tail, lab.ReadyTail: 0.8 * tail * noise(0.04), lab.CPUPerRequest: cpu,
			lab.RequestRate: 440 * noise(0.003), lab.ErrorShare: p.errors[next.Procs],
		} {
			r.Metrics[string(m)] = v
		}
		r.Curve = []trial.Point{{Percentile: 50, Seconds: tail / 8e9}, {Percentile: 99, Seconds: tail / 1e9}}
		if p.errors[next.Procs] > 1 { // requests that fail are slower than all others
			r.Metrics[string(lab.P99)], r.Metrics[string(lab.ReadyTail)] = 10e9, 10e9
		}
		r.SLOHeld = p.slo == 0 || tail/1e9 <= p.slo && p.errors[next.Procs] <= 1
	}
	if chance(p.beside) {
		r.Others, r.Sliced = 0.2+1.2*p.random.Float64(), p.sliced
		r.Marks = []string{fmt.Sprintf("%s %.1f CPUs", lab.MarkOthers, r.Others)}
		if !r.Sliced && chance(0.5) {
			r.Again, r.Lost = 1, 6
			r.Marks = append(r.Marks, lab.MarkAgain)
		}
	}
	if chance(p.void) {
		r.Valid, r.Notes = false, []string{"12 % of the requests were sent in bursts"}
	}
	return r
}

// drawTune is the document of a tune that ends on its own, is interrupted, or has a budget.
func drawTune(t *testing.T, random *rand.Rand) *report.Tune {
	t.Helper()
	pick := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	p := &drawnProgram{
		random: random, tail: map[int]float64{}, cpu: map[int]float64{}, errors: map[int]float64{}, fails: map[int]float64{}, throttle: map[int]float64{},
		gogc: pick(1, 0.95, 0.7), noise: [2]float64{pick(0.03, 0.1, 0.3, 1), pick(0.01, 0.03, 0.1)},
		beside: pick(0, 0, 0.1, 0.5, 1), sliced: random.IntN(2) == 0, void: pick(0, 0, 0, 0.1), slo: pick(0, 0, 0.02, 0.05, 0.2), killed: random.IntN(2) == 0,
	}
	for _, procs := range []int{1, 2, 3, 4, 5, 6, 7, 8} {
		p.tail[procs], p.cpu[procs] = pick(0.5, 0.8, 1, 1, 1, 1.3, 2.5), pick(0.6, 0.85, 0.97, 1, 1, 1.03, 1.2)
		p.errors[procs], p.fails[procs], p.throttle[procs] = pick(0, 0, 0, 0, 0.2, 3), pick(0, 0, 0, 0, 0, 0.2, 1), pick(0, 0.1, 0.6, 1)
	}
	s := &tune.Study{
		Version: 2, Verb: "tune", MadeBy: "unthrottle test", Time: "2026-01-02T03:04:05Z",
		Plan:        tune.Plan{Kind: tune.ServerKind, Name: "shop", Program: []string{"./shop"}, URL: "http://localhost:1/", CPUs: pick(0.5, 1, 2), Margin: 0.05, Tail: 0.25, Seed: 7, Command: []string{"unthrottle", "tune", "--", "./shop"}},
		Environment: lab.Environment{OS: "linux", Arch: "amd64", CPUs: int(pick(2, 8)), LimitKind: "cgroup-v2"},
		Pilot: &tune.Pilot{
			Foresight: tune.Foresight{Procs: 2, Why: "a reason", GoDefault: int(pick(1, 2))}, LimitKind: "cgroup-v2", Capacity: 900, Seconds: 9, PerRun: 6,
			Loads: []tune.Load{{Rate: 440, Share: 0.65, Closed: 0.49, Window: 5 * time.Second, WarmUp: time.Second, Tail: "p99"}},
		},
	}
	for _, procs := range []int{1, 3, 4, 8} {
		if random.IntN(2) == 0 {
			s.Pilot.Candidates = append(s.Pilot.Candidates, procs)
		}
	}
	if random.IntN(4) == 0 {
		s.Pilot.Levers = []int{800}
	}
	if random.IntN(5) == 0 {
		s.Plan.Objective = []search.Metric{search.P99, search.CPU}[random.IntN(2)]
	}
	if random.IntN(4) == 0 {
		s.Plan.Kind, s.Plan.URL, s.Pilot.Loads, s.Pilot.Capacity, p.slo = tune.JobKind, "", []tune.Load{{Tail: "p99"}}, 0, 0
		if s.Plan.Objective == search.P99 {
			s.Plan.Objective = search.Time
		}
	}
	if p.slo > 0 {
		s.Plan.SLO = fmt.Sprintf("p99=%dms", int(1000*p.slo))
	}
	most := int(pick(0, 0, 1, 4, 9, 20, 40)) // runs
	if most > 0 && random.IntN(2) == 0 {
		s.Plan.Budget = time.Duration(9+6*most) * time.Second
	}
	for m, err := s.Search(0); ; m, err = s.Search(0) {
		if err != nil {
			t.Fatal(err)
		}
		next, more := m.Next()
		if !more || most > 0 && len(s.Runs) >= most {
			break
		}
		r := p.run(s, next)
		if s.Plan.Budget > 0 {
			r.Room = max(1, most-len(s.Runs)-1)
		}
		s.Runs = append(s.Runs, r)
	}
	if most > 0 && s.Plan.Budget == 0 && random.IntN(4) == 0 {
		s.Failure = "the meter stood still: it saw 4.161s of 6.075s"
	}
	d, err := report.NewTune(s)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Finished {
		d.Resume = "unthrottle tune --resume tune.jsonl"
	}
	return d
}

// TestTuneAgrees draws random tunes: no sentence of one denies another, nor the figures next to it.
func TestTuneAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]int{}
	for range 400 {
		d := drawTune(t, random)
		text := drawn(t, Tune(d), 0)
		kinds[d.Verdict.Kind]++
		if bad := append(contradictions(text), tuneContradictions(d, text)...); len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, text)
		}
	}
	for _, kind := range []string{"change", "keep", "trade", "undecided"} {
		if kinds[kind] < 20 {
			t.Errorf("only %d are %s", kinds[kind], kind)
		}
	}
}

var (
	tuneChange    = regexp.MustCompile(`(p99|CPU|time) ([+−][\d.]+ %|[\d.]+×|0 %)`)
	tuneMissed    = regexp.MustCompile(`GOMAXPROCS=(\d+) broke the SLO in (\d+) of (\d+) runs`)
	tuneHeld      = regexp.MustCompile(`it held the SLO in (\d+) of (\d+) runs, .* in (\d+)`)
	tuneBeside    = regexp.MustCompile(`others used [\d.]+ of \d+ CPUs? in (\d+) of (\d+) (?:runs?|attempts?)`)
	tuneOthers    = regexp.MustCompile(`in (\d+) of (\d+) runs other processes used the CPUs as well`)
	tuneNone      = regexp.MustCompile(`None of the (\d+) other settings`)
	tuneAgreement = regexp.MustCompile(`(\d+) of (\d+) fresh pairs? agreed`)
)

// tuneContradictions are what the first lines say that the figures below them do not.
func tuneContradictions(d *report.Tune, text string) (bad []string) {
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	load := d.Loads[0]
	var best, current *report.TuneSetting
	for i := range d.Settings {
		if d.Settings[i].Best {
			best = &d.Settings[i]
		}
		if d.Settings[i].Current {
			current = &d.Settings[i]
		}
	}
	says := func(s report.TuneSetting, what string) bool {
		return slices.ContainsFunc(s.Versus, func(e report.TuneEffect) bool { return e.Says == what })
	}
	first := load.Text
	if best != nil && best != current && !strings.Contains(first, "no other setting") {
		changes := map[string]string{}
		for _, e := range best.Versus {
			changes[strings.ToLower(e.Metric)] = quantity.Change(e.Ratio)
		}
		for _, m := range tuneChange.FindAllStringSubmatch(first, -1) {
			if strings.Contains(first, "at most "+m[2]) || strings.Contains(first, m[0]+" to") {
				continue
			}
			if got := changes[strings.ToLower(m[1])]; got != m[2] {
				wrong("%q, and in the table %s", m[0], got)
			}
		}
		for _, e := range load.Effects {
			if i := slices.IndexFunc(best.Versus, func(o report.TuneEffect) bool { return o.Metric == e.Metric }); i < 0 || best.Versus[i] != e {
				wrong("the effect %+v is another in the table: %+v", e, best.Versus)
			}
		}
	}
	switch {
	case load.Kind == "change" && best == nil:
		wrong("nothing is best")
	case load.Kind == "change" && best.Dropped != "":
		wrong("what is advised was dropped: %s", best.Dropped)
	case load.Kind == "change" && len(load.Fallen) == 0 && !strings.Contains(first, "SLO") && !strings.Contains(first, "fail") && says(*best, "worse") && !strings.Contains(text, "that are allowed"):
		wrong("what is advised is worse in something: %+v", best.Versus)
	case load.Kind == "change" && load.Fresh > 0 && 2*load.Agreed <= load.Fresh:
		wrong("%d of %d agreed", load.Agreed, load.Fresh)
	}
	if load.Kind == "change" {
		for _, e := range best.Versus {
			if name := map[string]string{"p99": "p99", "cpu": "CPU", "time": "time"}[e.Metric]; e.Says == "worse" && len(load.Fallen) == 0 && !strings.Contains(first, name+" "+quantity.Change(e.Ratio)) {
				wrong("%q does not say that %s is worse", first, e.Metric)
			}
		}
	}
	if strings.Contains(first, "no other setting is likely to be better") {
		for _, s := range d.Settings {
			if s.Dropped == "" && says(s, "better") && !says(s, "worse") {
				wrong("%d is better", s.Procs)
			}
		}
	}
	for _, m := range tuneMissed.FindAllStringSubmatch(text, -1) {
		for _, s := range d.Settings {
			if strconv.Itoa(s.Procs) == m[1] && s.GOGC == 0 && (s.Broken != number(m[2]) || s.Judged != number(m[3])) {
				wrong("%q, and in the table %d of %d", m[0], s.Broken, s.Judged)
			}
		}
	}
	for _, m := range tuneHeld.FindAllStringSubmatch(text, -1) {
		if best != nil && current != nil && len(load.Fallen) == 0 && (number(m[2])-number(m[1]) > best.Broken || number(m[2])-number(m[3]) > current.Broken) {
			wrong("%q, and in the table %d and %d missed it", m[0], best.Broken, current.Broken)
		}
	}
	if strings.Contains(text, "No setting held the SLO") {
		for _, s := range d.Settings {
			if s.Broken < s.Judged {
				wrong("no setting held the SLO, and %d did in %d of %d", s.Procs, s.Judged-s.Broken, s.Judged)
			}
		}
	}
	if m, o := tuneBeside.FindStringSubmatch(text), tuneOthers.FindStringSubmatch(text); m != nil && o != nil {
		if lost := number(m[2]) - number(o[2]); number(m[1]) > number(o[1])+lost {
			wrong("%q and %q", m[0], o[0])
		}
	}
	if m := tuneNone.FindStringSubmatch(text); m != nil && number(m[1]) != len(d.Settings)-1-len(load.Fallen) {
		wrong("%q of %d settings", m[0], len(d.Settings))
	}
	if m := tuneAgreement.FindStringSubmatch(text); m != nil && (number(m[1]) != load.Agreed || number(m[2]) != load.Fresh) {
		wrong("%q, and %d of %d", m[0], load.Agreed, load.Fresh)
	}
	return bad
}
