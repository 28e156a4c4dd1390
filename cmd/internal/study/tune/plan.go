// Package tune answers: how is the best setting of a program found by trying? In goes a plan, and what runs the program;
// out comes a study: what the pilot found, and every run.
//
// A pilot looks at the program with its current setting: what load it takes, how long it warms up, what its garbage
// collector does. From that follow the candidates, the rate, and the length of a run. Then a search for each rate says
// which run is next, until it has its verdict; see search.Tune. The package starts no program itself and writes to nothing
// but what it is given, and a study that was saved goes on where it ended.
package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/emulate"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
	"github.com/unthrottle/unthrottle/internal/size"
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

	Redirects bool `json:"redirects,omitempty"` // redirects are wanted as answers: --redirects was given

	Load    string   `json:"load_command,omitempty"` // that loads the server in place of our own generator; see trial.Foreign
	Figures []string `json:"load_metrics,omitempty"` // to find in what it prints
	Units   string   `json:"units_url,omitempty"`    // a counter of the server's that shows what was done: URL#NAME

	CPUs   float64   `json:"limit_cpus"`       // 0: no limit
	Limits []float64 `json:"limits,omitempty"` // several: which of them is needed?

	Memories   []int64 `json:"memory_limits,omitempty"` // several, in bytes: which of them is needed? 0 is none
	GOMEMLIMIT bool    `json:"gomemlimit,omitempty"`    // runs under these have one that fits

	Procs  []int  `json:"procs,omitempty"`   // candidates of the user's; none: the usual ones
	All    bool   `json:"all,omitempty"`     // all up to the number of CPUs
	GOGC   []int  `json:"gogc,omitempty"`    // the user's
	NoGOGC bool   `json:"no_gogc,omitempty"` // none: the user wants so, or has set one for the program
	Vary   []Knob `json:"varied,omitempty"`
	Floor  bool   `json:"heap_floor,omitempty"` // what is varied is nothing but the program's heap floor

	Rate      float64       `json:"rate,omitempty"`      // requests a second, on average; 0: by Shares
	From      float64       `json:"rate_from,omitempty"` // with which each window begins, where it changes evenly
	Times     string        `json:"rate_file,omitempty"` // of recorded arrivals, which have that Rate
	TimesSum  string        `json:"rate_file_sha256,omitempty"`
	TimesLast time.Duration `json:"rate_file_ns,omitempty"` // from the first to the end
	Shares    []float64     `json:"shares,omitempty"`       // of the limit's CPU, as the current setting uses it
	Conns     int           `json:"connections,omitempty"`  // of a closed loop if there is no rate, else the most
	Const     bool          `json:"const,omitempty"`
	Burst     int           `json:"burst,omitempty"` // requests that arrive at once; 0: one
	SLO       string        `json:"slo,omitempty"`
	WarmUp    time.Duration `json:"warm_up_ns,omitempty"` // 0: the pilot finds out
	Window    time.Duration `json:"window_ns,omitempty"`  // 0: as long as a p99 needs
	Budget    time.Duration `json:"budget_ns,omitempty"`  // 0: as long as it takes
	Pairs     int           `json:"pairs,omitempty"`
	Blocks    int           `json:"blocks,omitempty"`
	Objective search.Metric `json:"objective"`
	Margin    float64       `json:"margin"`
	Tail      float64       `json:"tail_margin"` // by which the tail may be higher with a setting that is advised
	Seed      uint64        `json:"seed"`
	Places    int           `json:"places,omitempty"`  // at which runs are made at the same time; 0: one
	AtOnce    string        `json:"at_once,omitempty"` // whether the settings of a block run at the same time; "": where that is safe and fair
	Command   []string      `json:"command"`
	Dir       string        `json:"dir"`
}

// Values of Plan.AtOnce, besides "".
const (
	AtOnceNo  = "no"
	AtOnceYes = "yes" // the user says that it is safe
)

