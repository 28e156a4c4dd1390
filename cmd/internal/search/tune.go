package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// How the best GOMAXPROCS is looked for.
const (
	firstLook   = 3    // blocks before which no candidate is judged
	mostBlocks  = 6    // of the exploration
	usualPairs  = 10   // of the confirmation, where nothing is known of the noise
	mostPairs   = 24   // more are run only if they are asked for
	mostVoid    = 2    // runs that the generator may spoil, each of them for good, before a setting is given up
	slack       = 0.34 // a setting may break the SLO in so much larger a share of its runs than the best: one of three is chance
	tolerated   = 0.01 // share of requests that may fail in a run
	usualMargin = 0.05
	greatest    = 1e12 // beyond it, and below its inverse, a value is no measurement
)

// Explore is the phase in which the candidates race; Confirm is the one that the verdict rests on.
const Explore Phase = "explore"

// A Metric is what settings are compared by.
type Metric string

// The metrics. Auto is an objective only, and the zero value: p99 (or the time of the run, where there are no requests)
// as far as it differs by more than the margin with confidence, and CPU a request where it doesn't.
const (
	Auto       Metric = ""
	P99        Metric = "p99"
	CPU        Metric = "cpu"
	Throughput Metric = "throughput"
	Time       Metric = "time"
	Throttled  Metric = "throttled" // evidence, never an objective
	SLO        Metric = "slo"       // stands for the SLO in the family of tests; its values are shares of the runs that held it
)

// The metrics that may decide, in the order in which they are shown.
var deciding = []Metric{P99, Time, CPU, Throughput}

// A TuneConfig is what to look for. Current and Candidates must be set.
type TuneConfig struct {
	Current    int   // what the program runs with by itself
	GoDefault  int   // what Go would choose; 0: not known
	Candidates []int // Current is added to them, doubles are left out
	Exact      bool  // no other GOMAXPROCS; otherwise one between two of them may be added
	Levers     []int // values of GOGC; each is tried with Current, as one more candidate

	Objective Metric
	Batch     bool    // a job or a benchmark: there are no requests, and so no p99 that may be missing
	Margin    float64 // a ratio within 1/(1+Margin) and 1+Margin is no difference worth having; 0: 0.05
	MaxErrors float64 // share of requests that may fail before a run counts as one that broke the SLO; 0: 0.01

	// Noise is what the pilot has found: the standard deviation of a metric's logarithm, from run to run of one setting
	// within a block. For metrics that are missing the exploration's own noise is taken.
	Noise map[Metric]float64

	Pairs     int // of the confirmation; 0: from the noise, 6 to 24
	MaxBlocks int // of the exploration; 0: 6
	MaxRuns   int // all runs, those that were in vain included; 0: as many as it takes
	Seed      uint64
}

// A TuneRun is a run to be made.
type TuneRun struct {
	Procs int    `json:"gomaxprocs"`
	GOGC  int    `json:"gogc,omitempty"` // 0: as the program has it
	Phase Phase  `json:"phase"`
	Block int    `json:"block"` // from 1; in the confirmation it is the pair
	Seed  uint64 `json:"seed"`  // of the arrivals: the same for all runs of a block; below 2⁵³, so that JSON keeps it
}

// Candidate is the setting that the run is of.
func (r TuneRun) Candidate() Candidate { return Candidate{r.Procs, r.GOGC} }

// A TuneObservation is a run that was made. Metrics are 0 where they aren't known.
type TuneObservation struct {
	Run    TuneRun
	Valid  bool   // false: the generator failed, not the server; the rest says nothing then
	Failed string // why the program itself could not be run or died: such a setting is out

	SLOHeld       bool // true as well where there is no SLO
	ErrorShare    float64
	P99           float64 // seconds
	CPUPerRequest float64 // seconds; a run's where there are no requests
	Throughput    float64 // a second
	Time          float64 // seconds
	Throttled     float64 // share of the periods
}

// value is the metric's, 0 if it isn't known.
func (o TuneObservation) value(m Metric) float64 {
	switch m {
	case P99:
		return o.P99
	case CPU:
		return o.CPUPerRequest
	case Throughput:
		return o.Throughput
	case Time:
		return o.Time
	default:
		return o.Throttled
	}
}

