//go:build linux

package pods

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

const limit = 8 * time.Minute // so that a hang ends; it judges no speed

// TestCluster: a real API server takes what Watch asks for, and sends what Watch expects. There is no kubelet: the test writes what
// one would write into a status.
func TestCluster(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true})
	clustertest.WaitFor(t, limit, func() error {
		_, _, err := c.Kubectl("get", "serviceaccount", "default")
		return err
	})
	c.Must(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}, annotations: {unthrottle.dev/mute: all}}
    spec:
      initContainers:
      - {name: proxy, image: "registry.example.com/proxy:1", restartPolicy: Always}
      containers:
      - name: app
        image: registry.example.com/api:1
        resources: {limits: {cpu: 1500m}}
        env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "1"}}}]
`, "create", "-f", "-")
	var names []string
	clustertest.WaitFor(t, limit, func() error {
		stdout, _, err := c.Kubectl("get", "pods", "-o", "name")
		if names = strings.Fields(strings.ReplaceAll(stdout, "pod/", "")); err == nil && len(names) != 2 {
			err = fmt.Errorf("there are the pods %q", names)
		}
		return err
	})
	for i, name := range names {
		c.Must(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"kind":"Node","name":"node%d"}}`, name, i+1),
			"create", "--raw", "/api/v1/namespaces/default/pods/"+name+"/binding", "-f", "-")
	}
	status := func(pod, app string) {
		t.Helper()
		c.Must(t, "", "patch", "pod", pod, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"phase":"Running",
			"initContainerStatuses":[{"name":"proxy","containerID":"containerd://%s","image":"x","imageID":"","ready":true,"restartCount":0,"state":{"running":{"startedAt":"2026-11-23T01:02:03Z"}}}],
			"containerStatuses":[{"name":"app","containerID":"containerd://%s","image":"x","imageID":"registry.example.com/api@%s","ready":true,"restartCount":3,
				"resources":{"limits":{"cpu":"500m"}},"state":{"running":{"startedAt":"2026-11-23T01:02:03Z"}}}]}}`, idB, app, sha))
	}

	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Watch(t.Context(), config, "node1")
	if err != nil {
		t.Fatal(err)
	}
	container := func(id string) (Container, bool) { return s.Container(podpath.Ref{Container: id}) }
	has := func(id string, want bool) {
		t.Helper()
		clustertest.WaitFor(t, limit, func() error {
			if _, ok := container(id); ok != want || s.Err() != nil {
				return fmt.Errorf("container %s is known: %v, %v", id, ok, s.Err())
			}
			return nil
		})
	}
	has(idA, false)
	status(names[1], strings.Repeat("2", 64)) // on the other node
	status(names[0], idA)
	has(idA, true)
	app, _ := container(idA)
	app.UID, app.Started = "", app.Started.UTC()
	want := Container{
		Namespace: "default", Pod: names[0], Name: "app", Kind: Main, Owner: Owner{"apps/v1", "Deployment", "api"}, Image: "registry.example.com/api:1", Digest: sha,
		ID: idA, Runtime: "containerd", Node: "node1", Spec: Setting{Set: true, Form: Limits}, Limit: 1.5, Request: 1.5, Actual: 0.5,
		Started: began, Restarts: 3, Muted: []string{"all"},
	}
	if fmt.Sprintf("%+v", app) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v\nwant %+v", app, want)
	}
	if proxy, ok := container(idB); !ok || proxy.Kind != Sidecar {
		t.Errorf("%+v", proxy)
	}
	if _, ok := container(strings.Repeat("2", 64)); ok {
		t.Error("it knows a container of another node")
	}

	again := strings.Repeat("a", 64)
	status(names[0], again) // it was started again
	has(again, true)
	has(idA, false)
	c.Must(t, "", "patch", "pod", names[0], "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Failed"}}`)
	has(again, false) // it has ended
	c.Must(t, "", "patch", "pod", names[1], "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Succeeded"}}`)

	nobody := rest.CopyConfig(config)
	nobody.Impersonate.UserName = "nobody"
	s, err = Watch(t.Context(), nobody, "node1")
	if err != nil {
		t.Fatal(err)
	}
	clustertest.WaitFor(t, limit, func() error {
		err := s.Err()
		if err == nil || !strings.Contains(err.Error(), `answered with 403 Forbidden: pods is forbidden: User "nobody" cannot list resource "pods"`) {
			return fmt.Errorf("nobody is told %w", err)
		}
		return nil
	})

	// A real list, as each version of Kubernetes has it, names its kind, and its version.
	w, err := newWatcher(config, "node1")
	if err != nil {
		t.Fatal(err)
	}
	version, err := w.list(t.Context())
	if err != nil || version == "" {
		t.Error(version, err)
	}
}