// A Pilot is what was found out before the search.
type Pilot struct {
	Foresight
	Base       int    `json:"looked_at,omitempty"` // the GOMAXPROCS that was looked at, as the program died with its own; 0: its own was
	Candidates []int  `json:"candidates"`
	Levers     []int  `json:"levers,omitempty"`     // values of GOGC
	GOMEMLIMIT string `json:"gomemlimit,omitempty"` // that goes with them: so that a growing heap does not outgrow the memory limit
	LimitKind  string `json:"limit_kind"`
	Memory     int64  `json:"memory_limit_bytes,omitempty"` // that its runs are held to; 0: none, or not known

	Capacity float64 `json:"capacity,omitempty"` // requests a second
	Conns    int     `json:"connections,omitempty"`
	Loads    []Load  `json:"loads"` // the main one first
	Trace    bool    `json:"trace"` // the runs tell their garbage collections: there are few enough
	GC       *GC     `json:"gc,omitempty"`
	AtOnce   *AtOnce `json:"at_once,omitempty"`

	Seconds  float64  `json:"seconds"`        // that it took
	Late     bool     `json:"late,omitempty"` // the budget had no room for a run after it
	PerRun   float64  `json:"run_seconds"`    // that a run takes, about
	Bias     Bias     `json:"emulation_bias,omitzero"`
	Warnings []string `json:"warnings,omitempty"`
}

// A Bias is by how much an emulated limit may shift a comparison: of CPU time, and of the tail. No smaller difference is
// called one.
type Bias struct {
	CPU  float64 `json:"cpu"`
	Tail float64 `json:"tail"`
}

