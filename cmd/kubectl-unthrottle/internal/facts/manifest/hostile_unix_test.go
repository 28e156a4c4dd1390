//go:build unix

package manifest

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNotPlain names what never ends or never begins: it is reported, and not waited for.
func TestNotPlain(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	t.Chdir(dir) // the name of a socket is short
	socket, err := net.Listen("unix", "socket.yaml")
	if err != nil {
		t.Skip("no sockets here: ", err)
	}
	defer socket.Close()
	for name, want := range map[string]string{pipe: "a named pipe", "socket.yaml": "a socket", "/dev/zero": "a device"} {
		set, err := Read(t.Context(), Options{}, name)
		if err != nil {
			t.Fatal(err)
		}
		if p := set.Problems; len(p) != 1 || p[0].Severity != Error || !strings.Contains(p[0].Text, want) || !strings.Contains(p[0].Hint, "-") {
			t.Errorf("%s: %v", name, p)
		}
	}
	if set, err := Read(t.Context(), Options{}, dir); err != nil || len(set.Problems) != 0 {
		t.Errorf("in a directory they are left out: %v, %v", set.Problems, err)
	}
}
