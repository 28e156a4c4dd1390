package agent

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

var update = flag.Bool("update", false, "write the golden files and the table of docs/agent-answers.md")

func TestSetBy(t *testing.T) {
	spec := func(form pods.Form, value string) pods.Container {
		return pods.Container{Spec: pods.Setting{Set: form != pods.EnvFrom, Form: form, Value: value}}
	}
	asks := func(request, limit float64) pods.Container { return pods.Container{Request: request, Limit: limit} }
	for _, c := range []struct {
		name    string
		source  choice.Source
		value   string
		c       pods.Container
		unnamed bool
		floor   int
		want    string
	}{
		{"nothing", choice.FromLimit, "", pods.Container{}, false, 0, result.FromDefault},
		{"old Go", choice.FromCPUs, "", pods.Container{}, false, 0, result.FromDefault},
		{"a call", host.FromCall, "4", spec(pods.Literal, "4"), false, 0, result.FromCode},
		{"automaxprocs", choice.FromAutomaxprocs, "", pods.Container{}, false, 0, result.FromAutomaxprocs},
		{"unthrottle", choice.FromUnthrottle, "", pods.Container{}, false, 0, result.FromUnthrottle},
		{"the spec", choice.FromEnvironment, "4", spec(pods.Literal, "4"), false, 0, result.FromSpec},
		{"the spec's limit", choice.FromEnvironment, "2", spec(pods.Limits, ""), false, 1, result.FromSpec},
		{"a start script", choice.FromEnvironment, "8", spec(pods.Literal, "4"), false, 0, result.FromImageOrRuntime},
		{"a ConfigMap, perhaps", choice.FromEnvironment, "8", spec(pods.EnvFrom, ""), false, 0, result.FromEnvironment},
		{"an image", choice.FromEnvironment, "4", pods.Container{}, false, 0, result.FromImageOrRuntime},
		{"no known container", choice.FromEnvironment, "4", pods.Container{}, true, 1, result.FromEnvironment},
		{"CRI-O, twice the request", choice.FromEnvironment, "3", asks(1.2, 0), false, 1, result.FromRuntime},
		{"CRI-O, no request", choice.FromEnvironment, "1", asks(0, 0), false, 1, result.FromRuntime},
		{"CRI-O, the floor", choice.FromEnvironment, "4", asks(0.1, 0), false, 4, result.FromRuntime},
		{"CRI-O, an image's number", choice.FromEnvironment, "3", asks(0.1, 0), false, 1, result.FromImageOrRuntime},
		{"CRI-O, below the floor", choice.FromEnvironment, "1", asks(0.1, 0), false, 2, result.FromImageOrRuntime},
		{"CRI-O, below twice the request", choice.FromEnvironment, "4", asks(3, 0), false, 1, result.FromImageOrRuntime},
		{"CRI-O, with a limit", choice.FromEnvironment, "4", asks(2, 2), false, 1, result.FromImageOrRuntime},
		{"what does not inject", choice.FromEnvironment, "4", asks(2, 0), false, 0, result.FromImageOrRuntime},
	} {
		p := &host.Process{Prediction: choice.Prediction{Procs: 1, Source: c.source}, Process: procs.Process{Env: map[string]string{"GOMAXPROCS": c.value}}}
		if got := setBy(p, c.c, !c.unnamed, c.floor); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestInjectionFloor reads CRI-O's settings as its packages and operators write them.
func TestInjectionFloor(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"no CRI-O", nil, 0},
		{"by default", map[string]string{"crio.conf": "[crio.runtime]\n# min_injected_gomaxprocs = 0\n"}, 0},
		{"set", map[string]string{"crio.conf": "[crio.runtime]\nmin_injected_gomaxprocs = 2 # at least\n"}, 2},
		{"in a drop-in", map[string]string{"crio.conf": "[crio]\n", "crio.conf.d/01-ctrcfg": "[crio.runtime]\n  min_injected_gomaxprocs=4\n"}, 4},
		{"the last counts", map[string]string{
			"crio.conf.d/00-default": "min_injected_gomaxprocs = 1\n", "crio.conf.d/99-off": "min_injected_gomaxprocs = 0\n", "crio.conf": "min_injected_gomaxprocs = 8\n",
		}, 0},
		{"no number", map[string]string{"crio.conf": "min_injected_gomaxprocs = \"2\"\n"}, 0},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			file := filepath.Join(root, "proc/1/root/etc/crio", name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		if got := injectionFloor(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// program is a process with a limit and a GOMAXPROCS.
func program(procsNow int, source choice.Source, cpus float64) *host.Process {
	p := &host.Process{Live: procsNow, Prediction: choice.Prediction{Procs: procsNow, Source: source}}
	p.PID = 7
	p.System.Limits = cgroup.Limits{State: cgroup.Limited, CPUs: cpus, From: "/c", Affinity: 16}
	if cpus == 0 {
		p.System.Limits = cgroup.Limits{State: cgroup.None, Affinity: 16}
	}
	if source == host.FromCall {
		p.Prediction = choice.Prediction{Procs: procsNow, Source: choice.FromLimit}
		p.Custom, p.CustomKnown = true, true
	}
	return p
}

func TestStale(t *testing.T) {
	const second = time.Second
	started := time.Unix(1700000000, 0)
	type at struct {
		after time.Duration
		procs int
		cpus  float64
		want  bool
	}
	fixed, call := choice.FromEnvironment, host.FromCall
	for _, c := range []struct {
		name   string
		source choice.Source
		follow bool
		steps  []at
	}{
		{"raised", fixed, false, []at{{0, 1, 0.5, false}, {30 * second, 1, 0.5, false}, {60 * second, 1, 2, true}, {90 * second, 1, 2, true}}},
		{"lowered", fixed, false, []at{{0, 8, 8, false}, {30 * second, 8, 2, true}}},
		{"taken away", fixed, false, []at{{0, 2, 2, false}, {30 * second, 2, 0, true}}},
		{"right for the new limit as well", fixed, false, []at{{0, 2, 1.5, false}, {30 * second, 2, 2, false}}},
		{"back again", fixed, false, []at{{0, 1, 0.5, false}, {30 * second, 1, 2, true}, {60 * second, 1, 0.5, false}}},
		{"wrong before", fixed, false, []at{{0, 16, 0.5, false}, {30 * second, 16, 4, false}}},
		{"a call that follows after a while", call, false, []at{{0, 1, 0.5, false}, {30 * second, 1, 2, false}, {60 * second, 2, 2, false}, {200 * second, 2, 2, false}}},
		{"a call that does not", call, false, []at{{0, 1, 0.5, false}, {30 * second, 1, 4, false}, {90 * second, 1, 4, true}}},
		{"the runtime follows", choice.FromLimit, true, []at{{0, 2, 2, false}, {30 * second, 2, 4, false}, {300 * second, 2, 4, false}}},
	} {
		a := New(Options{})
		for i, s := range c.steps {
			l := look{Agent: a, at: started.Add(s.after), memory: newMemory(0)}
			p := program(s.procs, c.source, s.cpus)
			if c.follow {
				p.CustomKnown = true
			}
			p.Started = started
			if got := l.stale(p, pods.Container{}, nil); (got != nil) != s.want && (got == nil || s.want) {
				t.Errorf("%s, step %d: %+v", c.name, i, got)
			} else if s.want && (got.Now != s.cpus || got.Then != c.steps[0].cpus || !strings.Contains(got.Why, "while the same process ran")) {
				t.Errorf("%s, step %d: %+v", c.name, i, got)
			}
			a.memory = l.memory
		}
	}

	t.Run("another process", func(t *testing.T) {
		a := New(Options{})
		for i, cpus := range []float64{0.5, 2} {
			l := look{Agent: a, at: started.Add(time.Minute), memory: newMemory(0)}
			p := program(1, fixed, cpus)
			p.Started = started.Add(time.Duration(i) * second)
			if got := l.stale(p, pods.Container{}, nil); got != nil {
				t.Errorf("a pid that came again: %+v", got)
			}
			a.memory = l.memory
		}
	})
}

// A spec that would now give another number reveals a resize that went unseen.
func TestStaleBySpec(t *testing.T) {
	for _, c := range []struct {
		name          string
		env           string
		limit         float64 // by the API
		actual        float64
		quota         float64 // in force
		form          pods.Form
		of            string
		want          bool
		procsOfItsOwn int
	}{
		{name: "resized", env: "1", limit: 2, actual: 2, quota: 2, form: pods.Limits, want: true},
		{name: "as it was", env: "2", limit: 2, actual: 2, quota: 2, form: pods.Limits},
		{name: "in thousandths", env: "2000", limit: 2, quota: 2, form: pods.Limits},
		{name: "wanted, and not yet done", env: "1", limit: 2, actual: 0.5, quota: 0.5, form: pods.Limits},
		{name: "the API has not heard", env: "1", limit: 2, quota: 0.5, form: pods.Limits},
		{name: "another container's limit", env: "1", limit: 2, quota: 2, form: pods.Limits, of: "proxy"},
		{name: "a literal", env: "1", limit: 2, quota: 2, form: pods.Literal},
		{name: "set by its code since", env: "1", limit: 2, quota: 2, form: pods.Limits, procsOfItsOwn: 2},
	} {
		p := program(max(1, c.procsOfItsOwn), choice.FromEnvironment, c.quota)
		fmt.Sscan(c.env, &p.Live)
		if c.procsOfItsOwn > 0 {
			p.Live = c.procsOfItsOwn
		}
		p.Prediction.Procs = p.Live
		p.Env = map[string]string{"GOMAXPROCS": c.env}
		known := pods.Container{Limit: c.limit, Actual: c.actual, Spec: pods.Setting{Set: true, Form: c.form, Of: c.of}}
		got := bySpec(p, known, []level{{name: podpath.Container, quota: c.quota}})
		if (got != nil) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestStaleByResize: what the API server says about a resize outlives the agent, and counts for nothing where the agent has seen more.
func TestStaleByResize(t *testing.T) {
	began := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		resized time.Time
		form    pods.Form
		source  choice.Source
		want    bool
		written bool
	}{
		{name: "a literal", resized: began.Add(time.Hour), form: pods.Literal, source: choice.FromEnvironment, want: true, written: true},
		{name: "from a ConfigMap", resized: began.Add(time.Hour), form: pods.ConfigMap, source: choice.FromEnvironment, want: true},
		{name: "never resized", form: pods.Literal, source: choice.FromEnvironment},
		{name: "before it began", resized: began.Add(-time.Hour), form: pods.Literal, source: choice.FromEnvironment},
		{name: "by clocks that differ", resized: began.Add(2 * time.Second), form: pods.Literal, source: choice.FromEnvironment},
		{name: "not fixed", resized: began.Add(time.Hour), source: choice.FromLimit},
	} {
		p := program(1, c.source, 2)
		p.Started, p.Env = began, map[string]string{"GOMAXPROCS": "1"}
		l := &look{Agent: New(Options{}), at: began.Add(2 * time.Hour), memory: newMemory(1)}
		known := pods.Container{Limit: 2, Actual: 2, Resized: c.resized, Spec: pods.Setting{Set: true, Form: c.form}}
		got := l.stale(p, known, []level{{name: podpath.Container, quota: 2}})
		if (got != nil) != c.want || got != nil && (got.Written != c.written || !got.Since.Equal(c.resized)) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}

	// An agent that was there saw the limit change from one that the number did not suit either.
	p := program(1, choice.FromEnvironment, 2)
	p.Started = began
	a := New(Options{})
	a.memory.processes[process{p.PID, began}] = seen{procs: 1, then: 4, now: 4}
	l := &look{Agent: a, at: began.Add(2 * time.Hour), memory: newMemory(1)}
	if got := l.stale(p, pods.Container{Limit: 2, Actual: 2, Resized: began.Add(time.Hour)}, nil); got != nil {
		t.Errorf("it was wrong before: %+v", got)
	}
}

// aScan is one with a container that is in trouble on each level, and a quiet one.
func aScan() *Scan {
	second := 12500 * time.Millisecond
	counts := func(of string, n int64) Quota {
		return Quota{of, cgroup.Counters{Known: true, Periods: n, Throttled: n / 2, ThrottledTime: time.Duration(n) * time.Millisecond}, 1}
	}
	half, ps := 0.5, 3.25
	return &Scan{
		Doc:   &result.Agent{Node: "node1", Looked: 40, Refused: 2, Processes: make([]result.AgentProcess, 3)},
		Known: true, Took: 2100 * time.Millisecond, Dropped: 1,
		Containers: []Container{
			{
				Namespace: "shop", Pod: "api-5d8-x7", Name: "app", OwnerKind: "Deployment", Owner: "api", Processes: 2,
				GoVersion: "go1.24.13", GoLine: "1.24", SetBy: result.FromSpec, Procs: 8, Expected: 2, Limit: 1.5, LimitBy: ofPod, CPU: &second,
				Quotas: []Quota{counts(ofContainer, 40), counts(ofPod, 100), counts(above, 4)}, Frozen: &half, Running: &ps,
				Findings: map[string]finding.Severity{"throttled": finding.Critical, "too-many-ps": finding.Critical, "stale": finding.Warning, "not-following": finding.Info},
				Muted:    map[string]bool{"contended": true, "limit-not-seen": true},
			},
			{
				Namespace: "shop", Pod: "quiet", Name: "a", OwnerKind: "Pod", Owner: "quiet", Processes: 1, GoVersion: "go1.26.1", GoLine: "1.26 or later",
				SetBy: result.FromDefault, Procs: 16, Expected: 16, Muted: map[string]bool{"stale": true},
			},
		},
	}
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func gathered(t *testing.T, a *Agent) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(a.metrics)
	code, text := get(t, promhttp.HandlerFor(r, promhttp.HandlerOpts{}), "/metrics")
	if code != 200 {
		t.Fatalf("%d: %s", code, text)
	}
	return text
}

func TestMetrics(t *testing.T) {
	a := New(Options{Node: "node1", Interval: time.Second})
	if got := gathered(t, a); strings.Contains(got, "unthrottle_container") || !strings.Contains(got, "unthrottle_agent_pods_known 0") {
		t.Errorf("before the first scan:\n%s", got)
	}
	s := aScan()
	a.latest.Store(s)
	got := gathered(t, a)
	for line := range strings.SplitSeq(got, "\n") {
		if strings.HasPrefix(line, "unthrottle_agent_info") {
			got = strings.Replace(got, line, `unthrottle_agent_info{node="node1",version="V"} 1`, 1)
		}
	}
	const golden = "testdata/metrics.golden"
	if *update {
		os.MkdirAll("testdata", 0o755)
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("they are others than in %s:\n%s", golden, got)
	}
	for i := range s.Containers {
		if n := len(s.Containers[i].metrics("node1")); n > mostSeries {
			t.Errorf("%d series of one container", n)
		}
	}
	if problems, err := testutil.CollectAndLint(a.metrics); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}

	// A container that is gone has no series after the next scan.
	next := aScan()
	next.Containers = next.Containers[1:]
	a.latest.Store(next)
	if got := gathered(t, a); strings.Contains(got, "api-5d8-x7") || !strings.Contains(got, "quiet") {
		t.Errorf("after it is gone:\n%s", got)
	}
}

// Of too many containers those with the most CPU have metrics, and of two with one name the newer.
func TestContainers(t *testing.T) {
	l := look{groups: map[string]*group{}}
	began := time.Unix(1700000000, 0)
	put := func(id, pod string, age int, cpu float64) {
		c := pods.Container{Namespace: "n", Pod: pod, Name: "c", ID: id, Started: began.Add(time.Duration(age) * time.Second)}
		doc := &result.AgentProcess{PsProcess: report.PsProcess{CPU: &cpu, GoVersion: "go1.2\xff6" + strings.Repeat("x", 100)}}
		l.add(c, program(2, choice.FromLimit, 2), doc, nil, []finding.Finding{{Rule: "throttled", Severity: finding.Warning}})
	}
	put("a", "busy", 0, 2)
	put("b", "idle", 0, 0)
	put("c", "some", 0, 0.5)
	put("c", "some", 0, 0.4)
	put("d", "again", 0, 1)
	put("e", "again", 5, 0.1)
	kept, dropped := l.containers(2)
	if len(kept) != 2 || dropped != 2 || kept[0].Pod != "busy" || kept[1].Pod != "some" || kept[1].Processes != 2 {
		t.Errorf("%+v, %d are dropped", kept, dropped)
	}
	if v := kept[0].GoVersion; len(v) > 64 || !strings.HasPrefix(v, "go1.2?6") {
		t.Errorf("a label is %q", v)
	}
	all, dropped := l.containers(10)
	if len(all) != 4 || dropped != 0 {
		t.Errorf("%d containers, %d are dropped", len(all), dropped)
	}
}

func TestLevels(t *testing.T) {
	var c Container
	p := program(2, choice.FromLimit, 1.5)
	p.System.Limits.From = "/k/pod"
	counted := cgroup.Counters{Known: true, Periods: 3, CPUKnown: true, CPU: time.Second}
	more := counted
	more.CPU = 2 * time.Second
	c.takeMain(p, &result.AgentProcess{}, []level{
		{name: podpath.Container, dir: "/k/pod/c/inner", quota: 2, total: counted},
		{name: podpath.Container, dir: "/k/pod/c", quota: 3, total: more},
		{name: podpath.Pod, dir: "/k/pod", quota: 1.5, total: counted},
		{name: podpath.QoS, dir: "/k/q", total: counted},
		{name: podpath.Kubepods, dir: "/k", quota: 8, total: counted},
	})
	if c.Limit != 1.5 || c.LimitBy != ofPod || *c.CPU != 2*time.Second || c.Expected != 2 {
		t.Errorf("%+v", c)
	}
	var of []string
	for _, q := range c.Quotas {
		of = append(of, fmt.Sprint(q.Of, " ", q.cpus))
	}
	if got := strings.Join(of, ", "); got != "container 2, pod 1.5, above 8" {
		t.Errorf("quotas: %s", got)
	}
}

// podsOf knows one container.
type podsOf struct{ c pods.Container }

func (p podsOf) Container(podpath.Ref) (pods.Container, bool) { return p.c, true }
func (p podsOf) Err() error                                   { return nil }

// A pod's limit that the kubelet has written to its container too is the pod's.
func TestOwner(t *testing.T) {
	const pod = "/sys/fs/cgroup/cpu/kubepods/burstable/pod2d5133c0-65f3-40b2-b375-c04866d418e1"
	inner := pod + "/" + strings.Repeat("a", 64)
	half := cgroup.Quota{QuotaMicros: 50_000, PeriodMicros: 100_000}
	for _, c := range []struct {
		name string
		c    pods.Container
		want string
	}{
		{"the pod's", pods.Container{PodLimit: 0.5}, pod},
		{"the container's", pods.Container{Limit: 0.5}, inner},
		{"both", pods.Container{Limit: 0.5, PodLimit: 0.5}, inner},
	} {
		p := &host.Process{}
		p.System.Limits = cgroup.Limits{
			State: cgroup.Limited, CPUs: 0.5, From: inner, Path: strings.TrimPrefix(inner, "/sys/fs/cgroup/cpu"),
			Levels: []cgroup.Level{{Dir: inner, Quota: half}, {Dir: pod, Quota: half}},
		}
		New(Options{Pods: podsOf{c.c}}).owner(p)
		if got := p.System.Limits.From; got != c.want {
			t.Errorf("%s: the limit is of %s", c.name, got)
		}
	}
}

// TestPause is how far apart scans are, by what they took.
func TestPause(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name       string
		cpus       float64
		took, used time.Duration
		want       time.Duration
	}{
		{"little to look at", 0.005, 2 * second, 20 * time.Millisecond, 28 * second},
		{"just what it may use", 0.005, 2 * second, 150 * time.Millisecond, 28 * second},
		{"more", 0.005, 2 * second, 200 * time.Millisecond, 38 * second},
		{"very much", 0.005, 2 * second, 10 * second, 118 * second},
		{"more, and it may", 0.5, 2 * second, 200 * time.Millisecond, 28 * second},
		{"no bound", 0, 2 * second, 10 * second, 28 * second},
		{"longer than the interval", 0.005, 31 * second, 20 * time.Millisecond, 30 * second},
		{"longer, and very much", 0.005, 31 * second, 10 * second, 89 * second},
	} {
		o := Options{Interval: 30 * second, CPUs: c.cpus}
		if got := o.pause(c.took, c.used); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