// A Load is what the runs of one search have in common.
type Load struct {
	Rate   float64       `json:"rate"`              // 0: a closed loop, or no requests
	Share  float64       `json:"share_of_limit"`    // of the limit's CPU, or the Ps', that its current setting uses; 0: not known
	Closed float64       `json:"share_of_capacity"` // of what a closed loop gets out of it; 0: not known
	Window time.Duration `json:"window_ns"`
	WarmUp time.Duration `json:"warm_up_ns"`
	Rush   int           `json:"rush,omitempty"` // requests with which the warm-up begins, all at once
	Tail   string        `json:"tail"`           // percentile that the window can carry: p99, p90, p50; "": a foreign load reports none
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

// tailOf is what settings are compared by: for a p99, that of typical seconds if it is known.
func (l Load) tailOf(m map[string]float64) float64 {
	if v := lab.ReadyTail.In(m); l.TailMeasure() == lab.P99 && v > 0 {
		return v
	}
	return l.TailMeasure().In(m)
}

// A GC is what a program's garbage collector does with one setting.
type GC struct {
	PerSecond float64 `json:"collections_per_second"`
	CPUShare  float64 `json:"cpu_share"`                 // 0: not known
	Least     float64 `json:"least_cpu_share,omitempty"` // that it is where it is not known: of all the time that there were Ps
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
	Attempt int            `json:"attempt,omitempty"`      // that came before, and failed
	Lost    float64        `json:"lost_seconds,omitempty"` // on disturbed attempts
	Again   int            `json:"again,omitempty"`        // how many of these
	Kills   int            `json:"kills,omitempty"`        // attempts, this one among them, that were ended for lack of memory
	Place   string         `json:"place,omitempty"`        // of several
	Room    int            `json:"room,omitempty"`         // runs of this load that the budget had room for after it; 0: any number
	Waits   float64        `json:"waits,omitempty"`        // see trial.Window
	Abreast int            `json:"abreast,omitempty"`      // settings of the next block at most; 0: all

	lab.Run
	Valid   bool          `json:"valid"`
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
	Defaults    []int           `json:"go_defaults,omitempty"` // of each of Plan.Limits; under Plan.CPUs, where there are several limits of memory
	Pilot       *Pilot          `json:"-"`
	Runs        []Run           `json:"-"`
	Windows     []LimitWindow   `json:"-"` // of a study with several limits, in place of a pilot and runs
	Failure     string          `json:"-"` // the error that ended it before it was done; "": none did
}

// The percentiles that settings may be compared by, and how many requests each needs in a window: some 20 beyond
// it. The last one has to do where there are fewer.
var tails = []tail{{"p99", 2000, lab.P99}, {"p90", 200, lab.P90}, {"p50", 0, lab.P50}}

// almost is how much of these requests will do.
const almost = 0.99

type tail struct {
	name     string
	requests float64
	measure  lab.Measure
}

// UsualWindow is how long one is, where the plan does not say.
const UsualWindow = 5 * time.Second

// A window is at least and at most so long, where it is long enough for a percentile.
const (
	shortest = UsualWindow
	longest  = 20 * time.Second
)

// Window is how long a run must measure for a p99, or for the highest percentile that is within reach, and which that is.
func Window(rate float64, wanted time.Duration) (time.Duration, string) {
	lasting := wanted
	if lasting == 0 {
		const half, without = time.Second / 2, 500 // requests, where no window is long enough for a p99
		requests := tails[0].requests
		if almost*requests/rate > longest.Seconds() {
			requests = without
		}
		seconds := min(requests/rate, longest.Seconds()) // a rate of 0 makes it infinite
		lasting = max(shortest, (time.Duration(seconds*float64(time.Second)) + half - 1).Truncate(half))
	}
	lasting = sending(lasting, rate)
	for _, t := range tails {
		// The number of arrivals is known in an open loop.
		if rate*lasting.Seconds() >= almost*t.requests {
			return lasting, t.name
		}
	}
	return lasting, tails[len(tails)-1].name
}

// The first blocks are for a ranking: where the plan does not say how long a run is, their windows are half as long. So are those of a
// guard after them, as short windows only show differences that aren't small, and all where the budget has no time for longer ones.
const (
	shortBlocks = 3
	shortWindow = shortest / 2
)

// raceBlock is the block of the race that a run belongs to: for a guard, the last before it.
func (s *Study) raceBlock(load int, run search.TuneRun) int {
	block := run.Block
	if run.Phase == search.Confirm {
		for _, r := range s.Runs {
			if r.Load == load && r.Search.Phase == search.Race && r.Search.Block < run.Block {
				block = r.Search.Block
			}
		}
	}
	return block
}

// windowOf is how long a run of a block of the race measures; 0: until the program ends.
func (s *Study) windowOf(l Load, block int) time.Duration {
	if s.Plan.Window == 0 && !s.Plan.Foreign() && l.Window > 0 && (block <= shortBlocks || s.hurried()) {
		return sending(max(shortWindow, l.Window/2), l.Rate)
	}
	return l.Window
}

// WindowsAt are how long the runs of a load measure: those of the first blocks and of a guard after them, and the others.
func (s *Study) WindowsAt(load int) (first, later time.Duration) {
	l := s.Pilot.Loads[load]
	return s.windowOf(l, 1), s.windowOf(l, shortBlocks+1)
}

// hurried reports whether the budget has no time for three blocks and the pairs that guard a change with windows of the usual
// length.
func (s *Study) hurried() bool {
	if s.Plan.Budget == 0 {
		return false
	}
	runs := (s.Plan.Budget.Seconds() - s.Pilot.Seconds) / max(1e-3, s.Pilot.PerRun) / float64(len(s.Pilot.Loads))
	return runs < float64(s.runsOf(shortBlocks))
}

// runsOf are those of that many blocks of all settings, and of the two pairs that guard a change.
func (s *Study) runsOf(blocks int) int { return blocks*s.settings() + 4 }

// budgetFor is the time for the pilot and that many blocks, with windows as short as possible, where the pilot need not hurry.
func (s *Study) budgetFor(blocks int) time.Duration {
	const usualPilot = 15 // seconds
	p, slower := s.Pilot, 1.0
	if b := s.Plan.Budget; b > 0 && s.Plan.Kind == ServerKind {
		slower = max(1, unhurried.Seconds()/b.Seconds())
	}
	seconds := max(p.Seconds, min(p.Seconds*slower, usualPilot))
	for _, l := range p.Loads {
		run := p.PerRun - (l.Window - s.windowOf(l, 1)).Seconds()
		if s.Plan.WarmUp == 0 {
			run += max(0, min(slower*l.WarmUp.Seconds(), step.Seconds())-l.WarmUp.Seconds())
		}
		seconds += float64(s.runsOf(blocks)) * run
	}
	return time.Duration(math.Ceil(seconds)) * time.Second
}

// settings are how many are compared, the current one included.
func (s *Study) settings() int {
	return len(s.Pilot.Candidates) + len(s.Pilot.Levers) + s.Plan.combinations()
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

// Foreign reports whether the load is not our generator's: another program's, or one that comes on its own.
func (p Plan) Foreign() bool { return p.Load != "" || p.Units != "" }

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
	if p.Foreign() {
		return "unit of work"
	}
	return "request"
}

// bias is that of the candidates' comparisons with the current setting. The pilot keeps it, so that a study that was saved
// goes on with the same one.
func (p *Pilot) bias() (b Bias) {
	if p.LimitKind != string(runner.Emulated) {
		return b
	}
	for _, procs := range p.Candidates {
		cpu, tail := emulate.Bias(p.Procs, procs)
		b.CPU, b.Tail = max(b.CPU, cpu), max(b.Tail, tail)
	}
	return b
}

// Margins are from which ratio on a difference counts, and by how much the tail may be higher: what the plan says, and no less than what an
// emulated limit may do on its own.
func (s *Study) Margins() (margin, tail float64) {
	return max(s.Plan.Margin, s.Pilot.Bias.CPU), max(s.Plan.Tail, s.Pilot.Bias.Tail)
}

// config is that of the search at a load.
func (s *Study) config(load int) search.TuneConfig {
	p := s.Pilot
	margin, tail := s.Margins()
	return search.TuneConfig{
		Current: p.Procs, GoDefault: p.GoDefault, Candidates: p.Candidates, Levers: p.Levers, Varied: s.Plan.combinations() - 1,
		Exact:     len(s.Plan.Procs) > 0 || s.Plan.All || !s.Plan.ByProcs(),
		Objective: s.Plan.Objective, Margin: margin, TailMargin: tail, MaxErrors: s.Plan.mostErrors(), Pairs: s.Plan.Pairs, MaxBlocks: s.blocks(), Patience: s.patience(), Abreast: s.Pilot.AtOnce.abreast(),
		Batch: s.Plan.Kind != ServerKind || p.Loads[load].Tail == "", Seed: s.Plan.Seed + uint64(load),
	}
}

// mostErrors is the share of requests that the SLO lets fail; 0: it says nothing.
func (p Plan) mostErrors() float64 {
	slo, _ := load.ParseSLO(p.SLO) // what can't be read was refused before
	return slo.Errors
}

// usualBlocks are those of a search if the user does not say how many.
const usualBlocks = 12

// mostBlocks are the most that a search has.
func (s *Study) mostBlocks() int { return cmp.Or(s.blocks(), usualBlocks) }

// blocks are the most that a search has: as many as fit into the budget, with the two settings that a decision may wait for, or into a
// minute with all. 0: as many as usual.
func (s *Study) blocks() int {
	const patience, mostQuick, most = 60, 60, 1000 // seconds, blocks
	if s.Plan.Blocks > 0 {
		return s.Plan.Blocks
	}
	perRun := max(1e-3, s.Pilot.PerRun)
	quick := min(mostQuick, patience/perRun/float64(s.settings()))
	if n := int(max(quick, min(most, s.Plan.Budget.Seconds()/2/perRun))); n > usualBlocks {
		return n
	}
	return 0
}

// patience is how many pairs a setting has before it leaves the race as no better: where runs are quick, those of some seconds, as a machine
// may be slower for as long.
func (s *Study) patience() int {
	const seconds, most = 20, 6
	return min(most, int(seconds/max(1e-3, s.Pilot.PerRun)/float64(s.settings())))
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
		return search.TuneRun{Procs: c.Procs, GOGC: c.GOGC, Vary: c.Vary, Phase: Explain, Block: done + 1, Seed: s.Plan.Seed}, true
	}
	return search.TuneRun{Phase: search.Done}, false
}

