//go:build !norender

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// TestAuditNode: on a real node, whose pause containers are Go programs too, no agent is called a liar, from the first moment on. What is
// wrong there is distinguished from what is right there and would be wrong elsewhere, and audit and explain say the same.
func TestAuditNode(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a cluster")
	}
	t.Parallel() // much of it waits
	c := clustertest.Start(t, clustertest.Options{
		ControllerManager: true, Scheduler: true, Nodes: 1,
		ExtraAPIServerFlags: []string{"--enable-aggregator-routing"}, // the API server asks a Service's pods itself, as no kube-proxy is there
	})
	c.Import(t, clustertest.GoImage(t, "localhost/busy:1", "./testdata/busy"))
	c.Import(t, clustertest.GoImage(t, "localhost/worker:1", "../act/agent/testdata/worker"))
	c.Import(t, clustertest.Image{
		Name: "localhost/kubectl-unthrottle:1", Entrypoint: []string{"/kubectl-unthrottle"},
		Files: map[string]string{"/kubectl-unthrottle": clustertest.BuildGo(t, "../..", "-ldflags=-s -w")},
	})
	run := func(args ...string) (stdout, stderr string, code int) {
		var out, errors bytes.Buffer
		code = Main(context.Background(), append(args, "--kubeconfig", c.Kubeconfig), os.Getenv, strings.NewReader(""), &out, &errors)
		return out.String(), errors.String(), code
	}
	if _, stderr, code := run("install", "--image=localhost/kubectl-unthrottle:1"); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	often(t, c)
	// The limit of wide is what the node has, so that a program that does not look at it is right there.
	pods := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: pinned, labels: {app: pinned}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "localhost/busy:1", env: [{name: GOMAXPROCS, value: "16"}], resources: {limits: {cpu: 500m}, requests: {cpu: 10m}}}
---
apiVersion: v1
kind: Pod
metadata: {name: wide, labels: {app: wide}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "localhost/busy:1", env: [{name: GODEBUG, value: containermaxprocs=0}], resources: {limits: {cpu: "%d"}, requests: {cpu: 10m}}}
`, runtime.NumCPU())
	c.Must(t, pods, "create", "-f", "-")
	clustertest.WaitFor(t, 8*time.Minute, func() error {
		out, stderr, code := run("audit", "--json")
		var d result.Audit
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			return fmt.Errorf("exit code %d: %w: %s", code, err, stderr)
		}
		for _, p := range d.Problems {
			if strings.Contains(p.Hint, "not an agent of that node") {
				t.Errorf("%+v", p)
			}
		}
		if code != 0 {
			return fmt.Errorf("exit code %d: %s%+v", code, stderr, d.Problems)
		}
		got := map[string]string{}
		for _, w := range d.Workloads {
			got[w.Name] = fmt.Sprintf("%s %v", w.Verdict, w.GOMAXPROCS)
		}
		n := runtime.NumCPU()
		want := map[string]string{"pinned": "wrong [16 16]", "wide": fmt.Sprintf("wrong elsewhere [%d %d]", n, n)}
		for name, verdict := range want {
			if got[name] != verdict {
				return fmt.Errorf("%s is %q, want %q", name, got[name], verdict)
			}
		}
		if d.Verdict != "1 of 2 workloads is wrong now, 1 on larger nodes." {
			t.Errorf("%q", d.Verdict)
		}
		return nil
	})
	// Two verbs say the same about one program: about one that its pod's limit throttles, and about one that a resize left behind.
	const more = `apiVersion: v1
