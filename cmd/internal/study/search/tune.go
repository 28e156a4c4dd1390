package search

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// How the best setting is looked for.
const (
	firstLook   = 2    // blocks before which nothing is judged
	firstClaim  = 3    // blocks before which nothing is said to be a trade or to break the SLO
	usualBlocks = 12   // of the race
	mostRivalry = 6    // blocks after which a leader need not be better than the others, but the current setting alone
	guardPairs  = 2    // fresh ones that a change must hold in
	mostGuards  = 2    // times that a leader may fail in them
	mostVoid    = 2    // blocks in which every attempt at a setting may be in vain before it is given up
	slack       = 0.34 // by which a setting's share of runs that break the SLO may exceed the best one's: one of three is chance
	usualMargin = 0.05
	usualTail   = 0.25
	greatest    = 1e12 // beyond it, and below its inverse, a value isn't a measurement
)

// Tolerated is the share of requests that may fail in a run unless another is given.
const Tolerated = 0.01

// Race is the phase in which all candidates that are left run once a block; in Confirm only the leader and the current
// setting do, to guard a change.
const Race Phase = "race"

// A Metric is what settings are compared by.
type Metric string

// The metrics. Auto is an objective only, and the zero value: the tail (or the time of the run, where there are no
// requests) and CPU per request together.
const (
	Auto       Metric = ""
	P99        Metric = "p99" // TuneObservation.Tail
	CPU        Metric = "cpu"
	Throughput Metric = "throughput"
	Time       Metric = "time"
	Pooled     Metric = "pooled"    // the p99 of the whole window: shown, and a check of the tail; never an objective
	Throttled  Metric = "throttled" // evidence, never an objective
	SLO        Metric = "slo"       // stands for the SLO as the reason of a change
)

// The metrics that may decide, in the order in which they are shown.
var deciding = []Metric{P99, Time, CPU, Throughput}

// A TuneConfig is what to look for. Current and Candidates must be set.
type TuneConfig struct {
	Current    int   // what the program runs with unless told otherwise
	GoDefault  int   // what Go would choose; 0: not known
	Candidates []int // Current is added to them, doubles are left out
	Exact      bool  // no other GOMAXPROCS; otherwise one between two of them may be added
	Levers     []int // values of GOGC; each is tried with Current, as one more candidate
	Varied     int   // how many other values there are of what the user varies; each is tried in the same way

	Objective  Metric
	Batch      bool    // a job or a benchmark: there are no requests, and so no p99 that may be missing
	Margin     float64 // a ratio between 1/(1+Margin) and 1+Margin isn't a difference worth having; 0: 0.05
	TailMargin float64 // how much higher a p99 may be, and how much lower it must be to count; 0: 0.25
	MaxErrors  float64 // share of requests that may fail before a run counts as one that broke the SLO; 0: 0.01

	Abreast   int // settings of the first block at most, see TuneObservation; 0: all
	Pairs     int // that a change rests on at least; 0: as many as show it
	MaxBlocks int // of the race; 0: 12
	Patience  int // pairs before which no setting leaves the race as one that can't be better; few come from a moment of the machine
	Seed      uint64
}

// A TuneRun is a run to be made.
type TuneRun struct {
	Procs int    `json:"gomaxprocs"`
	GOGC  int    `json:"gogc,omitempty"` // 0: as the program has it
	Vary  int    `json:"vary,omitempty"` // see Candidate
	Phase Phase  `json:"phase"`
	Block int    `json:"block"` // from 1, through both phases
	Seed  uint64 `json:"seed"`  // of the arrivals: the same for all runs of a block; below 2⁵³, so that JSON keeps it
}

// Candidate is the setting that the run is of.
func (r TuneRun) Candidate() Candidate { return Candidate{r.Procs, r.GOGC, r.Vary} }