// explaining is how many runs explain a verdict: one of the current setting, and one of the leader.
const explaining = 2

// explains reports whether runs must show how much of a difference is the garbage collector's: the search's own do not.
func (s *Study) explains(p *Pilot) bool {
	return s.Plan.Kind == ServerKind && p.GC != nil && !p.Trace
}

// observation is what a run says to the search.
func (s *Study) observation(r Run) search.TuneObservation {
	m := r.Metrics
	o := search.TuneObservation{
		Run: r.Search, Valid: r.Valid, Failed: r.Failure(), Killed: r.Killed, Room: r.Room, Abreast: r.Abreast, Disturbed: s.disturbed(r.Run, s.Plan.CPUs), Shared: s.shared(r.Run, s.Plan.CPUs),
		SLOHeld: r.SLOHeld, ErrorShare: lab.ErrorShare.In(m), Throttled: lab.ThrottledShare.In(m), Collecting: lab.GCShare.In(m),
	}
	if s.Pilot.Memory > 0 {
		o.Memory = lab.PeakMemory.In(m) / float64(s.Pilot.Memory)
	}
	switch s.Plan.Kind {
	case JobKind:
		o.Time, o.CPUPerRequest = lab.WallTime.In(m), lab.CPUTime.In(m)
	case GoBenchKind:
		o.Time, o.CPUPerRequest = lab.OpTime.In(m), lab.CPUPerOp.In(m)
	default:
		o.Throughput, o.CPUPerRequest = lab.RequestRate.In(m), lab.CPUPerRequest.In(m)
		load := s.Pilot.Loads[r.Load]
		o.P99, o.Tail = load.TailMeasure().In(m), load.tailOf(m)
		if load.Tail == "" {
			o.Time = lab.OpTime.In(m)
		}
	}
	return o
}

