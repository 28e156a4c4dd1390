package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// How many windows at the user's rate there are of a setting under a limit.
const (
	// HoldWindows are the fewest after which a limit is said to hold the SLO. If every fifth window is bad, 15 windows show nothing of it
	// in 3.5 % of all cases.
	HoldWindows = 15
	failWindows = 3  // the fewest after which it is said to fail
	mostWindows = 30 // if it is still open then, it stays so
	voidWindows = 5  // that the generator has spoilt, and twice as many as others, are too many

	curveWindows = 9 // the most of a search for the highest rate
)

// HoldLevel is in how many cases a look at the windows may mislead. There is a look after each window, and the truth must stand
// all of them: together they mislead in some 5 %. See TestHoldErrors.
const HoldLevel = 0.02

// What a LimitWindow is for.
const (
	HoldPhase   = "hold"   // at the user's rate
	CurvePhase  = "curve"  // to find the highest rate
	BesidePhase = "beside" // at the user's rate, in turn with others: what does more memory save?
)

// Under has those limits of a window that vary.
type Under struct {
	CPUs   float64 `json:"limit_cpus"`                   // 0: no limit
	Memory int64   `json:"memory_limit_bytes,omitempty"` // 0: no limit, or always the same one
}

// A LimitWindow is a window that was measured where the question is which limit is needed.
type LimitWindow struct {
	Under
	Procs     int                `json:"gomaxprocs"`
	Phase     string             `json:"phase"`
	Step      string             `json:"step,omitempty"` // of the search for the highest rate
	Rate      float64            `json:"rate"`
	Held      bool               `json:"held"`
	Valid     bool               `json:"valid"`
	Requests  int64              `json:"requests,omitempty"`
	Beyond    []int64            `json:"beyond,omitempty"` // requests that were beyond each of the SLO's goals
	Metrics   map[string]float64 `json:"metrics"`
	Marks     []string           `json:"marks,omitempty"`     // what the host did meanwhile
	Disturbed bool               `json:"disturbed,omitempty"` // too much: the window says nothing
	Error     string             `json:"error,omitempty"`
	NoStart   bool               `json:"no_start,omitempty"` // the server did not even start; Error says why
	Killed    bool               `json:"killed,omitempty"`   // for lack of memory; Error says so
	Seconds   float64            `json:"seconds"`            // since the end of the one before
}

// A LimitTry is a setting under a limit: Go's default there, or the limit rounded up.
type LimitTry struct {
	Under
	Procs   int
	Default bool
}

// AsksLimit reports whether the question is which of several limits is needed.
func (p *Plan) AsksLimit() bool { return len(p.Limits) > 0 || p.LimitsMemory() }

// name names a try while it runs.
func (p *Plan) name(t LimitTry) string {
	switch {
	case p.LimitsMemory() && t.Memory > 0:
		return "memory limit " + quantity.Bytes(t.Memory)
	case p.LimitsMemory():
		return "no memory limit"
	case t.CPUs > 0:
		return fmt.Sprintf("limit %s, GOMAXPROCS=%d", short(t.CPUs), t.Procs)
	}
	return fmt.Sprintf("no limit, GOMAXPROCS=%d", t.Procs)
}

// Tries are what may be measured, the smallest limit first, and under each Go's default first.
func (s *Study) Tries() (tries []LimitTry) {
	if s.Plan.LimitsMemory() {
		return s.memoryTries()
	}
	if len(s.Defaults) != len(s.Plan.Limits) {
		return nil
	}
	limits := slices.Clone(s.Plan.Limits)
	slices.SortFunc(limits, func(a, b float64) int { return cmp.Compare(orEndless(a), orEndless(b)) })
	for _, cpus := range slices.Compact(limits) {
		byGo := s.Defaults[slices.Index(s.Plan.Limits, cpus)]
		tries = append(tries, LimitTry{Under{CPUs: cpus}, byGo, true})
		if up := int(math.Ceil(cpus)); cpus > 0 && up != byGo {
			tries = append(tries, LimitTry{Under{CPUs: cpus}, up, false})
		}
	}
	return tries
}

// orEndless makes no limit the largest.
func orEndless(limit float64) float64 {
	if limit == 0 {
		return math.Inf(+1)
	}
	return limit
}

