// Package prom answers: what has Prometheus counted of a cluster's containers? In go its address and a time to look back; out
// comes what is known of each container, by queries in PromQL. Each needs some exporter, and what is not there is left out: the
// programs' own metrics, cAdvisor's, those of kube-state-metrics and those of our agent.
//
// Its answers are bounded, in size and in time. A query that fails takes nothing else away.
package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/audit"
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
}

// of is a container's series. Pause containers are nobody's.
const (
	of  = `{pod!="",container!="",container!="POD"}`
	all = `max by (namespace, pod, container) `
	per = `sum by (namespace, pod, container) `
)

// A rate is taken over short pieces: over the whole time it would count those hours, too, in which a young pod was not there.
var queries = []query{
	{"go_sched_gomaxprocs_threads", all + `(go_sched_gomaxprocs_threads{pod!=""})`, procs},
	{"go_info", `group by (namespace, pod, container, version) (go_info{pod!=""})`, func(h *audit.History, m model.Metric, _ float64) {
		h.GoVersion = short(string(m["version"]))
	}},
	{"container_cpu_usage_seconds_total", per + `(avg_over_time(rate(container_cpu_usage_seconds_total` + of + `[STEP])[SINCE:STEP]))`, func(h *audit.History, _ model.Metric, v float64) {
		h.CPU = number(v)
	}},
	{"container_cpu_cfs_periods_total", all + `(increase(container_cpu_cfs_periods_total` + of + `[SINCE]))`, periods},
	{"container_cpu_cfs_throttled_periods_total", all + `(increase(container_cpu_cfs_throttled_periods_total` + of + `[SINCE]))`, throttled},
	{"container_cpu_cfs_throttled_seconds_total", all + `(avg_over_time(rate(container_cpu_cfs_throttled_seconds_total` + of + `[STEP])[SINCE:STEP]))`, func(h *audit.History, _ model.Metric, v float64) {
		h.ThrottledSeconds = number(v)
	}},
	{"container_cpu_cfs_periods_total of pods", `max by (namespace, pod) (increase(container_cpu_cfs_periods_total{pod!="",container=""}[SINCE]))`, periods},
	{"container_cpu_cfs_throttled_periods_total of pods", `max by (namespace, pod) (increase(container_cpu_cfs_throttled_periods_total{pod!="",container=""}[SINCE]))`, throttled},
	{"kube_pod_container_resource_limits", all + `(kube_pod_container_resource_limits{resource="cpu",pod!=""})`, func(h *audit.History, _ model.Metric, v float64) {
		h.Limit = v
	}},
	{"unthrottle_container_gomaxprocs", all + `(unthrottle_container_gomaxprocs{pod!=""})`, procs},
	{"unthrottle_container_frozen_ratio", `avg by (namespace, pod, container) (avg_over_time(unthrottle_container_frozen_ratio{pod!=""}[SINCE]))`, func(h *audit.History, _ model.Metric, v float64) {
		h.Frozen = number(v)
	}},
	{"unthrottle_container_finding", `max by (namespace, pod, container, rule, severity) (unthrottle_container_finding{pod!=""})`, found},
}

// owners is asked last: only pods that are known by then are of interest.
const owners = `max by (namespace, pod, owner_kind, owner_name) (last_over_time(kube_pod_owner{pod!="",owner_is_controller="true"}[SINCE]))`

func procs(h *audit.History, _ model.Metric, v float64) {
	if v >= 1 && v <= 1<<20 {
		h.Procs = int(v)
	}
}

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

// found is a finding that an agent has now: what was mended yesterday is no news. The words are in its own document, and on the
// rule's page.
func found(h *audit.History, m model.Metric, v float64) {
	var severity finding.Severity
	if v <= 0 || severity.UnmarshalText([]byte(m["severity"])) != nil || len(h.Findings) >= mostFindings {
		return
	}
	rule := short(string(m["rule"]))
	h.Findings = append(h.Findings, finding.Finding{
		Rule: rule, Verdict: strings.ReplaceAll(rule, "-", " "), Severity: severity,
		Summary: "an agent has found " + strings.ReplaceAll(rule, "-", " "), Fix: "kubectl unthrottle help " + rule,
	})
}

const mostFindings = 16

// short cuts off what no version and no rule has.
func short(text string) string { return text[:min(len(text), 64)] }

