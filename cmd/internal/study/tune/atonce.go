package tune

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// This file runs the settings of a block at the same time, as many as the machine has room for: what it does meanwhile affects them all
// alike, and the block takes the time of one run. Whether that is fair is checked before, with the current setting alongside itself, and in
// each block; if it is not, the runs take turns from then on.

// AtOnce says how many runs there may be at the same time.
type AtOnce struct {
	Most  int     `json:"most"`            // 0: one
	Why   string  `json:"why,omitempty"`   // there are not more
	Waits float64 `json:"waits,omitempty"` // of the current setting alone, see trial.Window
}

const (
	sendsMore = 1.25 // times what the generator used is what it may need
	alikeCPU  = 0.2  // by which the current setting may differ from itself, on another side or alone
	alikeP50  = 0.3
	waitMore  = 1.5 // its threads may wait for a CPU this many times as long alongside others as alone
	waitLeast = 0.5 // and this much more, by chance
	mostLooks = 2   // at it alongside itself and alone
)

// room is how many runs the machine has room for, each of which has the limit, and needs that many CPUs on top.
func (x *execution) room(beside float64) (n int, why string) {
	if n, why = lab.Room(x.Environment.CPUs, x.Plan.CPUs+sendsMore*beside, x.sides()); n < 2 {
		return 0, why
	}
	return n, ""
}

// sides is how many runs there may be at the same time, regardless of room.
func (x *execution) sides() int {
	if x.lab.Jobs != nil {
		return lab.MostAtOnce
	}
	return len(x.lab.Sides)
}

// mayShare judges by a server, and by its main load, whether others may run alongside it. nil: don't try.
func (l *look) mayShare() *AtOnce {
	if l.Plan.AtOnce == AtOnceNo || len(l.lab.Sides) == 0 {
		return nil
	}
	a := &AtOnce{Waits: l.main.Waits}
	if l.Plan.AtOnce != AtOnceYes {
		a.Why = l.session.Bound()
	}
	if a.Why == "" {
		a.Most, a.Why = l.room(l.main.Sending)
	}
	switch {
	case a.Why != "":
	case l.main.Waits == 0:
		a.refuse(waitsUnseen)
	case l.undisturbed(l.main):
	case l.main.Others > 0:
		a.refuse(besideOthers)
	default:
		a.refuse("what others use can't be seen")
	}
	return a
}

const (
	besideOthers = lab.BesideOthers
	waitsUnseen  = "how long its threads wait for a CPU can't be seen"
)

// calibrate runs as many of the current setting at the same time as there is room for, and again while others use the CPUs. Where that is not
// what it was alone, it runs alone as they did: the server of the pilot has served for longer, and under more load. What differs still may
// be chance: it is looked at once more, and the means decide. Then there is room for half as many.
func (l *look) calibrate(ctx context.Context) error {
	a, load := l.p.AtOnce, l.p.Loads[0]
	if a == nil || a.Most == 0 {
		return nil
	}
	shot := l.shot(l.p, load)
	shot.WarmUp, shot.Lasting = load.WarmUp, sending(l.hurry(looking), load.Rate)
	long := l.ready + shot.WarmUp + shot.Lasting
	var alone []trial.Window
	sides := make([][]trial.Window, a.Most)
	for looks := 1; ; looks++ { // at a.Most of them
		if !l.spare(long) {
			a.refuse("the budget left no time to see whether there is room")
			return nil
		}
		l.tell("running it next to a copy of itself, to see whether there is room")
		l.seed++
		shot.Seed = l.seed
		began := l.lab.Clock()
		windows, err := l.fresh(ctx, shot, a.Most)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := l.lab.Clock().Sub(began)
		why := ""
		if err != nil {
			why = "a second one failed next to it: " + firstLine(err.Error())
		} else {
			why = l.unlike(l.main, windows)
		}
		disturbed := func(w trial.Window) bool { return !l.counts(w) }
		if (why != "" || len(alone) > 0) && err == nil && !slices.ContainsFunc(windows, disturbed) {
			if len(alone) < mostLooks && l.spare(long) {
				l.tell("running it alone with the same requests, as it behaved differently next to a copy of itself")
				one, err := l.fresh(ctx, shot, 1)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err == nil && !disturbed(one[0]) {
					alone = append(alone, one[0])
				}
			}
			if len(alone) > 0 {
				var means []trial.Window
				for i, w := range windows {
					sides[i] = append(sides[i], w)
					means = append(means, mean(sides[i]))
				}
				is := mean(alone)
				a.Waits = is.Waits
				why = l.unlike(is, means)
			}
		}
		switch {
		case why == "":
			return nil
		case why == besideOthers && l.waits(took):
			looks--
		case why != besideOthers && looks < mostLooks && len(sides[0]) > 0 && l.spare(2*long):
		case why != besideOthers && a.Most > 2 && l.spare(long):
			a.Most, looks = max(2, a.Most/2), 0
			clear(sides)
		default:
			a.refuse(why)
			return nil
		}
	}
}

