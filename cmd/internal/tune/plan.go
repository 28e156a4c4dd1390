// Package tune answers: how is the best setting of a program found by trying? In goes a plan, and what runs the program;
// out comes a study: what the pilot found, and every run.
//
// A pilot looks at the program with its current setting: what load it takes, how long it warms up, what its garbage
// collector does. From that follow the candidates, the rate, and the length of a run. Then a search for each rate says
// which run is next, until it has its verdict; see search.Tune. The package starts no program itself and writes to nothing
// but what it is given, and a study that was saved goes on where it ended.
package tune

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
)

// Kinds of programs.
const (
	ServerKind  = "server"  // that is put under load
	JobKind     = "job"     // that runs to its end
	GoBenchKind = "gobench" // Go benchmarks of a package
)

// A Plan is what to do.
type Plan struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Program []string `json:"program"`
	URL     string   `json:"url,omitempty"`

	CPUs   float64   `json:"limit_cpus"`        // 0: no limit
	Limits []float64 `json:"limits,omitempty"`  // several: which of them is needed?
	Procs  []int     `json:"procs,omitempty"`   // candidates of the user's; none: the usual ones
	All    bool      `json:"all,omitempty"`     // all up to the number of CPUs
	GOGC   []int     `json:"gogc,omitempty"`    // the user's
	NoGOGC bool      `json:"no_gogc,omitempty"` // none: the user wants so, or has set one for the program

	Rate      float64       `json:"rate,omitempty"`        // requests a second; 0: by Shares
	Shares    []float64     `json:"shares,omitempty"`      // of the capacity
	Conns     int           `json:"connections,omitempty"` // where there is no rate a closed loop of so many, else the most
	Const     bool          `json:"const,omitempty"`
	SLO       string        `json:"slo,omitempty"`
	WarmUp    time.Duration `json:"warm_up_ns,omitempty"` // 0: the pilot finds out
	Window    time.Duration `json:"window_ns,omitempty"`  // 0: as long as a p99 needs
	Budget    time.Duration `json:"budget_ns,omitempty"`  // 0: as long as it takes
	Pairs     int           `json:"pairs,omitempty"`
	Blocks    int           `json:"blocks,omitempty"`
	Objective search.Metric `json:"objective"`
	Margin    float64       `json:"margin"`
	Seed      uint64        `json:"seed"`
	Command   []string      `json:"command"`
	Dir       string        `json:"dir"`
}

// A Foresight is what is known of a program's GOMAXPROCS before it runs.
type Foresight struct {
	Procs     int    `json:"gomaxprocs"` // 0: not known
	Why       string `json:"why"`
	GoDefault int    `json:"go_default"` // what Go's runtime would choose; 0: not known
	// Pinned: the environment must name the current setting, because the program would not find it by itself. An emulated
	// limit is one that no runtime sees.
	Pinned bool `json:"pinned"`
}

// A Pilot is what was found out before the search.
type Pilot struct {
	Foresight
	Candidates []int  `json:"candidates"`
	Levers     []int  `json:"levers,omitempty"` // values of GOGC
	LimitKind  string `json:"limit_kind"`

	Capacity float64 `json:"capacity,omitempty"` // requests a second
	Conns    int     `json:"connections,omitempty"`
	Loads    []Load  `json:"loads"` // the main one first
	Trace    bool    `json:"trace"` // the runs tell their garbage collections: there are few enough
	GC       *GC     `json:"gc,omitempty"`

	Seconds  float64  `json:"seconds"`     // that it took
	PerRun   float64  `json:"run_seconds"` // that a run takes, about
	MaxRuns  int      `json:"max_runs"`    // of each load; 0: any number
	Warnings []string `json:"warnings,omitempty"`
}

// A Load is what the runs of one search have in common.
type Load struct {
	Rate   float64       `json:"rate"`              // 0: a closed loop, or no requests
	Share  float64       `json:"share_of_capacity"` // 0: not known
	Window time.Duration `json:"window_ns"`
	WarmUp time.Duration `json:"warm_up_ns"`
	Tail   string        `json:"tail"` // percentile that the window can carry: p99, p90, p50
}

// TailMeasure is the tail's name among the figures of a run.
func (l Load) TailMeasure() lab.Measure {
	for _, t := range tails {
		if t.name == l.Tail {
			return t.measure
		}
	}
	return ""
}

// A GC is what a program's garbage collector does with one setting.
type GC struct {
	PerSecond float64 `json:"collections_per_second"`
	CPUShare  float64 `json:"cpu_share"`
	Live      int64   `json:"live_heap_bytes"`
	Goal      int64   `json:"heap_goal_bytes"`
	Procs     int     `json:"gomaxprocs"`
}

// Explain is the phase of runs that no comparison counts: they tell where the cost comes from.
const Explain search.Phase = "explain"

