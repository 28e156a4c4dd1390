package trial

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

func command(args ...string) *Runner {
	c := One(args...)
	c.Metric, c.Unit = regexp.MustCompile(`rate: (\S+)`), "req/s"
	return &Runner{Programs: c.Program}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		script, err string
		rate        float64
	}{
		{script: "echo rate: 5; echo rate: 7.5; echo done", rate: 7.5},
		{script: "echo nothing", err: `nothing in its output matches "rate: (\\S+)"`},
		{script: "echo rate: fast", err: `"fast", which matches "rate: (\\S+)", is not a number`},
		{script: "echo rate: 5; echo oh >&2; echo dear >&2; exit 3", err: "exit code 3: dear"},
		{script: "kill -9 $$", err: "ended by SIGKILL"},
		{script: "sleep 5 & echo rate: 5", rate: 5}, // what it leaves behind holds its output open
	} {
		t.Run(c.script, func(t *testing.T) {
			run, err := command("sh", "-c", c.script).Run(context.Background(), lab.Setting{Procs: 3})
			if err != nil {
				t.Fatal(err)
			}
			if run.Error != c.err || run.Metrics["req/s"] != c.rate {
				t.Errorf("got %+v", run)
			}
			if run.LimitKind != "none" || run.GOMAXPROCS != 3 || run.Metrics["wall-sec"] <= 0 || run.Metrics["cpu-sec"] <= 0 {
				t.Errorf("got %+v", run)
			}
		})
	}
	if _, err := command("nosuchprogram").Run(context.Background(), lab.Setting{}); err == nil {
		t.Error("a program that is not there gave no error")
	}
}

// TestFindGo: what a script starts is looked at as well, while it runs, and in the first run only.
func TestFindGo(t *testing.T) {
	slowtest.Skip(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]bool{
		"true":                  true,
		"sleep 0.1; echo":       true,
		"exec $0 -test.run=^$":  false,
		"$0 -test.run=^$; echo": false,
		"sh -c '$0 -test.run=^$; echo' $0 | cat; echo":                 false,
		"sleep 1 | TRIAL_TEST_LAST=1 $0 -test.run=Lasting 2>/dev/null": false, // it hides its stderr
	} {
		r := &Runner{Programs: One("sh", "-c", script, self).Program, FindGo: true}
		for _, want := range []bool{want, false} {
			run, err := r.Run(context.Background(), lab.Setting{})
			if got := slices.Contains(run.Marks, lab.MarkNoGo); err != nil || run.Error != "" || got != want {
				t.Errorf("%s: %+v, %v", script, run, err)
			}
		}
	}
}

// TestFindGoLasting is a Go program that lasts until its input ends.
func TestFindGoLasting(t *testing.T) {
	if os.Getenv("TRIAL_TEST_LAST") == "" {
		t.Skip("it is a part of TestFindGo")
	}
	io.Copy(io.Discard, os.Stdin)
}

// TestEnvironment: the setting's GOMAXPROCS, or none at all, regardless of ours.
func TestEnvironment(t *testing.T) {
	t.Setenv("GOMAXPROCS", "7")
	for procs, want := range map[int]float64{0: 0, 2: 2} {
		run, err := command("sh", "-c", `echo rate: ${GOMAXPROCS:-0}`).Run(context.Background(), lab.Setting{Procs: procs})
		if err != nil || run.Error != "" || run.Metrics["req/s"] != want {
			t.Errorf("GOMAXPROCS %d: got %+v, %v", procs, run, err)
		}
	}
}

// TestCancel ends a program with the lab, also one that does not want to.
func TestCancel(t *testing.T) {
	slowtest.Skip(t)
	for _, script := range []string{"echo ready >&2; exec sleep 1000", "trap '' TERM; while :; do sleep 1; done"} {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := command("sh", "-c", script).Run(ctx, lab.Setting{}); err != nil {
			t.Error(err)
		}
	}
}

// TestTogether: programs run at the same time, and what one uses does not count as use by others.
func TestTogether(t *testing.T) {
	const meet = `touch "$0/$1"; while [ ! -e "$0/$2" ]; do :; done`
	dir := t.TempDir()
	c := Command{Name: "meet", Builds: map[Build][]string{
		{Name: "a"}: {"sh", "-c", meet, dir, "a", "b"}, {Name: "b"}: {"sh", "-c", meet, dir, "b", "a"}, {Name: "bad"}: {"sh", "-c", "exit 3"},
	}}
	r := Together{Alike{Runner: &Runner{Programs: c.Program}}}
	runs, err := r.Several(t.Context(), []lab.Setting{{Build: "a"}, {Build: "b"}}, 1)
	if err != nil || len(runs) != 2 || runs[0].Error != "" || runs[1].Error != "" {
		t.Fatalf("%+v, %v", runs, err)
	}
	if a, b := runs[0], runs[1]; a.Others != b.Others || a.Stolen != b.Stolen || len(a.Marks) != len(b.Marks) {
		t.Errorf("what the host did is told differently of %+v and %+v", a, b)
	}
	if runs, err = r.Several(t.Context(), []lab.Setting{{Build: "a"}, {Build: "bad"}}, 1); err != nil || runs[0].Error != "" || runs[1].Error != "exit code 3" {
		t.Errorf("%+v, %v", runs, err)
	}
	if cpus, harm := r.Beside(); cpus != 0 || harm != "" {
		t.Errorf("%v CPUs, %q", cpus, harm)
	}
}