// mean is what some windows of the same come to, in what they are looked at for.
func mean(windows []trial.Window) trial.Window {
	m := windows[0]
	m.Metrics = maps.Clone(m.Metrics)
	n := float64(len(windows))
	for _, measure := range []lab.Measure{lab.CPUPerRequest, lab.P50, lab.ErrorShare} {
		sum := 0.0
		for _, w := range windows {
			sum += measure.In(w.Metrics)
		}
		measure.Set(m.Metrics, sum/n)
	}
	m.Waits = 0
	for _, w := range windows {
		m.Waits += w.Waits / n
	}
	return m
}

// besideItself runs a job alone and alongside itself, to see whether there is room.
func (x *execution) besideItself(ctx context.Context, p *Pilot) error {
	if x.lab.Jobs == nil || x.Plan.CPUs == 0 {
		return nil
	}
	p.AtOnce = &AtOnce{}
	a := p.AtOnce
	if a.Most, a.Why = x.room(0); a.Most == 0 {
		return nil
	}
	x.tell("running it next to a copy of itself, to see whether there is room")
	const mostTries = 3 // as long as others use the CPUs
	for range mostTries {
		if !x.spare(time.Duration(2 * p.PerRun * float64(time.Second))) {
			a.refuse("the budget left no time to see whether there is room")
			return nil
		}
		why, disturbed, err := x.unlikeItself(ctx, x.asIs(p))
		if err != nil {
			return err
		}
		if a.Why = why; why == "" || !disturbed {
			break
		}
	}
	if a.Why != "" {
		a.refuse(a.Why)
	}
	return nil
}

// unlikeItself says how a job alongside itself differs from one alone, and whether others used the CPUs meanwhile.
func (x *execution) unlikeItself(ctx context.Context, is lab.Setting) (why string, disturbed bool, err error) {
	alone, err := x.lab.Jobs.Run(ctx, is, 0) // the pilot's first run has found everything cold
	if err != nil {
		return "", false, err
	}
	if alone.Error != "" {
		return "it failed when it was run again: " + firstLine(alone.Error), false, nil
	}
	runs, err := x.lab.Jobs.Several(ctx, []lab.Setting{is, is}, 0)
	if ctx.Err() != nil {
		return "", false, ctx.Err()
	}
	if err != nil {
		return "", false, err
	}
	for _, r := range append(runs, alone) {
		disturbed = disturbed || x.disturbed(r, x.Plan.CPUs)
	}
	if why = firstLine(lab.Unfit(runs, x.Plan.CPUs, x.Environment.CPUs)); why != "" {
		return why, disturbed, nil
	}
	cpu, time := lab.CPUTime, lab.WallTime
	if x.Plan.Kind == GoBenchKind {
		cpu, time = lab.CPUPerOp, lab.OpTime
	}
	return differ(alone.Metrics, []map[string]float64{runs[0].Metrics, runs[1].Metrics},
		[]likeness{{cpu, "CPU time", alikeCPU}, {time, "time", alikeP50}}), disturbed, nil
}

// undisturbed reports whether what others did is not in a window's latencies, or was too little.
func (s *Study) undisturbed(w trial.Window) bool {
	return w.Sliced || w.OthersKnown && !s.crowded(w.Others, s.Plan.CPUs)
}

// counts reports whether a window can be compared with others.
func (s *Study) counts(w trial.Window) bool { return w.Valid && s.undisturbed(w) }

// fresh starts some of the current setting at the same time, and sends each the same load.
func (l *look) fresh(ctx context.Context, shot trial.Shot, n int) (windows []trial.Window, err error) {
	err = l.untilSeen(func() error {
		windows, err = l.freshOnce(ctx, shot, n)
		return err
	})
	return windows, err
}