// A TuneObservation is a run that was made. Metrics are 0 where they aren't known.
type TuneObservation struct {
	Run    TuneRun
	Valid  bool   // false: the run says nothing, as the load was not what it should have been
	Failed string // why the program itself could not be run or died: such a setting is out
	Killed bool   // it was for lack of memory
	Room   int    // runs that there is time for after this one; 0: as many as it takes
	// Abreast is how many settings the next block has at most, the current one among them; 0: all. Where runs of a block are made at the same
	// time, as many as there is room for, the others take turns from block to block.
	Abreast int

	Disturbed     bool // something else ran on the machine: how long anything took says nothing, and its CPU time does
	Shared        bool // others used the CPUs: CPU per request may be off by more than the margin
	SLOHeld       bool // true as well where there is no SLO
	ErrorShare    float64
	Tail          float64 // seconds: the geometric mean of the seconds' p99s, from when a request was ready to be sent
	P99           float64 // seconds: of all requests of the window, from the same time
	CPUPerRequest float64 // seconds, of a good one; a run's where there are no requests
	Throughput    float64 // a second
	Time          float64 // seconds
	Throttled     float64 // share of the periods
	Memory        float64 // share of the memory limit, at its peak
	Collecting    float64 // share of the CPU time that the garbage collector took
}

// value is what the run says of a metric, 0 if nothing.
func (o TuneObservation) value(m Metric) float64 {
	if o.Disturbed && m != CPU && m != Throttled {
		return 0
	}
	return o.measured(m)
}

// measured is the metric's figure, 0 if there isn't one.
func (o TuneObservation) measured(m Metric) float64 {
	switch m {
	case P99:
		return o.Tail
	case Pooled:
		return o.P99
	case CPU:
		return o.CPUPerRequest
	case Throughput:
		return o.Throughput
	case Time:
		return o.Time
	case Throttled:
		return o.Throttled
	}
	return 0
}

// clean makes every number one that can be saved, and 0 if it isn't a measurement.
func (o TuneObservation) clean() TuneObservation {
	for _, v := range []*float64{&o.Tail, &o.P99, &o.CPUPerRequest, &o.Throughput, &o.Time} {
		if !(*v >= 1/greatest && *v <= greatest) { // NaN is neither
			*v = 0
		}
	}
	for _, v := range []*float64{&o.ErrorShare, &o.Throttled, &o.Memory, &o.Collecting} {
		if !(*v >= 0) {
			*v = 0
		}
		*v = min(*v, 1)
	}
	return o
}

// A Tune looks for the best setting of a program under its load.
//
// All candidates run once a block, in random order and with the same arrivals. After each block the settings are compared
// with the current one, in the tail and in CPU, by all blocks so far: the noise is taken from all settings together, so
// that three blocks say something already. A candidate that can't be better by a relevant amount is dropped. One that is
// better in one of the two and not worse in the other leads; two fresh pairs of it and the current setting must then
// agree before a change is advised. Looking after each block makes false claims more likely, and so does having many
// candidates: both are paid for by the level of a claim; see the constants in tune_compare.go, which the simulation holds.
//
// GOGC is another lever, and what the user varies a third: each is tried alone, with the rest unchanged. Only where two of them are better
// than the current setting are these tried together; see combine.
//
// The state follows from the TuneConfig and the observations alone, so a caller who keeps those can rebuild it by ReplayTune.
type Tune struct {
	config TuneConfig
	seen   []TuneObservation

	arms   []*arm // the candidates in their order, those that were dropped as well
	drops  int    // so far
	phase  Phase
	ending ending

	base   Candidate // that the others are compared with: the current setting, or one in its place
	fallen []Fallen  // that were, and with which the program does not run

	refined  bool // GOMAXPROCS next to the leader's were added
	combined bool // a GOMAXPROCS and a GOGC are tried together

	block   int
	raced   int         // blocks of the race
	rounds  float64     // the same, where a block that has a part of the settings counts as that part
	abreast int         // settings of a block at most; 0: all
	order   []Candidate // that are still to be run in this block; the first is next
	invalid int         // attempts at it that were in vain
	room    int         // runs that there is time for; 0: as many as it takes

	leader  Candidate // after the latest block; in Confirm it is being guarded
	basis   Metric    // that it is better in
	led     int       // pairs since it leads
	guarded int       // pairs of the guard so far
	guards  int       // that the leader did not hold in

	spreads map[Metric]spread // the noise, by all runs so far; nil after each run
}

