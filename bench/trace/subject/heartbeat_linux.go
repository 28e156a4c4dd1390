package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"syscall"
	"time"
)

// heartbeat is the truth: a thread that sleeps most of the time gets a CPU at once unless its group is frozen. It prints the share of the
// wall time in which it was late. It begins when stdin is closed.
func heartbeat() error {
	runtime.LockOSThread()
	io.Copy(io.Discard, os.Stdin)
	const beat = 2 * time.Millisecond
	var late []float64
	var sum time.Duration
	start := time.Now()
	for last := start; last.Sub(start) < *window; {
		ts := syscall.NsecToTimespec(int64(beat))
		syscall.Nanosleep(&ts, nil)
		now := time.Now()
		if d := now.Sub(last) - beat; d > beat*3/2 {
			late = append(late, float64(d))
			sum += d
		}
		last = now
	}
	sort.Float64s(late)
	longest := 0.0
	if len(late) > 0 {
		longest = late[len(late)-1]
	}
	fmt.Printf("%.4f %d %.1f\n", float64(sum)/float64(time.Since(start)), len(late), longest/1e6)
	os.Exit(0)
	return nil
}
