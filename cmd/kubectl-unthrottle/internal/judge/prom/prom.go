// Package prom answers: what has Prometheus counted of a cluster's containers? In go its address and a time to look back; out
// comes what is known about each container, by queries in PromQL. Each needs some exporter, and what is not there is left out:
// the programs' own metrics, cAdvisor's, those of kube-state-metrics and those of our agent.
//
// Its answers are bounded, each and all together, in size and in time. A query that fails leaves the rest intact.
package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
)

// Options say what to ask.
type Options struct {
	URL    string
	Since  time.Duration // 0: 24 h
	Within time.Duration // for one answer; 0: 30 s
	Most   int64         // bytes of an answer; 0: 64 MB
}

// A Problem is a query that gave nothing.
type Problem struct{ About, Text, Hint string }

// Found is what was counted.
type Found struct {
	Containers []audit.History
	Series     int // that were read
	Empty      []string
	Problems   []Problem
}

// Check says what is wrong with an address.
func Check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return hint.Usage("--prometheus http://prometheus.monitoring:9090", "--prometheus: %q is not the address of a server", Shown(address))
	}
	return nil
}

// Shown is an address without the password that may be in it.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// A query is asked at once for all containers.
type query struct {
	about string // the metric, for those who look for it
	text  string // SINCE stands for the time to look back, STEP for the pieces that it is cut into
	take  func(h *audit.History, labels model.Metric, value float64)

	seldom bool // that it has no series is as it should be
}

// of is a container's series. Pause containers belong to no one.
//
// limits have the UID of their pod: without it a pod that was recreated under its name would pass for one that was resized.
const (
	of  = `{pod!="",container!="",container!="POD"}`
	all = `max by (namespace, pod, container) `
	per = `sum by (namespace, pod, container) `

	limits = `kube_pod_container_resource_limits{resource="cpu",pod!="",uid!=""}`
)

// A rate is taken over short pieces: over the whole time it would count those hours, too, in which a young pod was not there.
var queries = []query{
	{about: "go_sched_gomaxprocs_threads", text: all + `(go_sched_gomaxprocs_threads{pod!=""})`, take: procs},
	{about: "go_info", text: `group by (namespace, pod, container, version) (go_info{pod!=""})`, take: func(h *audit.History, m model.Metric, _ float64) {
		h.GoVersion = short(string(m["version"]))
	}},
	{about: "container_cpu_usage_seconds_total", text: per + `(avg_over_time(rate(container_cpu_usage_seconds_total` + of + `[STEP])[SINCE:STEP]))`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.CPU = number(v)
	}},
	{about: "container_cpu_cfs_periods_total", text: all + `(increase(container_cpu_cfs_periods_total` + of + `[SINCE]))`, take: periods},
	{about: "container_cpu_cfs_throttled_periods_total", text: all + `(increase(container_cpu_cfs_throttled_periods_total` + of + `[SINCE]))`, take: throttled},
	{about: "container_cpu_cfs_throttled_seconds_total", text: all + `(avg_over_time(rate(container_cpu_cfs_throttled_seconds_total` + of + `[STEP])[SINCE:STEP]))`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.ThrottledSeconds = number(v)
	}},
	{about: "container_cpu_cfs_periods_total of pods", text: `max by (namespace, pod) (increase(container_cpu_cfs_periods_total{pod!="",container=""}[SINCE]))`, take: periods},
	{about: "container_cpu_cfs_throttled_periods_total of pods", text: `max by (namespace, pod) (increase(container_cpu_cfs_throttled_periods_total{pod!="",container=""}[SINCE]))`, take: throttled},
	{about: "kube_pod_container_resource_limits", text: all + `(kube_pod_container_resource_limits{resource="cpu",pod!=""})`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.Limit = v
	}},
	{about: "kube_pod_container_resource_limits, least", text: all + `(min_over_time(` + limits + `[SINCE]) and changes(` + limits + `[SINCE]) > 0)`, take: before, seldom: true},
	{about: "kube_pod_container_resource_limits, greatest", text: all + `(max_over_time(` + limits + `[SINCE]) and changes(` + limits + `[SINCE]) > 0)`, take: before, seldom: true},
	{about: "container_spec_cpu_quota", text: all + `(container_spec_cpu_quota` + of + ` / container_spec_cpu_period` + of + `)`, take: func(h *audit.History, _ model.Metric, v float64) {
		if n := number(v); n != nil {
			h.InForce = *n
		}
	}},
	{about: "go_sched_gomaxprocs_threads, changes", text: all + `(changes(go_sched_gomaxprocs_threads{pod!=""}[SINCE]) > 0)`, take: moved, seldom: true},
	{about: "process_start_time_seconds, changes", text: `(` + all + `(max_over_time(process_start_time_seconds{pod!=""}[SINCE])) - ` + all + `(min_over_time(process_start_time_seconds{pod!=""}[SINCE])) > 1) and on (namespace, pod, container) go_sched_gomaxprocs_threads`, take: moved, seldom: true},
	{about: "container_pressure_cpu_stalled_seconds_total", text: all + `(avg_over_time(rate(container_pressure_cpu_stalled_seconds_total` + of + `[STEP])[SINCE:STEP]))`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.Stalled = share(v)
	}},
	{about: "container_pressure_cpu_waiting_seconds_total", text: all + `(avg_over_time(rate(container_pressure_cpu_waiting_seconds_total` + of + `[STEP])[SINCE:STEP]))`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.Waiting = share(v)
	}},
	{about: "go_gc_gogc_percent", text: all + `(go_gc_gogc_percent{pod!=""})`, take: func(h *audit.History, _ model.Metric, v float64) {
		switch {
		case v >= 1<<63: // -1, as an unsigned number: off
			h.GOGC = new(-1)
		case v >= 0 && v < 1<<31:
			h.GOGC = new(int(v))
		}
	}},
	{about: "go_gc_gomemlimit_bytes", text: all + `(go_gc_gomemlimit_bytes{pod!=""})`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.GOMEMLIMIT = bytes(v)
		if v >= 1<<63 && v < 1<<64 { // the greatest number there is: none
			h.GOMEMLIMIT = math.MaxInt64
		}
	}},
	{about: "go_memstats_next_gc_bytes", text: all + `(max_over_time(go_memstats_next_gc_bytes{pod!=""}[SINCE]))`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.Goal = bytes(v)
	}},
	{about: "kube_pod_container_resource_limits of memory", text: all + `(kube_pod_container_resource_limits{resource="memory",pod!=""})`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.MemoryLimit = bytes(v)
	}},
	{about: "unthrottle_container_gomaxprocs", text: all + `(unthrottle_container_gomaxprocs{pod!=""})`, take: procs},
	{about: "unthrottle_container_frozen_ratio", text: `avg by (namespace, pod, container) (avg_over_time(unthrottle_container_frozen_ratio{pod!=""}[SINCE]))`, take: func(h *audit.History, _ model.Metric, v float64) {
		h.Frozen = number(v)
	}},
	{about: "unthrottle_container_finding", text: `max by (namespace, pod, container, rule, severity) (unthrottle_container_finding{pod!=""})`, take: found},
}

