package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// TestKnown reads the limit of a process repeatedly, and notices what may change it.
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
	const mounts = "25 24 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	for _, pid := range []string{"self", "42"} {
		write("proc/"+pid+"/cgroup", "0::/a\n")
		write("proc/"+pid+"/mountinfo", mounts)
		write("proc/"+pid+"/status", "Name:\ta\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n")
	}
	for _, group := range []string{"a", "b"} {
		write("sys/fs/cgroup/"+group+"/cgroup.procs", "")
		write("sys/fs/cgroup/"+group+"/cpu.max", "50000 100000\n")
	}
	v := newVisit(new(Survey), Options{Root: root})
	defer v.tree.Close()
	p := &Process{Process: procs.Process{PID: 42}}
	p.readLimit(root, 42)
	k := &known{facts: *p}
	look := func() cgroup.Limits {
		v.texts = map[string]string{}
		p := k.facts
		v.limit(k, &p)
		return p.System.Limits
	}
	if l := look(); l.CPUs != 0.5 || l.Affinity != 4 {
		t.Fatalf("%+v", l)
	}
	// From now on the groups can't be found, so that what is read again is not known.
	write("proc/self/mountinfo", "")
	write("proc/42/mountinfo", "")
	known := func(about string) {
		t.Helper()
		if l := look(); l.State != cgroup.Limited || l.CPUs != 0.5 {
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
	} {
		change(false)
		if l := look(); l.State == cgroup.Limited {
			t.Errorf("%s is another, and it is not read again: %+v", about, l)
		}
		change(true)
		write("proc/self/mountinfo", mounts)
		look() // what was not known is not kept
		look() // and neither is a quota that was not read before the limit was
		write("proc/self/mountinfo", "")
		known("after " + about + " came back")
	}
}
