//go:build !linux

package demo

import "time"

var began = time.Now()

// threadCPU is the time on the clock: without CPU limits it is close to CPU time, and the best of several tries is taken.
func threadCPU() time.Duration { return time.Since(began) }
