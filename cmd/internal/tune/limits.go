package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
)

// HoldWindows is how many windows at the user's rate a limit must hold the SLO in, all of them.
const HoldWindows = 5

// What a LimitWindow is for.
const (
	CurvePhase = "curve" // to find the highest rate
	HoldPhase  = "hold"  // at the user's rate
)

// A LimitWindow is a window that was measured where the question is which limit is needed.
type LimitWindow struct {
	CPUs    float64            `json:"limit_cpus"`
	Procs   int                `json:"gomaxprocs"`
	Phase   string             `json:"phase"`
	Step    string             `json:"step,omitempty"` // of the search for the highest rate
	Rate    float64            `json:"rate"`
	Held    bool               `json:"held"`
	Valid   bool               `json:"valid"`
	Metrics map[string]float64 `json:"metrics"`
	Error   string             `json:"error,omitempty"`
	NoStart bool               `json:"no_start,omitempty"` // the server did not even start, which Error tells
	Seconds float64            `json:"seconds"`
}

// A LimitTry is a setting under a limit: Go's default there, or the limit rounded up.
type LimitTry struct {
	CPUs    float64
	Procs   int
	Default bool
}

// Tries are what the curves are made of, the smallest limit first.
func (s *Study) Tries() (tries []LimitTry) {
	if len(s.Defaults) != len(s.Plan.Limits) {
		return nil
	}
	limits := slices.Clone(s.Plan.Limits)
	slices.SortFunc(limits, func(a, b float64) int { return cmp.Compare(orEndless(a), orEndless(b)) })
	for _, cpus := range slices.Compact(limits) {
		byGo := s.Defaults[slices.Index(s.Plan.Limits, cpus)]
		tries = append(tries, LimitTry{cpus, byGo, true})
		if up := int(math.Ceil(cpus)); cpus > 0 && up != byGo {
			tries = append(tries, LimitTry{cpus, up, false})
		}
	}
	return tries
}

// orEndless makes no limit the largest.
func orEndless(cpus float64) float64 {
	if cpus == 0 {
		return math.Inf(+1)
	}
	return cpus
}

// tryOf is the try that a window is of.
func (s *Study) tryOf(w LimitWindow) (LimitTry, bool) {
	for _, try := range s.Tries() {
		if try.has(w) {
			return try, true
		}
	}
	return LimitTry{}, false
}

func (t LimitTry) has(w LimitWindow) bool { return w.CPUs == t.CPUs && w.Procs == t.Procs }

// MaxRate rebuilds the search for the highest rate of a try. One whose server does not start holds none.
func (s *Study) MaxRate(try LimitTry) (*search.MaxRate, error) {
	rate := s.Plan.Rate
	// The user's rate is where the answer matters, so it is the first that is tried. Below some requests a window there is
	// nothing to be seen.
	const fewest = 20
	floor := min(rate, max(rate/50, fewest/s.LimitWindow().Seconds()))
	m, err := search.NewMaxRate(search.Config{Start: rate, Ceiling: min(8*rate, mostRate), Floor: floor, Seed: s.Plan.Seed, Rounds: -1})
	if err != nil {
		return nil, err
	}
	for _, w := range s.Windows {
		if !try.has(w) || w.Phase != CurvePhase {
			continue
		}
		if err := m.Observe(search.Observation{Rate: w.Rate, Held: w.Held, Valid: w.Valid}); err != nil {
			return nil, err
		}
		if w.NoStart {
			giveUp(m)
		}
	}
	return m, nil
}

// giveUp ends a search: no rate that is still to be tried is held.
func giveUp(m *search.MaxRate) {
	for {
		step, more := m.Next()
		if !more || m.Observe(search.Observation{Rate: step.Rate, Valid: true}) != nil {
			return
		}
	}
}

// Held counts the windows of a try at the user's rate, and those that held the SLO.
func (s *Study) Held(try LimitTry) (held, of int) {
	h := s.held(try)
	return h.held, h.of
}

// held counts windows at the user's rate.
type held struct{ held, of, invalid int }

func (h held) and(w LimitWindow) held {
	switch {
	case !w.Valid:
		h.invalid++
	case w.Held:
		h.held++
		h.of++
	default:
		h.of++
	}
	return h
}

func (h held) enough() bool { return h.of >= HoldWindows || h.invalid > HoldWindows }

func (s *Study) held(try LimitTry) (h held) {
	for _, w := range s.Windows {
		if try.has(w) && w.Phase == HoldPhase {
			h = h.and(w)
		}
	}
	return h
}

// Best is the try with the highest rate under a limit.
func (s *Study) Best(cpus float64) (best LimitTry, rate float64) {
	for _, try := range s.Tries() {
		if try.CPUs != cpus {
			continue
		}
		r := 0.0
		if m, err := s.MaxRate(try); err == nil {
			r = m.Answer().Sustained.Rate
		}
		if best.Procs == 0 || r > rate {
			best, rate = try, r
		}
	}
	return best, rate
}

