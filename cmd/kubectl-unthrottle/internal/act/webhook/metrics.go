package webhook

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// metrics are what is counted. The series are known from the start, so that they are there with 0, and no pod can make more.
type metrics struct {
	reviews  map[[2]string]*atomic.Int64 // by kind and outcome
	rules    map[string]*atomic.Int64
	actions  map[remedy.Action]*atomic.Int64
	times    map[string]*histogram // by kind
	mostOpen atomic.Int64
}

// buckets are upper bounds in seconds: the goal is the first few, and 2 s is where the API server goes on without us.
var buckets = [...]float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 2}

type histogram struct {
	counts [len(buckets) + 1]atomic.Int64 // one a bucket, and the rest
	sum    atomic.Int64                   // nanoseconds
}

func newMetrics() *metrics {
	m := &metrics{
		reviews: map[[2]string]*atomic.Int64{}, rules: map[string]*atomic.Int64{},
		actions: map[remedy.Action]*atomic.Int64{}, times: map[string]*histogram{},
	}
	for _, kind := range kinds {
		m.times[kind] = &histogram{}
		for _, o := range outcomes {
			m.reviews[[2]string{kind, string(o)}] = new(atomic.Int64)
		}
	}
	for _, r := range lint.Rules() {
		m.rules[r.ID] = new(atomic.Int64)
	}
	for _, a := range actions {
		m.actions[a] = new(atomic.Int64)
	}
	return m
}

var (
	kinds   = []string{"mutate", "resize"}
	actions = []remedy.Action{remedy.Remove, remedy.Set, remedy.Repair}
)

func (m *metrics) reviewed(kind string, o outcome, took time.Duration) {
	m.reviews[[2]string{kind, string(o)}].Add(1)
	h := m.times[kind]
	h.sum.Add(int64(took))
	i := 0
	for i < len(buckets) && took.Seconds() > buckets[i] {
		i++
	}
	h.counts[i].Add(1)
}

func (m *metrics) found(rule string) {
	if n := m.rules[rule]; n != nil {
		n.Add(1)
	}
}

func (m *metrics) changed(a remedy.Action) {
	if n := m.actions[a]; n != nil {
		n.Add(1)
	}
}

// open notes the bytes that are being looked at.
func (m *metrics) open(bytes int64) {
	for {
		most := m.mostOpen.Load()
		if bytes <= most || m.mostOpen.CompareAndSwap(most, bytes) {
			return
		}
	}
}

// A page is metrics in the text format of Prometheus, version 0.0.4.
type page struct{ w io.Writer }

func (p page) family(name, kind, help string) {
	fmt.Fprintf(p.w, "# HELP unthrottle_webhook_%s %s\n# TYPE unthrottle_webhook_%s %s\n", name, help, name, kind)
}

// sample writes a value; labels are as written in the text.
func (p page) sample(name, labels string, value float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	text := strconv.FormatFloat(value, 'g', -1, 64)
	if math.IsInf(value, +1) {
		text = "+Inf"
	}
	fmt.Fprintf(p.w, "unthrottle_webhook_%s%s %s\n", name, labels, text)
}

// write writes all of it, in the same order each time.
func (m *metrics) write(p page) {
	p.family("reviews_total", "counter", "Pods that were looked at, by what became of it. None is ever refused.")
	for _, kind := range kinds {
		for _, o := range outcomes {
			p.sample("reviews_total", fmt.Sprintf("review=%q,outcome=%q", kind, o), float64(m.reviews[[2]string{kind, string(o)}].Load()))
		}
	}
	p.family("findings_total", "counter", "What was found in them, by rule.")
	for _, r := range lint.Rules() {
		p.sample("findings_total", fmt.Sprintf("rule=%q", r.ID), float64(m.rules[r.ID].Load()))
	}
	p.family("changes_total", "counter", "Variables that were changed, by what was done.")
	for _, a := range actions {
		p.sample("changes_total", fmt.Sprintf("action=%q", a), float64(m.actions[a].Load()))
	}
	p.family("review_seconds", "histogram", "Time from a review's head to its answer.")
	for _, kind := range kinds {
		h := m.times[kind]
		var sum int64
		for i, most := range append(buckets[:], math.Inf(+1)) {
			sum += h.counts[i].Load()
			le := "+Inf"
			if !math.IsInf(most, +1) {
				le = strconv.FormatFloat(most, 'g', -1, 64)
			}
			p.sample("review_seconds_bucket", fmt.Sprintf("review=%q,le=%q", kind, le), float64(sum))
		}
		p.sample("review_seconds_sum", fmt.Sprintf("review=%q", kind), time.Duration(h.sum.Load()).Seconds())
		p.sample("review_seconds_count", fmt.Sprintf("review=%q", kind), float64(sum))
	}
	p.family("reviews_bytes_most", "gauge", "Most bytes of reviews above 64 KiB that were open at a time; those beyond 3 MiB are allowed unread.")
	p.sample("reviews_bytes_most", "", float64(m.mostOpen.Load()))
}
