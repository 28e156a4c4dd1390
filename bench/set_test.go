package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	automaxprocs "go.uber.org/automaxprocs/maxprocs"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/maxprocs"
)

// A contender does the work once.
type contender struct {
	name string
	run  func() error
}

// contenders are compared with each other. "files" is what all of them need: the three files, read in the plain way.
func contenders(quotaFile string) []contender {
	return []contender{
		{"unthrottle", func() error { _, _ = unthrottle.Set(unthrottle.Options{Policy: unthrottle.Floor}); return nil }},
		{"unthrottle-maxprocs", func() error { _, err := maxprocs.Set(); return err }},
		{"automaxprocs", func() error { _, err := automaxprocs.Set(); return err }},
		{"files", func() error { return readFiles("/proc/self/cgroup", "/proc/self/mountinfo", quotaFile) }},
	}
}

func readFiles(names ...string) error {
	for _, name := range names {
		if _, err := os.ReadFile(name); err != nil {
			return err
		}
	}
	return nil
}

// A situation is what the process finds when it calls Set.
type situation struct {
	name string
	cpus int // 0: no limit
}

// The quota is one that doesn't throttle: what is measured is reading it. GOMAXPROCS is right after the first call, so
// the later ones don't stop the world.
var situations = []situation{{"none", 0}, {"all-cpus", runtime.NumCPU()}}

// enter puts this process into the situation until the benchmark ends and returns the file that holds its quota.
func enter(tb testing.TB, s situation) (quotaFile string) {
	tb.Helper()
	tb.Setenv("GOMAXPROCS", "") // for its cleanup: Unsetenv has none
	if err := os.Unsetenv("GOMAXPROCS"); err != nil {
		tb.Fatal(err)
	}
	before := runtime.GOMAXPROCS(0)
	tb.Cleanup(func() { runtime.GOMAXPROCS(before) })

	l := cgroup.Read(cgroup.Source{})
	if len(l.Levels) == 0 {
		tb.Skipf("no cgroup is visible: %v", l.Reason)
	}
	home := l.Levels[0].Dir
	dir := home
	if s.cpus > 0 {
		g := kerneltest.New(tb)
		g.SetQuota(s.cpus * 100000)
		g.Add(os.Getpid())
		tb.Cleanup(func() {
			if err := os.WriteFile(filepath.Join(home, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
				tb.Error(err)
			}
		})
		dir = g.Dir
	}
	for _, name := range []string{"cpu.max", "cpu.cfs_quota_us"} {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	tb.Skipf("%s has no quota file", dir)
	return ""
}

// BenchmarkSet should be run several times with -count 1: with a larger count, all runs of one contender come in a row.
func BenchmarkSet(b *testing.B) {
	for _, s := range situations {
		b.Run("quota="+s.name, func(b *testing.B) {
			for _, c := range contenders(enter(b, s)) {
				b.Run("by="+c.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := c.run(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// TestSetAllocates checks what the benchmark shows about memory, which a test can: it doesn't depend on the machine's load. The bounds are
// this project's goals.
func TestSetAllocates(t *testing.T) {
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			used := map[string]memory{}
			for _, c := range contenders(enter(t, s)) {
				used[c.name] = allocated(t, c.run)
			}
			ours, theirs := used["unthrottle"], used["automaxprocs"]
			if 5*ours.count > theirs.count || 5*ours.bytes > theirs.bytes {
				t.Errorf("unthrottle allocates %+v, more than a fifth of automaxprocs' %+v", ours, theirs)
			}
		})
	}
}

// memory is what a hundred calls allocate.
type memory struct{ count, bytes uint64 }

func allocated(t *testing.T, run func() error) memory {
	var before, after runtime.MemStats
	for i := range 101 {
		if i == 1 { // the first call may do what the others need not
			runtime.ReadMemStats(&before)
		}
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return memory{after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}
