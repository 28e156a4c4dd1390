package host

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// TestKnown looks at a process again and again. What can't change of it is read once, and what can is noticed.
func TestKnown(t *testing.T) {
	root := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	started := func(at int) string {
		return "42 (a ) b) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 " + strconv.Itoa(at) + " 1 1\n"
	}
	const mounts = "25 24 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	for _, pid := range []string{"self", "42"} {
		write("proc/"+pid+"/cgroup", "0::/a\n")
		write("proc/"+pid+"/mountinfo", mounts)
		write("proc/"+pid+"/status", "Name:\ta\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n")
		write("proc/"+pid+"/stat", started(1000))
	}
	for _, group := range []string{"a", "b"} {
		write("sys/fs/cgroup/"+group+"/cgroup.procs", "")
		write("sys/fs/cgroup/"+group+"/cpu.max", "50000 100000\n")
	}
	var s systems
	env := map[string]string{"A": "1"}
	look := func() *Process {
		s.begin()
		p := &Process{Process: procs.Process{PID: 42, Env: env}}
		s.limit(root, p)
		return p
	}
	if p := look(); p.System.Limits.CPUs != 0.5 || p.System.Limits.Affinity != 4 {
		t.Fatalf("%+v", p.System.Limits)
	}
	// From now on nobody finds the groups, so that what is read anew is not known.
	write("proc/self/mountinfo", "")
	write("proc/42/mountinfo", "")
	known := func(about string) {
		t.Helper()
		if l := look().System.Limits; l.State != cgroup.Limited || l.CPUs != 0.5 {
			t.Errorf("%s it is read again: %+v", about, l)
		}
	}
	known("where nothing has changed")
	known("where nothing has changed since then")
	for about, change := range map[string]func(back bool){
		"its quota": func(back bool) {
			write("sys/fs/cgroup/a/cpu.max", map[bool]string{false: "max 100000\n", true: "50000 100000\n"}[back])
		},
		"its group": func(back bool) { write("proc/42/cgroup", map[bool]string{false: "0::/b\n", true: "0::/a\n"}[back]) },
		"its CPUs": func(back bool) {
			write("proc/42/status", "Cpus_allowed_list:\t"+map[bool]string{false: "0", true: "0-3"}[back]+"\n")
		},
		"its start":       func(back bool) { write("proc/42/stat", started(map[bool]int{false: 1001, true: 1000}[back])) },
		"its environment": func(back bool) { env = map[string]string{"A": map[bool]string{false: "2", true: "1"}[back]} },
	} {
		change(false)
		if l := look().System.Limits; l.State == cgroup.Limited {
			t.Errorf("%s is another, and it is not read again: %+v", about, l)
		}
		change(true)
		write("proc/self/mountinfo", mounts)
		look() // what was not known is not kept
		write("proc/self/mountinfo", "")
		known("after " + about + " came back")
	}
	s.begin() // a look in which it was not seen
	s.begin()
	if len(s.known) != 0 {
		t.Errorf("it is remembered: %v", s.known)
	}
}