// An arm is a candidate in the race.
type arm struct {
	Candidate
	runs    []TuneObservation // that are usable, one a block at most, in their order
	void    int               // blocks in which every attempt was in vain
	failed  bool              // the program does not run with it, or it leaves too little memory
	dropped *Drop             // nil: it is in the race
	nth     int               // to be dropped, from 1
}

// A Drop is why a candidate was dropped.
type Drop struct {
	Reason  DropReason
	After   int       // blocks
	Blocks  int       // that it rests on
	Against Candidate // that it was compared with
	Metric  Metric    // of Worse: the one in which it is most behind
	Ratio   float64   // to the other's; for TooFull the share of the limit, for Collects the points
	Failure string    // of ProgramFails
	Killed  bool      // it was for lack of memory
}

// Fallen is the current setting, or one that has taken its place, with which the program turned out not to run.
type Fallen struct {
	Candidate
	Failure string
	Killed  bool // it was for lack of memory
}

// A DropReason is what kind of Drop it is.
type DropReason string

// The reasons to drop a candidate.
const (
	BreaksSLO    DropReason = "breaks SLO" // in all of the Blocks in which the other held it
	Worse        DropReason = "worse"      // it can't be better than the other by a relevant amount
	IsTrade      DropReason = "trade"      // it is better than the current setting in one metric and worse in another
	ProgramFails DropReason = "fails"      // the program does not run with it
	NoValidRun   DropReason = "no valid run"
	TooFull      DropReason = "memory"   // it comes too near to the memory limit
	Collects     DropReason = "collects" // the garbage collector takes more of the CPU time than with the current setting
)

// An ending is why a search is over.
type ending string

const (
	endAlone     ending = "alone"     // one candidate
	endSettled   ending = "settled"   // no candidate is left that could be a change for the better
	endBlocks    ending = "blocks"    // there were as many as there may be
	endChange    ending = "change"    // the leader held in the guard
	endCurrent   ending = "current"   // the program failed with its current setting
	endGenerator ending = "generator" // the current setting has no valid run
	endNoise     ending = "noise"     // runs differ too much for a verdict, however many there is time for
)

// NewTune begins a search.
func NewTune(c TuneConfig) (*Tune, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("looking for the best setting: %w", err)
	}
	if c.Margin == 0 {
		c.Margin = usualMargin
	}
	if c.TailMargin == 0 {
		c.TailMargin = usualTail
	}
	if c.MaxErrors == 0 {
		c.MaxErrors = Tolerated
	}
	if c.MaxBlocks == 0 {
		c.MaxBlocks = usualBlocks
	}
	t := &Tune{config: c, abreast: c.Abreast, base: Candidate{Procs: c.Current}}
	t.leader = t.current()
	t.join(t.current())
	for _, procs := range c.Candidates {
		t.join(Candidate{Procs: procs})
	}
	for _, gogc := range c.Levers {
		t.join(Candidate{Procs: c.Current, GOGC: gogc})
	}
	for n := range c.Varied {
		t.join(Candidate{Procs: c.Current, Vary: n + 1})
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
	case c.Varied < 0:
		return fmt.Errorf("%d settings that are varied", c.Varied)
	case slices.ContainsFunc(c.Levers, func(gogc int) bool { return gogc < 1 }):
		return fmt.Errorf("levers %v: GOGC is at least 1", c.Levers)
	case c.Objective != Auto && !slices.Contains(deciding, c.Objective):
		return fmt.Errorf("unknown objective %q: there are %v", c.Objective, deciding)
	case !(c.Margin >= 0 && c.Margin <= 1):
		return fmt.Errorf("bad margin %v: want a share, such as 0.05", c.Margin)
	case !(c.TailMargin >= 0 && c.TailMargin <= 10):
		return fmt.Errorf("bad margin %v of the tail: want a share, such as 0.25", c.TailMargin)
	case !(c.MaxErrors >= 0 && c.MaxErrors <= 1):
		return fmt.Errorf("bad share of errors %v", c.MaxErrors)
	case c.Pairs < 0 || c.Pairs > 1000:
		return fmt.Errorf("%d pairs: there may be 1 to 1000", c.Pairs)
	case c.Patience < 0 || c.Patience > 1000:
		return fmt.Errorf("a patience of %d pairs: there may be 0 to 1000", c.Patience)
	case c.MaxBlocks != 0 && (c.MaxBlocks < firstClaim || c.MaxBlocks > 1000):
		return fmt.Errorf("%d blocks: there must be %d to 1000", c.MaxBlocks, firstClaim)
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
	return t.run(t.order[0], t.block), true
}

