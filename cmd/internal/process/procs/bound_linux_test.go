package procs

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// bind makes this process one of a kind.
func bind(what, where string) {
	var err error
	switch what {
	case "reads":
		_, err = os.Open(where)
	case "writes":
		_, err = os.OpenFile(where, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	case "temporary":
		if _, err = os.OpenFile(where, os.O_RDWR|os.O_CREATE, 0o644); err == nil {
			err = os.Remove(where)
		}
	case "serves":
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			fmt.Println(l.Addr())
			_, err = l.Accept()
		}
	case "dials":
		_, err = net.Dial("tcp", where)
	case "dials unix":
		_, err = net.Dial("unix", where)
	case "asks by UDP":
		_, err = net.Dial("udp", where)
	}
	if err != nil {
		panic(err)
	}
}

// TestBound: what a server writes and what it is connected to is seen, also where a child of it does; its clients and what it reads are
// not.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unix, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	for what, c := range map[string]struct{ where, want string }{
		"nothing":     {"", ""},
		"reads":       {file, ""},
		"temporary":   {filepath.Join(dir, "gone"), ""},
		"serves":      {"", ""},
		"writes":      {file, "it writes " + file},
		"dials":       {tcp.Addr().String(), "it is connected to a port " + port},
		"dials unix":  {unix.Addr().String(), "it is connected by a Unix socket"},
		"asks by UDP": {tcp.Addr().String(), "it is connected to a port " + port},
	} {
		for _, by := range []string{"itself", "a child"} {
			args := []string{os.Args[0], c.where}
			if by == "a child" {
				args = append([]string{"/bin/sh", "-c", `"$0" "$1"; :`}, args...)
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "PROCS_TEST_BOUND="+what)
			in, out := kerneltest.Talk(t, cmd)
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "ready" {
				c, err := net.Dial("tcp", lines.Text())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			if got := Bound("", cmd.Process.Pid); got != c.want {
				t.Errorf("%s, %s: %q, want %q", what, by, got, c.want)
			}
			in.Close()
			cmd.Wait()
		}
	}
	if got := Bound("", 1<<22); !strings.Contains(got, "can't be seen") {
		t.Errorf("a process that is not there: %q", got)
	}
}

// FuzzBound: there is an answer for any tables, and a socket that the process does not have is never one of its connections.
func FuzzBound(f *testing.F) {
	root := f.TempDir()
	links := map[int]string{7: "socket:[12345]", 8: "/var/log/app.log"}
	for pid, link := range links {
		for _, d := range []string{"fd", "fdinfo", "net"} {
			if err := os.MkdirAll(filepath.Join(Dir(root, pid), d), 0o755); err != nil {
				f.Fatal(err)
			}
		}
		if err := os.Symlink(link, filepath.Join(Dir(root, pid), "fd", "3")); err != nil {
			f.Fatal(err)
		}
	}
	f.Add([]byte("  sl  local_address rem_address   st\n   0: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 12345 1\n"),
		[]byte("Num       RefCount Protocol Flags    Type St Inode Path\n0: 00000003 00000000 00000000 0001 03 12345 /run/a\n"), []byte("pos:\t0\nflags:\t0100002\n"))
	f.Fuzz(func(t *testing.T, tcp, unix, flags []byte) {
		for pid := range links {
			for name, data := range map[string][]byte{"net/tcp": tcp, "net/unix": unix, "fdinfo/3": flags} {
				if err := os.WriteFile(filepath.Join(Dir(root, pid), name), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if why := bound(root, 7); why != "" && !bytes.Contains(tcp, []byte("12345")) && !bytes.Contains(unix, []byte("12345")) {
			t.Errorf("a socket that is not its own: %q", why)
		}
		if why := bound(root, 8); why != "" && why != "it writes "+links[8] {
			t.Errorf("without a socket: %q", why)
		}
	})
}