func (l *look) freshOnce(ctx context.Context, shot trial.Shot, n int) ([]trial.Window, error) {
	windows := make([]trial.Window, n)
	line := newLine(n)
	return windows, together(n, func(side int) error {
		run, w, err := trial.Once(ctx, l.lab.Clock, line.opened(func() (Session, error) { return l.lab.Sides[side].Open(ctx, l.looked(l.p), l.p.Trace) }), shot)
		if windows[side] = w; err == nil && run.Error != "" {
			err = &Hopeless{Why: run.Error}
		}
		return err
	})
}

// refuse says why there is one at a time.
func (a *AtOnce) refuse(why string) { a.Most, a.Why = 0, why }

// unlike says how windows of the current setting alongside itself differ from one alone; "": they don't.
func (l *look) unlike(alone trial.Window, windows []trial.Window) string {
	for _, w := range windows {
		switch {
		case !w.Valid:
			return "next to a copy of itself the load was not sent as planned"
		case !l.undisturbed(w):
			return besideOthers
		case lab.ErrorShare.In(w.Metrics) > lab.ErrorShare.In(alone.Metrics)+0.01:
			return "next to a copy of itself its requests failed"
		}
		if why := l.p.AtOnce.short(w.Waits); why != "" {
			return why
		}
	}
	var beside []map[string]float64
	for _, w := range windows {
		beside = append(beside, w.Metrics)
	}
	return differ(alone.Metrics, beside, []likeness{{lab.CPUPerRequest, "CPU per request", alikeCPU}, {lab.P50, "p50", alikeP50}})
}

// A likeness is a measure in which the current setting must be alike, and by how much it may differ.
type likeness struct {
	measure lab.Measure
	name    string
	most    float64
}

// differ says in what the current setting differs too much from itself.
func differ(alone map[string]float64, beside []map[string]float64, in []likeness) string {
	for _, m := range in {
		values := []float64{m.measure.In(alone)}
		for _, b := range beside {
			values = append(values, m.measure.In(b))
		}
		if low, high := slices.Min(values), slices.Max(values); !(low > 0) || high/low-1 > m.most {
			return fmt.Sprintf("next to a copy of itself its %s differs by %s from what it is alone", m.name, quantity.WholeShare(high/cmp.Or(low, math.Inf(1))-1))
		}
	}
	return ""
}

// short says that the CPUs are not enough for all, by how long threads of the current setting wait for one; "": they are.
func (a *AtOnce) short(waits float64) string {
	switch {
	case waits == 0:
		return waitsUnseen
	case waits <= waitMore*a.Waits+waitLeast:
		return ""
	}
	return fmt.Sprintf("next to others it waits %.1f s for each second that it runs; alone, %.1f s", waits, a.Waits)
}

// InTurn says why runs take turns that could have been at the same time; "": they are.
func (s *Study) InTurn() string {
	a := s.Pilot.AtOnce
	if a == nil {
		return ""
	}
	for _, r := range s.Runs {
		if r.InTurn != "" {
			return r.InTurn
		}
	}
	return a.Why
}

// abreast is how many settings a block has at most; 0: all.
func (a *AtOnce) abreast() int {
	if a == nil || a.Most < 2 {
		return 0
	}
	return a.Most
}

// Pace is how many runs there are at the same time, by the last one.
func (s *Study) Pace() float64 {
	n := float64(s.Plan.places())
	if len(s.Runs) > 0 {
		n *= float64(max(1, s.Runs[len(s.Runs)-1].AtOnce)) // a file may have any value
	}
	return n
}