// clean makes every number one that can be saved, and 0 of what is no measurement.
func (o TuneObservation) clean() TuneObservation {
	for _, v := range []*float64{&o.P99, &o.CPUPerRequest, &o.Throughput, &o.Time} {
		if !(*v >= 1/greatest && *v <= greatest) { // NaN is neither
			*v = 0
		}
	}
	for _, v := range []*float64{&o.ErrorShare, &o.Throttled} {
		if !(*v >= 0) {
			*v = 0
		}
		*v = min(*v, 1)
	}
	return o
}

// A Tune looks for the best GOMAXPROCS of a program under its load.
//
// It explores: blocks in which every candidate runs once, in random order and with the same arrivals. From the third
// block on it drops candidates that are behind; see drop. Then it confirms: fresh pairs of runs, of the candidate that
// leads and of the current setting, their number fixed before the first of them. A change is advised on these pairs
// alone, and not before the last: the exploration has picked the leader because it looked good, so it speaks too well of
// it; and who looks after every pair and stops at the first success claims far too often.
//
// Where the current setting leads there is nothing to confirm, as nothing is claimed.
//
// GOGC is the other lever: it is tried by itself, with the current GOMAXPROCS. Only where it is better than the current
// setting, and another GOMAXPROCS is so too, are the two tried together; see combination.
//
// The state follows from the TuneConfig and the observations alone: who keeps those can rebuild it by ReplayTune.
type Tune struct {
	config TuneConfig
	seen   []TuneObservation

	arms    []*arm // the candidates in their order, those that were dropped as well
	phase   Phase
	ending  ending
	failure string // of the program, where that is the end

	refined  bool // GOMAXPROCS beside the leader's were added
	combined bool // a GOMAXPROCS and a GOGC are tried together

	block   int
	order   []Candidate // that are still to be run in this block or pair; the first is next
	invalid int         // attempts at it that were in vain

	leader Candidate // after the exploration
	basis  Metric
	slo    bool // the SLO is what the leader leads by
	family []Metric
	plan   [][2]Candidate // the pairs, in the order of their runs
	pairs  []pair         // that are complete
	half   TuneObservation
	void   int // pairs that the generator spoiled
}

// An arm is a candidate in the race.
type arm struct {
	Candidate
	runs    map[int]TuneObservation // by block
	void    int                     // blocks in which the generator spoiled every attempt
	failed  bool                    // the program does not run with it
	dropped *Drop                   // nil: it is in the race
	nth     int                     // to be dropped, from 1
}

// A Drop is why the exploration took a candidate out.
type Drop struct {
	Reason  DropReason
	After   int       // blocks of the exploration
	Blocks  int       // that it rests on
	Against Candidate // the leader then
	Metric  Metric    // of Worse
	Ratio   float64   // and how it was to the leader's
	Failure string    // of ProgramFails
}

// A DropReason is what kind of Drop it is.
type DropReason string

// The reasons to drop a candidate.
const (
	BreaksSLO    DropReason = "breaks SLO" // in all of the Blocks in which the leader held it
	Worse        DropReason = "worse"      // than the leader
	ProgramFails DropReason = "fails"      // the program does not run with it
	NoValidRun   DropReason = "no valid run"
)

// A pair is two runs of the confirmation.
type pair struct{ current, leader TuneObservation }

// An ending is why a search is over.
type ending string

const (
	endAlone     ending = "alone"     // one candidate
	endExplored  ending = "explored"  // the current setting leads
	endConfirmed ending = "confirmed" // the pairs are complete
	endBudget    ending = "budget"
	endSLO       ending = "slo"       // no setting holds it
	endCurrent   ending = "current"   // the program failed with its current setting
	endLeader    ending = "leader"    // it failed with the leader, in the confirmation
	endGenerator ending = "generator" // it can't keep up
)

// NewTune begins a search.
func NewTune(c TuneConfig) (*Tune, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("looking for the best GOMAXPROCS: %w", err)
	}
	if c.Margin == 0 {
		c.Margin = usualMargin
	}
	if c.MaxErrors == 0 {
		c.MaxErrors = tolerated
	}
	if c.MaxBlocks == 0 {
		c.MaxBlocks = mostBlocks
	}
	t := &Tune{config: c}
	t.leader = t.current()
	t.join(t.current())
	for _, procs := range c.Candidates {
		t.join(Candidate{Procs: procs})
	}
	for _, gogc := range c.Levers {
		t.join(Candidate{c.Current, gogc})
	}
	if len(t.arms) == 1 {
		t.end(endAlone)
		return t, nil
	}
	t.startBlock()
	return t, nil
}

