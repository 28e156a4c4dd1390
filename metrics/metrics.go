// Package metrics tells a Go program's own monitoring what limits do to it: the CPU limit in force and whose it is, periods and
// time in which it was throttled, GOMAXPROCS and what it came from, the memory limit, and whether it had to be given up.
//
//	http.Handle("/metrics/limits", web.Handler()) // package metrics/web
//
// It works where nothing else can see that: on Fargate, Cloud Run, a virtual machine, in a pod on somebody else's cluster. Each
// call reads the kernel's files anew, in some 0.2 ms. What is not known has no series: there is no zero that means "don't know".
// The package has no dependencies, sets nothing, and starts no goroutine.
package metrics

import (
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
	_, err := w.Write(text(Read()))
	return err
}

// A Sample is the value of a series, for exporters of other formats.
type Sample struct {
	Name    string // such as unthrottle_cpu_limit_cpus
	Help    string
	Counter bool     // it only goes up, else it is a gauge
	Labels  []string // names and values, by turns
	Value   float64
}

// Series is the name with the labels, as Prometheus writes it.
func (s Sample) Series() string { return string(s.appendSeries(nil)) }

// Read reads the values as they are now. What is not known is not there. Samples of one name follow each other.
func Read() []Sample { return collect().samples() }

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

func (f facts) samples() []Sample {
	var t family
	t.begin("unthrottle_cpu_limit_info", false, "What is known of the CPU limit: limited, none, unknown or hidden.")
	t.add(1, "state", f.cpu.State.String())
	t.begin("unthrottle_cpu_limit_cpus", false, "CPU limit in force, and the group that sets it.")
	if f.cpu.State == cgroup.Limited {
		t.add(f.cpu.CPUs, "group", f.cpu.From)
	}
	t.begin("unthrottle_cpu_level_limit_cpus", false, "CPU limit of each level from the program's own group up.")
	for _, l := range f.cpu.Levels {
		if cpus := l.Quota.CPUs(); cpus > 0 {
			t.add(cpus, "group", l.Dir)
		}
	}
	if c := f.throttling.Owner; c.Known && f.cpu.State == cgroup.Limited {
		t.begin("unthrottle_cpu_periods_total", true, "Periods of the limit in force in which its group ran.")
		t.add(float64(c.Periods), "group", c.Dir)
		t.begin("unthrottle_cpu_throttled_periods_total", true, "Of these, the ones in which the limit was hit.")
		t.add(float64(c.Throttled), "group", c.Dir)
		t.begin("unthrottle_cpu_throttled_seconds_total", true, "Time in which it held the group up, summed over CPUs.")
		t.add(c.ThrottledTime.Seconds(), "group", c.Dir)
	}
	if f.throttling.LocalKnown {
		t.begin("unthrottle_cpu_held_seconds_total", true, "Time in which limits of any level held the program's own group up, summed over CPUs: hidden ones, too.")
		t.add(f.throttling.Local.Seconds())
	}
	t.begin("unthrottle_gomaxprocs", false, "GOMAXPROCS as it is.")
	t.add(float64(f.procs))
	if d := f.decision; d != nil {
		t.begin("unthrottle_gomaxprocs_info", false, "What the last decision on GOMAXPROCS came from: limit, minimum, maximum, request, cpus, environment, program, or nothing.")
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
		t.begin("unthrottle_memory_limit_bytes", false, "Memory limit in force, the group that sets it, and whether the kernel kills at it (max) or takes memory back (high).")
		t.add(float64(f.memory.Bytes), "group", f.memory.From, "kind", kind)
	}
	if f.goMemLimit != math.MaxInt64 {
		t.begin("unthrottle_gomemlimit_bytes", false, "GOMEMLIMIT as it is.")
		t.add(float64(f.goMemLimit))
	}
	if d := f.kept; d != nil {
		given := 0.0
		if d.GivenUp {
			given = 1
		}
		t.begin("unthrottle_gomemlimit_given_up", false, "Whether GOMEMLIMIT is given up for now, as it leaves the collector too little room.")
		t.add(given)
		t.begin("unthrottle_gomemlimit_given_up_total", true, "How often it was given up.")
		t.add(float64(d.Spirals))
	}
	return t.all
}

// A family is the samples of one name, after those of the names before it.
type family struct {
	all  []Sample
	next Sample
}

func (f *family) begin(name string, counter bool, help string) {
	f.next = Sample{Name: name, Help: help, Counter: counter}
}

// add adds a sample: a value, and names and values of labels.
func (f *family) add(value float64, labels ...string) {
	s := f.next
	s.Value, s.Labels = value, labels
	f.all = append(f.all, s)
}

// text writes samples in Prometheus' format.
func text(all []Sample) (b []byte) {
	last := ""
	for _, s := range all {
		if s.Name != last {
			kind := "gauge"
			if s.Counter {
				kind = "counter"
			}
			b = append(b, "# HELP "+s.Name+" "+s.Help+"\n# TYPE "+s.Name+" "+kind+"\n"...)
			last = s.Name
		}
		b = append(s.appendSeries(b), ' ')
		b = append(strconv.AppendFloat(b, s.Value, 'g', -1, 64), '\n')
	}
	return b
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (s Sample) appendSeries(b []byte) []byte {
	b = append(b, s.Name...)
	for i := 0; i+1 < len(s.Labels); i += 2 {
		between := ","
		if i == 0 {
			between = "{"
		}
		b = append(b, between+s.Labels[i]+`="`+escape.Replace(strings.ToValidUTF8(s.Labels[i+1], "\uFFFD"))+`"`...)
	}
	if len(s.Labels) > 0 {
		b = append(b, '}')
	}
	return b
}
