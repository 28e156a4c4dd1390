//go:build unix

package input

import (
	"path/filepath"
	"syscall"
	"testing"
)

func fifo(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip("no FIFO can be made: ", err)
	}
	return name
}
