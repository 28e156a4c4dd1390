//go:build unix

package binary

import (
	"syscall"
	"testing"
)

// makePipe makes a named pipe, which must not be waited for.
func makePipe(t *testing.T, path string) {
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
}
