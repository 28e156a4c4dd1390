//go:build !linux

package golive

import (
	"errors"
	"fmt"
	"runtime"
)

// A Process is a running Go program. Only on Linux can one be read.
type Process struct{}

// Open returns an error: this system has no /proc.
func Open(string, int) (*Process, error) {
	return nil, fmt.Errorf("reading another process's GOMAXPROCS on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Files remembers nothing here.
type Files struct{}

// Forget does nothing.
func (*Files) Forget() {}

// Keep does nothing.
func (*Files) Keep(*Process) {}

// Open returns an error.
func (*Files) Open(root string, pid int) (*Process, error) { return Open(root, pid) }

// Close does nothing.
func (*Process) Close() error { return nil }

// Runs returns false.
func (*Process) Runs() bool { return false }

// GoVersion returns nothing.
func (*Process) GoVersion() string { return "" }

// GOMAXPROCS returns an error.
func (*Process) GOMAXPROCS() (Value, error) { return Value{}, errors.ErrUnsupported }

// Sched returns an error.
func (*Process) Sched() (Sched, error) { return Sched{}, errors.ErrUnsupported }

// TrySched returns an error.
func (*Process) TrySched() (Sched, error) { return Sched{}, errors.ErrUnsupported }

// Collector returns an error.
func (*Process) Collector() (Collector, error) { return Collector{}, errors.ErrUnsupported }
