package demo

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/http"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// metrics answers in the text format of Prometheus, version 0.0.4. The runtime's figures have the names that Prometheus' own
// client gives them.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	var e exposition
	e.runtime(runtimeSamples())
	l := cgroup.Read(cgroup.Source{})
	e.limit(l, cgroup.ReadThrottling(cgroup.Source{}, l))
	if cpu := procs.OwnCPU(); cpu > 0 {
		e.family("process_cpu_seconds_total", "counter", "CPU time of this process, user and system.")
		e.sample("process_cpu_seconds_total", "", cpu.Seconds())
	}
	s.counts.expose(&e)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(e.Bytes())
}

// An exposition is a text of metrics.
type exposition struct{ bytes.Buffer }

// family begins a metric; its samples follow.
func (e *exposition) family(name, kind, help string) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes a value. The labels are as labels makes them.
func (e *exposition) sample(name, labels string, value float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(e, "%s%s %s\n", name, labels, float(value))
}

func float(v float64) string {
	if math.IsInf(v, +1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// labels makes labels from names and values in turn.
func labels(namesAndValues ...string) string {
	var parts []string
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for pair := range slices.Chunk(namesAndValues, 2) {
		parts = append(parts, pair[0]+`="`+escape.Replace(pair[1])+`"`)
	}
	return strings.Join(parts, ",")
}

// A buckets is a histogram: counts[i] are the values of at most bounds[i] that are in no bucket before. The last bound is
// infinite.
type buckets struct {
	bounds []float64
	counts []uint64
	sum    float64
}

func (e *exposition) histogram(name, more string, h buckets) {
	var total uint64
	for i, bound := range h.bounds {
		total += h.counts[i]
		all := labels("le", float(bound))
		if more != "" {
			all = more + "," + all
		}
		e.sample(name+"_bucket", all, float64(total))
	}
	e.sample(name+"_sum", more, h.sum)
	e.sample(name+"_count", more, float64(total))
}

// A reported is a metric of Go's runtime under the name that Prometheus has for it.
type reported struct{ of, name, kind, help string }

var measures = []reported{
	{"/sched/gomaxprocs:threads", "go_sched_gomaxprocs_threads", "gauge", "GOMAXPROCS: how many threads may run Go code at once."},
	{"/sched/goroutines:goroutines", "go_sched_goroutines_goroutines", "gauge", "Goroutines that exist."},
	{"/sched/latencies:seconds", "go_sched_latencies_seconds", "histogram", "How long goroutines that could run waited for their turn. The sum is estimated from the buckets."},
	{"/cpu/classes/gc/total:cpu-seconds", "go_cpu_classes_gc_total_cpu_seconds_total", "counter", "CPU time of garbage collection, estimated by the runtime. It moves when a collection ends."},
	{"/cpu/classes/idle:cpu-seconds", "go_cpu_classes_idle_cpu_seconds_total", "counter", "CPU time that GOMAXPROCS would have allowed and that was not used, estimated by the runtime."},
	{"/cpu/classes/total:cpu-seconds", "go_cpu_classes_total_cpu_seconds_total", "counter", "CPU time that GOMAXPROCS allowed: GOMAXPROCS times the time that has passed."},
	{"/gc/cycles/total:gc-cycles", "go_gc_cycles_total_gc_cycles_total", "counter", "Garbage collections."},
	{"/gc/heap/allocs:bytes", "go_gc_heap_allocs_bytes_total", "counter", "Bytes that were allocated."},
	{"/gc/heap/goal:bytes", "go_gc_heap_goal_bytes", "gauge", "Size of the heap at which the next garbage collection ends."},
	{"/memory/classes/heap/objects:bytes", "go_memory_classes_heap_objects_bytes", "gauge", "Bytes in objects that are in use or not yet collected."},
	{"/memory/classes/total:bytes", "go_memory_classes_total_bytes", "gauge", "Bytes that the runtime has mapped."},
}

func runtimeSamples() []metrics.Sample {
	samples := make([]metrics.Sample, len(measures))
	for i, m := range measures {
		samples[i].Name = m.of
	}
	metrics.Read(samples)
	return samples
}

// runtime writes samples of the measures, in the same order.
func (e *exposition) runtime(samples []metrics.Sample) {
	values := map[string]float64{}
	for i, m := range measures {
		switch v := samples[i].Value; v.Kind() {
		case metrics.KindUint64:
			values[m.of] = float64(v.Uint64())
		case metrics.KindFloat64:
			values[m.of] = v.Float64()
		case metrics.KindFloat64Histogram:
			e.family(m.name, m.kind, m.help)
			e.histogram(m.name, "", coarse(v.Float64Histogram()))
			continue
		default:
			continue // this runtime does not have it
		}
		e.family(m.name, m.kind, m.help)
		e.sample(m.name, "", values[m.of])
	}
	e.family("unthrottle_gc_cpu_ratio", "gauge", "The part of the CPU time used so far that was garbage collection's, as the runtime estimates it.")
	used := values["/cpu/classes/total:cpu-seconds"] - values["/cpu/classes/idle:cpu-seconds"]
	e.sample("unthrottle_gc_cpu_ratio", "", ratio(values["/cpu/classes/gc/total:cpu-seconds"], used))
}

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(part/whole, 1)
}

// coarse puts the runtime's buckets, which are a tenth apart, together until each is at least twice the one before. A value
// counts for the sum as what is halfway through its fine bucket.
func coarse(h *metrics.Float64Histogram) (b buckets) {
	var count uint64
	last := 0.0
	for i, n := range h.Counts {
		low, high := h.Buckets[i], h.Buckets[i+1]
		count += n
		switch {
		case math.IsInf(high, +1):
			b.sum += float64(n) * max(low, 0)
			b.bounds, b.counts = append(b.bounds, high), append(b.counts, count)
			return b
		case math.IsInf(low, -1):
			low = 0
		}
		b.sum += float64(n) * (low + high) / 2
		if high > 0 && high >= 2*last {
			b.bounds, b.counts = append(b.bounds, high), append(b.counts, count)
			count, last = 0, high
		}
	}
	b.bounds, b.counts = append(b.bounds, math.Inf(+1)), append(b.counts, count)
	return b
}

// limit writes what is known of the CPU limit. What is not known is left out: it is not zero.
func (e *exposition) limit(l cgroup.Limits, t cgroup.Throttling) {
	e.family("unthrottle_cpu_limit_state", "gauge", "What is known of the CPU limit: 1 for the state that it is in.")
	for _, state := range []cgroup.State{cgroup.Unknown, cgroup.None, cgroup.Limited, cgroup.Hidden} {
		is := 0.0
		if state == l.State {
			is = 1
		}
		e.sample("unthrottle_cpu_limit_state", labels("state", state.String()), is)
	}
	if l.State == cgroup.Limited {
		e.family("unthrottle_cpu_limit_cpus", "gauge", "The CPU limit in force, in CPUs.")
		e.sample("unthrottle_cpu_limit_cpus", labels("cgroup", l.From), l.CPUs)
	}
	if d := unthrottle.Decide(l, unthrottle.Go); d.Procs > 0 {
		e.family("unthrottle_gomaxprocs_wanted", "gauge", "The GOMAXPROCS that the limit in force gives by Go's own rule.")
		e.sample("unthrottle_gomaxprocs_wanted", "", float64(d.Procs))
	}
	if c := t.Owner; c.Known {
		group := labels("cgroup", c.Dir)
		for _, m := range []struct {
			name, help string
			value      float64
		}{
			{"unthrottle_cgroup_periods_total", "Periods in which the cgroup with the limit had something to run.", float64(c.Periods)},
			{"unthrottle_cgroup_throttled_periods_total", "Periods in which it ran out of quota.", float64(c.Throttled)},
			{"unthrottle_cgroup_throttled_seconds_total", "Time that it was throttled, summed over CPUs.", c.ThrottledTime.Seconds()},
		} {
			e.family(m.name, "counter", m.help)
			e.sample(m.name, group, m.value)
		}
	}
	if t.LocalKnown {
		e.family("unthrottle_cgroup_local_throttled_seconds_total", "counter", "Time that the process's own cgroup was throttled by any level, summed over CPUs.")
		e.sample("unthrottle_cgroup_local_throttled_seconds_total", "", t.Local.Seconds())
	}
}

// counts are the requests so far.
type counts struct {
	mu sync.Mutex
	of map[countKey]*buckets
}

// A countKey has no more values than the server has routes: what was really asked for could be anything.
type countKey struct {
	path   string
	status int
}

// requestBounds are the seconds that requests are counted by.
var requestBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, math.Inf(+1)}

// around counts the requests to a handler, and how long each took in it. It calls also after each.
func (c *counts) around(next http.Handler, also func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		_, path, _ := strings.Cut(r.Pattern, " ")
		if path == "" {
			path = "other"
		}
		c.add(countKey{path, seen.status}, time.Since(began))
		also()
	})
}

func (c *counts) add(key countKey, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[countKey]*buckets{}
	}
	b := c.of[key]
	if b == nil {
		b = &buckets{bounds: requestBounds, counts: make([]uint64, len(requestBounds))}
		c.of[key] = b
	}
	at, _ := slices.BinarySearch(requestBounds, took.Seconds())
	b.counts[at]++
	b.sum += took.Seconds()
}

func (c *counts) expose(e *exposition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.family("unthrottle_http_request_seconds", "histogram", "How long requests took in their handler, by path and status. What they waited before that is not in it.")
	for _, key := range c.keys() {
		e.histogram("unthrottle_http_request_seconds", labels("path", key.path, "code", strconv.Itoa(key.status)), *c.of[key])
	}
}

func (c *counts) keys() []countKey {
	keys := make([]countKey, 0, len(c.of))
	for key := range c.of {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b countKey) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.status, b.status))
	})
	return keys
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what the writer can do.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