// LimitWindow is how long a window is: as long as the budget allows for as many as it usually takes.
func (s *Study) LimitWindow() time.Duration {
	const least = 2 * time.Second
	if s.Plan.Window > 0 || s.Plan.Budget == 0 {
		return cmp.Or(s.Plan.Window, shortest)
	}
	each := s.Plan.Budget/time.Duration(s.usualWindows()) - s.startUp()
	return min(shortest, max(least, each.Truncate(time.Second/10)))
}

// startUp is what a fresh server takes until its window begins, about.
func (s *Study) startUp() time.Duration {
	const restart, usually = time.Second / 2, 3 * time.Second // the latter to work an overload off
	if s.Plan.LimitsMemory() {
		return restart + overload + usually + s.LimitWarmUp()
	}
	return restart + s.LimitWarmUp()
}

// LimitsTake is how long the answer usually takes.
func (s *Study) LimitsTake() (windows int, all time.Duration) {
	windows = s.usualWindows()
	return windows, time.Duration(windows) * (s.LimitWindow() + s.startUp())
}

// usualWindows are those that show that the limits below the largest fail, that the largest holds the SLO, and that the one below
// it still fails.
func (s *Study) usualWindows() int {
	return 2*failWindows*(len(s.Plan.Limits)+len(s.Plan.Memories)-1) + HoldWindows + 2
}

// LimitRush is how many requests a fresh server has under way for the time of overload; see rush. So many arrive before clients give up,
// and no more than the generator has connections.
func (s *Study) LimitRush(rate float64) int {
	const patience, most = 10 * time.Second, 1000
	if !s.Plan.LimitsMemory() {
		return 0
	}
	return min(rush(rate, patience), cmp.Or(s.Plan.Conns, most))
}

// overload is how long these are kept under way: several collections of a heap that they have filled.
const overload = 2 * time.Second

// LimitWarmUp is that of a fresh server.
func (s *Study) LimitWarmUp() time.Duration {
	if s.Plan.Budget > 0 {
		return cmp.Or(s.Plan.WarmUp, step)
	}
	return cmp.Or(s.Plan.WarmUp, 2*step)
}

// A Goal is one of the things that an SLO asks for: that no more than a share of the requests is beyond something.
type Goal struct {
	Text     string
	Allowed  float64
	Failures bool // it is of requests that fail, not of slow ones
}

// Goals are those of an SLO in the order of its times, and that of failures if it does not follow from another: requests that
// fail are slower than any time.
func Goals(slo string) (goals []Goal, err error) {
	parsed, err := load.ParseSLO(slo)
	if err != nil {
		return nil, err
	}
	follows := false
	for _, l := range parsed.Latencies {
		allowed := math.Round(1e9*(1-l.Percentile/100)) / 1e9
		goals = append(goals, Goal{Text: l.String(), Allowed: allowed})
		follows = follows || allowed <= parsed.Errors
	}
	if !follows {
		goals = append(goals, Goal{Text: "errors=" + short(100*parsed.Errors) + "%", Allowed: parsed.Errors, Failures: true})
	}
	return goals, nil
}

// An Answer is whether a setting under a limit holds the SLO at the user's rate.
type Answer string

// The answers.
const (
	Holds Answer = "holds"
	Fails Answer = "fails"
	Open  Answer = "open" // neither is shown
	Full  Answer = "full" // it does not fail, but takes too much of the memory limit for advice to rest on it
)

// A Hold is what the windows at the user's rate say of a setting under a limit.
type Hold struct {
	Answer    Answer
	Held      int // windows that held the SLO, each on its own
	Of        int
	Void      int          // windows that the generator has spoilt
	Disturbed int          // windows during which something else ran: they say nothing
	Again     int          // windows that all held, minutes after others that showed that it fails: then it is open after all
	NoStart   string       // why the server did not start; "": it did
	Killed    int          // windows in which it was, for lack of memory
	Goal      Goal         // that is nearest to being missed
	Share     sample.Share // of the requests that were beyond it
	More      int          // windows that would probably tell, if it is open; 0: no reasonable number would
}

// holding are the windows at the user's rate of one setting.
type holding struct {
	goals     []Goal
	parts     [][]sample.Part // of each goal: a window is a part
	most      int
	held      int
	of        int
	void      int
	disturbed int
	noStart   string
	killed    int
	room      room
	settled   int // how many windows there were when no further ones were wanted for the first time; 0: they still are
}

