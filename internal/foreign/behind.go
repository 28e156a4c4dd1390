package foreign

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A call that waits in the kernel for another user's file system can't be called back: a program on a FUSE or an NFS that has stopped
// answering, or one whose memory is a file there, holds up anyone who looks at it. So looking is done where it can be left behind. What is
// left behind goes on by itself when the kernel answers, so it uses nothing that others change.

// ErrStuck is the error of what was left behind.
var ErrStuck = errors.New("the kernel does not answer: a file system that it uses has stopped answering, perhaps")

// Patience is for one process that the user has asked for. A look at many has less.
const Patience = 5 * time.Second

// MostBehind is how many are left behind, each with a thread, before nothing more is looked at for the first time.
const MostBehind = 64

var behind atomic.Int32

// Behind is how many are left behind now.
func Behind() int { return int(behind.Load()) }

// Within asks, and waits that long for the answer, but no longer than ctx.
func Within[T any](ctx context.Context, most time.Duration, ask func() (T, error)) (v T, err error) {
	if Behind() >= MostBehind {
		return v, fmt.Errorf("%w: nor does it for %d others", ErrStuck, MostBehind)
	}
	type answer struct {
		v   T
		err error
	}
	var got answer
	answers := make(chan answer, 1)
	err = Each(ctx, 1, most, Steps{
		Walk: func(next func() (int, bool)) {
			for _, ok := next(); ok; _, ok = next() {
				v, err := ask()
				answers <- answer{v, err}
			}
		},
		Done: func(int) { got = <-answers },
		Left: func(int, *Left) { got.err = ErrStuck },
	})
	if err != nil {
		return v, err
	}
	return got.v, got.err
}

// Of asks about one process, 0 being the calling one, within Patience.
func Of[T any](pid int, ask func() (T, error)) (T, error) {
	v, err := Within(context.Background(), Patience, ask)
	if errors.Is(err, ErrStuck) {
		err = fmt.Errorf("process %d: %w", pid, err)
	}
	return v, err
}

// Steps are what is done for each of many.
type Steps struct {
	// Walk does what may not come back. It asks for the next one when it is done with one, and does nothing else for it afterwards.
	// All that it writes to belongs to that one.
	Walk func(next func() (i int, ok bool))

	// What Walk has finished, and what was left behind, Each itself reports in order. What was left behind still belongs to Walk, until it
	// comes back: then Late is called. Any of these may be nil.
	Done func(i int)
	Left func(i int, l *Left)
	Late func(i int)
}

// Each goes through 0 to n-1. One that takes longer than most, or a part of that where others did before, is left behind, and another walk
// goes on after it, on another goroutine. The end of ctx leaves behind what is under way, and is the error: what comes after that
// one is not gone through.
func Each(ctx context.Context, n int, most time.Duration, steps Steps) error {
	shortest := most / 16
	for from := 0; from < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := &walker{ended: make(chan struct{})}
		w.at.Store(int64(from))
		go w.walk(from, n, steps)
		l, at := w.wait(ctx, n, most), n
		if l != nil {
			at = l.index
		}
		for i := from; i < at && steps.Done != nil; i++ {
			steps.Done(i)
		}
		if l != nil && steps.Left != nil {
			steps.Left(at, l)
		}
		from, most = at+1, max(most/2, shortest)
	}
	return nil
}

// Left is one that was left behind.
type Left struct {
	index int
	back  atomic.Bool
}

// Back reports whether the kernel has answered since.
func (l *Left) Back() bool { return l.back.Load() }

// A walker goes through some, until it is left behind at one.
type walker struct {
	at    atomic.Int64 // the one that it is at; gone: it was left behind
	left  atomic.Pointer[Left]
	ended chan struct{}
}

const gone = -1

func (w *walker) walk(from, n int, steps Steps) {
	defer close(w.ended)
	i, begun := from, false
	steps.Walk(func() (int, bool) {
		if begun {
			if !w.at.CompareAndSwap(int64(i), int64(i+1)) {
				return 0, false
			}
			i++
		}
		begun = true
		return i, i < n
	})
	if w.at.Load() == gone {
		if steps.Late != nil {
			steps.Late(i)
		}
		w.left.Load().back.Store(true)
		behind.Add(-1)
	}
}

// wait waits for the walker's end. One that is at the same for too long is left behind there.
func (w *walker) wait(ctx context.Context, n int, most time.Duration) *Left {
	ticks := time.NewTicker(most)
	defer ticks.Stop()
	before := w.at.Load()
	for {
		select {
		case <-w.ended:
			return nil
		case <-ctx.Done():
			for at := w.at.Load(); at < int64(n); at = w.at.Load() {
				if l := w.leave(at); l != nil {
					return l
				}
			}
			<-w.ended
			return nil
		case <-ticks.C:
			at := w.at.Load()
			if at == before && at < int64(n) {
				if l := w.leave(at); l != nil {
					return l
				}
			}
			before = w.at.Load()
		}
	}
}

// leave leaves the walker behind at one, unless it is no longer there.
func (w *walker) leave(at int64) *Left {
	l := &Left{index: int(at)}
	w.left.Store(l)
	behind.Add(1)
	if w.at.CompareAndSwap(at, gone) {
		return l
	}
	behind.Add(-1)
	return nil
}
