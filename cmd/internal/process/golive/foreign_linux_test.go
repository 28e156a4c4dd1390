package golive

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// strangers are programs that we neither wrote nor built: those of Debian's packages etcd-server, prometheus, prometheus-node-exporter,
// caddy, syncthing and rclone. They are below the directory that UNTHROTTLE_FOREIGN names, as dpkg-deb -x has unpacked them.
var strangers = []struct {
	path string
	args []string // DIR is a directory of its own
}{
	{path: "usr/bin/etcd", args: []string{
		"--data-dir", "DIR/data", "--listen-client-urls", "http://127.0.0.1:0", "--advertise-client-urls", "http://127.0.0.1:0",
		"--listen-peer-urls", "http://127.0.0.1:0",
	}},
	{path: "usr/bin/prometheus", args: []string{"--config.file", "DIR/empty.yml", "--storage.tsdb.path", "DIR/data", "--web.listen-address", "127.0.0.1:0"}},
	{path: "usr/bin/prometheus-node-exporter", args: []string{"--web.listen-address", "127.0.0.1:0"}},
	{path: "usr/bin/caddy", args: []string{"file-server", "--listen", "127.0.0.1:0", "--root", "DIR"}},
	{path: "usr/bin/syncthing", args: []string{"serve", "--no-browser", "--no-upgrade", "--home", "DIR/home", "--gui-address", "127.0.0.1:0"}},
	{path: "usr/bin/rclone", args: []string{"serve", "http", "DIR", "--addr", "127.0.0.1:0"}},
}

func TestForeign(t *testing.T) {
	root := os.Getenv("UNTHROTTLE_FOREIGN")
	if root == "" {
		t.Skip("UNTHROTTLE_FOREIGN names no directory with Debian's programs")
	}
	for _, f := range strangers {
		t.Run(filepath.Base(f.path), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(dir+"/empty.yml", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			var args []string
			for _, arg := range f.args {
				if rest, ok := strings.CutPrefix(arg, "DIR"); ok {
					arg = dir + rest
				}
				args = append(args, arg)
			}
			for _, n := range []int{3, 40} {
				cmd := exec.Command(filepath.Join(root, f.path), args...)
				cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(n), "HOME="+dir)
				cmd.Dir = dir
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				got, err := waitFor(cmd.Process.Pid, n)
				if got.Procs != n || got.How != "decoded" || err != nil {
					t.Errorf("GOMAXPROCS=%d: %+v, %v", n, got, err)
				}
				cmd.Process.Kill()
				cmd.Wait()
			}
		})
	}
}

// waitFor reads a program until it has got as far as having its value.
func waitFor(pid, want int) (v Value, err error) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if v, err = Read(pid); err == nil && v.Procs == want || errors.Is(err, ErrExited) {
			break
		}
	}
	return v, err
}
