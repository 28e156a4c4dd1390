package agent

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
)

// mostSeries is how many series one container has at most.
const mostSeries = 20

// A Metric is what the agent exports besides what any Go program does.
type Metric struct {
	Name   string
	Help   string
	Labels []string
	kind   prometheus.ValueType
	desc   *prometheus.Desc
}

func newMetric(kind prometheus.ValueType, name, help string, labels ...string) *Metric {
	return &Metric{name, help, labels, kind, prometheus.NewDesc(name, help, labels, nil)}
}

func gauge(name, help string, labels ...string) *Metric {
	return newMetric(prometheus.GaugeValue, name, help, labels...)
}

func counter(name, help string, labels ...string) *Metric {
	return newMetric(prometheus.CounterValue, name, help, labels...)
}

// ofEach makes the labels of a container's metric.
func ofEach(more ...string) []string {
	return append([]string{"namespace", "pod", "container"}, more...)
}

var (
	info = gauge("unthrottle_container_info", "A container with Go programs, and its main one.",
		ofEach("owner_kind", "owner", "go_version", "go_line", "gomaxprocs_from", "node")...)
	gomaxprocs = gauge("unthrottle_container_gomaxprocs", "GOMAXPROCS of the container's main Go program, the one with the most CPU.", ofEach()...)
	expected   = gauge("unthrottle_container_gomaxprocs_expected", "GOMAXPROCS that Go's own rule would choose by the limit in force.", ofEach()...)
	processes  = gauge("unthrottle_container_go_processes", "Go programs that run in the container.", ofEach()...)
	limit      = gauge("unthrottle_container_limit_cpus", "CPU limit in force, and whose it is: container, pod, or a cgroup above. No series: no limit.", ofEach("level")...)
	cpuTime    = counter("unthrottle_container_cpu_seconds_total", "CPU time of the container's cgroup.", ofEach()...)
	periods    = counter("unthrottle_container_periods_total", "Periods of the quota at a level in which something wanted to run.", ofEach("level")...)
	throttled  = counter("unthrottle_container_throttled_periods_total", "Periods in which the level used up its quota.", ofEach("level")...)
	held       = counter("unthrottle_container_throttled_seconds_total", "Time for which the level was throttled, summed over CPUs.", ofEach("level")...)
	frozen     = gauge("unthrottle_container_frozen_ratio", "Share of the last scan's window in which the limit made the main program stand still.", ofEach()...)
	running    = gauge("unthrottle_container_running_ps", "Ps of the main program that had work, on average over the last scan's window.", ofEach()...)
	found      = gauge("unthrottle_container_finding", "What a rule found in the last scan.", ofEach("rule", "severity")...)
	mutedRule  = gauge("unthrottle_container_muted", "A rule found something, and the pod's annotation unthrottle.dev/mute suppresses it.", ofEach("rule")...)

	agentInfo  = gauge("unthrottle_agent_info", "The agent, and the node that it looks at.", "node", "version")
	scanTime   = gauge("unthrottle_agent_scan_seconds", "How long the last scan took.")
	scans      = counter("unthrottle_agent_scans_total", "Scans that were made.")
	scansLate  = counter("unthrottle_agent_scans_late_total", "Scans that were given up because they took longer than the interval.")
	looked     = gauge("unthrottle_agent_processes", "Processes of the last scan: Go programs, others, those that may not be looked into, those with an odd file, and those that are stuck in the kernel.", "kind")
	containers = gauge("unthrottle_agent_containers", "Containers with Go programs that have series here.")
	dropped    = gauge("unthrottle_agent_containers_dropped", "Containers with Go programs that have none, being more than --max-containers.")
	podsKnown  = gauge("unthrottle_agent_pods_known", "Whether the node's pods are known, and up to date.")
)

