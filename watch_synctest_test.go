//go:build go1.25

//go:debug asynctimerchan=0
//go:debug containermaxprocs=1
//go:debug updatemaxprocs=1

// The directives above let all tests of this package run as a program of today would, although go.mod has an old go
// line for the sake of those who import the library.

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
		var told []int
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, Options{Interval: 10 * time.Second}, func(d Decision) { told = append(told, d.Policy.User) })
		}()
		synctest.Wait()
		os.Setenv("GOMAXPROCS", "7")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if len(told) != 1 {
			t.Errorf("after 9 s told %v, want one decision", told)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(told) != 2 || told[1] != 7 {
			t.Errorf("after 11 s told %v, want a second decision with 7", told)
		}
		cancel()
		<-done
	})
}
