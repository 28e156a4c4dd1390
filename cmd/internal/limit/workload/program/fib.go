package program

import (
	"fmt"
	"sync/atomic"
	"time"
)

// The flood is started in batches by one goroutine, and a batch takes a token until its last goroutine has finished.
// That bounds the goroutines in flight, and with them the memory, to 4096, far more than are needed to keep 192 Ps busy;
// and it costs one atomic addition an operation, to a counter of the batch, rather than a lock that all share.
const (
	fibBatch  = 64
	fibTokens = 64
)

// runFib measures how many goroutines a second can be started and finished, each of them computing fib(10).
func runFib(o options) (Result, error) {
	if _, wrong := flood(warmUp); wrong != 0 {
		return Result{}, fmt.Errorf("fib(10) was wrong %d times", wrong)
	}
	m := startMeter()
	ops, wrong := flood(o.window)
	r := m.stop(ops)
	if wrong != 0 {
		return r, fmt.Errorf("fib(10) was wrong %d times", wrong)
	}
	r.Metrics["ops/s"] = float64(ops) / r.Seconds
	return r, nil
}

// flood starts goroutines for the given time, waits for those that are in flight, and returns how many there were. The
// time it takes includes the waiting, so that the rate is that of finished goroutines.
func flood(window time.Duration) (ops, wrong int64) {
	tokens := make(chan struct{}, fibTokens)
	for end := time.Now().Add(window); ops == 0 || time.Now().Before(end); ops += fibBatch {
		tokens <- struct{}{}
		left := new(int32)
		*left = fibBatch
		for i := 0; i < fibBatch; i++ {
			go func() {
				if fib(10) != 55 {
					atomic.AddInt64(&wrong, 1)
				}
				if atomic.AddInt32(left, -1) == 0 {
					<-tokens
				}
			}()
		}
	}
	for i := 0; i < fibTokens; i++ {
		tokens <- struct{}{} // all tokens are here, so nothing is in flight
	}
	return ops, atomic.LoadInt64(&wrong)
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}