// Rest are the runs of this block that are left, the next one first.
func (t *Tune) Rest() (runs []TuneRun) {
	for _, c := range t.order {
		runs = append(runs, t.run(c, t.block))
	}
	return runs
}

// run is one of a block.
func (t *Tune) run(c Candidate, block int) TuneRun {
	return TuneRun{Procs: c.Procs, GOGC: c.GOGC, Vary: c.Vary, Phase: t.phase, Block: block, Seed: t.seed(block)}
}

// Ahead are the runs of the nth block after this one, as far as can be said now: those of the settings that are left. It may turn out that
// some of them are not asked for, or others are as well. A caller that makes them before they are asked for sees nothing that it would not
// have seen then: which settings a block has is decided by earlier blocks alone.
func (t *Tune) Ahead(n int) (runs []TuneRun) {
	var settings []Candidate
	switch t.phase {
	case Race:
		settings = t.running()
	case Confirm:
		settings = []Candidate{t.leader, t.current()}
	}
	for _, c := range settings {
		runs = append(runs, t.run(c, t.block+n))
	}
	return runs
}

// seed is that of a block's arrivals.
func (t *Tune) seed(block int) uint64 {
	return rand.NewPCG(t.config.Seed, uint64(block)).Uint64() >> 11
}

// random is for the order of what comes next; other than the arrivals' seeds.
func (t *Tune) random() *rand.Rand {
	return rand.New(rand.NewPCG(t.config.Seed, 1<<40|uint64(len(t.seen))))
}

// Observe takes what came of the run that Next asked for. An error means an observation that was not asked for; it changes nothing.
func (t *Tune) Observe(o TuneObservation) error {
	run, ok := t.Next()
	switch {
	case !ok:
		return errors.New("observing a run: the search is over")
	case o.Run != run:
		return fmt.Errorf("observing %+v: expected %+v", o.Run, run)
	}
	o = o.clean()
	t.seen = append(t.seen, o)
	t.room, t.abreast, t.spreads = o.Room, o.Abreast, nil
	switch {
	case o.Failed != "":
		t.failed(o)
	case !t.usable(o):
		if t.invalid++; t.invalid >= attempts {
			t.spoiled()
		}
	default:
		t.invalid = 0
		a := t.arm(run.Candidate())
		a.runs = append(a.runs, o)
		if why := t.cramped(a); why != nil {
			a.failed = true
			t.dropArm(a, why)
		}
		t.advance()
	}
	return nil
}

// usable reports whether the run says something. One that broke the SLO does even if there is no value to compare it by.
func (t *Tune) usable(o TuneObservation) bool {
	if !o.Valid || t.broken(o) {
		return o.Valid
	}
	if t.config.Objective != Auto {
		return o.measured(t.config.Objective) > 0
	}
	return slices.ContainsFunc(deciding, func(m Metric) bool { return o.measured(m) > 0 })
}

// broken reports whether the run did not do what it must do at any cost.
func (t *Tune) broken(o TuneObservation) bool { return !o.SLOHeld || o.ErrorShare > t.config.MaxErrors }