// A Run is one run of one setting.
type Run struct {
	Load    int            `json:"load"`
	Search  search.TuneRun `json:"run"`
	Attempt int            `json:"attempt,omitempty"` // that came before, and failed

	lab.Run
	Valid   bool          `json:"valid"`
	Late    bool          `json:"late,omitempty"` // the generator was; latencies that this may have made are left out
	Notes   []string      `json:"notes,omitempty"`
	SLOHeld bool          `json:"slo_held"`
	Curve   []trial.Point `json:"curve,omitempty"`
	Axis    []trial.Step  `json:"axis,omitempty"`
	GC      *GC           `json:"gc,omitempty"`
}

// A Study is a plan and what came of it.
type Study struct {
	Version     int             `json:"version"`
	Verb        string          `json:"verb"`
	MadeBy      string          `json:"made_by"`
	Time        string          `json:"time"`
	Plan        Plan            `json:"plan"`
	Environment lab.Environment `json:"environment"`
	Defaults    []int           `json:"go_defaults,omitempty"` // of each of Plan.Limits
	Pilot       *Pilot          `json:"-"`
	Runs        []Run           `json:"-"`
	Windows     []LimitWindow   `json:"-"` // of a study with several limits, in place of a pilot and runs
}

// The percentiles that settings may be compared by, and how many requests each needs in a window: some 20 beyond
// it. The last one has to do where there are fewer.
var tails = []tail{{"p99", 2000, lab.P99}, {"p90", 200, lab.P90}, {"p50", 0, lab.P50}}

type tail struct {
	name     string
	requests float64
	measure  lab.Measure
}

// How long a window is, where the plan does not say.
const (
	shortest = 5 * time.Second
	longest  = 20 * time.Second
)

// window is how long a run must measure for a p99, and which percentile it can carry.
func window(rate float64, wanted time.Duration) (time.Duration, string) {
	lasting := wanted
	if lasting == 0 {
		const half = time.Second / 2
		seconds := min(tails[0].requests/rate, longest.Seconds()) // a rate of 0 makes it infinite
		lasting = max(shortest, (time.Duration(seconds*float64(time.Second)) + half - 1).Truncate(half))
	}
	lasting = sending(lasting, rate)
	for _, t := range tails {
		// The number of arrivals is known in an open loop.
		if rate*lasting.Seconds() >= 0.99*t.requests {
			return lasting, t.name
		}
	}
	return lasting, tails[len(tails)-1].name
}

// sending makes a time long enough for one request: the generator refuses to send none. A rate of 0 is that of a closed
// loop.
func sending(lasting time.Duration, rate float64) time.Duration {
	const most = 1e6 // seconds
	if rate <= 0 {
		return lasting
	}
	return max(lasting, time.Duration(min(1/rate, most)*float64(time.Second)))
}

// closed reports whether the load is a closed loop.
func (p Plan) closed() bool { return p.Conns > 0 && p.Rate == 0 && len(p.Shares) == 0 }

// Unit is what a program's work is counted in.
func (p Plan) Unit() string {
	switch p.Kind {
	case JobKind:
		return "run"
	case GoBenchKind:
		return "operation"
	}
	return "request"
}

// config is that of the search at a load.
func (s *Study) config(load int) search.TuneConfig {
	p := s.Pilot
	return search.TuneConfig{
		Current: p.Procs, GoDefault: p.GoDefault, Candidates: p.Candidates, Exact: len(s.Plan.Procs) > 0 || s.Plan.All, Levers: p.Levers,
		Objective: s.Plan.Objective, Margin: s.Plan.Margin, Pairs: s.Plan.Pairs, MaxBlocks: s.Plan.Blocks, MaxRuns: p.MaxRuns,
		Batch: s.Plan.Kind != ServerKind, Seed: s.Plan.Seed + uint64(load),
	}
}

// Search rebuilds the search of a load from its runs.
func (s *Study) Search(load int) (*search.Tune, error) {
	if s.Pilot == nil {
		return nil, errors.New("the pilot was not done")
	}
	var seen []search.TuneObservation
	for _, r := range s.Runs {
		if r.Load == load && r.Search.Phase != Explain {
			seen = append(seen, s.observation(r))
		}
	}
	t, err := search.ReplayTune(s.config(load), seen)
	if err != nil {
		return nil, fmt.Errorf("going on with the runs: %w", err)
	}
	return t, nil
}

// next is the run that a load wants: the one that its search asks for, and when that is over those that explain its
// verdict. False: it has all of them.
func (s *Study) next(t *search.Tune, load int) (search.TuneRun, bool) {
	if next, more := t.Next(); more {
		return next, true
	}
	done := 0
	for _, r := range s.Runs {
		if r.Load == load && r.Search.Phase == Explain {
			done++
		}
	}
	if v := t.Verdict(); done < explaining && load == 0 && v.Leader != v.Current && s.explains(s.Pilot) {
		c := []search.Candidate{v.Current, v.Leader}[done]
		return search.TuneRun{Procs: c.Procs, GOGC: c.GOGC, Phase: Explain, Block: done + 1, Seed: s.Plan.Seed}, true
	}
	return search.TuneRun{Phase: search.Done}, false
}