// add counts a window. One in which the server died, or did not start, has met no goal.
func (h *holding) add(w LimitWindow, sent int64) {
	switch {
	case !w.Valid:
		h.void++
		return
	case w.Disturbed: // whether it held or not: to count only those that did would make any limit look better
		h.disturbed++
		return
	case w.NoStart:
		h.noStart = w.Error
	}
	if w.Killed {
		h.killed++
	}
	h.room.add(w)
	if h.of++; w.Held {
		h.held++
	}
	beyond := w.Beyond
	if w.Error != "" {
		w.Requests, beyond = sent, slices.Repeat([]int64{sent}, len(h.goals))
	}
	if len(beyond) == len(h.goals) { // older files don't have it
		for i, n := range beyond {
			h.parts[i] = append(h.parts[i], sample.Part{Hits: n, Of: w.Requests})
		}
	}
	if h.settled == 0 && !h.wants() {
		h.settled = h.of
	}
}

// judge says what the windows show. The parts of a share are whole windows: each is a server of its own, and what is bad in one
// second is often so in the next.
func (h *holding) judge() (all Hold) {
	worst := -1.0
	all = Hold{Answer: Holds}
	for i, goal := range h.goals {
		s := sample.ShareOf(h.parts[i], HoldLevel)
		answer, off := Open, s.High/max(goal.Allowed, 1e-9)
		switch none := goal.Allowed == 0 && s.Hits == 0; {
		case s.Parts >= failWindows && s.Low > goal.Allowed:
			answer, off = Fails, math.MaxFloat64*min(1, s.Low)
		case s.Parts >= HoldWindows && (s.High <= goal.Allowed || none):
			answer = Holds
		}
		if answer == Fails || answer == Open && all.Answer == Holds {
			all.Answer = answer
		}
		if off > worst {
			worst, all.Goal, all.Share = off, goal, s
		}
	}
	all.Held, all.Of, all.Void, all.Disturbed, all.NoStart, all.Killed = h.held, h.of, h.void, h.disturbed, h.noStart, h.killed
	switch {
	case h.noStart != "":
		all.Answer = Fails
	case all.Answer != Fails && h.room.full():
		all.Answer = Full
	}
	if all.Answer == Open {
		all.More = more(all.Goal, all.Share)
	}
	return all
}

// more guesses how many windows would show that a goal is met, if they go on as they did.
func more(goal Goal, s sample.Share) int {
	const patience = 1000
	switch {
	case s.Parts < HoldWindows:
		return HoldWindows - s.Parts
	case s.Share >= goal.Allowed || s.High >= 1:
		return 0
	}
	// For the upper bound h of a share p of n that are independent, n·(h−p)² / h(1−h) is always the same.
	takes := func(h float64) float64 { return h * (1 - h) / ((h - s.Share) * (h - s.Share)) }
	if n := math.Ceil(float64(s.Parts) * (takes(goal.Allowed)/takes(s.High) - 1)); n < patience {
		return max(1, int(n))
	}
	return 0
}

// wants reports whether more windows are wanted: until it is clear, or seems not to be met, or there are too many.
func (h *holding) wants() bool {
	now := h.judge()
	unlikely := now.Share.Parts >= HoldWindows && now.Share.Share > now.Goal.Allowed
	return now.Answer == Open && !unlikely && now.Share.Parts < h.most && !h.spoilt()
}

// spoilt reports whether the generator has failed too often, or something else ran too often.
func (h *holding) spoilt() bool {
	lost := h.void + h.disturbed
	return lost >= voidWindows && lost > 2*h.of
}

// Limits look for the smallest limit that holds the SLO at the user's rate, and for the highest rate under each. Windows come at the user's
// rate first, the smallest limit first and under each Go's default first, since that needs no setting, until one is shown to hold the SLO.
// Where Go's default does not, the limit rounded up is tried, and if that isn't clearly worse the two take turns with the same arrivals, so
// that a disturbance does not meet one of them only. Then the next smaller limit, which failed minutes ago, is looked at again: the machine
// may have been busy. The highest rates, which decide nothing, come in the time that is left. With memory limits, the larger ones come
// then, in turn with the one that holds the SLO.
type Limits struct {
	study   *Study
	limits  []*limit
	reached int // the largest limit that was measured at the user's rate
}

// A limit is what there is under it.
type limit struct{ tries []*limitTry }

type limitTry struct {
	LimitTry
	holding
	curve *search.Highest

	at     int  // the limit's place
	again  int  // windows at the user's rate after those of a larger limit
	missed bool // one of these broke the SLO
	beside int  // windows of the BesidePhase, and
	lost   int  // those of it that say nothing
}

