//go:build linux

package alert

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agent"
)

// patience is how long is waited for what a Prometheus does in its own time. It judges no speed.
const patience = 8 * time.Minute

// A node is what one agent exposes. Its counters grow with the time that passes between scrapes.
type node struct {
	mu         sync.Mutex
	name       string
	containers map[string]*program // by pod
	last       time.Time
	scans      float64
}

type program struct {
	owner, from      string
	procs, right     int
	limit            float64
	findings, muted  []string
	share            map[string]float64 // of the periods that are throttled, by level
	periods, stopped map[string]float64
	cpu              float64
}

// change changes what an agent sees.
func (n *node) change(pod string, f func(*program)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.containers[pod]
	if p == nil {
		p = &program{owner: "api", from: "default", procs: 2, right: 2, limit: 1, share: map[string]float64{}, periods: map[string]float64{}, stopped: map[string]float64{}}
		n.containers[pod] = p
	}
	f(p)
}

func (n *node) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	periods := 0.0
	if !n.last.IsZero() {
		periods = 10 * now.Sub(n.last).Seconds()
	}
	n.last, n.scans = now, n.scans+1
	sent := map[string]bool{"unthrottle_container_finding": true, "unthrottle_container_muted": true} // those that most have none of
	send := func(metric string, value float64, labels ...string) {
		sent[metric] = true
		fmt.Fprintf(w, "%s{", metric)
		for i := 0; i < len(labels); i += 2 {
			fmt.Fprintf(w, "%s=%q,", labels[i], labels[i+1])
		}
		fmt.Fprintf(w, "} %g\n", value)
	}
	var pod string
	for _, pod = range slices.Sorted(maps.Keys(n.containers)) {
		p := n.containers[pod]
		p.cpu += periods / 10 * p.limit
		put := func(metric string, value float64, labels ...string) {
			send("unthrottle_container_"+metric, value, append([]string{"namespace", "shop", "pod", pod, "container", "app"}, labels...)...)
		}
		put("info", 1, "owner_kind", "Deployment", "owner", p.owner, "go_version", "go1.24.3", "go_line", "1.24", "gomaxprocs_from", p.from, "node", n.name)
		put("gomaxprocs", float64(p.procs))
		put("gomaxprocs_expected", float64(p.right))
		limits := "container"
		if _, ok := p.share["pod"]; ok {
			limits = "pod"
		}
		put("limit_cpus", p.limit, "level", limits)
		put("cpu_seconds_total", p.cpu)
		still := 0.0 // whichever level stops it
		for _, share := range p.share {
			still = max(still, share/2)
		}
		put("frozen_ratio", still)
		for _, level := range []string{"container", "pod"} {
			share, ok := p.share[level]
			if !ok {
				share = p.share["container"] // the kubelet gives a pod's group the sum of its containers' limits
			}
			p.periods[level] += periods
			p.stopped[level] += periods * share
			put("periods_total", p.periods[level], "level", level)
			put("throttled_periods_total", p.stopped[level], "level", level)
			put("throttled_seconds_total", p.stopped[level]/20, "level", level)
		}
		for _, f := range p.findings {
			put("finding", 1, "rule", f, "severity", "warning")
		}
		for _, m := range p.muted {
			put("muted", 1, "rule", m)
		}
	}
	send("unthrottle_agent_info", 1, "node", n.name, "version", "1.0.0")
	send("unthrottle_agent_scans_total", n.scans)
	send("unthrottle_agent_processes", float64(len(n.containers)), "kind", "go")
	send("unthrottle_agent_processes", 80, "kind", "other")
	send("unthrottle_agent_processes", 0, "kind", "refused")
	send("unthrottle_agent_containers", float64(len(n.containers)))
	send("unthrottle_agent_pods_known", 1)
	send("process_resident_memory_bytes", 4e7)
	send("process_cpu_seconds_total", n.scans/1000)
	for _, m := range agent.Metrics() { // what no alert of these tests is about
		if sent[m.Name] || pod == "" {
			continue
		}
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, l, cmp.Or(map[string]string{"namespace": "shop", "pod": pod, "container": "app"}[l], "x"))
		}
		send(m.Name, 0, labels...)
	}
}

// A prometheus runs until the test ends.
type prometheus struct {
	t   *testing.T
	url string
}

// start starts Debian's Prometheus with the rules. It scrapes agents, whose addresses are by their pods, every so often. As targets
// they have the labels of these pods, as in a cluster.
func start(t *testing.T, dir string, every time.Duration, agents map[string]string) *prometheus {
	return startWith(t, dir, every, agents, "")
}