func (c TuneConfig) check() error {
	switch {
	case c.Current < 1:
		return fmt.Errorf("the current setting is %d", c.Current)
	case slices.ContainsFunc(c.Candidates, func(procs int) bool { return procs < 1 }):
		return fmt.Errorf("candidates %v: GOMAXPROCS is at least 1", c.Candidates)
	case slices.ContainsFunc(c.Levers, func(gogc int) bool { return gogc < 1 }):
		return fmt.Errorf("levers %v: GOGC is at least 1", c.Levers)
	case c.Objective != Auto && !slices.Contains(deciding, c.Objective):
		return fmt.Errorf("unknown objective %q: there are %v", c.Objective, deciding)
	case !(c.Margin >= 0 && c.Margin <= 1):
		return fmt.Errorf("bad margin %v: it is a share, such as 0.05", c.Margin)
	case !(c.MaxErrors >= 0 && c.MaxErrors <= 1):
		return fmt.Errorf("bad share of errors %v", c.MaxErrors)
	case c.Pairs != 0 && (c.Pairs < 6 || c.Pairs > 1000):
		return fmt.Errorf("%d pairs: fewer than 6 can show nothing at 95 %%, and the most is 1000", c.Pairs)
	case c.MaxBlocks != 0 && (c.MaxBlocks < firstLook || c.MaxBlocks > 100):
		return fmt.Errorf("%d blocks: there must be %d to 100", c.MaxBlocks, firstLook)
	case c.MaxRuns < 0:
		return fmt.Errorf("%d runs at most", c.MaxRuns)
	}
	for m, sd := range c.Noise {
		if !(sd >= 0 && sd <= 100) {
			return fmt.Errorf("bad noise %v of %s", sd, m)
		}
	}
	return nil
}

// ReplayTune rebuilds a search from its observations.
func ReplayTune(c TuneConfig, seen []TuneObservation) (*Tune, error) {
	t, err := NewTune(c)
	for _, o := range seen {
		if err == nil {
			err = t.Observe(o)
		}
	}
	return t, err
}

// Seen are the observations so far. With the TuneConfig they are the whole state.
func (t *Tune) Seen() []TuneObservation { return slices.Clone(t.seen) }

// Next is the run to make now. It stays the same until that is observed. False: the search is over.
func (t *Tune) Next() (TuneRun, bool) {
	if t.phase == Done {
		return TuneRun{Phase: Done}, false
	}
	c := t.order[0]
	return TuneRun{Procs: c.Procs, GOGC: c.GOGC, Phase: t.phase, Block: t.block, Seed: t.seed()}, true
}

// seed is that of the block's arrivals. The confirmation has seeds of its own: its pairs are to be fresh in this as well.
func (t *Tune) seed() uint64 {
	stream := uint64(t.block)
	if t.phase == Confirm {
		stream |= 1 << 32
	}
	return rand.NewPCG(t.config.Seed, stream).Uint64() >> 11
}

// random is for the order of what comes next; other than the arrivals' seeds.
func (t *Tune) random() *rand.Rand {
	return rand.New(rand.NewPCG(t.config.Seed, 1<<40|uint64(len(t.seen))))
}

// Observe takes what came of the run that Next asked for. An error is an observation that nobody asked for; it changes
// nothing.
func (t *Tune) Observe(o TuneObservation) error {
	run, ok := t.Next()
	switch {
	case !ok:
		return errors.New("observing a run: the search is over")
	case o.Run != run:
		return fmt.Errorf("observing %+v: asked for was %+v", o.Run, run)
	}
	o = o.clean()
	t.seen = append(t.seen, o)
	switch {
	case o.Failed != "":
		t.failed(o)
	case !t.usable(o):
		if t.invalid++; t.invalid >= attempts {
			t.spoiled()
		}
	default:
		t.invalid = 0
		t.keep(o)
	}
	if limit := t.config.MaxRuns; limit > 0 && len(t.seen) >= limit && t.phase != Done {
		t.end(endBudget)
	}
	return nil
}

// usable: the run says something. One that broke the SLO does even if there is no value to compare it by.
func (t *Tune) usable(o TuneObservation) bool {
	if !o.Valid || t.broken(o) {
		return o.Valid
	}
	if t.config.Objective != Auto {
		return o.value(t.config.Objective) > 0
	}
	return slices.ContainsFunc(deciding, func(m Metric) bool { return o.value(m) > 0 })
}

// broken: the run did not do what it has to do, at whatever cost.
func (t *Tune) broken(o TuneObservation) bool { return !o.SLOHeld || o.ErrorShare > t.config.MaxErrors }

