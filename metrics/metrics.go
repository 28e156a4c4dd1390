// Package metrics tells a Go program's own monitoring what limits do to it: the CPU limit in force and whose it is, periods and
// time in which it was throttled, GOMAXPROCS and what it came from, the memory limit, and whether it had to be given up.
//
//	http.HandleFunc("/metrics/limits", func(w http.ResponseWriter, _ *http.Request) { metrics.WritePrometheus(w) })
//
// It works where nothing else can see that: on Fargate, Cloud Run, a virtual machine, in a pod on somebody else's cluster. Each
// call reads the kernel's files anew, in some 0.1 ms. What is not known has no series: there is no zero that means "don't know".
// The package has no dependencies, sets nothing, and starts no goroutine.
package metrics

import (
	"bytes"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

// WritePrometheus writes the series in Prometheus' text format, which OpenTelemetry's collector reads too. See docs/metrics.md for
// each.
func WritePrometheus(w io.Writer) error {
	_, err := w.Write(collect().text())
	return err
}

// facts are what the series are made from.
type facts struct {
	cpu        cgroup.Limits
	throttling cgroup.Throttling
	procs      int
	decision   *unthrottle.Decision // nil: none was made

	memory     cgroup.Memory
	goMemLimit int64            // math.MaxInt64: none
	kept       *memory.Decision // nil: none was made
}

func collect() facts {
	f := facts{
		cpu: *cgroup.Self(), procs: runtime.GOMAXPROCS(0), memory: cgroup.Memory{State: cgroup.None}, goMemLimit: debug.SetMemoryLimit(-1),
	}
	f.throttling = cgroup.ReadThrottling(cgroup.Source{}, f.cpu)
	if runtime.GOOS == "linux" {
		f.memory = cgroup.ReadMemory(cgroup.Source{})
	}
	if d, ok := unthrottle.Last(); ok {
		f.decision = &d
	}
	if d, ok := memory.Last(); ok {
		f.kept = &d
	}
	return f
}

func (f facts) text() []byte {
	var t text
	t.family("unthrottle_cpu_limit_info", "gauge", "What is known of the CPU limit: limited, none, unknown or hidden.")
	t.add(1, "state", f.cpu.State.String())
	t.family("unthrottle_cpu_limit_cpus", "gauge", "CPU limit in force, and the group that sets it.")
	if f.cpu.State == cgroup.Limited {
		t.add(f.cpu.CPUs, "group", f.cpu.From)
	}
	t.family("unthrottle_cpu_level_limit_cpus", "gauge", "CPU limit of each level from the program's own group up.")
	for _, l := range f.cpu.Levels {
		if cpus := l.Quota.CPUs(); cpus > 0 {
			t.add(cpus, "group", l.Dir)
		}
	}
	if c := f.throttling.Owner; c.Known && f.cpu.State == cgroup.Limited {
		t.family("unthrottle_cpu_periods_total", "counter", "Periods of the limit in force in which its group ran.")
		t.add(float64(c.Periods), "group", c.Dir)
		t.family("unthrottle_cpu_throttled_periods_total", "counter", "Of these, the ones in which the limit was hit.")
		t.add(float64(c.Throttled), "group", c.Dir)
		t.family("unthrottle_cpu_throttled_seconds_total", "counter", "Time in which it held the group up, summed over CPUs.")
		t.add(c.ThrottledTime.Seconds(), "group", c.Dir)
	}
	if f.throttling.LocalKnown {
		t.family("unthrottle_cpu_held_seconds_total", "counter", "Time in which limits of any level held the program's own group up, summed over CPUs: hidden ones, too.")
		t.add(f.throttling.Local.Seconds())
	}
	t.family("unthrottle_gomaxprocs", "gauge", "GOMAXPROCS as it is.")
	t.add(float64(f.procs))
	if d := f.decision; d != nil {
		t.family("unthrottle_gomaxprocs_info", "gauge", "What the last decision on GOMAXPROCS came from: limit, minimum, maximum, request, cpus, environment, program, or nothing.")
		by := d.By.String()
		if by == "" {
			by = "nothing"
		}
		t.add(1, "by", by, "policy", d.Policy.Name)
	}
	if f.memory.State == cgroup.Limited {
		kind := "max"
		if f.memory.High {
			kind = "high"
		}
		t.family("unthrottle_memory_limit_bytes", "gauge", "Memory limit in force, the group that sets it, and whether the kernel kills at it (max) or takes memory back (high).")
		t.add(float64(f.memory.Bytes), "group", f.memory.From, "kind", kind)
	}
	if f.goMemLimit != math.MaxInt64 {
		t.family("unthrottle_gomemlimit_bytes", "gauge", "GOMEMLIMIT as it is.")
		t.add(float64(f.goMemLimit))
	}
	if d := f.kept; d != nil {
		given := 0.0
		if d.GivenUp {
			given = 1
		}
		t.family("unthrottle_gomemlimit_given_up", "gauge", "Whether GOMEMLIMIT is given up for now, as it leaves the collector too little room.")
		t.add(given)
		t.family("unthrottle_gomemlimit_given_up_total", "counter", "How often it was given up.")
		t.add(float64(d.Spirals))
	}
	return t.b.Bytes()
}

// text writes families of series. A family without a series is left out.
type text struct {
	b          bytes.Buffer
	name, head string
}

func (t *text) family(name, kind, help string) {
	t.name, t.head = name, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// add writes a series of the family: a value, and names and values of labels.
func (t *text) add(value float64, labels ...string) {
	t.b.WriteString(t.head)
	t.head = ""
	t.b.WriteString(t.name)
	for i := 0; i+1 < len(labels); i += 2 {
		between := ","
		if i == 0 {
			between = "{"
		}
		t.b.WriteString(between + labels[i] + `="` + escape.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")) + `"`)
	}
	if len(labels) > 0 {
		t.b.WriteByte('}')
	}
	t.b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}