kind: Pod
metadata: {name: shared, labels: {app: shared}}
spec:
  terminationGracePeriodSeconds: 1
  resources: {limits: {cpu: 200m}, requests: {cpu: 10m}}
  containers:
  - {name: a, image: "localhost/busy:1", env: [{name: BUSY, value: "2"}]}
  - {name: b, image: "localhost/worker:1", env: [{name: PORT, value: "8080"}, {name: BUSY, value: "1"}]}
  - {name: idle, image: "localhost/worker:1", env: [{name: PORT, value: "8081"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: resized, labels: {app: resized}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "localhost/busy:1", env: [{name: GOMAXPROCS, value: "1"}], resources: {limits: {cpu: 500m}, requests: {cpu: 10m}}}
`
	c.Must(t, more, "create", "-f", "-")
	c.WaitPods(t, "default", "app=shared", 1, "Running")
	c.WaitPods(t, "default", "app=resized", 1, "Running")
	clustertest.WaitFor(t, 8*time.Minute, func() error { // the agent has seen it with its first limit
		if _, stderr, code := run("explain", "resized", "--way", "agent", "--json"); code != 0 {
			return fmt.Errorf("explain resized: exit code %d: %s", code, stderr)
		}
		return nil
	})
	c.Must(t, "", "patch", "pod", "resized", "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"2"}}}]}}`)
	clustertest.WaitFor(t, 8*time.Minute, func() error {
		out, stderr, code := run("audit", "--json")
		var d result.Audit
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 {
			return fmt.Errorf("audit: exit code %d: %v: %s", code, err, stderr)
		}
		said := map[string][]string{} // by workload and container
		for _, w := range d.Workloads {
			for _, f := range w.Findings {
				if f.Source == audit.FromAgent {
					said[w.Name+"/"+f.Container] = append(said[w.Name+"/"+f.Container], f.Rule)
				}
			}
		}
		for _, at := range []struct{ pod, container, finds string }{
			{"pinned", "app", ""}, {"wide", "app", ""}, {"shared", "a", "throttled"}, {"shared", "b", "throttled"}, {"shared", "idle", "throttled"}, {"resized", "app", "stale"},
		} {
			out, stderr, code := run("explain", at.pod, "-c", at.container, "--way", "agent", "--json")
			var e report.Explain
			if err := json.Unmarshal([]byte(out), &e); err != nil || code != 0 {
				return fmt.Errorf("explain %s: exit code %d: %v: %s", at.pod, code, err, stderr)
			}
			var found []string
			for _, f := range e.Findings {
				found = append(found, f.Rule)
			}
			told := said[at.pod+"/"+at.container]
			slices.Sort(found)
			slices.Sort(told)
			if !slices.Equal(found, told) || at.finds != "" && !slices.Contains(found, at.finds) {
				return fmt.Errorf("%s/%s: explain finds %q, audit %q, want %q", at.pod, at.container, found, told, at.finds)
			}
		}
		return nil
	})
	watchesShared(t, c, run)
	testCharts(t, c, run)
}

// watchesShared watches a container by its node's agent: what that reports has happened by the kernel's counts of the pod, which has
// the limit, and nothing was done to the pod.
func watchesShared(t *testing.T, c *clustertest.Cluster, run func(...string) (stdout, stderr string, code int)) {
	uid := c.Must(t, "", "get", "pod", "shared", "-o", "jsonpath={.metadata.uid}")
	counts := func() (periods, throttled int64) {
		t.Helper()
		file := filepath.Join(c.Nodes[0].Group("cpu"), "kubepods", "burstable", "pod"+uid, "cpu.stat")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(data), "nr_periods %d\nnr_throttled %d\n", &periods, &throttled); err != nil {
			t.Fatalf("%s: %v: %q", file, err, data)
		}
		return periods, throttled
	}
	before := allPods(t, c)
	p1, t1 := counts()
	out, stderr, code := run("watch", "shared", "-c", "a", "--for=3s", "--json", "--fail-share=1%")
	p2, t2 := counts()
	var d report.Watch
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 3 {
		t.Fatalf("exit code %d: %v: %s%s", code, err, out, stderr)
	}
	k := d.Kernel
	if k == nil || k.Periods < 1 || k.Periods > p2-p1 || k.ThrottledPeriods < 1 || k.ThrottledPeriods > t2-t1 || d.Cause != "throttled" || d.Limit.CPUs == nil || *d.Limit.CPUs != 0.2 {
		t.Errorf("the kernel counted %d of %d periods; %s", t2-t1, p2-p1, out)
	}
	if d.Heartbeat != nil || d.FreezeCount != nil || len(d.Findings) != 1 || d.Findings[0].Rule != "throttled" || !strings.Contains(stderr, "throttled in ") {
		t.Errorf("%s%s", out, stderr)
	}
	if after := allPods(t, c); after != before {
		t.Errorf("a pod was changed:\n%s\n%s", before, after)
	}
}
