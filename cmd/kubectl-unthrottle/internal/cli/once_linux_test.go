package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// TestAuditOnce: on a real node, audit --once says about each workload what it says with agents, and leaves nothing behind: not if it
// went well, not if its image can't be had, and not if it was interrupted.
func TestAuditOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a cluster")
	}
	t.Parallel() // much of it waits
	const (
		image = "localhost/kubectl-unthrottle:1"
		most  = 8 * time.Minute
	)
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	c.Import(t, clustertest.GoImage(t, "localhost/busy:1", "./testdata/busy"))
	c.Import(t, clustertest.Image{
		Name: image, Entrypoint: []string{"/kubectl-unthrottle"},
		Files: map[string]string{"/kubectl-unthrottle": clustertest.BuildGo(t, "../..", "-ldflags=-s -w")},
	})
	run := func(ctx context.Context, args ...string) (d result.Audit, stdout, stderr string, code int) {
		var out, errors bytes.Buffer
		code = Main(ctx, append(args, "--kubeconfig", c.Kubeconfig), os.Getenv, strings.NewReader(""), &out, &errors)
		if out.Len() > 0 && slices.Contains(args, "--json") {
			if err := json.Unmarshal(out.Bytes(), &d); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
		}
		return d, out.String(), errors.String(), code
	}
	once := func(ctx context.Context, image string) (result.Audit, string, string, int) {
		return run(ctx, "audit", "--json", "--once", "--once-image", image)
	}
	nothingLeft := func(when string) {
		t.Helper()
		if jobs := c.Must(t, "", "get", "jobs", "-A", "-o", "name"); jobs != "" {
			t.Errorf("%s: %s is left", when, jobs)
		}
		clustertest.WaitFor(t, most, func() error { // pods go after their Job
			if pods := c.Must(t, "", "get", "pods", "-n", "unthrottle", "-o", "name"); pods != "" {
				return fmt.Errorf("%s: %s is left", when, pods)
			}
			return nil
		})
	}
	const workloads = `apiVersion: v1
kind: Pod
metadata: {name: pinned, labels: {app: pinned}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "localhost/busy:1", env: [{name: GOMAXPROCS, value: "16"}], resources: {limits: {cpu: 500m}, requests: {cpu: 10m}}}
---
apiVersion: v1
kind: Pod
metadata: {name: muted, labels: {app: muted}, annotations: {unthrottle.dev/mute: all}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "localhost/busy:1", env: [{name: GOMAXPROCS, value: "16"}], resources: {limits: {cpu: 500m}, requests: {cpu: 10m}}}
---
apiVersion: v1
kind: Pod
metadata: {name: shared, labels: {app: shared}}
spec:
  terminationGracePeriodSeconds: 1
  resources: {limits: {cpu: 200m}, requests: {cpu: 10m}}
  containers:
  - {name: a, image: "localhost/busy:1", env: [{name: BUSY, value: "2"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: resized, labels: {app: resized}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "localhost/busy:1", env: [{name: GOMAXPROCS, value: "1"}], resources: {limits: {cpu: 500m}, requests: {cpu: 10m}}}
`
	c.Must(t, workloads, "create", "-f", "-")
	for _, name := range []string{"pinned", "muted", "shared", "resized"} {
		c.WaitPods(t, "default", "app="+name, 1, "Running")
	}

	// There is no namespace for the pods. What to do is said, and done.
	d, _, stderr, code := once(t.Context(), image)
	if code != 1 || len(d.Problems) == 0 || !strings.Contains(d.Problems[0].Text, "there is no namespace unthrottle") {
		t.Fatalf("exit code %d: %s%+v", code, stderr, d.Problems)
	}
	if !strings.Contains(d.Problems[0].Hint, "kubectl create namespace unthrottle && kubectl label namespace unthrottle pod-security.kubernetes.io/enforce=privileged") {
		t.Errorf("%q", d.Problems[0].Hint)
	}
	c.Must(t, "", "create", "namespace", "unthrottle")
	c.Must(t, "", "label", "namespace", "unthrottle", "pod-security.kubernetes.io/enforce=privileged")
	clustertest.WaitFor(t, most, func() error { // a resize counts where it is later than the process by more than two clocks may differ
		began, err := time.Parse(time.RFC3339, c.Must(t, "", "get", "pod", "resized", "-o", "jsonpath={.status.containerStatuses[0].state.running.startedAt}"))
		if err == nil && time.Since(began) < 10*time.Second {
			err = fmt.Errorf("it has only just begun")
		}
		return err
	})
	c.Must(t, "", "patch", "pod", "resized", "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"2"}}}]}}`)
	c.Must(t, "", "taint", "node", c.Nodes[0].Name, "for=others:NoSchedule") // a node that takes no other pods is looked at, too

	// An image that can't be had, and an interrupt.
	d, _, stderr, code = once(t.Context(), "localhost/none:1")
	if code != 1 || len(d.Agents.Failed) != 1 || d.Agents.Failed[0].Node != c.Nodes[0].Name || !strings.Contains(d.Agents.Failed[0].Why, "its image can't be pulled") {
		t.Errorf("exit code %d: %s%+v", code, stderr, d.Agents)
	}
	nothingLeft("no image")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if out, _, err := c.Kubectl("get", "pods", "-n", "unthrottle", "-o", "name"); err == nil && out != "" {
				return
			}
		}
	}()
	if _, _, stderr, code := once(ctx, image); code != 130 || !strings.Contains(stderr, "made 1 Job in namespace unthrottle, and removed what was made") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	cancel()
	nothingLeft("interrupted")

	// What is said about a workload, by whichever way it was seen.
	said := func(d result.Audit) (all []string) {
		for _, w := range d.Workloads {
			if w.Namespace != "default" {
				continue
			}
			var rules []string
			for _, f := range w.Findings {
				rules = append(rules, string(f.Source)+":"+f.Rule)
			}
			slices.Sort(rules)
			all = append(all, fmt.Sprintf("%s is %s, %v by %s of %g, expected %d, seen %s; %q", w.Name, w.Verdict, w.GOMAXPROCS, w.SetBy, w.Limit, w.Expected, w.Go, rules))
		}
		slices.Sort(all)
		return all
	}
	var looked []string
	clustertest.WaitFor(t, most, func() error {
		d, _, stderr, code := once(t.Context(), image)
		looked = said(d)
		text := strings.Join(looked, "\n")
		for _, want := range []string{
			"pinned is wrong, [16 16] by spec of 0.5, expected 2", `muted is wrong, [16 16] by spec of 0.5, expected 2, seen seen; ["spec:`, "shared is wrong", `"agent:throttled"`,
			"resized is wrong, [1 1] by spec of 2", `"agent:stale"`,
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("exit code %d: %s%s\nwant %s; %+v", code, stderr, text, want, d.Problems)
			}
		}
		if code != 0 || !d.Agents.Once || d.Agents.Found != 1 || d.Agents.Answered != 1 || !strings.Contains(stderr, "made 1 Job in namespace unthrottle, and removed what was made") {
			return fmt.Errorf("exit code %d: %s%+v %+v", code, stderr, d.Agents, d.Problems)
		}
		for _, w := range d.Workloads {
			for _, f := range w.Findings {
				if f.Source == audit.FromAgent && strings.Contains(f.Summary, "its agent has found") {
					t.Errorf("%s: %s", w.Name, f.Summary)
				}
			}
		}
		return nil
	})
	_, text, _, _ := run(t.Context(), "audit", "--once", "--once-image", image)
	t.Log("\n" + text)
	if !strings.Contains(text, "1 of 1 node was looked at once") {
		t.Errorf("%s", text)
	}
	nothingLeft("done")

	if _, _, stderr, code := run(t.Context(), "install", "--image="+image, "--wait=2m"); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	clustertest.WaitFor(t, most, func() error {
		d, _, stderr, code := run(t.Context(), "audit", "--json", "--once", "--once-image", image)
		if code != 0 || d.Agents.Once || !strings.Contains(stderr, "agents are installed in namespace unthrottle: they were asked, and no Job was made") {
			return fmt.Errorf("exit code %d: %s%+v", code, stderr, d.Problems)
		}
		if heard := said(d); !slices.Equal(heard, looked) {
			return fmt.Errorf("agents say\n%s\nand looking once says\n%s", strings.Join(heard, "\n"), strings.Join(looked, "\n"))
		}
		return nil
	})
	if jobs := c.Must(t, "", "get", "jobs", "-A", "-o", "name"); jobs != "" {
		t.Errorf("%s is left", jobs)
	}
}
