package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// TestPod asks about a program in a pod of a real node, in each of the ways.
func TestPod(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a cluster")
	}
	t.Parallel() // much of it waits
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	command := clustertest.GoImage(t, "localhost/unthrottle:1", "github.com/unthrottle/unthrottle/cmd/unthrottle")
	c.Import(t, command)
	busy := clustertest.GoImage(t, "localhost/busy:1", "./testdata/busy")
	c.Import(t, busy)
	// An image that holds both: the command is in the PATH.
	both := busy
	both.Name, both.Env = "localhost/both:1", []string{"PATH=/bin"}
	both.Files = map[string]string{"/program": busy.Files["/program"], "/bin/unthrottle": command.Files["/program"]}
	c.Import(t, both)
	const pods = `apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, image: "localhost/busy:1", env: [{name: BUSY, value: "2"}, {name: GOMAXPROCS, value: "16"}], resources: {limits: {cpu: 200m}}}
---
apiVersion: v1
kind: Pod
metadata: {name: holds, labels: {app: holds}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "localhost/both:1", env: [{name: BUSY, value: "2"}], resources: {limits: {cpu: 200m}}}
---
apiVersion: v1
kind: Pod
metadata: {name: rootless, labels: {app: rootless}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65534}
  containers:
  - {name: app, image: "localhost/busy:1", env: [{name: BUSY, value: "1"}], resources: {limits: {cpu: 200m}}}
`
	c.Must(t, pods, "create", "-f", "-")
	for _, app := range []string{"api", "holds", "rootless"} {
		c.WaitPods(t, "default", "app="+app, 1, "Running")
	}
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errors bytes.Buffer
		env := func(name string) string { return map[string]string{"PATH": os.Getenv("PATH")}[name] }
		code := Main(context.Background(), append(args, "--kubeconfig", c.Kubeconfig), env, strings.NewReader(""), &out, &errors)
		if code != want {
			t.Errorf("%q: exit code %d, want %d\n%s%s", args, code, want, &out, &errors)
		}
		return out.String(), errors.String()
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("there is no %q in\n%s", part, text)
			}
		}
	}
	const image, beside = "--image=localhost/unthrottle:1", "--way=ephemeral"

	// Without an agent nothing is left in any pod.
	clustertest.WaitFor(t, 8*time.Minute, func() error {
		ready, _, err := c.Kubectl("get", "pods", "-A", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready != "True True True" {
			err = fmt.Errorf("ready: %s", ready)
		}
		return err
	})
	before := allPods(t, c)
	for _, verb := range []struct {
		code int
		args string
	}{
		{0, "explain deployment/api"},
		{3, "explain deployments.v1.apps/api --fail-on=warning"},
		{1, "explain rootless --fail-on=warning"},
		{1, "explain rootless --way=agent"},
		{1, "explain rootless --way=exec"},
		{1, "watch deployment/api"},
		{2, "watch deployment/api --way=ephemeral " + image},
		{0, "trace deployment/api --process=localhost:6060 --for=2s"},
		{1, "trace deployment/api --process=localhost:1"},
		{1, "trace deployment/api --way=forward --process=busy"},
		{0, "profile deployment/api --for=2s"},
		{3, "lint --cluster -A"},
		{0, "audit -A"},
		{0, "tune deployment/api --dry-run --port=6060"},
		{0, "uninstall"},
	} {
		run(verb.code, strings.Fields(verb.args)...)
		if after := allPods(t, c); after != before {
			t.Fatalf("%s has changed pods: they were\n%s\nand are\n%s", verb.args, before, after)
		}
	}
	out, stderr := run(0, "explain", "deployment/api")
	contains(out, "above the limit: GOMAXPROCS is 16 under a limit of 0.2 CPUs", "Nothing was measured", "CPUs of its node", "no agent of namespace unthrottle is ready on node")
	contains(stderr, "of deployment/api, its only pod", "--way exec runs unthrottle in the container", "stays in the pod's spec until the pod is deleted")

	out, stderr = run(0, "profile", "deployment/api", "--for=2s")
	contains(out, "CPU profile of program in pod default/api-", "set by resources.limits of the container")
	contains(stderr, "looking for net/http/pprof on port 6060 of pod api-")
	_, stderr = run(1, "trace", "deployment/api", "--process=localhost:1")
	contains(stderr, "nothing listens on port 1 of the pod")

	out, stderr = run(0, "explain", "holds", "--way=exec", "--json")
	var explained report.Explain
	if err := json.Unmarshal([]byte(out), &explained); err != nil || explained.Verb != "explain" || stderr != "" {
		t.Errorf("%v, %q\n%s", err, stderr, out)
	}
	watched := func(moved bool, args ...string) {
		t.Helper()
		var out string
		var d report.Watch
		var err error
		for range 20 { // next to other tests it may get no CPU time to be throttled in
			d = report.Watch{}
			out, _ = run(0, append([]string{"watch", "--json", "--for=2s"}, args...)...)
			if err = json.Unmarshal([]byte(out), &d); err != nil || d.Kernel != nil && d.Kernel.ThrottledPeriods > 0 {
				break
			}
		}
		if err != nil || d.Moved != moved || d.Limit.CPUs == nil || *d.Limit.CPUs != 0.2 ||
			d.Kernel == nil || d.Kernel.ThrottledPeriods == 0 || d.FreezeCount == nil || *d.FreezeCount == 0 {
			t.Errorf("watch %q: %v\n%s", args, err, out)
		}
	}
	watched(false, "holds", "--way=exec")
	out, _ = run(0, "profile", "holds", "--way=exec", "--for=2s")
	contains(out, "of periods throttled")
	if after := allPods(t, c); after != before {
		t.Fatalf("--way exec has changed pods: they were\n%s\nand are\n%s", before, after)
	}

	page := filepath.Join(t.TempDir(), "explain.html")
	out, stderr = run(3, "explain", "deployment/api", beside, image, "--fail-on", "warning", "-o", page)
	contains(out, "GOMAXPROCS is 16", "0.2 CPUs", "GOMAXPROCS=16 in its environment")
	contains(stderr, "of deployment/api", "starting an ephemeral container beside app; it stays in the pod's spec")
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("<html")) {
		t.Errorf("the page: %v", err)
	}
	if after := allPods(t, c); strings.Count(after, `"targetContainerName":"app"`) != 1 {
		t.Errorf("--way ephemeral has left\n%s", after)
	}
	watched(true, "deployment/api", beside, image, "--privileged")
	out, _ = run(0, "explain", "rootless", beside, image)
	contains(out, "GOMAXPROCS", "0.2 CPUs")
	out, _ = run(0, "trace", "deployment/api", beside, image, "--process=localhost:6060", "--for=2s")
	contains(out, "0.2 CPUs")

	for want, args := range map[string][]string{
		"there is no pod nosuch in namespace default":        {"explain", "nosuch"},
		"there is no deployment/nosuch in namespace default": {"explain", "deployment/nosuch"},
		"the pod has no container db":                        {"explain", "holds", "-c", "db"},
		"ErrImagePull":                                       {"explain", "rootless", beside, "--image=localhost/none:1"},
		"has no unthrottle in its PATH":                      {"explain", "rootless", "--way=exec"},
		"no process 4711":                                    {"explain", "holds", "--way=exec", "--process=4711"},
		"connection refused":                                 {"trace", "holds", "--way=exec", "--process=localhost:1"},
	} {
		_, stderr := run(1, args...)
		contains(stderr, want)
	}

	// The agents as installed: they know the programs, audit hears them, and nothing of them stays.
	c.Import(t, clustertest.Image{
		Name: "localhost/kubectl-unthrottle:1", Entrypoint: []string{"/kubectl-unthrottle"},
		Files: map[string]string{"/kubectl-unthrottle": clustertest.BuildGo(t, "../..", "-ldflags=-s -w")},
	})
	run(0, "install", "--image=localhost/kubectl-unthrottle:1")
	often(t, c)
	clustertest.WaitFor(t, 8*time.Minute, func() error { // the first scan comes before the API server has sent the agent all pods
		var out, errors bytes.Buffer
		if code := Main(context.Background(), []string{"explain", "rootless", "--way=agent", "--kubeconfig", c.Kubeconfig}, os.Getenv, strings.NewReader(""), &out, &errors); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, &errors)
		}
		contains(errors.String(), "asking agent unthrottle-agent-")
		contains(out.String(), "GOMAXPROCS", "0.2 CPUs")
		return nil
	})
	_, stderr = run(0, "explain", "rootless")
	contains(stderr, "asking agent unthrottle-agent-")
	clustertest.WaitFor(t, 8*time.Minute, func() error { // an agent that gets no CPU time does not answer in time, and the trace comes without it
		out, _ = run(0, "trace", "rootless", "--for=3s", "--json")
		var traced report.Trace
		if err := json.Unmarshal([]byte(out), &traced); err != nil || traced.Kernel == nil || traced.Kernel.Periods == 0 || traced.Process == nil || traced.Process.Name != "program" ||
			traced.Limit == nil || traced.Limit.CPUs == nil || *traced.Limit.CPUs != 0.2 {
			return fmt.Errorf("a trace beside an agent: %w\n%+v, %+v, %+v", err, traced.Kernel, traced.Process, traced.Limit)
		}
		return nil
	})
	clustertest.WaitFor(t, 8*time.Minute, func() error { // on a busy machine a scan may not get to a program that is throttled
		out, _ = run(3, "audit", "--json", "--fail-on=warning")
		var audited result.Audit
		if err := json.Unmarshal([]byte(out), &audited); err != nil {
			t.Fatal(err)
		}
		verdicts := map[string]string{}
		for _, w := range audited.Workloads {
			verdicts[w.Kind+"/"+w.Name] = string(w.Go) + " " + string(w.Verdict)
		}
		if verdicts["Deployment/api"] != "seen wrong" || !strings.HasPrefix(verdicts["Pod/holds"], "seen ") || !strings.HasPrefix(verdicts["Pod/rootless"], "seen ") {
			return fmt.Errorf("verdicts are %v\n%s", verdicts, out)
		}
		return nil
	})
	run(0, "uninstall", "--wait=8m")
	if left, _, err := c.Kubectl("get", "all,clusterroles,clusterrolebindings,priorityclasses,namespaces", "-A", "-l", "app.kubernetes.io/part-of=unthrottle", "-o", "name"); err != nil || left != "" {
		t.Errorf("%v, and there is still %s", err, left)
	}
}

// allPods are all pods of a cluster as JSON, without what changes on its own: times, which version of an object it is, and what
// the kubelet has read of cgroups for a pod's status.
func allPods(t *testing.T, c *clustertest.Cluster) string {
	t.Helper()
	out := c.Must(t, "", "get", "pods", "-A", "-o", "json")
	var all any
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	var still func(in string, v any)
	still = func(in string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				if key == "resourceVersion" || key == "managedFields" || strings.HasSuffix(key, "Time") || strings.HasSuffix(key, "At") ||
					key == "resources" && in == "status" {
					delete(v, key)
					continue
				}
				under := key
				if in == "status" {
					under = in
				}
				still(under, inner)
			}
		case []any:
			for _, inner := range v {
				still(in, inner)
			}
		}
	}
	still("", all)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// often has the agents that were just installed scan each five seconds, and waits for them.
func often(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	const patch = `[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--interval=5s"}, {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--for=1s"}]`
	for _, args := range [][]string{
		{"patch", "daemonset", "unthrottle-agent", "--type=json", "-p", patch},
		{"rollout", "status", "daemonset", "unthrottle-agent", "--timeout=8m"},
	} {
		c.Must(t, "", append(args, "-n", "unthrottle")...)
	}
}