// failed ends the race of a setting with which the program does not run.
func (t *Tune) failed(o TuneObservation) {
	t.failure = o.Failed
	a := t.arm(o.Run.Candidate())
	a.failed = true
	switch {
	case a.Candidate == t.current():
		t.end(endCurrent)
	case t.phase == Confirm:
		t.end(endLeader)
	default:
		t.dropArm(a, &Drop{Reason: ProgramFails, Failure: o.Failed})
		t.advance()
	}
}

// spoiled gives up a run that the generator can't get right.
func (t *Tune) spoiled() {
	t.invalid = 0
	if t.phase == Confirm {
		t.void++
		t.order = nil // the other half is of no use alone
		t.advance()
		return
	}
	a := t.arm(t.order[0])
	a.void++
	switch {
	case a.void < mostVoid:
	case a.Candidate == t.current():
		t.end(endGenerator)
		return
	default:
		t.dropArm(a, &Drop{Reason: NoValidRun, Blocks: a.void})
	}
	t.advance()
}

// keep files a run.
func (t *Tune) keep(o TuneObservation) {
	switch {
	case t.phase == Explore:
		t.arm(o.Run.Candidate()).runs[t.block] = o
	case len(t.order) == 2:
		t.half = o
	case o.Run.Candidate() == t.current():
		t.pairs = append(t.pairs, pair{current: o, leader: t.half})
	default:
		t.pairs = append(t.pairs, pair{current: t.half, leader: o})
	}
	t.advance()
}

// advance goes to the next run.
func (t *Tune) advance() {
	if len(t.order) > 0 {
		t.order = t.order[1:]
	}
	switch {
	case len(t.order) > 0:
	case t.phase == Explore:
		t.endBlock()
	case t.void > len(t.plan)/3:
		t.end(endGenerator)
	case t.block == len(t.plan):
		t.end(endConfirmed)
	default:
		t.block++
		t.order = t.plan[t.block-1][:]
	}
}

func (t *Tune) end(e ending) { t.phase, t.ending, t.order = Done, e, nil }

func (t *Tune) startBlock() {
	t.phase = Explore
	t.block++
	t.order = nil
	for _, a := range t.alive() {
		t.order = append(t.order, a.Candidate)
	}
	t.random().Shuffle(len(t.order), func(i, j int) { t.order[i], t.order[j] = t.order[j], t.order[i] })
}

// endBlock judges the candidates, and decides whether there is another block.
func (t *Tune) endBlock() {
	if t.block >= firstLook && len(t.alive()) > 1 {
		if t.allBroken() {
			t.end(endSLO)
			return
		}
		lead := t.lead()
		both, ok := t.combination() // before one of the two is dropped, as it is behind the other
		t.drop(lead)
		if ok {
			t.combine(both)
		}
		t.refine(lead)
	}
	alive := t.alive()
	lead := t.lead()
	decided := len(alive) == 1 || len(alive) == 2 && lead != t.current() && t.block >= firstLook
	if decided || t.block >= t.config.MaxBlocks || t.block >= firstLook && !t.affords(len(alive)) {
		t.startConfirm(lead)
		return
	}
	t.startBlock()
}

// affords: the budget has room for so many runs and the shortest confirmation.
func (t *Tune) affords(runs int) bool {
	return t.config.MaxRuns == 0 || len(t.seen)+runs+2*fewestPairs(len(t.familyOf(false))) <= t.config.MaxRuns
}

// refine adds the settings between the leader and its neighbours, once: where a curve bends, its best may lie between
// two candidates. In a wide gap that is the geometric middle, for the one next to the leader would be much like it. Where
// the noise hides what neighbours differ by, more candidates are but more chances to be misled.
func (t *Tune) refine(lead Candidate) {
	if t.refined || t.config.Exact || lead.GOGC != 0 || !t.timeToJoin() {
		return
	}
	t.refined = true
	if t.noise(t.last()) > t.config.Margin*2.5 {
		return
	}
	var below, above int
	for _, a := range t.arms {
		if a.GOGC != 0 {
			continue
		}
		if a.Procs < lead.Procs && a.Procs > below {
			below = a.Procs
		}
		if a.Procs > lead.Procs && (a.Procs < above || above == 0) {
			above = a.Procs
		}
	}
	for _, other := range []int{below, above} {
		low, high := min(lead.Procs, other), max(lead.Procs, other)
		if other == 0 || high-low < 2 {
			continue
		}
		middle := int(math.Round(math.Sqrt(float64(low) * float64(high))))
		middle = min(max(middle, low+1), high-1)
		if t.affords(len(t.alive()) + 1) {
			t.join(Candidate{Procs: middle})
		}
	}
}