// ExecuteLimits does what is missing of a study that asks which of several limits is needed: for each the highest rate that
// holds the SLO, and then, from the smallest that seems to do, windows at the user's rate until one holds in all of them.
func (s *Study) ExecuteLimits(ctx context.Context, l Lab) error {
	if err := s.checkPlan(); err != nil {
		return err
	}
	x := &execution{Study: s, lab: l}
	var limits []float64
	for _, try := range s.Tries() {
		if err := x.curve(ctx, try); err != nil {
			return err
		}
		if !slices.Contains(limits, try.CPUs) {
			limits = append(limits, try.CPUs)
		}
	}
	first := true
	for i, cpus := range limits {
		best, rate := s.Best(cpus)
		if rate < 0.9*s.Plan.Rate && i < len(limits)-1 {
			continue
		}
		if first && i > 0 { // what the next smaller one costs
			if smaller, rate := s.Best(limits[i-1]); rate > 0 {
				if err := x.hold(ctx, smaller); err != nil {
					return err
				}
			}
		}
		first = false
		if err := x.hold(ctx, best); err != nil {
			return err
		}
		if held, of := s.Held(best); held == of && of > 0 {
			return nil
		}
	}
	return nil
}

// curve looks for the highest rate of a try. The server is started fresh after each window that broke the SLO, because of
// the queue that it leaves. A server that does not start ends it.
func (x *execution) curve(ctx context.Context, try LimitTry) error {
	var session Session
	defer func() {
		if session != nil {
			session.Close()
		}
	}()
	for {
		m, err := x.MaxRate(try)
		if err != nil {
			return err
		}
		step, more := m.Next()
		if !more {
			return nil
		}
		x.tell(fmt.Sprintf("%v: %s/s", try, short(step.Rate)))
		w := LimitWindow{CPUs: try.CPUs, Procs: try.Procs, Phase: CurvePhase, Step: string(step.Phase), Rate: step.Rate}
		if session, err = x.window(ctx, session, &w); err != nil {
			return err
		}
		if err := x.keepWindow(w); err != nil {
			return err
		}
		if session != nil && (!w.Held || w.Error != "") {
			session.Close()
			session = nil
		}
	}
}

// hold does the windows at the user's rate, each with a fresh server.
func (x *execution) hold(ctx context.Context, try LimitTry) error {
	for !x.held(try).enough() {
		x.tell(fmt.Sprintf("%v: does it hold the SLO at %s/s?", try, short(x.Plan.Rate)))
		w := LimitWindow{CPUs: try.CPUs, Procs: try.Procs, Phase: HoldPhase, Rate: x.Plan.Rate}
		session, err := x.window(ctx, nil, &w)
		if session != nil {
			session.Close()
		}
		if err != nil {
			return err
		}
		if err := x.keepWindow(w); err != nil {
			return err
		}
	}
	return nil
}

func (t LimitTry) String() string {
	limit := "no limit"
	if t.CPUs > 0 {
		limit = "limit " + short(t.CPUs)
	}
	return fmt.Sprintf("%s, GOMAXPROCS=%d", limit, t.Procs)
}

// window measures, with a server that runs or a fresh one. It hands back the server that runs then, also beside an error;
// nil: none.
func (x *execution) window(ctx context.Context, session Session, w *LimitWindow) (Session, error) {
	begin := x.lab.Clock()
	defer func() { w.Seconds = x.lab.Clock().Sub(begin).Round(time.Millisecond).Seconds() }()
	w.Valid, w.Metrics = true, map[string]float64{}
	if session == nil {
		var why string
		var err error
		if session, why, err = x.openWarm(ctx, LimitTry{CPUs: w.CPUs, Procs: w.Procs}, w.Rate); err != nil {
			return session, err
		}
		if session == nil {
			w.Error, w.NoStart = why, true
			return nil, nil
		}
	}
	seed := x.Plan.Seed + uint64(len(x.Windows)) + 1
	shot := trial.Shot{Rate: w.Rate, Conns: x.Plan.Conns, Const: x.Plan.Const, Lasting: sending(x.LimitWindow(), w.Rate), Seed: seed, SLO: x.Plan.SLO}
	got, err := session.Load(ctx, shot)
	switch {
	case ctx.Err() != nil:
		return session, ctx.Err() // it was cut short: its figures are worth nothing
	case err != nil:
		return session, err
	case got.Metrics == nil:
		w.Error = "the server ended"
	default:
		w.Held, w.Valid, w.Metrics = got.SLOHeld, got.Valid, got.Metrics
	}
	return session, nil
}

// LimitWindow is how long a window is.
func (s *Study) LimitWindow() time.Duration { return cmp.Or(s.Plan.Window, shortest) }

// openWarm starts the server and warms it up at half a rate. A server that fails gets a second chance, for the port may not be
// free yet; then it says why.
func (x *execution) openWarm(ctx context.Context, try LimitTry, rate float64) (session Session, why string, err error) {
	for range 2 {
		session, err = x.lab.Server.Open(ctx, lab.Setting{CPUs: try.CPUs, Procs: try.Procs}, false)
		if err == nil {
			break
		}
		var failed bool
		if why, failed = trial.Failed(err); !failed || ctx.Err() != nil {
			return nil, "", cmp.Or(ctx.Err(), err)
		}
	}
	if err != nil {
		return nil, why, nil
	}
	warm := sending(cmp.Or(x.Plan.WarmUp, 2*step), rate/2)
	_, err = session.Load(ctx, trial.Shot{Rate: rate / 2, Conns: x.Plan.Conns, Const: x.Plan.Const, Lasting: warm, Seed: x.Plan.Seed})
	return session, "", err
}

func (x *execution) keepWindow(w LimitWindow) error {
	if err := x.lab.Record(Record{Window: &w}); err != nil {
		return err
	}
	x.Windows = append(x.Windows, w)
	return nil
}