// owners is asked last: only pods that are known by then are of interest.
const owners = `max by (namespace, pod, owner_kind, owner_name) (last_over_time(kube_pod_owner{pod!="",owner_is_controller="true"}[SINCE]))`

func procs(h *audit.History, _ model.Metric, v float64) {
	if v >= 1 && v <= 1<<20 {
		h.Procs = int(v)
	}
}

// before is a limit in the time looked back on, of a container whose limit changed.
func before(h *audit.History, _ model.Metric, v float64) {
	if v > 0 && v <= 1<<20 && len(h.Before) < 2 {
		h.Before = append(h.Before, v)
	}
}

func moved(h *audit.History, _ model.Metric, _ float64) { h.Moved = true }

func periods(h *audit.History, _ model.Metric, v float64) { h.Periods = whole(v) }

// throttled is never more than the periods: both are extrapolated, each for itself.
func throttled(h *audit.History, _ model.Metric, v float64) {
	h.ThrottledPeriods = min(whole(v), h.Periods)
}

func whole(v float64) int64 {
	if !(v >= 0 && v < 1<<53) {
		return 0
	}
	return int64(math.Round(v))
}

func number(v float64) *float64 {
	if !(v >= 0 && v <= 1<<20) {
		return nil
	}
	return &v
}

// share is one of the time. A rate is extrapolated, and may be a little more than all of it.
func share(v float64) *float64 {
	if !(v >= 0 && v <= 1.1) {
		return nil
	}
	return new(min(v, 1))
}

// bytes are a possible number of them; 0: it isn't one.
func bytes(v float64) int64 {
	if !(v >= 1 && v < 1<<50) {
		return 0
	}
	return int64(v)
}

// found is a finding that an agent has now: what was fixed yesterday is no news. The words are in its own document, and on the rule's page.
func found(h *audit.History, m model.Metric, v float64) {
	var severity finding.Severity
	if v <= 0 || severity.UnmarshalText([]byte(m["severity"])) != nil || len(h.Findings) >= mostFindings {
		return
	}
	name := string(m["rule"])
	i := slices.IndexFunc(rule.Rules(), func(r rule.Rule) bool { return r.Name == name })
	if i < 0 {
		return // an agent of another version, or something else that exports the metric
	}
	h.Findings = append(h.Findings, finding.Finding{
		Rule: name, Verdict: rule.Rules()[i].Verdict, Severity: severity,
		Summary: "an agent has found " + strings.ReplaceAll(name, "-", " "), Fix: "kubectl unthrottle help " + name,
	})
}

const mostFindings = 16

// short cuts off what no version has.
func short(text string) string { return text[:min(len(text), 64)] }

