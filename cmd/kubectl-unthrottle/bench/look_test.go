//go:build linux

package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

// looked are programs that others wrote, as they run in the cluster of TestLook: with a GOMAXPROCS far above its limit, with a limit of the
// pod's own, with one that is raised while it runs, with one that fits, and in a crash loop.
const looked = `apiVersion: apps/v1
kind: Deployment
metadata: {name: exporter}
spec:
  selector: {matchLabels: {app: exporter}}
  template:
    metadata: {labels: {app: exporter}}
    spec:
      containers:
      - {name: app, image: "localhost/node_exporter:1", args: ["--web.listen-address=:8080"], ports: [{containerPort: 8080}],
         env: [{name: GOMAXPROCS, value: "16"}], resources: {limits: {cpu: 200m}, requests: {cpu: 50m}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: httpbin}
spec:
  selector: {matchLabels: {app: httpbin}}
  template:
    metadata: {labels: {app: httpbin}}
    spec:
      resources: {limits: {cpu: 300m}, requests: {cpu: 50m}}
      containers:
      - {name: app, image: "localhost/go-httpbin:1", args: ["-host=0.0.0.0", "-port=8080", "-log-level=OFF"], ports: [{containerPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: opa}
spec:
  selector: {matchLabels: {app: opa}}
  template:
    metadata: {labels: {app: opa}}
    spec:
      containers:
      - {name: app, image: "localhost/opa:1", args: [run, --server, "--addr=0.0.0.0:8080", --log-level=error], ports: [{containerPort: 8080}],
         resources: {limits: {cpu: 500m}, requests: {cpu: 50m}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: caddy}
spec:
  selector: {matchLabels: {app: caddy}}
  template:
    metadata: {labels: {app: caddy}}
    spec:
      containers:
      - {name: app, image: "localhost/caddy:1", args: [file-server, "--listen=:8080", --browse], ports: [{containerPort: 8080}],
         resources: {limits: {cpu: "1"}, requests: {cpu: 50m}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: broken}
spec:
  selector: {matchLabels: {app: broken}}
  template:
    metadata: {labels: {app: broken}}
    spec:
      containers:
      - {name: app, image: "localhost/caddy:1", args: [no-such-command], env: [{name: GOMAXPROCS, value: "8"}], resources: {limits: {cpu: "1"}, requests: {cpu: 50m}}}
`

// TestLook shows what the verbs say about these programs on a cluster of two nodes, next to the kernel's own files, for a reader to compare.
func TestLook(t *testing.T) {
	asked(t)
	c := clustertest.Start(t, clustertest.Options{
		ControllerManager: true, Scheduler: true, Nodes: 2,
		ExtraAPIServerFlags: []string{"--enable-aggregator-routing"},
	})
	kubectl, own := build(t), clustertest.BuildGo(t, "github.com/unthrottle/unthrottle/cmd/unthrottle")
	c.Import(t, clustertest.Image{Name: "localhost/kubectl-unthrottle:1", Entrypoint: []string{"/kubectl-unthrottle"}, Files: map[string]string{"/kubectl-unthrottle": kubectl}})
	c.Import(t, clustertest.Image{Name: "localhost/unthrottle:1", Entrypoint: []string{"/unthrottle"}, Files: map[string]string{"/unthrottle": own}})
	for _, module := range []string{
		"github.com/prometheus/node_exporter@v1.12.1", "github.com/mccutchen/go-httpbin/v2/cmd/go-httpbin@v2.26.0",
		"github.com/open-policy-agent/opa@v1.22.2", "github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9",
	} {
		program := install(t, module)
		c.Import(t, clustertest.Image{Name: "localhost/" + filepath.Base(program) + ":1", Entrypoint: []string{"/server"}, Files: map[string]string{"/server": program}})
	}
	show := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "UNTHROTTLE_IMAGE=localhost/unthrottle:1", "HOME="+t.TempDir())
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		fmt.Printf("\n$ kubectl unthrottle %s\n%s(exit code %d)\n", strings.Join(args, " "), out, cmd.ProcessState.ExitCode())
	}
	show("install", "--image=localhost/kubectl-unthrottle:1", "--wait", "2m")
	c.Must(t, looked, "create", "-f", "-")
	var opa string
	for _, app := range []string{"exporter", "httpbin", "opa", "caddy"} {
		p := c.WaitPods(t, "default", "app="+app, 1, "Running")[0]
		if app == "opa" {
			opa = p.Name
		}
		load := exec.CommandContext(t.Context(), own, "load", "http://"+p.IP+":8080"+map[string]string{"exporter": "/metrics", "httpbin": "/gzip", "opa": "/", "caddy": "/"}[app], "--rate", "60", "--for", "8m")
		if err := load.Start(); err != nil {
			t.Fatal(err)
		}
		defer load.Wait()
		defer load.Process.Kill()
	}
	c.Must(t, "", "patch", "pod", opa, "--subresource=resize", "-p", `{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"2"}}}]}}`)
	time.Sleep(70 * time.Second) // two scans

	for _, n := range c.Nodes {
		files, err := filepath.Glob(filepath.Join(n.Group("cpu"), "kubepods/*/pod*/*/cpu.cfs_quota_us"))
		pods, podsErr := filepath.Glob(filepath.Join(n.Group("cpu"), "kubepods/*/pod*/cpu.cfs_quota_us"))
		if err := errors.Join(err, podsErr); err != nil {
			t.Fatal(err)
		}
		for _, file := range append(pods, files...) {
			quota, _ := os.ReadFile(file)
			stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cpu.stat"))
			fmt.Printf("%s: %s  %s  %s\n", n.Name, strings.TrimPrefix(filepath.Dir(file), n.Group("cpu")), strings.TrimSpace(string(quota)), strings.ReplaceAll(strings.TrimSpace(string(stat)), "\n", ", "))
		}
	}
	fmt.Printf("\n%s\n", c.Must(t, "", "get", "pods", "-A", "-o", "wide"))
	show("lint", "--cluster", "-A")
	show("audit", "-A")
	for _, app := range []string{"exporter", "httpbin", "opa", "caddy", "broken"} {
		show("explain", "deployment/"+app)
	}
	for _, app := range []string{"exporter", "httpbin", "opa", "caddy"} {
		show("watch", "deployment/"+app, "--for", "5s")
	}
	show("trace", "deployment/exporter", "--for", "3s")
	show("profile", "deployment/exporter", "--for", "5s")
	show("lint", "--cluster", "--explain")
	show("tune", "deployment/exporter", "--path", "/metrics", "--rate", "20", "--budget", "90s")
	show("audit", "-A", "--agents", "none")
	show("audit", "-A", "--once", "--once-image", "localhost/kubectl-unthrottle:1")
	fmt.Printf("\n%s\n", c.Must(t, "", "get", "pods,jobs,namespaces", "-A"))
}
