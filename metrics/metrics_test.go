package metrics

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

// all are facts from which every series has a value.
func all() *facts {
	limits := cgroup.Limits{
		State: cgroup.Limited, CPUs: 1.5, From: "/sys/fs/cgroup/system.slice", Affinity: 16,
		Levels: []cgroup.Level{
			{Dir: "/sys/fs/cgroup/system.slice/app", Quota: cgroup.Quota{QuotaMicros: 400000, PeriodMicros: 100000}},
			{Dir: "/sys/fs/cgroup/system.slice", Quota: cgroup.Quota{QuotaMicros: 150000, PeriodMicros: 100000}},
			{Dir: "/sys/fs/cgroup"},
		},
	}
	d := unthrottle.Decide(limits, unthrottle.Go)
	m := cgroup.Memory{State: cgroup.Limited, Bytes: 1 << 30, From: "/sys/fs/cgroup/system.slice/app", High: true}
	k := memory.Decide(m, memory.Options{})
	k.GivenUp, k.Spirals = true, 3
	return &facts{
		cpu: limits, procs: 2, decision: &d, memory: m, goMemLimit: k.Bytes, kept: &k,
		throttling: cgroup.Throttling{
			Owner: cgroup.Counters{Dir: "/sys/fs/cgroup/system.slice", Known: true, Periods: 1000, Throttled: 250, ThrottledTime: 12500 * time.Millisecond},
			Local: 20 * time.Second, LocalKnown: true,
		},
	}
}

func TestText(t *testing.T) {
	const want = `unthrottle_cpu_limit_info{state="limited"} 1
unthrottle_cpu_limit_cpus{group="/sys/fs/cgroup/system.slice"} 1.5
unthrottle_cpu_level_limit_cpus{group="/sys/fs/cgroup/system.slice/app"} 4
unthrottle_cpu_level_limit_cpus{group="/sys/fs/cgroup/system.slice"} 1.5
unthrottle_cpu_periods_total{group="/sys/fs/cgroup/system.slice"} 1000
unthrottle_cpu_throttled_periods_total{group="/sys/fs/cgroup/system.slice"} 250
unthrottle_cpu_throttled_seconds_total{group="/sys/fs/cgroup/system.slice"} 12.5
unthrottle_cpu_held_seconds_total 20
unthrottle_gomaxprocs 2
unthrottle_gomaxprocs_info{by="limit",policy="go"} 1
unthrottle_memory_limit_bytes{group="/sys/fs/cgroup/system.slice/app",kind="high"} 1.073741824e+09
unthrottle_gomemlimit_bytes 9.66367641e+08
unthrottle_gomemlimit_given_up 1
unthrottle_gomemlimit_spirals_total 3
`
	if got := series(text(all().samples())); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var told, described []string
	for _, s := range all().samples() {
		if n := len(told); n == 0 || told[n-1] != s.Name {
			told = append(told, s.Name)
		}
	}
	for _, s := range Describe() {
		described = append(described, s.Name)
	}
	if strings.Join(told, " ") != strings.Join(described, " ") {
		t.Errorf("described: %v\ntold: %v", described, told)
	}
	nothing := facts{cpu: cgroup.Limits{Reason: errors.New("no /proc")}, procs: 2, goMemLimit: math.MaxInt64}
	if got, want := series(text(nothing.samples())), "unthrottle_cpu_limit_info{state=\"unknown\"} 1\nunthrottle_gomaxprocs 2\n"; got != want {
		t.Errorf("of what is not known: %s", got)
	}
	odd := facts{cpu: cgroup.Limits{State: cgroup.Limited, CPUs: 1, From: "/a\"b\\c\nd\xff"}, goMemLimit: math.MaxInt64}
	if got := series(text(odd.samples())); !strings.Contains(got, `{group="/a\"b\\c\nd`+"\uFFFD"+`"} 1`) {
		t.Errorf("an odd name: %q", got)
	}
}

// series are the lines that aren't comments.
func series(text []byte) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(string(text), "\n") {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestPromtool has Prometheus' own checker read what is written, of all series and of this process.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_BROWSER") == "1" { // where CI has installed everything
			t.Fatal(err)
		}
		t.Skip(err)
	}
	var own bytes.Buffer
	if err := WritePrometheus(&own); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"all": text(all().samples()), "own": own.Bytes()} {
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", name, err, out, text)
		}
	}
}

func TestWriteError(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if err := WritePrometheus(f); err == nil {
		t.Error("no error from a full disk")
	}
}

func BenchmarkWritePrometheus(b *testing.B) {
	b.ReportAllocs()
	var w bytes.Buffer
	for i := 0; i < b.N; i++ {
		w.Reset()
		if err := WritePrometheus(&w); err != nil {
			b.Fatal(err)
		}
	}
}