// startWith scrapes agents that ask for something.
func startWith(t *testing.T, dir string, every time.Duration, agents map[string]string, more string) *prometheus {
	t.Helper()
	var targets strings.Builder
	for _, pod := range slices.Sorted(maps.Keys(agents)) {
		fmt.Fprintf(&targets, "  - targets: [%q]\n    labels: {namespace: unthrottle, pod: %s, container: agent}\n", agents[pod], pod)
	}
	return startScraping(t, dir, every, "- job_name: unthrottle/unthrottle-agent\n  honor_labels: true\n"+more+"  static_configs:\n"+targets.String())
}

// startScraping starts it with jobs, as its configuration has them.
func startScraping(t *testing.T, dir string, every time.Duration, jobs string) *prometheus {
	t.Helper()
	path := tool(t, "prometheus")
	config := fmt.Sprintf(`global: {scrape_interval: %[1]dms, scrape_timeout: %[1]dms, evaluation_interval: %[1]dms}
rule_files: [rules.yaml]
scrape_configs:
`, every.Milliseconds()) + jobs
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 5 { // another process may take the port in between
		if p := run(t, path, dir); p != nil {
			return p
		}
	}
	t.Fatal("Prometheus does not start")
	return nil
}

// run runs Prometheus until the test ends, and waits until it is ready; nil: it has ended before.
func run(t *testing.T, path, dir string) *prometheus {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	log, ended := new(bytes.Buffer), make(chan struct{})
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--storage.tsdb.retention.time=1d")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(ended)
	}()
	p, early := &prometheus{t, "http://" + address}, false
	t.Cleanup(func() {
		var last json.RawMessage
		if t.Failed() {
			p.ask("alerts", nil, &last)
		}
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("the alerts are %s, and Prometheus says\n%s", last, log)
		}
	})
	p.await("Prometheus is ready", func() bool {
		select {
		case <-ended:
			early = true
			return true
		default:
		}
		response, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if early {
		return nil
	}
	return p
}

func (p *prometheus) await(what string, ready func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for !ready() {
		select {
		case <-ctx.Done():
			p.t.Fatalf("waited for long: %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ask asks Prometheus' API.
func (p *prometheus) ask(path string, values url.Values, to any) error {
	response, err := http.Get(p.url + "/api/v1/" + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, to)
}

type instance struct {
	Labels, Annotations map[string]string
	State, Value        string
}

// text is what people read of an alert.
func (a instance) text() string {
	return a.Annotations["summary"] + "\n    " + a.Annotations["description"]
}

// alerts are those that fire, and those that will if it lasts. Their templates have filled them in.
func (p *prometheus) alerts() []instance {
	p.t.Helper()
	var answer struct{ Alerts []instance }
	if err := p.ask("alerts", nil, &answer); err != nil {
		p.t.Fatal(err)
	}
	for _, a := range answer.Alerts {
		if text := a.text(); strings.Contains(text, "<error") || strings.Contains(text, "{{") {
			p.t.Fatalf("%s: %s", a.Labels["alertname"], text)
		}
	}
	return answer.Alerts
}

// fire waits until these alerts fire and no others. Each is NAME of OWNER=PODS.
func (p *prometheus) fire(want ...string) {
	p.t.Helper()
	var texts []string
	p.await(fmt.Sprintf("alerts %q", want), func() bool {
		var names []string
		texts = nil
		for _, a := range p.alerts() {
			if a.State == "firing" {
				names = append(names, strings.TrimSuffix(a.Labels["alertname"]+" of "+a.Labels["owner"], " of ")+"="+strings.TrimSuffix(a.Value, "e+00"))
				texts = append(texts, a.text())
			}
		}
		slices.Sort(names)
		return slices.Equal(names, want)
	})
	p.t.Logf("firing: %q", want)
	for _, text := range texts {
		p.t.Log(text)
	}
}

// says waits until an alert fires whose text has all these patterns, and returns the text.
func (p *prometheus) says(alert string, patterns ...string) (text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("%s with the text %q", alert, patterns), func() bool {
		for _, a := range p.alerts() {
			lacks := func(pattern string) bool { return !regexp.MustCompile(pattern).MatchString(a.text()) }
			if a.State == "firing" && a.Labels["alertname"] == alert && !slices.ContainsFunc(patterns, lacks) {
				text = a.text()
				return true
			}
		}
		return false
	})
	return text
}

// healthy waits until all rules have been evaluated from now on, and fails the test if one could not be.
func (p *prometheus) healthy() {
	p.t.Helper()
	var answer struct {
		Groups []struct {
			LastEvaluation time.Time
			Rules          []struct{ Name, Health, LastError string }
		}
	}
	now, n := time.Now(), 0
	p.await("an evaluation", func() bool {
		answer.Groups = nil
		if err := p.ask("rules", nil, &answer); err != nil {
			p.t.Fatal(err)
		}
		for _, g := range answer.Groups {
			if g.LastEvaluation.Before(now) {
				return false
			}
		}
		return len(answer.Groups) > 0
	})
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			if n++; r.Health != "ok" {
				p.t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if n < 17 {
		p.t.Errorf("only %d rules", n)
	}
}

// query are the labels of the series that answer a query.
func (p *prometheus) query(expr string) (series []map[string]string) {
	p.t.Helper()
	var answer struct {
		Result []struct{ Metric map[string]string }
	}
	if err := p.ask("query", url.Values{"query": {expr}}, &answer); err != nil {
		p.t.Fatalf("%v: %s", err, expr)
	}
	for _, r := range answer.Result {
		series = append(series, r.Metric)
	}
	return series
}

// has waits until a query has an answer.
func (p *prometheus) has(expr string) (series []map[string]string) {
	p.t.Helper()
	p.await("data for "+expr, func() bool {
		series = p.query(expr)
		return len(series) > 0
	})
	return series
}

// metricsScraped holds what Prometheus has of agents to Metrics: each of these with its labels, and no other.
func metricsScraped(t *testing.T, p *prometheus) {
	p = &prometheus{t, p.url}
	names := map[string]bool{}
	for _, m := range agent.Metrics() {
		names[m.Name] = true
		labels := map[string]bool{} // of all its series: Prometheus drops one that is empty
		for _, series := range p.has(m.Name) {
			for l := range series {
				labels[l] = true
			}
		}
		want := append([]string{"__name__", "job", "instance", "namespace", "pod", "container"}, m.Labels...)
		slices.Sort(want)
		want = slices.Compact(want)
		if got := slices.Sorted(maps.Keys(labels)); !slices.Equal(got, want) {
			t.Errorf("%s has the labels %q, want %q", m.Name, got, want)
		}
	}
	for _, series := range p.has(`group by (__name__) ({__name__=~"unthrottle_.+"})`) {
		if name := series["__name__"]; !names[name] {
			t.Errorf("agents have %s, which Metrics does not", name)
		}
	}
	t.Logf("%d metrics are there", len(names))
}

// TestPrometheus lets a real Prometheus scrape two agents: alerts fire, say what to do, and clear. Its windows have two seconds, so
// nothing else of this package runs alongside.
func TestPrometheus(t *testing.T) {
	o := Default()
	o.Window, o.For = 2*time.Second, time.Second
	dir := written(t, o)
	one, two := &node{name: "node-1", containers: map[string]*program{}}, &node{name: "node-2", containers: map[string]*program{}}
	atOne, atTwo := httptest.NewServer(one), httptest.NewServer(two)
	defer atOne.Close()
	defer atTwo.Close()
	bad := func(p *program) {
		p.from, p.procs, p.findings, p.share["container"] = "spec", 16, []string{"too-many-ps", "throttled"}, 0.8
	}
	one.change("api-1", bad)
	two.change("api-2", bad)
	two.change("web-1", func(p *program) { p.owner, p.share["container"], p.share["pod"] = "web", 0, 0.98 })
	two.change("db-1", func(p *program) { p.owner, p.findings, p.procs = "db", []string{stale}, 1 })
	one.change("quiet-1", func(p *program) { p.owner, p.muted, p.share["container"] = "quiet", []string{"too-few-ps"}, 0.02 })
	one.change("slow-1", func(p *program) { p.owner, p.share["container"] = "slow", 0.5 })

	p := start(t, dir, 200*time.Millisecond, map[string]string{
		"unthrottle-agent-one": atOne.Listener.Addr().String(), "unthrottle-agent-two": atTwo.Listener.Addr().String(),
	})
	p.fire("UnthrottlePodThrottled of web=1", "UnthrottleStale of db=1", "UnthrottleThrottled of slow=1", "UnthrottleTooManyPs of api=2")
	p.healthy()
	p.says("UnthrottleTooManyPs", "shop/api", "container app", ": 2 pods, such as api-", "Its GOMAXPROCS is 16, set by its spec", "set GOMAXPROCS to 2 in")
	t.Run("metrics", func(t *testing.T) { metricsScraped(t, p) })
	t.Run("dashboard", func(t *testing.T) { dashboardRuns(t, p, Dashboard) })

	// The second agent begins to see what the first one sees, as when one takes over: no join breaks, and nothing counts twice.
	two.change("api-1", bad)
	p.has(`count(unthrottle_container_info{pod="api-1"}) == 2 and count(rate(unthrottle_container_periods_total{pod="api-1"}[2s])) == 2`)
	p.healthy()
	p.fire("UnthrottlePodThrottled of web=1", "UnthrottleStale of db=1", "UnthrottleThrottled of slow=1", "UnthrottleTooManyPs of api=2")
	p.healthy()

	// One is restarted, one repaired, one muted; and the last has its pod deleted.
	for _, n := range []*node{one, two} {
		n.change("api-1", func(p *program) { p.procs, p.findings, p.share["container"] = 2, nil, 0.01 })
	}
	two.change("api-2", func(p *program) { p.findings, p.muted = nil, []string{"too-many-ps", "throttled"} })
	two.change("db-1", func(p *program) { p.findings = nil })
	two.change("web-1", func(p *program) { p.share["pod"] = 0 })
	one.mu.Lock()
	delete(one.containers, "slow-1")
	one.mu.Unlock()
	p.fire()
	p.healthy()

	// An agent dies.
	atTwo.Close()
	p.fire("UnthrottleAgentDown=0")
	p.healthy()
}

// programs are what three containers, the kubelet and kube-state-metrics expose where there is no agent.
type programs struct {
	mu       sync.Mutex
	begin    time.Time
	repaired bool
	resized  bool
}

func (x *programs) change(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

func (x *programs) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, share := time.Since(x.begin).Seconds(), 0.5
	if x.repaired {
		share = 0
	}
	number := func(wrong, right int) int {
		if x.repaired {
			return right
		}
		return wrong
	}
	for _, p := range []struct {
		pod          string
		procs, limit int
		counters     string
	}{
		{"api-1", number(16, 2), 2, fmt.Sprintf("container_cpu_cfs_periods_total{LABELS} %f\ncontainer_cpu_cfs_throttled_periods_total{LABELS} %f\n", 10*at, 10*share*at)},
		{"db-0", number(8, 2), map[bool]int{false: 8, true: 2}[x.resized], ""},
		{"slow-1", 2, 2, fmt.Sprintf("container_pressure_cpu_stalled_seconds_total{LABELS} %f\n", share*at)},
	} {
		labels := fmt.Sprintf(`namespace="shop",pod=%q,container="app"`, p.pod)
		name := strings.Split(p.pod, "-")[0]
		fmt.Fprint(w, strings.NewReplacer("LABELS", labels, "OWNER", name).Replace(fmt.Sprintf(`go_sched_gomaxprocs_threads{LABELS} %d
go_info{LABELS,version="go1.24.3"} 1
process_start_time_seconds{LABELS} %d
container_cpu_usage_seconds_total{LABELS,cpu="total"} %f
kube_pod_container_resource_limits{LABELS,resource="cpu",unit="core"} %d
kube_pod_container_info{LABELS,image="x"} 1
kube_pod_owner{LABELS,owner_kind="StatefulSet",owner_name="OWNER",owner_is_controller="true"} 1
%s`, p.procs, number(1000, 2000), at/2, p.limit, p.counters)))
	}
}

// TestPrograms lets a real Prometheus find without agents what the rules from programs are about, and forget it again. It takes as long as
// TestNode, and both wait.
func TestPrograms(t *testing.T) {
	t.Parallel()
	t.Run("made up", programsScraped)
	t.Run("on a node", programsOnNode)
}

func programsScraped(t *testing.T) {
	o := fromPrograms()
	o.Window, o.For = 10*time.Second, time.Second
	dir := written(t, o)
	x := &programs{begin: time.Now()}
	exporter := httptest.NewServer(x)
	defer exporter.Close()
	p := start(t, dir, 200*time.Millisecond, map[string]string{"exporter": exporter.Listener.Addr().String()})
	p.has(`unthrottle:program_first_limit_cpus{pod="db-0"} == 8`)
	x.change(func() { x.resized = true })
	p.fire("UnthrottleProgramStale of db=1", "UnthrottleProgramStandsStill of slow=1", "UnthrottleProgramTooManyPs of api=1")
	p.healthy()
	p.says("UnthrottleProgramTooManyPs", "Its limit is 2 CPUs. Its GOMAXPROCS is 16. It is throttled in [0-9.]+% of the periods. It uses [0-9.]+ CPU", "set GOMAXPROCS to 2 in")
	p.says("UnthrottleProgramStale", "Its limit is 2 CPUs, and was 8 before. Its GOMAXPROCS is 8.", `kubectl -n shop delete pod db-0`)
	p.says("UnthrottleProgramStandsStill", "Its threads can't run for [0-9.]+% of the time")

	x.change(func() { x.repaired = true })
	p.fire()
	p.healthy()
}