// What a study may have at most. No one waits for more than that, and a journal that asks for it is not ours.
const (
	mostLoads      = 100
	mostPlaces     = 1000
	mostLimits     = 100
	mostCandidates = 2048
	mostCPUs       = 1 << 16
	mostMemory     = 1 << 50
	mostRate       = 1e9
)

// checkPlan refuses an invalid plan.
func (s *Study) checkPlan() error {
	p := s.Plan
	switch {
	case p.Kind != ServerKind && p.Kind != JobKind && p.Kind != GoBenchKind:
		return fmt.Errorf("there is no kind %q of programs", p.Kind)
	case p.Foreign() && (p.Kind != ServerKind || p.AsksLimit()):
		return errors.New("another program's load is for a server under one limit")
	case !(p.CPUs >= 0 && p.CPUs <= mostCPUs):
		return fmt.Errorf("bad limit of %v CPUs", p.CPUs)
	case !(p.Rate >= 0 && p.Rate <= mostRate):
		return fmt.Errorf("bad rate %v", p.Rate)
	case !(p.From >= 0 && p.From <= 2*p.Rate) || p.TimesLast < 0:
		return fmt.Errorf("bad rates from %v on", p.From)
	case (p.From > 0 || p.Times != "") && (p.Kind != ServerKind || p.AsksLimit()):
		return errors.New("a rate that changes is for a server under one limit")
	case !(p.Tail >= 0 && p.Tail <= 10):
		return fmt.Errorf("bad margin %v of the tail", p.Tail)
	case p.Burst < 0 || p.Burst > load.MostBurst:
		return fmt.Errorf("bursts of %d", p.Burst)
	case p.Places < 0 || p.Places > mostPlaces:
		return fmt.Errorf("%d places: there are %d at most", p.Places, mostPlaces)
	case p.WarmUp < 0 || p.Window < 0 || p.Budget < 0 || p.Conns < 0:
		return errors.New("a negative warm-up, window, budget or number of connections")
	case len(p.Limits) > 0 && p.LimitsMemory():
		return errors.New("several limits of both CPUs and memory")
	case len(p.Shares) > mostLoads || len(p.Limits)+len(p.Memories) > mostLimits || len(p.Procs)+len(p.GOGC) > mostCandidates:
		return fmt.Errorf("at most %d rates, %d limits and %d settings can be tried", mostLoads, mostLimits, mostCandidates)
	}
	if err := p.CheckVary(); err != nil {
		return err
	}
	for _, share := range p.Shares {
		if !(share > 0 && share <= 1000) {
			return fmt.Errorf("bad share %v of the limit", share)
		}
	}
	if !p.AsksLimit() {
		return nil
	}
	if p.Kind != ServerKind || p.Rate == 0 || len(s.Defaults) != max(1, len(p.Limits)) {
		return errors.New("several limits want a server, a rate, and what Go chooses under each of them")
	}
	for i, cpus := range p.Limits {
		if !(cpus >= 0 && cpus <= mostCPUs) || s.Defaults[i] < 1 {
			return fmt.Errorf("bad limit of %v CPUs, with GOMAXPROCS=%d", cpus, s.Defaults[i])
		}
	}
	for _, bytes := range p.Memories {
		if bytes < 0 || bytes > mostMemory || s.Defaults[0] < 1 {
			return fmt.Errorf("bad limit of %d bytes, with GOMAXPROCS=%d", bytes, s.Defaults[0])
		}
	}
	at := Study{Plan: s.Plan, Defaults: s.Defaults}
	_, err := at.Limits()
	return err
}

