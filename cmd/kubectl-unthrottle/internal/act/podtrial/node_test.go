//go:build linux

package podtrial_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/podtrial"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/cli"
)

// asCommand makes the test's program the command, which so can be killed.
const asCommand = "PODTRIAL_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const (
	image = "localhost/unthrottle:1"
	hang  = 8 * time.Minute // so that a hang ends; it judges no speed
)

// workloads has the user's Deployments: one that runs, with its Service, two that can't, and one for the node that is kept for it.
func workloads() string {
	text := `apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: api}, ports: [{port: 80, targetPort: 8080}]}
`
	for _, w := range []struct{ name, image, node string }{
		{"api", image, ""},
		{"absent", "localhost/absent:1", ""},
		{"nowhere", image, "nodeSelector: {disk: none}"},
		{"apart", image, "tolerations: [{key: apart, operator: Exists}]"},
	} {
		text += fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[4]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      %[3]s
      containers:
      - name: server
        image: %[2]s
        args: [serve, --listen, "0.0.0.0:8080"]
        ports: [{containerPort: 8080}]
        resources: {limits: {cpu: 500m}, requests: {cpu: 50m}}
`, w.name, w.image, w.node, map[bool]int{true: 1}[w.name == "api"])
	}
	return text
}

// A nodes is a cluster with real nodes: two, and one apart where what goes wrong is wanted as well.
type nodes struct{ *clustertest.Cluster }

func (c nodes) get(t *testing.T, args ...string) string {
	t.Helper()
	return c.Must(t, "", append([]string{"get"}, args...)...)
}

// ofTheUser is what a tune must not change.
func (c nodes) ofTheUser(t *testing.T) string {
	t.Helper()
	return c.get(t, "deployments,replicasets,services", "-n", "default", "-o",
		`jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.generation} {.metadata.labels} {.spec}{"\n"}{end}`)
}

// gone waits until nothing is left of any study.
func (c nodes) gone(t *testing.T) {
	t.Helper()
	clustertest.WaitFor(t, hang, func() error {
		var left []string
		for _, kind := range []string{"namespaces", "jobs,pods,secrets,configmaps,serviceaccounts,roles,rolebindings"} {
			out, _, err := c.Kubectl("get", kind, "-A", "-l", "unthrottle.dev/study", "-o", "name")
			if err != nil {
				return err
			}
			left = append(left, strings.Fields(out)...)
		}
		if len(left) > 0 {
			return fmt.Errorf("left are %q", left)
		}
		return nil
	})
}

// A client is a command that runs.
type client struct {
	*exec.Cmd
	dir            string
	stdout, stderr bytes.Buffer
}

// start starts kubectl unthrottle tune in a directory of its own, or in that of another one.
func (c nodes) start(t *testing.T, dir string, args ...string) *client {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	x := &client{Cmd: exec.Command(os.Args[0], append([]string{"tune"}, args...)...), dir: dir}
	x.Env = append(os.Environ(), asCommand+"=1", "KUBECONFIG="+c.Kubeconfig, "XDG_CACHE_HOME="+dir)
	x.Dir, x.Stdout, x.Stderr = dir, &x.stdout, &x.stderr
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Process.Kill() })
	return x
}

// end waits for the command's end.
func (x *client) end(t *testing.T) (code int) {
	t.Helper()
	late := time.AfterFunc(hang, func() { x.Process.Kill() })
	defer late.Stop()
	x.Wait()
	return x.ProcessState.ExitCode()
}

// quick is a tune of two settings in a few short runs. Alongside other tests many don't count, and are made again: it takes minutes.
func quick(args ...string) []string {
	return append([]string{
		"--image", image, "--image-pull-policy", "Never", "--procs", "1", "--gogc", "none", "--conns", "4", "--warmup", "300ms", "--for", "1s",
		"--blocks", "3", "--seed", "3", "--runs", "runs.jsonl", "--at-once", "no",
	}, args...)
}

func (x *client) document(t *testing.T) (doc report.Tune) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(x.dir, "tune.json"))
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, &x.stdout, &x.stderr)
	}
	return doc
}

// judged checks that a document has a verdict, and runs of both settings with what the node counted; which verdict is the machine's.
func judged(t *testing.T, doc report.Tune) {
	t.Helper()
	if doc.Verdict.Kind == "" || doc.Verdict.Text == "" || !doc.Finished || doc.LimitKind != podtrial.LimitKind || doc.LimitCPUs != 0.5 {
		t.Errorf("the verdict is %+v; finished %v, limit %v of kind %s", doc.Verdict, doc.Finished, doc.LimitCPUs, doc.LimitKind)
	}
	seen, throttled, busiest, alone := map[int]bool{}, 0.0, 0.0, false
	for _, r := range doc.Runs {
		share, counted := r.Metrics["throttled-%"]
		if r.Error != "" || r.Metrics["cpu-ns/req"] <= 0 || !counted {
			t.Errorf("GOMAXPROCS=%d, block %d: %q, %v", r.Procs, r.Block, r.Error, r.Metrics)
		}
		seen[r.Procs] = true
		throttled += share
		busiest = max(busiest, r.Metrics["cpu-ns/req"]*r.Metrics["req/s"]/1e9)
		alone = alone || len(r.Marks) == 0
	}
	if throttled == 0 && (alone || busiest > 0.9*doc.LimitCPUs) { // next to others it may not get what its limit allows
		t.Errorf("a closed loop that used %.2f CPUs was throttled in no period", busiest)
	}
	if !seen[1] || !seen[2] {
		t.Errorf("runs are of GOMAXPROCS %v", seen)
	}
	if len(doc.Environment.Node) == 0 || doc.Environment.CPUs == 0 || doc.Current.Procs != 2 {
		t.Errorf("%+v, %+v", doc.Environment, doc.Current)
	}
}

// begun waits until a study on a node has written some text to its journal and sends load, and returns the pod that it is sent to.
func (c nodes) begun(t *testing.T, x *client, node, text string) (namespace, pod string) {
	t.Helper()
	clustertest.WaitFor(t, hang, func() error {
		if data, err := os.ReadFile(filepath.Join(x.dir, "runs.jsonl")); err != nil || !bytes.Contains(data, []byte(text)) {
			return fmt.Errorf("the journal has no %s yet: %v", text, err)
		}
		for _, part := range []string{"load", "server"} {
			out, _, err := c.Kubectl("get", "pods", "-A", "-l", "unthrottle.dev/part="+part, "--field-selector", "status.phase=Running,spec.nodeName="+node,
				"-o", `jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}`)
			if err != nil {
				return err
			}
			at := strings.Fields(out)
			if len(at) != 2 {
				return fmt.Errorf("pods of part %s: %q", part, at)
			}
			namespace, pod = at[0], at[1]
		}
		return nil
	})
	return namespace, pod
}

// TestNode: tunes on real nodes, to their ends and not.
func TestNode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	t.Parallel()
	count := 2
	if troubled(t) {
		count = 3
	}
	c := nodes{clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: count})}
	for _, apart := range c.Nodes[2:] {
		c.Must(t, "", "taint", "node", apart.Name, "apart=yes:NoSchedule")
	}
	c.Import(t, func() clustertest.Image {
		i := clustertest.GoImage(t, image, "github.com/unthrottle/unthrottle/cmd/unthrottle")
		i.Entrypoint, i.Files = []string{"/unthrottle"}, map[string]string{"/unthrottle": i.Files["/program"]}
		return i
	}())
	c.Must(t, workloads()+"---\n"+fat, "create", "-f", "-")
	c.WaitPods(t, "default", "app=api", 1, "Running")
	before := c.ofTheUser(t)
	t.Run("all", func(t *testing.T) {
		for _, apart := range c.Nodes[2:] {
			t.Run("kubelet", func(t *testing.T) {
				t.Parallel()
				c.lost(t, apart)
			})
		}
		t.Run("in turn", func(t *testing.T) {
			t.Parallel()
			t.Run("beside", func(t *testing.T) {
				for name, do := range map[string]func(*testing.T){"abreast": c.abreast, "nodes": c.two, "fallen": c.fallen} {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						do(t)
					})
				}
				c.absent(t)
			})
			t.Run("trouble", c.trouble) // much of it waits
		})
	})
	begin := time.Now()
	c.gone(t)
	t.Logf("the last of what they made was gone %v later", time.Since(begin).Round(time.Second))
	if after := c.ofTheUser(t); after != before {
		t.Errorf("the user's objects were\n%s\nand are\n%s", before, after)
	}
}

// fat is a server that survives its memory limit with few Ps, and not with 500: each of them has memory of its own.
const fat = `apiVersion: apps/v1
kind: Deployment
metadata: {name: fat}
spec:
  replicas: 0
  selector: {matchLabels: {app: fat}}
  template:
    metadata: {labels: {app: fat}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: server
        image: ` + image + `
        args: [serve, --listen, "0.0.0.0:8080"]
        env: [{name: GOMAXPROCS, value: "500"}]
        ports: [{containerPort: 8080}]
        resources: {limits: {cpu: 500m, memory: 24Mi}, requests: {cpu: 50m, memory: 24Mi}}
`

// fallen: where only the current setting dies of its limit, the tune goes on without it, and one line has the kubelet's word for that.
func (c nodes) fallen(t *testing.T) {
	if !troubled(t) {
		return
	}
	x := c.start(t, "", quick("deployment/fat", "--node", c.Nodes[0].Name, "--path", "/work?cpu=20us&alloc=64k", "-o", "tune.json", "--logs", "logs.txt")...)
	code := x.end(t)
	t.Logf("exit code %d\n%s\n%s", code, &x.stdout, &x.stderr)
	if code != 0 {
		t.FailNow()
	}
	doc := x.document(t)
	fell := doc.Loads[0].Fallen
	if len(fell) == 0 || fell[0].Procs != 500 || fell[0].Error != "out of memory: limit 24Mi" || !fell[0].Killed || doc.Verdict.Procs == 500 {
		t.Errorf("%+v; %+v", fell, doc.Verdict)
	}
	if log, err := os.ReadFile(filepath.Join(x.dir, "logs.txt")); err != nil || !strings.Contains(string(log), "container server: out of memory: limit 24Mi\n") {
		t.Errorf("%v: %s", err, log)
	}
}

// two: blocks take turns at two nodes, both are named, and so is what differs.
func (c nodes) two(t *testing.T) {
	if !troubled(t) {
		return
	}
	x := c.start(t, "", quick("deployment/api", "--nodes", "2", "-o", "tune.json")...)
	if code := x.end(t); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, &x.stdout, &x.stderr)
	}
	doc := x.document(t)
	judged(t, doc)
	told := doc.Environment.Node + " " + strings.Join(doc.Environment.Notes, " ")
	journal, err := os.ReadFile(filepath.Join(x.dir, "runs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes[:2] {
		if !strings.Contains(told, n.Name) || !bytes.Contains(journal, fmt.Appendf(nil, `"place":%q`, n.Name)) {
			t.Errorf("node %s: told is %s; the journal is\n%s", n.Name, told, journal)
		}
	}
	if !strings.Contains(x.stderr.String(), " is like ") {
		t.Errorf("it says\n%s", &x.stderr)
	}
}

// abreast: where there is room for it, two pods of a block are there at the same time, and both are loaded; else it is said why not. Which it
// is depends on what else the machine does.
func (c nodes) abreast(t *testing.T) {
	x := c.start(t, "", quick("deployment/api", "--budget", "40s", "--node", c.Nodes[1].Name, "--cpus", "0.3", "--conns", "1", "--for", "2s", "--at-once", "yes", "-o", "tune.json")...)
	most := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.Wait()
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(300 * time.Millisecond):
			out, _, err := c.Kubectl("get", "pods", "-A", "-l", "unthrottle.dev/part=load", "--field-selector", "status.phase=Running,spec.nodeName="+c.Nodes[1].Name, "-o", "name")
			if err == nil {
				most = max(most, len(strings.Fields(out)))
			}
		}
	}
	if code := x.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, &x.stdout, &x.stderr)
	}
	doc := x.document(t)
	a := doc.AtOnce
	if a == nil || a.Runs == 0 && a.InTurn == "" || a.Runs > 0 && most < 2 {
		t.Fatalf("%+v, %d loads at most\n%s", a, most, &x.stderr)
	}
	t.Logf("%+v, %d loads at most", a, most)
	for _, r := range doc.Runs {
		if r.Error != "" || r.Metrics["cpu-ns/req"] <= 0 {
			t.Errorf("GOMAXPROCS=%d, block %d: %q, %v", r.Procs, r.Block, r.Error, r.Metrics)
		}
	}
}

// killed kills the commands of studies at any moment. That nothing is left of them is looked at later, by gone. UNTHROTTLE_KILLS is
// how many there are.
func (c nodes) killed(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("UNTHROTTLE_KILLS"))
	if err != nil {
		kills = 3
	}
	var all sync.WaitGroup
	for range kills {
		x := c.start(t, "", quick("deployment/api", "--deadline", "10s", "--node", c.Nodes[0].Name)...)
		after := 500*time.Millisecond + rand.N(15*time.Second)
		all.Go(func() {
			time.Sleep(after)
			x.Process.Kill()
			x.Wait()
		})
		t.Logf("killed after %v", after.Round(100*time.Millisecond))
	}
	all.Wait()
	t.Logf("left for Kubernetes are %q", strings.Fields(c.get(t, "namespaces,jobs,pods", "-A", "-l", "unthrottle.dev/study", "-o", "name")))
}

// troubled reports whether what goes wrong is wanted as well.
func troubled(t *testing.T) bool {
	if os.Getenv("UNTHROTTLE_TROUBLE") != "" {
		return true
	}
	t.Log("there is more that takes minutes: UNTHROTTLE_TROUBLE=1 runs it")
	return false
}

// absent: pods that can't start are reported by the name of their image, or by what no node has. Most of that waits.
func (c nodes) absent(t *testing.T) {
	if !troubled(t) {
		return
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"absent":  {quick("deployment/absent"), "image localhost/absent:1 of container server can't be had: "},
		"nowhere": {quick("deployment/nowhere"), "no node took the pod within "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := c.start(t, "", test.args...)
			if code := x.end(t); code != 1 || !strings.Contains(x.stderr.String(), test.want) {
				t.Errorf("exit code %d\n%s\n%s", code, &x.stdout, &x.stderr)
			}
		})
	}
}

// trouble: what the cluster does to a study is reported, by the name of the pod or node; and it goes on once that is fixed.
func (c nodes) trouble(t *testing.T) {
	if !troubled(t) {
		return
	}
	for name, test := range map[string]struct {
		do   func(namespace, pod string) error
		want []string // one of them, with the pod's name
	}{
		"deleted": {func(namespace, pod string) error {
			_, _, err := c.Kubectl("delete", "pod", "-n", namespace, pod, "--wait=false")
			return err
		}, []string{" was deleted"}},
		"evicted": {func(namespace, pod string) error {
			_, _, err := c.KubectlInput(fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": %q, "name": %q}}`, namespace, pod),
				"create", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/eviction", "-f", "-")
			return err
		}, []string{"was evicted from node " + c.Nodes[0].Name}},
	} {
		t.Run(name, func(t *testing.T) { // one after the other, on one node
			x := c.start(t, "", quick("deployment/api", "--node", c.Nodes[0].Name, "--for", "5s", "--budget", "40s")...) // which waits for no quiet moment
			namespace, pod := c.begun(t, x, c.Nodes[0].Name, "")
			if err := test.do(namespace, pod); err != nil {
				t.Fatal(err)
			}
			code := x.end(t)
			if code != 1 || !strings.Contains(x.stderr.String(), pod) ||
				!slices.ContainsFunc(test.want, func(text string) bool { return strings.Contains(x.stderr.String(), text) }) {
				t.Errorf("exit code %d, pod %s\n%s\n%s", code, pod, &x.stdout, &x.stderr)
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		c.killed(t)
	})
}

// lost: a kubelet that stands still is reported, and when it runs again the study goes on to a verdict.
func (c nodes) lost(t *testing.T, node *clustertest.Node) {
	x := c.start(t, "", quick("deployment/apart", "--node", node.Name, "--for", "3s")...)
	c.begun(t, x, node.Name, `"block":1,`)
	if err := node.StopKubelet(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	code := x.end(t)
	t.Logf("it ended %v later:\n%s", time.Since(begin).Round(time.Second), &x.stderr)
	if err := node.StartKubelet(); err != nil {
		t.Fatal(err)
	}
	if code != 1 || !strings.Contains(x.stderr.String(), node.Name) || !strings.Contains(x.stderr.String(), "--resume ") {
		t.Errorf("exit code %d\n%s", code, &x.stdout)
	}
	clustertest.WaitFor(t, hang, func() error {
		out, _, err := c.Kubectl("get", "node", node.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status} {.spec.taints[?(@.key!="apart")].key}`)
		if err == nil && strings.TrimSpace(out) != "True" {
			err = fmt.Errorf("node %s is %s", node.Name, out)
		}
		return err
	})
	again := c.start(t, x.dir, "--resume", "runs.jsonl", "-o", "tune.json")
	if code := again.end(t); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, &again.stdout, &again.stderr)
	}
	doc := again.document(t)
	judged(t, doc)
	if doc.Environment.Node != node.Name {
		t.Errorf("it went on on node %s", doc.Environment.Node)
	}
}
