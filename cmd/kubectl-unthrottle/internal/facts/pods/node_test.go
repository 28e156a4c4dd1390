//go:build linux

package pods

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

// TestNode: on a real node both sources know the container that a cgroup's path names, follow a resize, and keep what they know
// while the kubelet is away.
func TestNode(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	node := c.Nodes[0]
	c.Import(t, clustertest.GoImage(t, "localhost/worker:1", "github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/testdata/worker"))
	c.Must(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, image: "localhost/worker:1", resources: {limits: {cpu: 500m}}, env: [{name: GOMAXPROCS, value: "2"}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
- {apiGroups: [""], resources: [nodes/pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: default}]
`, "create", "-f", "-")
	pod := c.WaitPods(t, "default", "app=api", 1, "Running")[0]
	id := pod.Containers[0].ID

	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	watched, err := Watch(t.Context(), config, node.Name)
	if err != nil {
		t.Fatal(err)
	}
	options := func(account string) KubeletOptions {
		o := tokens(t, c.CA)
		o.Host = node.IP
		if err := os.WriteFile(o.TokenFile, []byte(c.Must(t, "", "create", "token", account)), 0o600); err != nil {
			t.Fatal(err)
		}
		return o
	}
	asked, err := newKubelet(options("agent"))
	if err != nil {
		t.Fatal(err)
	}
	asked.refreshedIn = time.Second
	go asked.run(t.Context())

	// The path is that of the container's group on this machine, on which the node is a group too.
	var ref podpath.Ref
	filepath.WalkDir(node.Group("cpu"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && filepath.Base(path) == id {
			ref, _ = podpath.Parse(path)
			if level := podpath.Level(path) + " " + podpath.Level(filepath.Dir(path)); level != "container pod" {
				t.Errorf("%s is of level %s", path, level)
			}
			return fs.SkipAll
		}
		return nil
	})
	if ref != (podpath.Ref{PodUID: pod.UID, Container: id, QoS: "burstable", Driver: "cgroupfs"}) {
		t.Errorf("the path says %+v", ref)
	}
	both := func(about string, right func(Container, error) bool) {
		t.Helper()
		for name, s := range map[string]Source{"Watch": watched, "Kubelet": asked} {
			clustertest.WaitFor(t, limit, func() error {
				if found, ok := s.Container(ref); !ok || !right(found, s.Err()) {
					return fmt.Errorf("%s, %s: %+v, %v", about, name, found, s.Err())
				}
				return nil
			})
		}
	}
	both("begun", func(c Container, err error) bool {
		return err == nil && c.Pod == pod.Name && c.Namespace == "default" && c.UID == pod.UID && c.Name == "app" && c.Kind == Main && c.ID == id &&
			c.Owner == Owner{"apps/v1", "Deployment", "api"} && c.Image == "localhost/worker:1" && strings.HasPrefix(c.Digest, "sha256:") &&
			c.Runtime == "containerd" && c.Node == node.Name && c.Spec == Setting{Set: true, Form: Literal, Value: "2"} && c.Limit == 0.5 && c.Request == 0.5 &&
			c.Actual == 0.5 && !c.Started.IsZero() && c.Resized.IsZero() && c.Restarts == 0
	})
	c.Must(t, "", "patch", "pod", pod.Name, "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"750m"}}}]}}`)
	both("resized", func(c Container, err error) bool {
		return err == nil && c.Limit == 0.75 && c.Actual == 0.75 && c.Restarts == 0
	})
	if c, _ := watched.Container(ref); c.Resized.Before(c.Started) {
		t.Errorf("it was resized at %v, and began at %v", c.Resized, c.Started)
	}

	nobody, err := newKubelet(options("nobody"))
	if err != nil {
		t.Fatal(err)
	}
	err = nobody.explain(nobody.ask(t.Context()))
	if !strings.Contains(err.Error(), "answered with 403 Forbidden: Forbidden (user=system:serviceaccount:default:nobody, verb=get, resource=nodes, subresource(s)=[pods proxy])") ||
		!strings.Contains(strings.Join(hint.Of(err), "\n"), "nodes/pods") {
		t.Errorf("nobody is told %v (%q)", err, hint.Of(err))
	}

	if err := node.StopKubelet(); err != nil {
		t.Fatal(err)
	}
	clustertest.WaitFor(t, limit, func() error {
		if found, ok := asked.Container(ref); !ok || asked.Err() == nil {
			return fmt.Errorf("without a kubelet it knows %+v, %v", found, asked.Err())
		}
		return nil
	})
	if err := node.StartKubelet(); err != nil {
		t.Fatal(err)
	}
	both("again", func(c Container, err error) bool { return err == nil && c.ID == id })
}
