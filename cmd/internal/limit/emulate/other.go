//go:build !linux

package emulate

import "errors"

// A Controller holds a process and its descendants to a limit.
type Controller struct{}

// Check fails: this is for Linux only.
func Check() error { return errors.New("a CPU limit can be emulated on Linux only") }

// Start fails as Check does.
func Start(int, Limit) (*Controller, error) { return nil, Check() }

// Counters are what the limit has done so far.
func (*Controller) Counters() Counters { return Counters{} }

// Stop ends the limit.
func (*Controller) Stop() Counters { return Counters{} }

// Kill ends the processes that are left.
func (*Controller) Kill() int { return 0 }

// Warnings tell what could not be done.
func (*Controller) Warnings() []error { return nil }