// failed ends the race of a setting with which the program does not run.
func (t *Tune) failed(o TuneObservation) {
	a := t.arm(o.Run.Candidate())
	a.failed = true
	if a.Candidate == t.current() && !t.fall(o) {
		t.base = Candidate{Procs: t.config.Current} // nothing takes its place
		t.end(endCurrent)
		return
	}
	t.dropArm(a, &Drop{Reason: ProgramFails, Failure: o.Failed, Killed: o.Killed})
	t.advance()
}

// fall goes on without the setting that the others are compared with, as the program does not run with it: another takes its place. What
// was measured stays, and settings that were dropped because of how they compare with the one that fell are back in the race. False: there
// is no other.
func (t *Tune) fall(o TuneObservation) bool {
	fell := t.current()
	base := t.successor()
	t.fallen = append(t.fallen, Fallen{Candidate: fell, Failure: o.Failed, Killed: o.Killed})
	if base == nil {
		return false
	}
	t.base, t.leader, t.led, t.guarded, t.guards, t.basis = base.Candidate, base.Candidate, 0, 0, 0, ""
	for _, a := range t.arms {
		if d := a.dropped; d != nil && d.Against == fell && (d.Reason == Worse || d.Reason == IsTrade || d.Reason == BreaksSLO) {
			a.dropped = nil
		}
	}
	base.dropped = nil
	for _, gogc := range t.config.Levers {
		t.join(Candidate{Procs: base.Procs, GOGC: gogc})
	}
	return true
}

// successor is what takes the place of the setting that the others are compared with: the GOMAXPROCS nearest to what Go would choose among
// those with which the program has not failed.
func (t *Tune) successor() (next *arm) {
	far := func(a *arm) float64 {
		return math.Abs(math.Log(float64(a.Procs) / float64(max(1, t.config.GoDefault))))
	}
	for _, a := range t.arms {
		plain := a.GOGC == 0 && a.Vary == 0 && a.Candidate != t.current()
		if plain && !a.failed && a.void < mostVoid && (next == nil || far(a) < far(next)) {
			next = a
		}
	}
	return next
}

// stands reports whether what is compared with has run often enough, where it took the place of another.
func (t *Tune) stands() bool { return len(t.fallen) == 0 || len(t.arm(t.current()).runs) >= firstClaim }

// spoiled gives up a run that can't be got right.
func (t *Tune) spoiled() {
	t.invalid = 0
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
	if t.phase == Confirm { // its other run is of no use
		t.order = nil
	}
	t.advance()
}

// advance goes to the next run.
func (t *Tune) advance() {
	if len(t.order) > 0 {
		t.order = t.order[1:]
	}
	if len(t.order) == 0 {
		t.endBlock()
	}
}

func (t *Tune) end(e ending) { t.phase, t.ending, t.order = Done, e, nil }

// startBlock lets all that are left run, or those that a decision waits for.
func (t *Tune) startBlock() {
	t.raced++
	t.rounds++ // what is wanted depends on it
	all := t.wanted()
	order := t.abreastOf(all)
	if len(order) < len(all) {
		t.rounds += float64(len(order)-1)/float64(len(all)-1) - 1
	}
	t.start(Race, order)
}

// raceOf reports whether there were that many rounds of the race, counting the block that is being run.
func (t *Tune) raceOf(rounds int) bool {
	const rounding = 1e-6
	return t.rounds+rounding >= float64(rounds)
}

// abreastOf are those of some settings that run in the next block: the current one, and as many as there is room for besides it, starting
// with those that were compared with it least often.
func (t *Tune) abreastOf(all []Candidate) []Candidate {
	if t.abreast < 2 || len(all) <= t.abreast {
		return all
	}
	order := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return c == t.current() })
	slices.SortStableFunc(order, func(a, b Candidate) int { return cmp.Compare(t.pairs(t.arm(a)), t.pairs(t.arm(b))) })
	return append(order[:t.abreast-1], t.current())
}

// running are the settings of the next block.
func (t *Tune) running() []Candidate { return t.abreastOf(t.wanted()) }

