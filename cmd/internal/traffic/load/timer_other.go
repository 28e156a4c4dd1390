//go:build !linux

package load

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A timer waits more exactly than time.Sleep: it sleeps to shortly before and spins the rest.
type timer struct {
	closed chan struct{}
	over   atomic.Bool
}

// slack is how late time.Sleep may be.
const slack = 1200 * time.Microsecond

func newTimer() (*timer, error) { return &timer{closed: make(chan struct{})}, nil }

// sleep waits. It returns false if close was called.
func (t *timer) sleep(d time.Duration) bool {
	end := time.Now().Add(d)
	if d > slack {
		select {
		case <-time.After(d - slack):
		case <-t.closed:
			return false
		}
	}
	for time.Now().Before(end) && !t.over.Load() {
		runtime.Gosched()
	}
	return !t.over.Load()
}

// close ends a sleep, and the timer.
func (t *timer) close() {
	if !t.over.Swap(true) {
		close(t.closed)
	}
}