// Read asks Prometheus. An error is that there is none.
func Read(ctx context.Context, o Options) (*Found, error) {
	o.Since, o.Within, o.Most = cmp.Or(o.Since, 24*time.Hour), cmp.Or(o.Within, 30*time.Second), cmp.Or(o.Most, 64<<20)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	client, err := api.NewClient(api.Config{Address: o.URL, RoundTripper: bounded{transport, o.Most}})
	if err != nil {
		return nil, err
	}
	r := &reading{o: o, api: v1.NewAPI(client), found: &Found{}, at: map[place]int{}}
	for i, q := range queries {
		n, err := r.ask(ctx, q)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && i == 0 && !answered(err):
			return nil, hint.With(fmt.Errorf("asking Prometheus at %s: %s", Shown(o.URL), reason(err)), "--prometheus URL is its address, as a browser has it; kubectl port-forward may bring it near")
		case err != nil:
			r.found.Problems = append(r.found.Problems, Problem{q.about, reason(err), "the rest was asked all the same"})
		case n == 0:
			r.found.Empty = append(r.found.Empty, q.about)
		}
	}
	if err := r.owners(ctx); err != nil {
		r.found.Problems = append(r.found.Problems, Problem{"kube_pod_owner", reason(err), "pods that are gone are left out"})
	}
	return r.found, ctx.Err()
}

type place struct{ namespace, pod, container string }

// A reading is one pass over all queries.
type reading struct {
	o     Options
	api   v1.API
	found *Found
	at    map[place]int // in found.Containers
}

// Pieces are long enough to have some samples in each, and few enough for Prometheus.
const (
	leastStep = 5 * time.Minute
	mostSteps = 288
)

// mostSeries is how many series one answer may have.
const mostSeries = 500_000

func (r *reading) vector(ctx context.Context, text string) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Within)
	defer cancel()
	seconds := func(d time.Duration) string { return fmt.Sprintf("%ds", max(1, int64(d.Seconds()))) }
	step := min(max(r.o.Since/mostSteps, leastStep), r.o.Since)
	text = strings.NewReplacer("SINCE", seconds(r.o.Since), "STEP", seconds(step)).Replace(text)
	value, _, err := r.api.Query(ctx, text, time.Time{})
	if err != nil {
		return nil, err
	}
	vector, ok := value.(model.Vector)
	if !ok || len(vector) > mostSeries {
		return nil, errors.New("its answer is not what was asked for")
	}
	return vector, nil
}

func (r *reading) ask(ctx context.Context, q query) (n int, err error) {
	vector, err := r.vector(ctx, q.text)
	for _, s := range vector {
		if s == nil {
			continue
		}
		k := place{string(s.Metric["namespace"]), string(s.Metric["pod"]), string(s.Metric["container"])}
		if k.pod == "" || len(k.namespace)+len(k.pod)+len(k.container) > mostName {
			continue
		}
		i, ok := r.at[k]
		if !ok {
			i = len(r.found.Containers)
			r.at[k] = i
			r.found.Containers = append(r.found.Containers, audit.History{Namespace: k.namespace, Pod: k.pod, Container: k.container})
		}
		q.take(&r.found.Containers[i], s.Metric, float64(s.Value))
		n++
	}
	r.found.Series += n
	return n, err
}

// mostName is how long the names of a namespace, a pod and a container are together, at most.
const mostName = 63 + 253 + 63

// owners fills in who owned the pods: of those that are gone nobody else knows.
func (r *reading) owners(ctx context.Context) error {
	vector, err := r.vector(ctx, owners)
	if err != nil {
		return err
	}
	type pod struct{ namespace, name string }
	type owner struct{ kind, name string }
	of := make(map[pod]owner, len(vector))
	for _, s := range vector {
		if s != nil {
			m := s.Metric
			of[pod{string(m["namespace"]), string(m["pod"])}] = owner{string(m["owner_kind"]), string(m["owner_name"])}
		}
	}
	r.found.Series += len(vector)
	for i := range r.found.Containers {
		h := &r.found.Containers[i]
		o := of[pod{h.Namespace, h.Pod}]
		h.OwnerKind, h.OwnerName = o.kind, o.name
	}
	return nil
}

// answered reports whether Prometheus itself refused a query.
func answered(err error) bool {
	var e *v1.Error
	return errors.As(err, &e) && e.Type != v1.ErrBadResponse && e.Type != v1.ErrClient && e.Type != v1.ErrServer
}

// reason says why a query failed.
func reason(err error) string {
	var e *v1.Error
	var request *url.Error
	switch {
	case errors.Is(err, errTooLarge):
		return errTooLarge.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "it does not answer in time"
	case errors.As(err, &e) && e.Type == v1.ErrBadResponse:
		return "what answers there is no Prometheus"
	case errors.As(err, &e):
		return fmt.Sprintf("%s: %.300s", e.Type, e.Msg)
	case errors.As(err, &request):
		return request.Err.Error()
	}
	return fmt.Sprintf("%.300s", err.Error())
}

var errTooLarge = errors.New("its answer is too large")

// A bounded transport gives answers that end with an error where they are larger than most.
type bounded struct {
	next http.RoundTripper
	most int64
}

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = &body{response.Body, b.most}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	left int64
}

// Read reads on while there is room.
func (b *body) Read(to []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(to)
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLarge
	}
	return n, err
}