// explaining is how many runs explain a verdict: one of the current setting, and one of the leader.
const explaining = 2

// explains: how much of a difference is the garbage collector's is to be seen, and the search's runs do not tell.
func (s *Study) explains(p *Pilot) bool {
	return s.Plan.Kind == ServerKind && p.GC != nil && !p.Trace
}

// observation is what a run says to the search.
func (s *Study) observation(r Run) search.TuneObservation {
	m := r.Metrics
	o := search.TuneObservation{
		Run: r.Search, Valid: r.Valid, Failed: r.Error, SLOHeld: r.SLOHeld, ErrorShare: lab.ErrorShare.In(m), Throttled: lab.ThrottledShare.In(m),
	}
	switch s.Plan.Kind {
	case JobKind:
		o.Time, o.CPUPerRequest = lab.WallTime.In(m), lab.CPUTime.In(m)
	case GoBenchKind:
		o.Time, o.CPUPerRequest = lab.OpTime.In(m), lab.CPUPerOp.In(m)
	default:
		o.Throughput, o.CPUPerRequest = lab.RequestRate.In(m), lab.CPUPerRequest.In(m)
		o.P99 = s.Pilot.Loads[r.Load].TailMeasure().In(m)
	}
	return o
}

// What a study may have at most. More than that nobody waits for, and a journal that asks for it is not ours.
const (
	mostLoads      = 100
	mostLimits     = 100
	mostCandidates = 2048
	mostCPUs       = 1 << 16
	mostRate       = 1e9
)

// checkPlan refuses a plan that makes no sense.
func (s *Study) checkPlan() error {
	p := s.Plan
	switch {
	case p.Kind != ServerKind && p.Kind != JobKind && p.Kind != GoBenchKind:
		return fmt.Errorf("there is no kind %q of programs", p.Kind)
	case !(p.CPUs >= 0 && p.CPUs <= mostCPUs):
		return fmt.Errorf("bad limit of %v CPUs", p.CPUs)
	case !(p.Rate >= 0 && p.Rate <= mostRate):
		return fmt.Errorf("bad rate %v", p.Rate)
	case p.WarmUp < 0 || p.Window < 0 || p.Budget < 0 || p.Conns < 0:
		return errors.New("a negative warm-up, window, budget or number of connections")
	case len(p.Shares) > mostLoads || len(p.Limits) > mostLimits || len(p.Procs)+len(p.GOGC) > mostCandidates:
		return fmt.Errorf("at most %d rates, %d limits and %d settings can be tried", mostLoads, mostLimits, mostCandidates)
	}
	for _, share := range p.Shares {
		if !(share > 0 && share <= 1000) {
			return fmt.Errorf("bad share %v of the capacity", share)
		}
	}
	if len(p.Limits) == 0 {
		return nil
	}
	if p.Kind != ServerKind || p.Rate == 0 || len(s.Defaults) != len(p.Limits) {
		return errors.New("several limits want a server, a rate, and what Go chooses under each of them")
	}
	for i, cpus := range p.Limits {
		if !(cpus >= 0 && cpus <= mostCPUs) || s.Defaults[i] < 1 {
			return fmt.Errorf("bad limit of %v CPUs, with GOMAXPROCS=%d", cpus, s.Defaults[i])
		}
	}
	for _, try := range s.Tries() {
		if _, err := s.MaxRate(try); err != nil {
			return err
		}
	}
	return nil
}

// checkPilot refuses a pilot that no search can begin with.
func (s *Study) checkPilot(p *Pilot) error {
	switch n := len(p.Loads); {
	case n == 0 || n > mostLoads:
		return fmt.Errorf("%d loads: there are 1 to %d", n, mostLoads)
	case len(p.Candidates)+len(p.Levers) > mostCandidates:
		return fmt.Errorf("%d settings: there are %d at most", len(p.Candidates)+len(p.Levers), mostCandidates)
	}
	for load, l := range p.Loads {
		if s.Plan.Kind == ServerKind && (l.Window == 0 || l.Rate == 0 && p.Conns < 1) {
			return fmt.Errorf("a load without a window, or without a rate or connections: %+v", l)
		}
		known := slices.ContainsFunc(tails, func(t tail) bool { return t.name == l.Tail })
		if !known || l.Window < 0 || l.WarmUp < 0 || !(l.Rate >= 0 && l.Rate <= mostRate) || !(l.Share >= 0) {
			return fmt.Errorf("bad load %+v", l)
		}
		at := Study{Plan: s.Plan, Pilot: p}
		if _, err := at.Search(load); err != nil {
			return err
		}
	}
	return nil
}
