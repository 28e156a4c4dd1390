package program

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// maxWorkers bounds the workers of garbage and json. Every worker finishes the operation it is in when the window ends,
// so with 192 of them on one CPU the end alone would take seconds, and each holds a document in memory.
const maxWorkers = 16

// workers is how many goroutines share the operations of garbage and json: one for every P, as golang.org/x/benchmarks
// has it, for a program that computes all the time is usually written so; but see maxWorkers.
func workers() int {
	if n := runtime.GOMAXPROCS(0); n < maxWorkers {
		return n
	}
	return maxWorkers
}

// spread calls op from n goroutines until the time is over, or one failed, and returns how many calls were finished. Every operation that
// was begun is finished and counted. op gets the worker that calls it, and the number of the operation, the first being 0.
func spread(n int, window time.Duration, op func(worker int, i int64) error) (int64, error) {
	var (
		wg     sync.WaitGroup
		next   int64 = -1
		failed int32
		errs   = make([]error, n)
		end    = time.Now().Add(window)
	)
	for w := 0; w < n; w++ {
		wg.Add(1)
		go func(w int) {
			defer wg.Done()
			// The first operation is done regardless of the time, so that a run has something to report.
			for first := true; first || time.Now().Before(end) && atomic.LoadInt32(&failed) == 0; first = false {
				if err := op(w, atomic.AddInt64(&next, 1)); err != nil {
					errs[w] = err
					atomic.StoreInt32(&failed, 1)
					return
				}
			}
		}(w)
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return next + 1, nil
}

// measure warms up, and then measures spread.
func measure(n int, window time.Duration, op func(worker int, i int64) error) (Result, error) {
	if _, err := spread(n, warmUp, op); err != nil {
		return Result{}, err
	}
	m := startMeter()
	ops, err := spread(n, window, op)
	if err != nil {
		return Result{}, err
	}
	return m.stop(ops), nil
}