// timeToJoin: a candidate that joins now is in two blocks at least.
func (t *Tune) timeToJoin() bool { return t.config.MaxBlocks-t.block >= 2 }

// combination is the best GOMAXPROCS with the best GOGC, where each of them by itself is better than the current setting:
// what they gain may add up, or be the same gain twice. Two that help only together are not found; looking for those
// would take every pair of them.
func (t *Tune) combination() (Candidate, bool) {
	var procs, levers []*arm
	for _, a := range t.holding(t.alive()) {
		switch {
		case !t.better(a):
		case a.GOGC == 0:
			procs = append(procs, a)
		case a.Procs == t.config.Current:
			levers = append(levers, a)
		}
	}
	if len(procs) == 0 || len(levers) == 0 {
		return Candidate{}, false
	}
	return Candidate{t.best(procs).Procs, t.best(levers).GOGC}, true
}

// combine adds a combination, once. Also to an exact list: that both of it were asked for is why it is there.
func (t *Tune) combine(both Candidate) {
	if t.combined || !t.timeToJoin() || !t.affords(len(t.alive())+1) {
		return
	}
	t.combined = true
	t.join(both)
}

// startConfirm lays out the pairs: as many with the current setting first as with the leader first, in random order.
func (t *Tune) startConfirm(lead Candidate) {
	t.leader = lead
	if lead == t.current() {
		t.end(endExplored)
		return
	}
	t.declare()
	n := t.pairsWanted()
	fewest := fewestPairs(len(t.family))
	if t.config.MaxRuns > 0 {
		n = min(n, (t.config.MaxRuns-len(t.seen))/2)
	}
	if n < fewest {
		t.end(endBudget)
		return
	}
	for i := range n {
		if i%2 == 0 {
			t.plan = append(t.plan, [2]Candidate{lead, t.current()})
		} else {
			t.plan = append(t.plan, [2]Candidate{t.current(), lead})
		}
	}
	t.random().Shuffle(n, func(i, j int) { t.plan[i], t.plan[j] = t.plan[j], t.plan[i] })
	t.phase, t.block = Confirm, 1
	t.order = t.plan[0][:]
}

// Left guesses how many runs are left, and says how many there are at most if none has to be repeated.
func (t *Tune) Left() (likely, most int) {
	switch t.phase {
	case Done:
		return 0, 0
	case Confirm:
		likely = len(t.order) + 2*(len(t.plan)-t.block)
		return likely, likely
	}
	alive := len(t.alive())
	wanted := t.config.Pairs
	if wanted == 0 {
		wanted = usualPairs
	}
	full := max(0, firstLook-t.block)            // blocks that all candidates are in
	halved := min(1, t.config.MaxBlocks-t.block) // after which a half is, or so, until one is left
	blocks, added := t.config.MaxBlocks-t.block, 0
	if !t.refined && !t.config.Exact {
		added = 2
	}
	if !t.combined && len(t.config.Levers) > 0 {
		added++
	}
	likely = len(t.order) + full*alive + halved*(alive+1)/2 + 2*wanted
	most = len(t.order) + blocks*(alive+added) + 2*max(wanted, mostPairs)
	if t.config.Pairs > 0 {
		most = len(t.order) + blocks*(alive+added) + 2*t.config.Pairs
	}
	if limit := t.config.MaxRuns; limit > 0 {
		likely, most = min(likely, limit-len(t.seen)), min(most, limit-len(t.seen))
	}
	return min(likely, most), most
}

// current is the setting that all others are compared with.
func (t *Tune) current() Candidate { return Candidate{Procs: t.config.Current} }

func (t *Tune) join(c Candidate) {
	if t.arm(c) == nil {
		t.arms = append(t.arms, &arm{Candidate: c, runs: map[int]TuneObservation{}})
	}
}

func (t *Tune) arm(c Candidate) *arm {
	for _, a := range t.arms {
		if a.Candidate == c {
			return a
		}
	}
	return nil
}

func (t *Tune) alive() []*arm {
	var alive []*arm
	for _, a := range t.arms {
		if a.dropped == nil {
			alive = append(alive, a)
		}
	}
	return alive
}

func (t *Tune) dropArm(a *arm, why *Drop) {
	why.After = t.block
	a.dropped, a.nth = why, 1+len(t.arms)-len(t.alive())
}