// Read asks Prometheus. An error means that there isn't one.
func Read(ctx context.Context, o Options) (*Found, error) {
	o.Since, o.Within, o.Most = cmp.Or(o.Since, 24*time.Hour), cmp.Or(o.Within, 30*time.Second), cmp.Or(o.Most, 64<<20)
	server, err := newServer(o)
	if err != nil {
		return nil, err
	}
	defer server.client.CloseIdleConnections()
	r := &reading{o: o, server: server, found: &Found{}, at: map[place]int{}}
	for i, q := range queries {
		n, err := r.ask(ctx, q)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && i == 0 && !answered(err):
			return nil, hint.With(fmt.Errorf("asking Prometheus at %s: %s", Shown(o.URL), reason(err)), "--prometheus URL is its address, as a browser has it; kubectl port-forward may bring it near")
		case errors.Is(err, errTooMuch):
			r.found.Problems = append(r.found.Problems, Problem{q.about, reason(err), "the rest was not asked"})
			return r.found, nil
		case err != nil:
			r.found.Problems = append(r.found.Problems, Problem{q.about, reason(err), "the rest was asked all the same"})
		case n == 0 && !q.seldom:
			r.found.Empty = append(r.found.Empty, q.about)
		}
	}
	r.name()
	if err := r.owners(ctx); err != nil {
		r.found.Problems = append(r.found.Problems, Problem{"kube_pod_owner", reason(err), "pods that are gone are left out"})
	}
	return r.found, ctx.Err()
}

type place struct{ namespace, pod, container string }

// A reading is one pass over all queries.
type reading struct {
	o      Options
	server *server
	found  *Found
	at     map[place]int // in found.Containers
}

// Pieces are long enough to have some samples in each, and few enough for Prometheus.
const (
	leastStep = 5 * time.Minute
	mostSteps = 288
)

// vector asks for a query's series.
func (r *reading) vector(ctx context.Context, text string, got func(model.Metric, float64) error) error {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%ds", max(1, int64(d.Seconds()))) }
	step := min(max(r.o.Since/mostSteps, leastStep), r.o.Since)
	return r.server.query(ctx, strings.NewReplacer("SINCE", seconds(r.o.Since), "STEP", seconds(step)).Replace(text), got)
}

func (r *reading) ask(ctx context.Context, q query) (n int, err error) {
	err = r.vector(ctx, q.text, func(m model.Metric, v float64) error {
		k := place{string(m["namespace"]), string(m["pod"]), string(m["container"])}
		if k.pod == "" || len(k.namespace)+len(k.pod)+len(k.container) > mostName {
			return nil
		}
		i, ok := r.at[k]
		if !ok {
			if i = len(r.found.Containers); i == mostContainers {
				return fmt.Errorf("%w: more than %d containers", errTooMuch, mostContainers)
			}
			r.at[k] = i
			r.found.Containers = append(r.found.Containers, audit.History{Namespace: k.namespace, Pod: k.pod, Container: k.container})
		}
		q.take(&r.found.Containers[i], m, v)
		n++
		return nil
	})
	r.found.Series += n
	return n, err
}

// name gives what a program's series say about a pod to the one container that other series name there: many scrapes add only the pod.
func (r *reading) name() {
	type pod struct{ namespace, name string }
	const several = -1
	only := map[pod]int{}
	for i, h := range r.found.Containers {
		k := pod{h.Namespace, h.Pod}
		if _, ok := only[k]; ok && h.Container != "" {
			only[k] = several
		} else if h.Container != "" {
			only[k] = i
		}
	}
	for i := range r.found.Containers {
		from := &r.found.Containers[i]
		at, ok := only[pod{from.Namespace, from.Pod}]
		if from.Container != "" || !ok || at == several || from.Procs == 0 && from.GoVersion == "" {
			continue
		}
		to := &r.found.Containers[at]
		if to.Procs > 0 || to.GoVersion != "" {
			continue // it has series of its own
		}
		to.OfPod, to.Procs, to.GoVersion, to.GOGC, to.GOMEMLIMIT, to.Goal, to.Moved = true, from.Procs, from.GoVersion, from.GOGC, from.GOMEMLIMIT, from.Goal, from.Moved
		from.Procs, from.GoVersion, from.GOGC, from.GOMEMLIMIT, from.Goal, from.Moved = 0, "", nil, 0, 0, false
	}
}

// mostName is how long the names of a namespace, a pod and a container are together, at most.
const mostName = 63 + 253 + 63

// owners fills in who owned the pods: for pods that are gone nothing else knows.
func (r *reading) owners(ctx context.Context) error {
	type pod struct{ namespace, name string }
	type owner struct{ kind, name string }
	of := map[pod]owner{}
	for k := range r.at {
		of[pod{k.namespace, k.pod}] = owner{}
	}
	err := r.vector(ctx, owners, func(m model.Metric, _ float64) error {
		at := pod{string(m["namespace"]), string(m["pod"])}
		if _, ok := of[at]; ok && len(m["owner_kind"])+len(m["owner_name"]) <= mostName {
			of[at] = owner{string(m["owner_kind"]), string(m["owner_name"])}
		}
		r.found.Series++
		return nil
	})
	if err != nil {
		return err
	}
	for i := range r.found.Containers {
		h := &r.found.Containers[i]
		o := of[pod{h.Namespace, h.Pod}]
		h.OwnerKind, h.OwnerName = o.kind, o.name
	}
	return nil
}
