package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// oldGo is a version that reads no limit.
const oldGo = "go1.24.13"

// buildOld builds a program of one file with it.
func buildOld(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": string(text), "go.mod": "module worker\n\ngo 1.24\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "program", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOTOOLCHAIN="+oldGo, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "toolchain") && os.Getenv("UNTHROTTLE_REQUIRE_TOOLCHAINS") == "" {
			t.Skipf("%s can't be had: %s", oldGo, out)
		}
		t.Fatalf("building with %s: %v\n%s", oldGo, err, out)
	}
	return filepath.Join(dir, "program")
}

func rules(found []finding.Finding) (names []string) {
	for _, f := range found {
		names = append(names, f.Rule)
	}
	slices.Sort(names)
	return names
}

const atLast = 8 * time.Minute // so that a hang ends; it judges no speed

// TestNode runs the agent as a DaemonSet on a real node. What it says about each program is what the program says about itself.
func TestNode(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	agent := clustertest.Image{
		Name: "localhost/agent:1", Entrypoint: []string{"/kubectl-unthrottle"},
		Files: map[string]string{"/kubectl-unthrottle": clustertest.BuildGo(t, "../../..", "-ldflags=-s -w")},
	}
	c.Import(t, agent)
	worker := clustertest.GoImage(t, "localhost/worker:1", "./testdata/worker")
	c.Import(t, worker)
	worker.Name, worker.Env = "localhost/baked:1", []string{"GOMAXPROCS=3"}
	c.Import(t, worker)
	worker.Name, worker.Env, worker.Files = "localhost/old:1", nil, map[string]string{"/program": buildOld(t, "testdata/worker/main.go")}
	c.Import(t, worker)
	manifests, err := os.ReadFile("testdata/node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Must(t, string(manifests), "apply", "-f", "-")
	workers := c.WaitPods(t, "default", "worker=1", 9, "Running")
	c.WaitPods(t, "default", "", 10, "Running")
	of := c.WaitPods(t, "unthrottle", "", 1, "Running")[0]

	ask := func(path string) (string, error) {
		body, err := c.Proxy("unthrottle", of.Name, 9435, path)
		return string(body), err
	}
	look := func() (doc result.Agent, err error) {
		body, err := ask("/api/v1/processes")
		if err == nil {
			err = json.Unmarshal([]byte(body), &doc)
		}
		return doc, err
	}
	find := func(doc result.Agent, pod, container string) *result.AgentProcess {
		for i := range doc.Processes {
			if p := &doc.Processes[i]; p.Container != nil && p.Container.Pod == pod && p.Container.Name == container {
				return p
			}
		}
		return nil
	}
	// all waits for a scan that knows all workers.
	all := func(right func(result.Agent) error) (doc result.Agent) {
		t.Helper()
		clustertest.WaitFor(t, atLast, func() (err error) {
			if doc, err = look(); err == nil {
				err = right(doc)
			}
			return err
		})
		return doc
	}
	doc := all(func(doc result.Agent) error {
		for _, w := range workers {
			if find(doc, w.Name, "worker") == nil {
				return fmt.Errorf("%s is not among %d programs; problems: %q", w.Name, len(doc.Processes), doc.Problems)
			}
		}
		if find(doc, "whole", "a") == nil || find(doc, "whole", "b") == nil {
			return fmt.Errorf("the pod with a limit is not there")
		}
		return nil
	})
	if doc.Node != c.Nodes[0].Name {
		t.Errorf("its node is %q", doc.Node)
	}
	t.Logf("problems: %q", doc.Problems)

	t.Run("as the programs say", func(t *testing.T) {
		setBy := map[string]string{
			"plain": result.FromDefault, "old": result.FromDefault, "godebug": result.FromDefault, "called": result.FromCode,
			"pinned": result.FromSpec, "written": result.FromSpec, "literal": result.FromSpec, "thousandths": result.FromSpec, "baked": result.FromImageOrRuntime,
		}
		for _, w := range workers {
			p := find(doc, w.Name, "worker")
			said, err := c.Proxy("default", w.Name, 8080, "/")
			if err != nil {
				t.Fatal(err)
			}
			if p.GOMAXPROCS.Value == nil || strconv.Itoa(*p.GOMAXPROCS.Value) != string(said) || p.GOMAXPROCS.Proof != "live" {
				t.Errorf("%s says %s, the agent %+v", w.Name, said, p.GOMAXPROCS)
			}
			name, _, _ := strings.Cut(w.Name, "-")
			if p.SetBy != setBy[name] {
				t.Errorf("%s is set by %s, want %s", w.Name, p.SetBy, setBy[name])
			}
			k := p.Container
			if k.UID != w.UID || k.ID != w.Containers[0].ID || k.Namespace != "default" || k.Runtime != "containerd" || k.Limit == 0 {
				t.Errorf("%s is in %+v", w.Name, k)
			}
			if name == "plain" && (k.OwnerKind != "Deployment" || k.Owner != "plain") {
				t.Errorf("its owner is %s %s", k.OwnerKind, k.Owner)
			}
			if p.Limit.CPUs == nil || *p.Limit.CPUs != k.Limit || !slices.ContainsFunc(p.Levels, func(v result.AgentLevel) bool { return v.Level == "container" && v.Limit != nil }) {
				t.Errorf("%s has the limit %+v, levels %+v", w.Name, p.Limit, p.Levels)
			}
			if p.Started == "" || p.Go == nil || p.GoVersion == "" {
				t.Errorf("%s: %+v", w.Name, p)
			}
			if name == "old" && p.GoVersion != oldGo {
				t.Errorf("%s is built with %s", w.Name, p.GoVersion)
			}
			if len(p.Command) != 1 {
				t.Errorf("%s tells its arguments: %q", w.Name, p.Command)
			}
			if p.Stale != nil {
				t.Errorf("%s is stale: %+v", w.Name, p.Stale)
			}
			if name == "literal" && len(p.Findings) > 0 {
				t.Errorf("what is muted is found: %+v", p.Findings)
			}
		}
	})
	t.Run("wrong divisor", func(t *testing.T) {
		all(func(doc result.Agent) error {
			p := find(doc, "thousandths", "worker")
			if p == nil || p.GOMAXPROCS.Value == nil || *p.GOMAXPROCS.Value != 100 ||
				!slices.ContainsFunc(p.Findings, func(f finding.Finding) bool { return f.Rule == "too-many-ps" && f.Severity >= finding.Warning }) {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
	})
	t.Run("the pod's level", func(t *testing.T) {
		all(func(doc result.Agent) error {
			p := find(doc, "whole", "a")
			if p == nil || p.Limit.CPUs == nil || *p.Limit.CPUs != 0.2 {
				return fmt.Errorf("the limit in force is %+v", p)
			}
			throttled := map[string]int64{}
			for _, v := range p.Levels {
				throttled[v.Level] += v.ThrottledPeriods
			}
			if throttled["container"] != 0 || throttled["pod"] == 0 {
				return fmt.Errorf("throttled periods by level: %v", throttled)
			}
			if !strings.Contains(p.Limit.From, "pod") || strings.HasSuffix(p.Limit.From, p.Container.ID) ||
				!slices.ContainsFunc(p.Findings, func(f finding.Finding) bool { return f.Rule == "throttled" }) {
				return fmt.Errorf("the limit is from %s, findings %+v", p.Limit.From, p.Findings)
			}
			return nil
		})
	})
	t.Run("resized", func(t *testing.T) {
		c.Must(t, "", "patch", "pod", "pinned", "--subresource=resize", "-p",
			`{"spec":{"containers":[{"name":"worker","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"2"}}}]}}`)
		doc := all(func(doc result.Agent) error {
			if p := find(doc, "pinned", "worker"); p == nil || p.Limit.CPUs == nil || *p.Limit.CPUs != 2 {
				return fmt.Errorf("the limit is not 2 CPUs yet")
			}
			return nil
		})
		// The first scan that sees the new limit says so.
		p := find(doc, "pinned", "worker")
		if p.Stale == nil || p.Stale.Then == nil || *p.Stale.Then != 0.5 || p.Stale.Now == nil || *p.Stale.Now != 2 ||
			!slices.ContainsFunc(p.Findings, func(f finding.Finding) bool { return f.Rule == "stale" && f.Severity == finding.Warning }) {
			t.Errorf("stale is %+v, findings %+v", p.Stale, p.Findings)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		var text string
		clustertest.WaitFor(t, atLast, func() (err error) {
			if text, err = ask("/metrics"); err == nil && !strings.Contains(text, `unthrottle_container_finding{container="worker",namespace="default",pod="pinned",rule="stale",severity="warning"} 1`) {
				err = fmt.Errorf("no stale finding:\n%s", text)
			}
			return err
		})
		for _, want := range []string{
			`unthrottle_container_limit_cpus{container="a",level="pod",namespace="default",pod="whole"} 0.2`,
			`unthrottle_container_gomaxprocs{container="worker",namespace="default",pod="called"} 5`,
			`unthrottle_agent_pods_known 1`,
			`unthrottle_container_muted{container="worker",namespace="default",pod="literal",rule="`,
			`unthrottle_container_throttled_periods_total{container="a",level="pod",namespace="default",pod="whole"} `,
			`unthrottle_container_cpu_seconds_total{container="a",namespace="default",pod="whole"} `,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("there is no %s in\n%s", want, text)
			}
		}
		if strings.Contains(text, `unthrottle_container_finding{container="worker",namespace="default",pod="literal"`) {
			t.Error("what is muted is a finding")
		}
	})
	t.Run("explain", func(t *testing.T) {
		p := find(doc, "called", "worker")
		body, err := ask("/api/v1/explain?pid=" + strconv.Itoa(p.PID))
		if err != nil || !strings.Contains(body, `"verb":"explain"`) {
			t.Errorf("%v: %s", err, body)
		}
		if strings.Contains(body, "--password") {
			t.Errorf("it tells the program's arguments: %s", body)
		}
		if body, err := ask("/api/v1/explain?pid=1"); err == nil {
			t.Errorf("process 1 is explained: %s", body)
		}
	})
	// What explain says is what the scan says.
	explained := func(pod, container string, right func(*report.Explain) error) {
		t.Helper()
		clustertest.WaitFor(t, atLast, func() error {
			doc, err := look()
			if err != nil {
				return err
			}
			p := find(doc, pod, container)
			if p == nil {
				return fmt.Errorf("%s is not known", pod)
			}
			body, err := ask("/api/v1/explain?pid=" + strconv.Itoa(p.PID))
			if err != nil {
				return err
			}
			var said report.Explain
			if err := json.Unmarshal([]byte(body), &said); err != nil {
				return err
			}
			if said.Limit.From != p.Limit.From || said.Memory.State != p.Memory.State || !slices.Equal(rules(said.Findings), rules(p.Findings)) {
				return fmt.Errorf("%s: explain says %q, memory %s, %q; the scan %q, memory %s, %q", pod,
					said.Limit.From, said.Memory.State, rules(said.Findings), p.Limit.From, p.Memory.State, rules(p.Findings))
			}
			return right(&said)
		})
	}
	stale := func(d *report.Explain) error {
		if !slices.Contains(rules(d.Findings), "stale") {
			return fmt.Errorf("it finds %q", rules(d.Findings))
		}
		return nil
	}
	t.Run("explain as the scan", func(t *testing.T) {
		explained("whole", "a", func(d *report.Explain) error {
			if !strings.Contains(d.Limit.From, "pod") || d.Throttling.Owner.ThrottledPeriods == 0 || !slices.Contains(rules(d.Findings), "throttled") {
				return fmt.Errorf("the limit is from %s, throttled %+v, %q", d.Limit.From, d.Throttling, rules(d.Findings))
			}
			return nil
		})
		explained("pinned", "worker", stale)
		explained("literal", "worker", func(d *report.Explain) error {
			if len(d.Findings) > 0 {
				return fmt.Errorf("what is muted is found: %q", rules(d.Findings))
			}
			return nil
		})
	})
	t.Run("restarted", func(t *testing.T) {
		c.Must(t, "", "patch", "pod", "written", "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"worker","resources":{"limits":{"cpu":"2"}}}]}}`)
		explained("written", "worker", stale)
		c.Must(t, "", "-n", "unthrottle", "delete", "pod", of.Name)
		before := of.Name
		clustertest.WaitFor(t, atLast, func() error {
			of = c.WaitPods(t, "unthrottle", "", 1, "Running")[0]
			if of.Name == before {
				return fmt.Errorf("%s is still there", before)
			}
			return nil
		})
		explained("written", "worker", stale)
		explained("pinned", "worker", stale)
	})
	t.Run("gone", func(t *testing.T) {
		c.Must(t, "", "delete", "pod", "called")
		clustertest.WaitFor(t, atLast, func() error {
			text, err := ask("/metrics")
			if err == nil && strings.Contains(text, `pod="called"`) {
				err = fmt.Errorf("it still has series")
			}
			return err
		})
	})
}
