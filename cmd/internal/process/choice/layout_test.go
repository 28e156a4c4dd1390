package choice

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

var update = flag.Bool("update", false, "write the golden files")

// A layout is a saved file tree.
type layout struct {
	name string
	tree fixture.Tree
	pid  int // 0: the tree is read as the process's own
}

// layouts returns the library's saved trees, and those of this package, which are about what only other rules stumble
// over. Trees that leave out what their own test does not need are completed: a process without a mountinfo shares the
// reader's mounts, and where the quota is -1 there is a period as well.
func layouts(t *testing.T) []layout {
	t.Helper()
	shared, _ := filepath.Glob("../../../../cgroup/testdata/layouts/*.txtar")
	if len(shared) == 0 {
		t.Skip("the library's layouts are not here: they lie beside this module in a checkout")
	}
	own, _ := filepath.Glob("testdata/layouts/*.txtar")
	var all []layout
	for _, file := range append(shared, own...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l := layout{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), tree: fixture.Parse(string(text))}
		for _, pid := range l.tree.Directives("pid") {
			l.pid, _ = strconv.Atoi(pid)
			mountinfo := "proc/" + pid + "/mountinfo"
			if l.tree.File(mountinfo) == "" {
				l.tree.SetFile(mountinfo, l.tree.File("proc/self/mountinfo"))
			}
		}
		for _, f := range l.tree.Files {
			if dir, ok := strings.CutSuffix(f.Name, "quota_us"); ok && f.Data == "-1\n" && l.tree.File(dir+"period_us") == "" {
				l.tree.SetFile(dir+"period_us", "100000\n")
			}
		}
		all = append(all, l)
	}
	return all
}

// lay writes the tree to disk and returns its root.
func (l layout) lay(t *testing.T) string {
	t.Helper()
	for _, f := range l.tree.Files {
		if runtime.GOOS == "windows" && strings.ContainsAny(f.Name, ":\t\\") {
			t.Skip("Windows can't have such file names")
		}
	}
	root := t.TempDir()
	if err := l.tree.WriteTo(root); err != nil {
		t.Fatal(err)
	}
	if l.pid != 0 {
		l.namespaces(t, root)
	}
	return root
}

// namespaces gives a process with files of its own below its root the mount namespace that it needs to have them.
func (l layout) namespaces(t *testing.T, root string) {
	t.Helper()
	dir := filepath.Join(root, "proc", strconv.Itoa(l.pid))
	if _, err := os.Stat(filepath.Join(dir, "root")); err != nil {
		return
	}
	link(t, filepath.Join(root, "proc/self/ns/mnt"), "mnt:[1]")
	link(t, filepath.Join(dir, "ns/mnt"), "mnt:[2]")
	if err := os.MkdirAll(filepath.Join(dir, "root/proc"), 0o777); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, file, target string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
}

// TestLayouts writes down what every rule chooses for every layout. Each golden file was checked by hand against the rules' sources;
// TestReal checks the numbers against real programs.
func TestLayouts(t *testing.T) {
	for _, l := range layouts(t) {
		t.Run(l.name, func(t *testing.T) {
			root := l.lay(t)
			s := ReadSystem(root, l.pid, unthrottle.Go)
			got := strings.ReplaceAll(describe(s), root, "")
			golden := filepath.Join("testdata", l.name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// describe writes down the choices, a line a rule and a line below it for each remark.
func describe(s System) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", s.Limits.State)
	if s.Limits.CPUs > 0 {
		fmt.Fprintf(&b, ", %v CPUs from %s", s.Limits.CPUs, s.Limits.From)
	}
	fmt.Fprintf(&b, "; affinity %d\n", s.Limits.Affinity)
	for _, c := range s.Rules() {
		fmt.Fprintf(&b, "\n%s: GOMAXPROCS %d, limit %v", c.Rule, c.Procs, c.Limit)
		if c.Wrong {
			b.WriteString(", wrong")
		}
		b.WriteByte('\n')
		if c.Why != "" {
			b.WriteString("  why: " + c.Why + "\n")
		}
		if c.Fix != "" {
			b.WriteString("  fix: " + c.Fix + "\n")
		}
	}
	return b.String()
}