// Metrics are all of them, in the order in which the documentation has them.
func Metrics() []*Metric {
	return []*Metric{
		info, gomaxprocs, expected, processes, limit, cpuTime, periods, throttled, held, frozen, running, found, mutedRule,
		agentInfo, scanTime, scans, scansLate, looked, containers, dropped, podsKnown,
	}
}

// Counter reports whether it only grows.
func (m *Metric) Counter() bool { return m.kind == prometheus.CounterValue }

func (m *Metric) of(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// A collector exports what the last scan found.
type collector struct{ agent *Agent }

func newCollector(a *Agent) *collector { return &collector{a} }

// registry has the agent's metrics, and those of any Go program.
func (c *collector) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Describe is for the registry.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range Metrics() {
		to <- m.desc
	}
}

// Collect is for the registry.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	a := c.agent
	to <- agentInfo.of(1, a.o.Node, label(strings.TrimPrefix(verb.MadeBy(), "unthrottle ")))
	to <- scans.of(float64(a.scans.Load()))
	to <- scansLate.of(float64(a.late.Load()))
	s := a.Latest()
	if s == nil {
		to <- podsKnown.of(0)
		return
	}
	known := 0.0
	if s.Known {
		known = 1
	}
	to <- podsKnown.of(known)
	to <- scanTime.of(s.Took.Seconds())
	programs := len(s.Doc.Processes)
	to <- looked.of(float64(programs), "go")
	to <- looked.of(float64(max(0, s.Doc.Looked-programs-s.Doc.Refused-s.Doc.Odd-s.Doc.Stuck)), "other")
	to <- looked.of(float64(s.Doc.Refused), "refused")
	to <- looked.of(float64(s.Doc.Odd), "odd")
	to <- looked.of(float64(s.Doc.Stuck), "stuck")
	to <- containers.of(float64(len(s.Containers)))
	to <- dropped.of(float64(s.Dropped))
	for i := range s.Containers {
		for _, m := range s.Containers[i].metrics(s.Doc.Node) {
			to <- m
		}
	}
}

// metrics are the series of a container. What its findings are too many for is left out, the least severe first.
func (c *Container) metrics(node string) (all []prometheus.Metric) {
	add := func(m *Metric, value float64, labels ...string) {
		all = append(all, m.of(value, append([]string{c.Namespace, c.Pod, c.Name}, labels...)...))
	}
	add(info, 1, c.OwnerKind, c.Owner, c.GoVersion, c.GoLine, c.SetBy, node)
	add(processes, float64(c.Processes))
	if c.Procs > 0 {
		add(gomaxprocs, float64(c.Procs))
	}
	if c.Expected > 0 {
		add(expected, float64(c.Expected))
	}
	if c.Limit > 0 {
		add(limit, c.Limit, c.LimitBy)
	}
	if c.CPU != nil {
		add(cpuTime, c.CPU.Seconds())
	}
	for _, q := range c.Quotas {
		add(periods, float64(q.Periods), q.Of)
		add(throttled, float64(q.Throttled), q.Of)
		add(held, q.ThrottledTime.Seconds(), q.Of)
	}
	if c.Frozen != nil {
		add(frozen, *c.Frozen)
	}
	if c.Running != nil {
		add(running, *c.Running)
	}
	for _, f := range c.findings() {
		if len(all) == mostSeries {
			break
		}
		add(found, 1, f.rule, f.severity.String())
	}
	for _, name := range sortedKeys(c.Muted) {
		if len(all) == mostSeries {
			break
		}
		add(mutedRule, 1, name)
	}
	return all
}

type ruleFound struct {
	rule     string
	severity finding.Severity
}

// findings are a container's, the most severe first.
func (c *Container) findings() (all []ruleFound) {
	for name, severity := range c.Findings {
		all = append(all, ruleFound{name, severity})
	}
	slices.SortFunc(all, func(a, b ruleFound) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(a.rule, b.rule))
	})
	return all
}

func sortedKeys(set map[string]bool) (keys []string) {
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
