// Package metrics reports to a Go program's own monitoring what limits do to it: the CPU limit in force and where it is set, periods and
// time in which it was throttled, GOMAXPROCS and what it came from, the memory limit, and whether it had to be given up.
//
//	http.Handle("/metrics/limits", web.Handler()) // package metrics/web
//
// It works where nothing else can see that: on Fargate, Cloud Run, a virtual machine, in a pod on someone else's cluster. Each call reads
// the kernel's files again, in some 0.1 ms, and once a minute the list of mounts. What is not known has no series: there is no zero that
// means "don't know". The package has no dependencies, sets nothing, and starts no goroutine.
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
	Labels  []string // names and values, alternating
	Value   float64
}

// Series is the name with the labels, as Prometheus writes it.
func (s Sample) Series() string { return string(s.appendSeries(nil)) }

// Read reads the current values. What is not known is left out. Samples of one name follow each other.
func Read() []Sample {
	f := collect()
	return f.samples()
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
	cpu, limit, throttling := cgroup.SelfAll()
	f := facts{cpu: *cpu, throttling: throttling, memory: limit, procs: runtime.GOMAXPROCS(0), goMemLimit: debug.SetMemoryLimit(-1)}
	if d, ok := unthrottle.Last(); ok {
		f.decision = &d
	}
	if d, ok := memory.Last(); ok {
		f.kept = &d
	}
	return f
}

// Describe returns everything that Read may return: a sample of each name, without labels and a value.
func Describe() []Sample {
	all := make([]Sample, 0, len(families))
	for _, s := range families {
		all = append(all, Sample{Name: s.name, Help: s.help, Counter: s.counter})
	}
	return all
}

// A family is the samples of one name.
type family struct {
	name, help string
	counter    bool
	values     func(*facts, adder) // adds those that are known
}

const (
	gauge   = false
	counter = true
)

var families = []family{
	{"unthrottle_cpu_limit_info", "What is known of the CPU limit: limited, none, unknown or hidden.", gauge, func(f *facts, add adder) {
		add(1, "state", f.cpu.State.String())
	}},
	{"unthrottle_cpu_limit_cpus", "CPU limit in force, and the group that sets it.", gauge, func(f *facts, add adder) {
		if f.cpu.State == cgroup.Limited {
			add(f.cpu.CPUs, "group", f.cpu.From)
		}
	}},
	{"unthrottle_cpu_level_limit_cpus", "CPU limit of each level from the program's own group up.", gauge, func(f *facts, add adder) {
		for _, l := range f.cpu.Levels {
			if cpus := l.Quota.CPUs(); cpus > 0 {
				add(cpus, "group", l.Dir)
			}
		}
	}},
	{"unthrottle_cpu_periods_total", "Periods of the limit in force in which its group ran.", counter, func(f *facts, add adder) {
		if c, ok := f.owner(); ok {
			add(float64(c.Periods), "group", c.Dir)
		}
	}},
	{"unthrottle_cpu_throttled_periods_total", "Of these, the ones in which the limit was hit.", counter, func(f *facts, add adder) {
		if c, ok := f.owner(); ok {
			add(float64(c.Throttled), "group", c.Dir)
		}
	}},
	{"unthrottle_cpu_throttled_seconds_total", "Time in which it held the group up, summed over CPUs.", counter, func(f *facts, add adder) {
		if c, ok := f.owner(); ok {
			add(c.ThrottledTime.Seconds(), "group", c.Dir)
		}
	}},
	{"unthrottle_cpu_held_seconds_total", "Time in which limits of any level held the program's own group up, summed over CPUs: hidden ones, too.", counter, func(f *facts, add adder) {
		if f.throttling.LocalKnown {
			add(f.throttling.Local.Seconds())
		}
	}},
	{"unthrottle_gomaxprocs", "GOMAXPROCS as it is.", gauge, func(f *facts, add adder) { add(float64(f.procs)) }},
	{"unthrottle_gomaxprocs_info", "What the last decision on GOMAXPROCS came from: limit, minimum, maximum, request, cpus, environment, program, or nothing.", gauge, func(f *facts, add adder) {
		if d := f.decision; d != nil {
			by := d.By.String()
			if by == "" {
				by = "nothing"
			}
			add(1, "by", by, "policy", d.Policy.Name)
		}
	}},
	{"unthrottle_memory_limit_bytes", "Memory limit in force, the group that sets it, and whether the kernel kills at it (max) or takes memory back (high).", gauge, func(f *facts, add adder) {
		if f.memory.State == cgroup.Limited {
			kind := "max"
			if f.memory.High {
				kind = "high"
			}
			add(float64(f.memory.Bytes), "group", f.memory.From, "kind", kind)
		}
	}},
	{"unthrottle_gomemlimit_bytes", "GOMEMLIMIT as it is.", gauge, func(f *facts, add adder) {
		if f.goMemLimit != math.MaxInt64 {
			add(float64(f.goMemLimit))
		}
	}},
	{"unthrottle_gomemlimit_given_up", "Whether GOMEMLIMIT is given up for now, as it leaves the collector too little room.", gauge, func(f *facts, add adder) {
		if d := f.kept; d != nil && d.GivenUp {
			add(1)
		} else if d != nil {
			add(0)
		}
	}},
	{"unthrottle_gomemlimit_spirals_total", "How often GOMEMLIMIT was given up for that.", counter, func(f *facts, add adder) {
		if d := f.kept; d != nil {
			add(float64(d.Spirals))
		}
	}},
}

type adder = func(value float64, labels ...string)

// owner are the counters of the group whose limit is in force.
func (f *facts) owner() (cgroup.Counters, bool) {
	c := f.throttling.Owner
	return c, c.Known && f.cpu.State == cgroup.Limited
}

func (f *facts) samples() []Sample {
	all := make([]Sample, 0, len(families))
	for _, s := range families {
		s := s // as Go before 1.22 needs it
		s.values(f, func(value float64, labels ...string) {
			all = append(all, Sample{s.name, s.help, s.counter, labels, value})
		})
	}
	return all
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
