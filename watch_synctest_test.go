//go:build go1.25

//go:debug asynctimerchan=0
//go:debug containermaxprocs=1
//go:debug updatemaxprocs=1

// The directives above let all tests of this package run as a program of today would, although go.mod has an old go line, for the sake of
// the programs that import the library.

package unthrottle

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchInterval runs the clock by hand: a change is seen at the next look, and not before.
func TestWatchInterval(t *testing.T) {
	start(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		told := make(chan int, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, Options{Interval: 10 * time.Second}, func(d Decision) { told <- d.Policy.operator.procs })
		}()
		synctest.Wait()
		os.Setenv("GOMAXPROCS", "7")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := len(told); n != 1 {
			t.Errorf("after 9 s told %d times, want once", n)
		}
		<-told
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(told); n != 1 {
			t.Fatalf("after 11 s told %d times more, want once", n)
		}
		if user := <-told; user != 7 {
			t.Errorf("told of GOMAXPROCS=%d, want 7", user)
		}
		cancel()
		<-done
	})
}
