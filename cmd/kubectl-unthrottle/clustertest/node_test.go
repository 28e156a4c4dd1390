//go:build linux

package clustertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const worker = "localhost/worker:1"

// TestNode runs what pods there are on one node, and sees in the control groups what became of their limits.
func TestNode(t *testing.T) {
	c := Start(t, Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	c.Import(t, GoImage(t, worker, "./testdata/worker"))
	c.Must(t, "", "apply", "-f", "testdata/workloads.yaml")
	node := c.Nodes[0]

	t.Run("deployment", func(t *testing.T) {
		for _, p := range c.WaitPods(t, "default", "app=server", 2, "Running") {
			if got, err := c.Logs("default", p.Name, "server"); got != "hello\n" || err != nil {
				t.Errorf("%s logs %q, %v", p.Name, got, err)
			}
			seen := look(t, c, p)
			if seen.Host != p.Name || !strings.Contains(seen.Groups, ":cpu:/kubepods/burstable/pod"+p.UID+"/"+p.Containers[0].ID) &&
				!strings.Contains(seen.Groups, ":cpu,cpuacct:/kubepods/burstable/pod"+p.UID+"/"+p.Containers[0].ID) {
				t.Errorf("%s sees %+v", p.Name, seen)
			}
		}
	})
	t.Run("daemon set", func(t *testing.T) {
		p := c.WaitPods(t, "default", "app=agent", 1, "Running")[0]
		if p.IP != node.IP {
			t.Errorf("with hostNetwork it has the address %s, the node has %s", p.IP, node.IP)
		}
		// Of the machine's processes it sees only the node's own: node, containerd, kubelet, and pods with a shim and a pause each.
		seen := look(t, c, p)
		if seen.Host != node.Name || seen.Processes < 6 || seen.First != "node" {
			t.Errorf("with hostPID it sees %+v", seen)
		}
	})
	t.Run("job", func(t *testing.T) {
		p := c.WaitPods(t, "default", "app=once", 1, "Succeeded")[0]
		if got := c.Must(t, "", "logs", p.Name); got != "hello" {
			t.Errorf("it logged %q", got)
		}
	})
	t.Run("exec", func(t *testing.T) {
		if got := c.Must(t, "", "exec", "pod-level", "-c", "a", "--", "/program", "once"); got != "hello" {
			t.Errorf("it printed %q", got)
		}
	})
	t.Run("debug", func(t *testing.T) {
		c.Must(t, "", "debug", "pod-level", "--image", worker, "-c", "look", "--profile=general", "--target", "a", "--", "/program")
		WaitFor(t, limit, func() error {
			got, err := c.Logs("default", "pod-level", "look")
			if err == nil && got != "hello\n" {
				err = fmt.Errorf("it logged %q", got)
			}
			return err
		})
		p := c.WaitPods(t, "default", "app=pod-level", 1, "Running")[0]
		if !slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Name == "look" && c.Kind == "ephemeral" && c.ID != "" }) {
			t.Errorf("containers are %+v", p.Containers)
		}
	})
	t.Run("pod level", func(t *testing.T) {
		p := c.WaitPods(t, "default", "app=pod-level", 1, "Running")[0]
		if got := read(t, podGroup(node, "cpu", p), "cpu.cfs_quota_us"); got != "50000" {
			t.Errorf("the pod's quota is %s", got)
		}
		WaitFor(t, limit, func() error {
			if got := read(t, podGroup(node, "cpu", p), "cpu.stat"); strings.Contains(got, "nr_throttled 0") {
				return fmt.Errorf("two busy containers are not throttled by their pod's limit: %s", got)
			}
			return nil
		})
	})
	t.Run("resize", func(t *testing.T) {
		p := c.WaitPods(t, "default", "app=resized", 1, "Running")[0]
		dir := filepath.Join(podGroup(node, "cpu", p), p.Containers[0].ID)
		if got := read(t, dir, "cpu.cfs_quota_us"); got != "50000" {
			t.Errorf("before, the quota is %s", got)
		}
		c.Must(t, "", "patch", "pod", "resized", "--subresource=resize", "-p",
			`{"spec":{"containers":[{"name":"worker","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"2"}}}]}}`)
		WaitFor(t, limit, func() error {
			if got := read(t, dir, "cpu.cfs_quota_us"); got != "200000" {
				return fmt.Errorf("the quota is %s", got)
			}
			return nil
		})
		if got := look(t, c, p).GOMAXPROCS; got != 1 {
			t.Errorf("GOMAXPROCS by its variable is %d", got)
		}
		if after := c.WaitPods(t, "default", "app=resized", 1, "Running")[0]; after.Containers[0].Restarts != 0 {
			t.Errorf("it was started again: %+v", after)
		}
	})
	t.Run("API server", func(t *testing.T) {
		out, err := node.Command(t.Context(), "cat", "/etc/hostname").CombinedOutput()
		if string(out) != node.Name+"\n" || err != nil {
			t.Errorf("the node's name is %q, %v", out, err)
		}
		// A pod finds the API server by its service, and the server knows it by its token.
		if got := string(proxied(t, c, c.WaitPods(t, "default", "app=resized", 1, "Running")[0], "/cluster")); !strings.Contains(got, "system:serviceaccount:default:default") {
			t.Errorf("the API server said %s", got)
		}
	})
}