// wanted are all settings that are left. Where one of them is better in a metric, and that it is not worse in the
// others is open, nothing else is worth its time: that one, the current one, and those that have not been seen often enough.
func (t *Tune) wanted() (order []Candidate) {
	open := t.open()
	for _, a := range t.alive() {
		if open == nil || a == open || a.Candidate == t.current() || t.pairs(a) < firstClaim {
			order = append(order, a.Candidate)
		}
	}
	return order
}

// startPair lets the leader and the current setting run.
func (t *Tune) startPair() { t.start(Confirm, []Candidate{t.leader, t.current()}) }

func (t *Tune) start(p Phase, order []Candidate) {
	t.phase, t.order = p, order
	t.block++
	t.random().Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
}

// endBlock judges the candidates, and decides what is run next.
func (t *Tune) endBlock() {
	paired := t.arm(t.leader).ran(t.block) && t.arm(t.current()).ran(t.block)
	if paired {
		t.led++
	}
	if t.phase == Confirm {
		if paired { // otherwise the pair is void, and is repeated
			t.guarded++
		}
		if t.guarded < guardPairs || !t.hasPairs() {
			t.startPair()
			return
		}
		if t.held(t.cautious()) {
			t.end(endChange)
			return
		}
		if t.mayHold() {
			t.startPair()
			return
		}
		t.guards++
		t.revive(t.leader)
	}
	t.prune()
	if len(t.alive()) == 1 && t.stands() || t.guards == mostGuards { // there won't be a change
		t.end(endSettled)
		return
	}
	if m, _ := t.drowned(); m != "" {
		t.end(endNoise)
		return
	}
	t.combine()
	t.refine()
	last := t.raceOf(t.config.MaxBlocks)
	a := t.leading()
	if a.Candidate != t.leader || t.block <= firstLook {
		t.leader, t.led = a.Candidate, 0
	}
	if t.block >= firstLook && a.Candidate != t.current() {
		ok := t.gain(a, t.level(trigger), safely)
		switch short := !t.affords(len(t.running()) + 2*guardPairs); {
		case ok && short && t.proven():
			t.end(endChange)
			return
		case ok && (last || short || t.unrivalled(a)):
			t.guarded = 0
			t.startPair()
			return
		}
	}
	if last {
		t.end(endBlocks)
		return
	}
	if !t.affords(len(t.running())) && t.raceOf(firstClaim) { // what is left is the leader's
		if a := t.leading(); a.Candidate != t.current() {
			t.raced++
			t.rounds++
			t.start(Race, []Candidate{a.Candidate, t.current()})
			return
		}
	}
	t.startBlock()
}

// proven reports whether the leader has held in the pairs since it leads, where there is no time for fresh ones. It was not
// chosen once and then tried, so it must be shown more clearly not to be worse.
func (t *Tune) proven() bool {
	return t.leader != t.current() && t.led >= guardPairs && t.hasPairs() && t.held(unharmed/2)
}

// hasPairs reports whether there are as many pairs as were asked for.
func (t *Tune) hasPairs() bool { return t.pairs(t.arm(t.leader)) >= t.config.Pairs }

// affords reports whether there is time for that many runs.
func (t *Tune) affords(runs int) bool { return t.room == 0 || runs <= t.room }

