package procs

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// TestFind finds processes of a tree by all that a command line may call them.
func TestFind(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is about /proc")
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"12/stat": "12 (api) S 1", "12/cmdline": "/srv/api\x00-port\x008080\x00",
		"13/stat": "13 (api-worker-with-) S 1", "13/cmdline": "/srv/api-worker-with-a-long-name\x00",
		"14/stat": "14 (api) S 12", "14/cmdline": "api\x00",
		"15/stat": "15 (bash) S 1", "15/cmdline": "-bash\x00",
		"16/stat": "16 (kworker/0:1) S 1", "16/cmdline": "",
		"17/cmdline": "", // it has ended since its directory was listed
		"net/tcp":    "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 77 1\n",
		"net/tcp6":   "",
	} {
		path := filepath.Join(root, "proc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "proc/12/fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("socket:[77]", filepath.Join(root, "proc/12/fd/3")); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string][]int{
		"12": {12}, "99": {99}, "api": {12, 14}, "api-worker-with-a-long-name": {13}, "api*": {12, 13, 14}, "ba?h": {15}, "-bash": {15},
		"localhost:8080": {12}, ":8080": {12}, "http://127.0.0.1:8080/path": {12}, "127.0.0.1:8080/debug/pprof": {12},
	} {
		if got, err := Find(root, word); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", word, got, err, want)
		}
	}
	for word, want := range map[string]string{
		"0": `"0" is not a pid`, "-3": `"-3" is not a pid`, "[a": `"[a" is not a name`, "nginx": `no process is called "nginx"`, "": `no process is called ""`,
		"localhost:8081": "localhost:8081: nothing here listens on port 8081", "http://192.0.2.1:8080/": "192.0.2.1 is another host",
		"api": `2 processes are called "api"`,
	} {
		pid, err := FindOne(root, word)
		if err == nil || !strings.HasPrefix(err.Error(), want) || hint.Of(err) == nil {
			t.Errorf("%q: pid %d, %v, hints %q, want %q", word, pid, err, hint.Of(err), want)
		}
	}
	if _, err := FindOne(root, "api"); err != nil && hint.Of(err)[0] != "name one of them by its pid: 12, 14" {
		t.Errorf("the hint is %q", hint.Of(err))
	}
}

// TestFindHere finds this test by where it listens, and not by its name: users don't mean the command that they run.
func TestFindHere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if pid, err := FindOne("", l.Addr().String()); err != nil || pid != os.Getpid() {
		t.Errorf("pid %d, %v, want %d", pid, err, os.Getpid())
	}
	if pids, err := Find("", filepath.Base(os.Args[0])); err == nil && slices.Contains(pids, os.Getpid()) {
		t.Errorf("found itself among %d", pids)
	}
}