// checkPilot refuses a pilot that no search can begin with.
func (s *Study) checkPilot(p *Pilot) error {
	switch n := len(p.Loads); {
	case n == 0 || n > mostLoads:
		return fmt.Errorf("%d loads: there are 1 to %d", n, mostLoads)
	case len(p.Candidates)+len(p.Levers) > mostCandidates:
		return fmt.Errorf("%d settings: there are %d at most", len(p.Candidates)+len(p.Levers), mostCandidates)
	case p.Base < 0:
		return fmt.Errorf("a pilot with GOMAXPROCS=%d", p.Base)
	case p.Memory < 0:
		return fmt.Errorf("a memory limit of %d bytes", p.Memory)
	case p.GOMEMLIMIT != "" && size.Parse(p.GOMEMLIMIT) == 0:
		return fmt.Errorf("GOMEMLIMIT is %.30q", p.GOMEMLIMIT)
	}
	for i, l := range p.Loads {
		if s.Plan.Kind == ServerKind && (l.Window == 0 || l.Rate == 0 && p.Conns < 1 && !s.Plan.Foreign()) {
			return fmt.Errorf("a load without a window, or without a rate or connections: %+v", l)
		}
		known := l.Tail == "" && s.Plan.Foreign() || slices.ContainsFunc(tails, func(t tail) bool { return t.name == l.Tail })
		if !known || l.Window < 0 || l.WarmUp < 0 || l.Rush < 0 || l.Rush > load.MostBurst || !(l.Rate >= 0 && l.Rate <= mostRate) || !(l.Share >= 0) || !(l.Closed >= 0) {
			return fmt.Errorf("bad load %+v", l)
		}
		at := Study{Plan: s.Plan, Pilot: p}
		if _, err := at.Search(i); err != nil {
			return err
		}
	}
	return nil
}