// doubted reports whether a setting that failed before larger limits were measured should be looked at again. Being killed for lack of
// memory is not because the machine was busy.
func (t *limitTry) doubted() bool {
	return t.noStart == "" && t.killed == 0 && !t.missed && t.again < failWindows && !t.spoilt() && t.judge().Answer == Fails
}

// Limits rebuilds the search from its windows.
func (s *Study) Limits() (*Limits, error) {
	goals, err := Goals(s.Plan.SLO)
	if err != nil {
		return nil, err
	}
	l := &Limits{study: s}
	for _, try := range s.Tries() {
		if n := len(l.limits); n == 0 || l.limits[n-1].tries[0].Under != try.Under {
			l.limits = append(l.limits, &limit{})
		}
		curve, err := search.NewHighest(s.curve(), false)
		if err != nil {
			return nil, err
		}
		under := l.limits[len(l.limits)-1]
		h := holding{goals: goals, parts: make([][]sample.Part, len(goals)), most: mostWindows, room: s.Plan.roomUnder(try.Memory)}
		under.tries = append(under.tries, &limitTry{LimitTry: try, holding: h, curve: curve, at: len(l.limits) - 1})
	}
	for i, under := range l.limits {
		for _, try := range under.tries {
			if s.Plan.Budget > 0 && i < len(l.limits)-1 {
				try.most = HoldWindows // the time is better spent on the next one
			}
		}
	}
	for _, w := range s.Windows {
		if err := l.observe(w); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// curve is where the highest rate is looked for. The user's rate is where the answer matters, so it is the first that is tried.
// Below some requests a window there is nothing to be seen.
func (s *Study) curve() search.Config {
	const fewest = 20
	rate := s.Plan.Rate
	floor := min(rate, max(rate/50, fewest/s.LimitWindow().Seconds()))
	return search.Config{Start: rate, Ceiling: min(8*rate, mostRate), Floor: floor}
}

// Next is the window to measure now. False: there isn't one, or the budget has no time for it.
func (l *Limits) Next() (LimitWindow, bool) {
	if l.OutOfTime() {
		return LimitWindow{}, false
	}
	return l.wanted()
}

func (l *Limits) wanted() (LimitWindow, bool) {
	order := slices.Clone(l.limits)
	hold := func(try *limitTry) (LimitWindow, bool) {
		return LimitWindow{Under: try.Under, Procs: try.Procs, Phase: HoldPhase, Rate: l.study.Plan.Rate}, true
	}
	for i, under := range l.limits {
		if try := under.next(); try != nil {
			return hold(try)
		}
		if under.counts().judge().Answer == Holds {
			if i > 0 {
				smaller := l.limits[i-1].tries
				if j := slices.IndexFunc(smaller, (*limitTry).doubted); j >= 0 {
					return hold(smaller[j])
				}
			}
			if l.study.Plan.LimitsMemory() {
				return l.beside(l.limits[i:])
			}
			order = slices.Insert(slices.Delete(order, i, i+1), 0, under) // its highest rate is of most use
			break
		}
	}
	if l.study.Plan.LimitsMemory() {
		return LimitWindow{}, false
	}
	for _, under := range order {
		for _, try := range under.tries {
			if step, more := try.curve.Next(); more {
				return LimitWindow{Under: try.Under, Procs: try.Procs, Phase: CurvePhase, Step: string(step.Phase), Rate: step.Rate}, true
			}
		}
	}
	return LimitWindow{}, false
}

// next is the setting under a limit that wants a window at the user's rate; nil: none does.
func (u *limit) next() *limitTry {
	byGo := u.tries[0]
	switch {
	case byGo.wants():
		return byGo
	case len(u.tries) == 1 || byGo.judge().Answer == Holds || byGo.spoilt():
		return nil
	}
	other := u.tries[1]
	switch turns := other.of - failWindows; {
	case !other.wants():
		return nil
	case byGo.noStart == "" && byGo.of-byGo.settled <= turns:
		return byGo
	}
	return other
}

// counts is the setting under a limit that its answer is of: Go's default, unless only the other holds the SLO.
func (u *limit) counts() *limitTry {
	if len(u.tries) > 1 && u.tries[0].judge().Answer != Holds && u.tries[1].judge().Answer == Holds {
		return u.tries[1]
	}
	return u.tries[0]
}

// OutOfTime reports whether the budget has no time for another window.
func (l *Limits) OutOfTime() bool {
	s := l.study
	if s.Plan.Budget == 0 || s.Failure != "" {
		return false
	}
	const few = 3
	next, last := (s.LimitWarmUp() + s.LimitWindow()).Seconds(), 0.0
	for _, w := range s.Windows[max(0, len(s.Windows)-few):] {
		if w.Phase != CurvePhase && !w.NoStart {
			last += w.Seconds / few
		}
	}
	return s.Spent()+max(next, last) > s.Plan.Budget.Seconds()
}

// Unfinished reports whether windows are still wanted for the answer, or for anything.
func (l *Limits) Unfinished() (answer, anything bool) {
	w, more := l.wanted()
	return more && w.Phase == HoldPhase, more
}

// Hold is what is known of a setting at the user's rate.
func (l *Limits) Hold(try LimitTry) Hold {
	t := l.find(try.Under, try.Procs)
	if t == nil {
		return Hold{Answer: Open}
	}
	h := t.judge()
	if h.Answer == Fails && t.noStart == "" && t.killed == 0 && t.again >= failWindows && !t.missed {
		h.Answer, h.Again = Open, t.again
	}
	return h
}

// Counts is the setting under a limit that its answer is of.
func (l *Limits) Counts(under Under) LimitTry {
	for _, limit := range l.limits {
		if limit.tries[0].Under == under {
			return limit.counts().LimitTry
		}
	}
	return LimitTry{}
}

// Highest is what is known of the highest rate of a setting. One whose server does not start holds none.
func (l *Limits) Highest(try LimitTry) search.Answer {
	if t := l.find(try.Under, try.Procs); t != nil {
		return t.curve.Answer()
	}
	return search.Answer{}
}

func (l *Limits) find(under Under, procs int) *limitTry {
	for _, limit := range l.limits {
		for _, try := range limit.tries {
			if try.Under == under && try.Procs == procs {
				return try
			}
		}
	}
	return nil
}

// observe takes a window. Which setting's turn it was is not checked: what is known of each follows from its own windows alone.
func (l *Limits) observe(w LimitWindow) error {
	try := l.find(w.Under, w.Procs)
	switch {
	case try == nil:
		return fmt.Errorf("there was to be no window with a limit of %v CPUs and %d bytes, and GOMAXPROCS=%d", w.CPUs, w.Memory, w.Procs)
	case !(w.Seconds >= 0):
		return fmt.Errorf("a window of %v s", w.Seconds)
	case w.Requests < 0 || slices.ContainsFunc(w.Beyond, func(n int64) bool { return n < 0 || n > w.Requests }):
		return fmt.Errorf("of %d requests %v were beyond the SLO's goals", w.Requests, w.Beyond)
	}
	switch w.Phase {
	case CurvePhase:
		if err := try.curve.Observe(search.Observation{Rate: w.Rate, Held: w.Held, Valid: w.Valid}); err != nil {
			return err
		}
		if w.NoStart || try.curve.Answer().Windows == curveWindows {
			try.curve.Stop()
		}
	case HoldPhase:
		if w.Rate != l.study.Plan.Rate || try.of+try.void+try.disturbed > 10*mostWindows {
			return fmt.Errorf("%v/s under a limit of %v CPUs with GOMAXPROCS=%d were not to be held", w.Rate, w.CPUs, w.Procs)
		}
		if try.at < l.reached && w.Valid && !w.Disturbed {
			try.again++
			try.missed = try.missed || !w.Held
		}
		l.reached = max(l.reached, try.at)
		try.add(w, l.sent(w))
	case BesidePhase:
		switch {
		case !l.study.Plan.LimitsMemory() || w.Rate != l.study.Plan.Rate || try.beside+try.lost > 10*mostWindows:
			return fmt.Errorf("%v/s under a limit of %d bytes were not to be compared", w.Rate, w.Memory)
		case w.Valid && !w.Disturbed:
			try.beside++
		default:
			try.lost++
		}
		try.add(w, l.sent(w)) // one that does not hold the SLO now never did
	default:
		return fmt.Errorf("there is no phase %q of windows", w.Phase)
	}
	return nil
}

// sent is how many requests a window should have had.
func (l *Limits) sent(w LimitWindow) int64 {
	return int64(math.Ceil(w.Rate * l.study.LimitWindow().Seconds()))
}

// beyond counts the requests of a window that were beyond each of the goals.
func beyond(goals []Goal, slower []int64, requests int64, metrics map[string]float64) []int64 {
	counts := slices.Clone(slower)
	if n := len(goals); n > 0 && goals[n-1].Failures {
		counts = append(counts, int64(math.Round(lab.ErrorShare.In(metrics)*float64(requests))))
	}
	return counts
}