// refine adds the settings between the leader and its neighbours, once: where a curve bends, its best may lie between two candidates. In a
// wide gap that is the geometric middle, for the one next to the leader would be much like it. It is done only around a leader that is
// better than the current setting, and where the noise lets neighbours be distinguished.
func (t *Tune) refine() {
	lead := t.leading()
	if t.refined || t.config.Exact || !t.raceOf(firstLook) || lead.GOGC != 0 || lead.Vary != 0 || !t.timeToJoin() {
		return
	}
	t.refined = true
	if sd := t.spread(t.last()).sd; lead.Candidate == t.current() || sd > t.config.Margin*2.5 {
		return
	}
	var below, above int
	for _, a := range t.arms {
		if a.GOGC != 0 || a.Vary != 0 {
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
		t.join(Candidate{Procs: min(max(middle, low+1), high-1)})
	}
}

// timeToJoin reports whether a candidate that joins now could still lead.
func (t *Tune) timeToJoin() bool {
	return !t.raceOf(t.config.MaxBlocks-firstClaim+1) && t.affords(firstClaim*(len(t.alive())+1)+2*guardPairs)
}

// combine adds the best GOMAXPROCS with the best GOGC and the best of what the user varies, once, where two of them alone are better than
// the current setting: what they gain may add up, or be the same gain twice. Two that help only together are not found; looking
// for those would take every pair of them. It is added to an exact list as well: both of it were asked for.
func (t *Tune) combine() {
	if t.combined || !t.raceOf(firstLook) || !t.timeToJoin() {
		return
	}
	var procs, levers, varied []*arm
	for _, a := range t.holding(t.arms) {
		gains := t.gain(a, t.level(trigger), safely)
		switch {
		case a.Candidate == t.current() || !gains && !t.better(a):
		case a.Vary != 0:
			varied = append(varied, a)
		case a.GOGC != 0:
			levers = append(levers, a)
		default:
			procs = append(procs, a)
		}
	}
	both, of := t.current(), 0
	for _, kind := range [][]*arm{procs, levers, varied} {
		if best := t.best(kind); best != nil {
			both = both.with(best.Candidate, t.current())
			of++
		}
	}
	if of > 1 {
		t.combined = true
		t.join(both)
	}
}

// with is a setting that has of another what is not the current setting's.
func (c Candidate) with(other, current Candidate) Candidate {
	if other.Procs != current.Procs {
		c.Procs = other.Procs
	}
	return Candidate{c.Procs, max(c.GOGC, other.GOGC), max(c.Vary, other.Vary)}
}

// Left guesses how many runs are left, and says how many there are at most if none must be repeated.
func (t *Tune) Left() (likely, most int) {
	if t.phase == Done {
		return 0, 0
	}
	const guard = 2 * guardPairs
	alive, blocks, joining := t.aRound(), t.config.MaxBlocks-int(t.rounds), 0
	if !t.refined && !t.config.Exact {
		joining += 2
	}
	if !t.combined && (len(t.config.Levers) > 0 || t.config.Varied > 0 && len(t.config.Candidates) > 0) {
		joining++
	}
	most = len(t.order) + blocks*(alive+joining) + (mostGuards-t.guards)*guard + 2*t.config.Pairs
	if t.phase == Confirm {
		likely = len(t.order) + 2*(max(1, guardPairs-t.guarded, t.config.Pairs-t.pairs(t.arm(t.leader)))-1)
	} else {
		likely = len(t.order) + max(0, firstClaim-int(t.rounds))*alive + min(1, blocks)*2 + guard
	}
	if t.room > 0 {
		likely, most = min(likely, t.room), min(most, t.room)
	}
	return min(likely, most), most
}

// aRound is how many runs it takes until all settings that are left have run alongside the current one.
func (t *Tune) aRound() int {
	alive := len(t.alive())
	if t.abreast < 2 || alive <= t.abreast {
		return alive
	}
	others, beside := alive-1, t.abreast-1
	return others + (others+beside-1)/beside
}

// current is the setting that all others are compared with.
func (t *Tune) current() Candidate { return t.base }

func (t *Tune) join(c Candidate) {
	if t.arm(c) == nil {
		t.arms = append(t.arms, &arm{Candidate: c})
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

// ran reports whether it has a usable run in what is the latest block.
func (a *arm) ran(block int) bool { return len(a.runs) > 0 && a.runs[len(a.runs)-1].Run.Block == block }

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
	t.drops++
	a.dropped, a.nth = why, t.drops
	t.revive(a.Candidate)
	if t.phase == Confirm { // a leader that has failed is no longer guarded
		t.phase, t.order = Race, nil
	}
}

// revive brings back what was only worse than a candidate that can't be advised.
func (t *Tune) revive(fallen Candidate) {
	for _, other := range t.arms {
		if d := other.dropped; d != nil && d.Reason == Worse && d.Against == fallen && fallen != t.current() {
			other.dropped = nil
		}
	}
}