// wholeBlock makes all runs of a block at the same time, if it is at its beginning and there is room. They are then there when they are
// asked for. If that came to nothing, it says why, and how long it took: then no run of it counts, as one that ran alone can't be compared
// with one that didn't.
func (x *execution) wholeBlock(ctx context.Context, t *search.Tune, load int, next search.TuneRun) (lost float64, inTurn string, err error) {
	runs := t.Rest()
	a := x.Pilot.AtOnce
	if a == nil || next.Phase == Explain || len(runs) < 2 || len(runs) > min(a.Most, x.sides()) || x.begun(load, next.Block) || x.InTurn() != "" {
		return 0, "", nil
	}
	var missing unseen
	for times := 0; ; { // that it was made in vain, as others used the CPUs
		begin := x.lab.Clock()
		made, err := x.allAtOnce(ctx, load, runs)
		took := x.lab.Clock().Sub(begin).Seconds()
		switch {
		case ctx.Err() != nil:
			return 0, "", ctx.Err()
		case missing.again(x, err):
			lost += took
			continue
		case err != nil: // if running alongside others isn't the cause, it comes again when alone
			return lost + took, "one could not be run next to the others: " + trial.Why(err), nil
		}
		if inTurn := x.unfit(made); inTurn != "" {
			return lost + took, inTurn, nil
		}
		disturbed := false
		for i := range made {
			made[i].AtOnce = len(runs)
			disturbed = disturbed || x.disturbed(made[i].Run, x.Plan.CPUs)
		}
		if disturbed && x.again(load, next, lost+took, times) {
			lost += took
			times++
			continue
		}
		b := &earlyBlock{}
		for i, r := range made {
			if i == 0 && lost > 0 {
				r.Lost, r.Again = lost, times
				r.Seconds += lost
				if times > 0 {
					r.Marks = append(r.Marks, lab.MarkAgain)
				}
				if missing.times > 0 {
					r.Marks = append(r.Marks, lab.MarkUnseen)
				}
			}
			over := make(chan struct{})
			close(over)
			b.runs = append(b.runs, &earlyRun{next: runs[i], shot: x.shotOf(load, runs[i]), cancel: func() {}, over: over, run: r})
		}
		if x.ahead == nil {
			x.ahead = ahead{}
		}
		x.ahead[next.Block] = b
		return 0, "", nil
	}
}

// allAtOnce makes the runs of a block at the same time.
func (x *execution) allAtOnce(ctx context.Context, load int, runs []search.TuneRun) ([]Run, error) {
	made := make([]Run, len(runs))
	if x.Plan.Kind == ServerKind {
		line := newLine(len(runs))
		return made, together(len(runs), func(i int) (err error) {
			made[i], err = x.once(ctx, load, runs[i], x.shotOf(load, runs[i]), Place{Server: x.lab.Sides[i]}, line)
			return err
		})
	}
	settings := make([]lab.Setting, len(runs))
	for i, next := range runs {
		settings[i] = x.setting(next)
	}
	jobs, err := x.lab.Jobs.Several(ctx, settings, 0)
	for i := range jobs {
		made[i] = jobRun(load, runs[i])
		made[i].Run = jobs[i]
	}
	return made, err
}

// unfit says why runs that were made at the same time do not count; "": they do. What threads wait for is known of the current setting
// alone, and of jobs not at all: there it is looked how many CPUs are used.
func (x *execution) unfit(made []Run) string {
	if x.Plan.Kind != ServerKind {
		var jobs []lab.Run
		for _, r := range made {
			jobs = append(jobs, r.Run)
		}
		return firstLine(lab.Unfit(jobs, x.Plan.CPUs, x.Environment.CPUs))
	}
	for _, r := range made {
		why := ""
		switch {
		case r.Error != "":
			why = "one failed next to the others: " + firstLine(r.Error)
		case !r.Valid:
			why = "next to the others a load was not sent as planned"
		case r.Search.Candidate() == search.Candidate{Procs: x.Pilot.Procs}:
			why = x.Pilot.AtOnce.short(r.Waits)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// begun reports whether a run of a block has been made, even if it was not asked for yet.
func (x *execution) begun(load, block int) bool {
	return x.ahead[block] != nil || slices.ContainsFunc(x.Runs, func(r Run) bool { return r.Load == load && r.Search.Block == block && r.Search.Phase != Explain })
}

// A line is where servers that should be loaded at the same time wait until all have started or failed to. nil: there is one.
type line struct{ missing sync.WaitGroup }

func newLine(n int) *line {
	l := &line{}
	l.missing.Add(n)
	return l
}

// opened opens a session, and waits for the others.
func (l *line) opened(open func() (Session, error)) func() (trial.Opened, error) {
	return func() (trial.Opened, error) {
		s, err := open()
		if l != nil {
			l.missing.Done()
			l.missing.Wait()
		}
		return s, err
	}
}

// together does n things at the same time, and returns the first error.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
