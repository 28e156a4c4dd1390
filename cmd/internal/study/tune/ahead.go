package tune

import (
	"context"
	"slices"
	"sync"

	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// This file has several places share the work. A block runs at one of them, one setting after the other; so that the others need not
// wait for its end, the blocks after it are begun there, with the settings that are left now. What the search then asks for is there,
// or comes soon; what it does not ask for is thrown away. It sees the same as if each run had been made when it was asked for.

// A Place is where the server can run, such as a node of a cluster.
type Place struct {
	Name   string
	Server Server
}

// places is how many runs are made at the same time.
func (p Plan) places() int { return max(1, p.Places) }

// ahead are blocks that were begun before they were asked for.
type ahead map[int]*earlyBlock

// An earlyBlock is one of them.
type earlyBlock struct {
	runs []*earlyRun
	done sync.WaitGroup
}

// An earlyRun is a run of it.
type earlyRun struct {
	next   search.TuneRun
	shot   trial.Shot
	cancel context.CancelFunc
	over   chan struct{} // closed when the rest is there
	run    Run
	err    error
}

// lookAhead begins the blocks after the next run's, as many as there are other places.
func (x *execution) lookAhead(ctx context.Context, t *search.Tune, load int, next search.TuneRun) {
	x.ahead.endBefore(next.Block)
	if next.Phase == Explain {
		x.ahead.end()
		return
	}
	left := t.Ahead(0)
	for _, b := range x.ahead {
		b.keep(left)
	}
	for n := 1; n < len(x.lab.Places); n++ {
		block := next.Block + n
		if x.ahead[block] != nil {
			continue
		}
		if b := x.start(ctx, load, t.Ahead(n)); b != nil {
			if x.ahead == nil {
				x.ahead = ahead{}
			}
			x.ahead[block] = b
		}
	}
}

// start begins a block; nil: there is nothing to be run.
func (x *execution) start(ctx context.Context, load int, runs []search.TuneRun) *earlyBlock {
	if len(runs) == 0 {
		return nil
	}
	b := &earlyBlock{}
	within := make([]context.Context, len(runs))
	for i, run := range runs {
		r := &earlyRun{next: run, shot: x.shotOf(load, run), over: make(chan struct{})}
		within[i], r.cancel = context.WithCancel(ctx)
		b.runs = append(b.runs, r)
	}
	b.done.Go(func() {
		for i, r := range b.runs {
			if r.err = within[i].Err(); r.err == nil {
				r.run, r.err = x.once(within[i], load, runs[i], r.shot, x.at(runs[i]), nil)
			}
			close(r.over)
		}
	})
	return b
}

// keep ends the runs of settings that are not left.
func (b *earlyBlock) keep(left []search.TuneRun) {
	for _, r := range b.runs {
		if !slices.ContainsFunc(left, func(l search.TuneRun) bool { return l.Candidate() == r.next.Candidate() }) {
			r.cancel()
		}
	}
}

// take is the run that is asked for, if it was made before. It waits for it; and where it was not made, until its place is free.
func (a ahead) take(ctx context.Context, next search.TuneRun, shot trial.Shot) (run Run, early bool, err error) {
	b := a[next.Block]
	if b == nil || next.Phase == Explain {
		return run, false, nil
	}
	for _, r := range b.runs {
		if r.next.Candidate() != next.Candidate() || r.next.Seed != next.Seed || r.shot != shot {
			continue
		}
		select {
		case <-r.over:
		case <-ctx.Done():
			return run, false, ctx.Err()
		}
		r.next = search.TuneRun{} // it is taken once: an attempt that was in vain is followed by another
		if r.err != nil || r.run.Error != "" {
			break // it gets its chances when it is made for itself
		}
		r.run.Search = next
		return r.run, true, nil
	}
	b.done.Wait()
	return run, false, ctx.Err()
}

// endBefore ends what will no longer be asked for.
func (a ahead) endBefore(block int) {
	for n, b := range a {
		if n < block {
			b.end()
			delete(a, n)
		}
	}
}

// end ends all of them.
func (a ahead) end() {
	for n, b := range a {
		b.end()
		delete(a, n)
	}
}

func (b *earlyBlock) end() {
	b.keep(nil)
	b.done.Wait()
}
