package procs

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestListener(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("listening on %s: %v", address, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		if pid, err := Listener("", port); err != nil || pid != os.Getpid() {
			t.Errorf("%s: pid %d, %v, want %d", address, pid, err, os.Getpid())
		}
		l.Close()
		if pid, err := Listener("", port); err == nil {
			t.Errorf("%s: pid %d listens though it is closed", address, pid)
		}
	}
}

func FuzzListening(f *testing.F) {
	f.Add([]byte("  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1\n"), 8080)
	f.Fuzz(func(t *testing.T, data []byte, port int) {
		path := filepath.Join(t.TempDir(), "tcp")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		listening(path, port, map[string]bool{})
	})
}
