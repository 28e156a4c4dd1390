package procs

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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

func TestServing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for host, want := range map[string]int{
		"localhost": os.Getpid(), "127.0.0.1": os.Getpid(), "127.0.0.2": os.Getpid(), // as far as the port shows
		"192.0.2.1": 0, "example.com": 0, "": 0,
	} {
		if pid := Serving("", &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}); pid != want {
			t.Errorf("%q: pid %d, want %d", host, pid, want)
		}
	}
}

func TestPort(t *testing.T) {
	for text, want := range map[string]int{
		"http://a": 80, "https://a/b": 443, "https://a:80": 80, "http://[::1]:8080/": 8080, "ftp://a": 0,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Port(u); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func FuzzListening(f *testing.F) {
	f.Add([]byte("  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1\n"), 8080)
	f.Fuzz(func(t *testing.T, data []byte, port int) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tcp"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		listening(dir, "/tcp", port, map[string]bool{})
	})
}

func TestPorts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc to see")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := l.Addr().(*net.TCPAddr).Port
	// This process is a child of its parent, whose ports are ours as well.
	for _, pid := range []int{os.Getpid(), os.Getppid()} {
		ports, err := Ports("", pid)
		if err != nil || !slices.Contains(ports, want) {
			t.Errorf("process %d: got %v, %v, want %d among them", pid, ports, err, want)
		}
	}
	if ports, err := Ports("", 1<<30); err != nil || ports != nil {
		t.Errorf("nobody: got %v, %v", ports, err)
	}
}
