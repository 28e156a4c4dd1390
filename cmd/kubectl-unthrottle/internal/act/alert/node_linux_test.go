package alert

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
)

// A cluster is one with a real node, whose containers run.
type cluster struct {
	*clustertest.Cluster
	t *testing.T
}

func (c cluster) kubectl(args ...string) {
	c.t.Helper()
	if _, _, err := c.Kubectl(args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c cluster) apply(objects string) {
	c.t.Helper()
	if _, _, err := c.KubectlInput(objects, "apply", "--server-side", "-f", "-"); err != nil {
		c.t.Fatal(err)
	}
}

// install installs the agents as the command does, but they scan more often.
func (c cluster) install() {
	c.t.Helper()
	const image = "localhost/kubectl-unthrottle:1"
	c.Import(c.t, clustertest.Image{
		Name: image, Entrypoint: []string{"/kubectl-unthrottle"},
		Files: map[string]string{"/kubectl-unthrottle": clustertest.BuildGo(c.t, "../../..", "-ldflags=-s -w")},
	})
	objects, err := install.Objects(install.Options{Namespace: install.Namespace, Image: image})
	if err != nil {
		c.t.Fatal(err)
	}
	var all strings.Builder
	for _, object := range objects {
		if object.GetKind() == "DaemonSet" {
			often(c.t, object)
		}
		data, err := object.MarshalJSON()
		if err != nil {
			c.t.Fatal(err)
		}
		all.Write(data)
	}
	c.apply(all.String())
}

// credentials are those of a service account that may get the agents' metrics, as docs/alerts.md has them for a Prometheus of one's own.
func (c cluster) credentials(dir string) (config string) {
	c.t.Helper()
	c.kubectl("create", "serviceaccount", "prometheus")
	c.kubectl("create", "clusterrole", "unthrottle-metrics", "--verb=get", "--non-resource-url=/metrics")
	c.kubectl("create", "clusterrolebinding", "unthrottle-metrics", "--clusterrole=unthrottle-metrics", "--serviceaccount=default:prometheus")
	token, _, err := c.Kubectl("create", "token", "prometheus", "--audience=unthrottle-agent", "--duration=2h")
	if err != nil {
		c.t.Fatal(err)
	}
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(strings.TrimSpace(token)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return "  scheme: https\n  authorization: {credentials_file: " + file + "}\n  tls_config: {insecure_skip_verify: true}\n"
}

// often has the agents of a DaemonSet scan each three seconds.
func often(t *testing.T, set *unstructured.Unstructured) {
	t.Helper()
	path := []string{"spec", "template", "spec", "containers"}
	containers, found, err := unstructured.NestedSlice(set.Object, path...)
	if err != nil || !found {
		t.Fatal("the DaemonSet has no containers", err)
	}
	agent := containers[0].(map[string]any)
	agent["args"] = append(agent["args"].([]any), "--interval=3s", "--for=1s", "--cpus=1")
	if err := unstructured.SetNestedSlice(set.Object, containers, path...); err != nil {
		t.Fatal(err)
	}
}

// agent is the node's agent. If the test fails, what it says is shown.
func (c cluster) agent() clustertest.Pod {
	c.t.Helper()
	agent := c.WaitPods(c.t, install.Namespace, "", 1, "Running")[0]
	c.t.Cleanup(func() {
		if !c.t.Failed() {
			return
		}
		log, _, err := c.Kubectl("-n", agent.Namespace, "logs", agent.Name)
		c.t.Logf("the agent's log (%v)\n%s", err, log)
	})
	return agent
}

// limit gives the pods without limits one together, on a group above them, and returns what takes it away. It is the least that the
// kernel takes: on a busy machine these pods run last, and may not come to use up more.
func (c cluster) limit() (undo func()) {
	c.t.Helper()
	file := filepath.Join(c.Nodes[0].Group("cpu"), "kubepods/besteffort/cpu.cfs_quota_us")
	before, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	write := func(quota []byte) {
		c.t.Helper()
		if err := os.WriteFile(file, quota, 0); err != nil {
			c.t.Fatal(err)
		}
	}
	write([]byte("1000"))
	return func() { write(before) }
}

// newCluster has a real node.
func newCluster(t *testing.T) cluster {
	tool(t, "prometheus")
	return cluster{clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 1}), t}
}