// TestTwoNodes stops one of two nodes' kubelets. The machine's settings are what they were.
func TestTwoNodes(t *testing.T) {
	before := Sysctls()
	c := Start(t, Options{ControllerManager: true, Scheduler: true, Nodes: 2})
	c.Import(t, GoImage(t, worker, "./testdata/worker"))
	c.Must(t, "", "apply", "-f", "testdata/agent.yaml")
	pods := c.WaitPods(t, "default", "app=agent", 2, "Running")
	var nodes []string
	for _, p := range pods {
		nodes = append(nodes, p.Node)
		if seen := look(t, c, p); seen.Host != p.Node { // both listen on the same port
			t.Errorf("the pod of %s sees %+v", p.Node, seen)
		}
	}
	if slices.Sort(nodes); !slices.Equal(nodes, []string{"node1", "node2"}) {
		t.Errorf("the pods are on %q", nodes)
	}
	if err := c.Nodes[1].StopKubelet(); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		_, err := c.Logs("default", p.Name, "agent")
		if stopped := p.Node == "node2"; (err != nil) != stopped {
			t.Errorf("logs of %s with its kubelet stopped (%v): %v", p.Name, stopped, err)
		}
		look(t, c, p) // its containers run on
	}
	if err := c.Nodes[1].StartKubelet(); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.WaitPods(t, "default", "app=agent", 2, "Running") {
		WaitFor(t, limit, func() error {
			_, err := c.Logs("default", p.Name, "agent")
			return err
		})
		if p.Containers[0].Restarts != 0 {
			t.Errorf("%s was started again", p.Name)
		}
	}
	if after := Sysctls(); !maps.Equal(before, after) {
		t.Errorf("the machine's settings were %v, and are %v", before, after)
	}
}

// sight is what a worker says about itself.
type sight struct {
	Host, First, Groups   string
	GOMAXPROCS, Processes int
}

func look(t *testing.T, c *Cluster, p Pod) (seen sight) {
	t.Helper()
	if err := json.Unmarshal(proxied(t, c, p, "/"), &seen); err != nil {
		t.Error(err)
	}
	return seen
}

func proxied(t *testing.T, c *Cluster, p Pod, path string) (body []byte) {
	t.Helper()
	WaitFor(t, limit, func() (err error) { // it may not listen yet
		body, err = c.Proxy(p.Namespace, p.Name, 8080, path)
		return err
	})
	return body
}

func podGroup(n *Node, controller string, p Pod) string {
	return filepath.Join(n.Group(controller), "kubepods/burstable/pod"+p.UID)
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSuffix(string(data), "\n")
}

// TestNoNodes reads why there can be none.
func TestNoNodes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the first reason is another one without root")
	}
	t.Setenv("PATH", t.TempDir())
	for _, required := range []bool{false, true} {
		t.Setenv("UNTHROTTLE_REQUIRE_CLUSTER", map[bool]string{true: "1"}[required])
		r := &tester{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Start(r, Options{Nodes: 1})
		}()
		<-done
		text, other := r.skipped, r.failed
		if required {
			text, other = other, text
		}
		if want := "a node needs containerd, containerd-shim-runc-v2, ctr, runc, ip, nsenter, go: install"; !strings.HasPrefix(text, want) || other != "" {
			t.Errorf("required %v: skipped for %q, failed for %q", required, r.skipped, r.failed)
		}
	}
}
