package exectrace

import (
	"syscall"
	"testing"
)

// limitMemory makes this process end rather than use more.
func limitMemory(t *testing.T, bytes uint64) {
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		t.Fatal(err)
	}
}
