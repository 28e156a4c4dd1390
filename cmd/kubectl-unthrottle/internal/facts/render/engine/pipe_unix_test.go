//go:build unix

package engine_test

import (
	"syscall"
	"testing"
)

func pipe(t *testing.T, name string) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
}