func TestDisturb(t *testing.T) {
	const hundredth = 10 * time.Millisecond
	before := procs.HostMoment{HostTimes: procs.HostTimes{Busy: 180 * hundredth, Steal: 40 * hundredth, Total: 1250 * hundredth}, At: time.Unix(0, 0), Known: true}
	after := before
	after.At = before.At.Add(time.Second)
	after.Total += 200 * hundredth // two CPUs
	after.Busy += 63 * hundredth
	disturb := func(before procs.HostMoment, used time.Duration) (run lab.Run) {
		Disturb(&run, before, after, used)
		return run
	}
	if got := disturb(before, 600*time.Millisecond); got.Marks != nil || got.Others != 0 {
		t.Errorf("all was the program's: got %+v", got)
	}
	if got := disturb(before, 200*time.Millisecond); strings.Join(got.Marks, "; ") != "other processes used 0.4 CPUs" || got.Others != 0.4 || got.Stolen != 0 {
		t.Errorf("got %+v", got)
	}
	after.Steal += 20 * hundredth
	if got := disturb(before, 600*time.Millisecond); strings.Join(got.Marks, "; ") != "the hypervisor took 10 % of the CPU time" || got.Stolen != 0.1 || got.Others != 0 {
		t.Errorf("got %+v", got)
	}
	if got := disturb(procs.HostMoment{}, 0); got.Marks != nil {
		t.Errorf("nothing is known before: got %+v", got)
	}
}

func TestGoBench(t *testing.T) {
	slowtest.Skip(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/b\n\ngo 1.21\n",
		"b_test.go": `package b

import "testing"

func BenchmarkA(b *testing.B) { for i := 0; i < b.N; i++ { b.ReportMetric(3, "things/op") } }

func BenchmarkS(b *testing.B) {
	for _, name := range []string{"at:/", "at:/a", "at:/a/b"} {
		b.Run(name, func(b *testing.B) { for i := 0; i < b.N; i++ { b.ReportMetric(float64(len(name)), "long/op") } })
	}
}

func BenchmarkB(b *testing.B) {
	b.Run("x=1", func(b *testing.B) { for i := 0; i < b.N; i++ { } })
	b.Run("x=2", func(b *testing.B) { for i := 0; i < b.N; i++ { } })
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	g := &GoBench{Package: ".", Regexp: "A|B/x=2", For: "10x", Dir: t.TempDir()}
	if err := g.Prepare(context.Background(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(g.Names, " "); got != "BenchmarkA BenchmarkB/x=2" {
		t.Fatalf("got %q", got)
	}
	r := &Runner{Programs: g.Program}
	run, err := r.Run(context.Background(), lab.Setting{Workload: "BenchmarkA", Procs: 3})
	if err != nil || run.Error != "" || run.GOMAXPROCS != 3 || run.Metrics["things/op"] != 3 || run.Metrics["ns/op"] < 0 {
		t.Errorf("got %+v, %v", run, err)
	}
	run, err = r.Run(context.Background(), lab.Setting{Workload: "BenchmarkB/x=2", Procs: 1})
	if err != nil || run.Error != "" || run.GOMAXPROCS != 1 {
		t.Errorf("got %+v, %v", run, err)
	}
	if _, ok := run.Metrics["ns/op"]; !ok {
		t.Errorf("got %+v", run)
	}
	slashes := &GoBench{Package: ".", Regexp: "S", For: "10x", Dir: t.TempDir()}
	if err := slashes.Prepare(context.Background(), func(string) {}); err != nil || len(slashes.Names) != 3 {
		t.Fatalf("names with slashes: %q, %v", slashes.Names, err)
	}
	for _, procs := range []int{1, 2} {
		run, err = (&Runner{Programs: slashes.Program}).Run(context.Background(), lab.Setting{Workload: "BenchmarkS/at:/a", Procs: procs})
		if err != nil || run.Error != "" || run.Metrics["long/op"] != 5 || run.Ops != 0 {
			t.Errorf("one among others that run with it: %+v, %v", run, err)
		}
	}
	t.Chdir(t.TempDir())
	elsewhere := &GoBench{Package: dir, Regexp: "BenchmarkA", For: "10x", Dir: t.TempDir()}
	if err := elsewhere.Prepare(context.Background(), func(string) {}); err != nil || len(elsewhere.Names) != 1 {
		t.Errorf("from another directory: %q, %v", elsewhere.Names, err)
	}
	t.Chdir(dir)
	if err := (&GoBench{Package: ".", Regexp: "None", Dir: t.TempDir()}).Prepare(context.Background(), func(string) {}); err == nil ||
		!strings.Contains(err.Error(), `no benchmark that matches "None"`) {
		t.Errorf("got %v", err)
	}
}

func TestTail(t *testing.T) {
	var b tail
	chunk := []byte(strings.Repeat("x", 1000))
	for range 5000 {
		b.Write(chunk)
	}
	b.Write([]byte("end"))
	if n := len(b.Bytes()); n < tailSize || n > 2*tailSize+1000 || !strings.HasSuffix(string(b.Bytes()), "xend") {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestComplaint(t *testing.T) {
	for out, want := range map[string]string{
		"panic: no database\n\ngoroutine 1 [running]:\nmain.go:3\nexit status 2\nFAIL": "main.go:3",
		"--- FAIL: BenchmarkX\n    x_test.go:9: no file\nFAIL\nFAIL\ta/b\t0.1s\n":      "x_test.go:9: no file",
		"FAIL\n": "FAIL",
		"":       "",
	} {
		if got := complaint([]byte(out)); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}