// TestNode lets a real Prometheus scrape a real agent, of programs on a real node: alerts fire, say what to do, and clear where that is
// done.
func TestNode(t *testing.T) {
	t.Parallel() // much of it waits
	c := newCluster(t)
	o := Default()
	o.Window, o.For = 12*time.Second, time.Second // a window has four scans
	dir := written(t, o)
	c.install()
	c.Import(t, clustertest.GoImage(t, "localhost/worker:1", "../agent/testdata/worker"))
	workers, err := os.ReadFile("testdata/node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	unlimit := c.limit()
	c.apply(string(workers))
	pinned := c.WaitPods(t, "default", "app=pinned", 1, "Running")[0]
	c.kubectl("patch", "pod", pinned.Name, "--subresource=resize", "-p",
		`{"spec":{"containers":[{"name":"worker","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"2"}}}]}}`)
	c.WaitPods(t, "default", "", 5, "Running")
	agent := c.agent()

	p := startWith(t, dir, time.Second, map[string]string{agent.Name: agent.IP + ":9435"}, c.credentials(dir))
	p.fire("UnthrottleNodeThrottled=1", "UnthrottlePodThrottled of whole=1", "UnthrottleStale of pinned=1", "UnthrottleTooManyPs of api=1")
	p.healthy()
	const stops = `It is throttled in [0-9.]+% of the periods, and stands still for [0-9.]+% of the time\. `
	p.says("UnthrottleTooManyPs",
		`^Deployment default/api, container worker: `, `Container worker of Deployment default/api: 1 pod, such as api-[a-z0-9-]+\. `,
		`Its limit is 0\.1 CPUs\. Its GOMAXPROCS is 16, set by its spec\. `+stops, `What to do: take GOMAXPROCS out of the container's env, or set it to 2; kubectl unthrottle audit makes the patch`)
	p.says("UnthrottlePodThrottled",
		`^Pod default/whole: `, `Its limit is 0\.1 CPUs\. Its GOMAXPROCS is 2, chosen by Go itself\. `+stops, `What to do: raise spec\.resources\.limits\.cpu of the pod`)
	p.says("UnthrottleNodeThrottled", `^Node `+c.Nodes[0].Name+`: `, ` 1 container with Go programs stood still `)
	command := `\(kubectl (-n default delete pod ` + pinned.Name + `)\)`
	stale := p.says("UnthrottleStale",
		`^Deployment default/pinned, container worker: `, `Its limit is 2 CPUs\. Its GOMAXPROCS is 1, set by its spec\. `, `What to do: restart the pods now `+command)
	t.Run("events", func(t *testing.T) {
		clustertest.WaitFor(t, time.Minute, func() error {
			said, _, err := c.Kubectl("describe", "pod", pinned.Name)
			if err == nil && !regexp.MustCompile(`Warning +UnthrottleStale .*unthrottle-agent +(?:spec\S+ )?GOMAXPROCS is still 1, though its limit has changed; fix: `).MatchString(said) {
				err = fmt.Errorf("kubectl describe says\n%s", said)
			}
			return err
		})
	})
	t.Run("metrics", func(t *testing.T) { metricsScraped(t, p) })
	t.Run("dashboard", func(t *testing.T) { dashboardRuns(t, p, Dashboard) })

	// What the alerts say is done. One of them had more work than its limit allows all the same, and now nothing else is wrong with it.
	c.kubectl("set", "env", "deployment/api", "GOMAXPROCS-")
	c.kubectl(strings.Fields(regexp.MustCompile(command).FindStringSubmatch(stale)[1])...)
	c.kubectl("delete", "pod", "whole")
	unlimit()
	p.fire("UnthrottleThrottled of api=1")
	p.healthy()
	p.says("UnthrottleThrottled", `Its limit is 0\.1 CPUs\. Its GOMAXPROCS is 2, chosen by Go itself\. `+stops, `mute throttled by annotation`)
	c.kubectl("annotate", "pods", "-l", "app=api", "unthrottle.dev/mute=throttled")
	p.fire()
	p.healthy()

	// What is muted from the beginning never had one.
	p.has(`unthrottle_container_muted{pod=~"quiet-.+",rule="too-many-ps"}`)
	if n := len(p.query(`count_over_time(ALERTS{owner="quiet"}[1h])`)); n > 0 {
		t.Errorf("%d alerts are about what is muted", n)
	}

	c.kubectl("-n", install.Namespace, "delete", "daemonset", "unthrottle-agent")
	p.fire("UnthrottleAgentDown=0", "UnthrottleNoAgents=1")
	p.healthy()
	p.says("UnthrottleAgentDown", `Pod `+agent.Name+` does not answer`)
}
