//go:build linux

package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

// A server is one that is tuned in both ways.
type server struct {
	name   string
	module string                           // what go install takes; "": it is unthrottle's own
	args   func(host, port string) []string // to listen there
	path   string                           // of what is asked for
}

var servers = []server{
	{
		"serve", "", func(host, port string) []string { return []string{"serve", "--listen", net.JoinHostPort(host, port)} },
		"/work?cpu=20us&alloc=64k",
	},
	{
		"go-httpbin", "github.com/mccutchen/go-httpbin/v2/cmd/go-httpbin@v2.26.0",
		func(host, port string) []string { return []string{"-host", host, "-port", port, "-log-level", "OFF"} }, "/gzip",
	},
}

// exporter is one whose pages are made of what the kernel reports.
var exporter = server{
	"node-exporter", "github.com/prometheus/node_exporter@v1.12.1",
	func(host, port string) []string {
		return []string{"--web.listen-address", net.JoinHostPort(host, port), "--log.level", "error"}
	}, "/metrics",
}

// TestTune tunes servers under the same limit on this machine and, as a Deployment, on a node of a cluster that runs on it. Both should
// come to the same verdict.
func TestTune(t *testing.T) {
	asked(t)
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	own, kubectl := clustertest.BuildGo(t, "github.com/unthrottle/unthrottle/cmd/unthrottle"), build(t)
	c.Import(t, clustertest.Image{Name: "localhost/unthrottle:1", Entrypoint: []string{"/unthrottle"}, Files: map[string]string{"/unthrottle": own}})
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			program, image := imageOf(t, c, s, own)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			listener.Close()
			here := tuned(t, "this machine", nil, append([]string{
				own, "tune", "--cpus", "1", "--seed", "7", "--url", "http://127.0.0.1:" + port + s.path, "--", program,
			}, s.args("127.0.0.1", port)...))

			deploy(t, c, s, image, "1")
			there := tuned(t, "a node", []string{"KUBECONFIG=" + c.Kubeconfig}, []string{
				kubectl, "tune", "deployment/" + s.name, "--path", s.path, "--seed", "7", "--image", "localhost/unthrottle:1", "--image-pull-policy", "Never",
			})
			if a, b := here.Verdict, there.Verdict; a.Kind != b.Kind || a.Procs != b.Procs || a.GOGC != b.GOGC {
				t.Errorf("here: %s There: %s", a.Text, b.Text)
			}
		})
	}
}

// TestAtOnce tunes servers under a small limit on a node that has room for two of them: as auto has it, and with runs in turn. Both should come
// to the same verdict.
func TestAtOnce(t *testing.T) {
	asked(t)
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	own, kubectl := clustertest.BuildGo(t, "github.com/unthrottle/unthrottle/cmd/unthrottle"), build(t)
	c.Import(t, clustertest.Image{Name: "localhost/unthrottle:1", Entrypoint: []string{"/unthrottle"}, Files: map[string]string{"/unthrottle": own}})
	for _, s := range append(servers, exporter) {
		t.Run(s.name, func(t *testing.T) {
			_, image := imageOf(t, c, s, own)
			deploy(t, c, s, image, "300m")
			var verdicts []report.TuneVerdict
			for _, how := range []string{"auto", "no"} {
				doc := tuned(t, "at once: "+how, []string{"KUBECONFIG=" + c.Kubeconfig}, []string{
					kubectl, "tune", "deployment/" + s.name, "--path", s.path, "--seed", "7", "--image", "localhost/unthrottle:1", "--image-pull-policy", "Never",
					"--at-once", how,
				})
				most := 0
				for _, r := range doc.Runs {
					most = max(most, r.AtOnce)
				}
				t.Logf("    %d runs at once at most; in turn, as %q", most, cmp.Or(doc.AtOnce, &report.TuneAtOnce{}).InTurn)
				verdicts = append(verdicts, doc.Verdict)
			}
			if a, b := verdicts[0], verdicts[1]; a.Kind == "change" && b.Kind == "change" && a.Procs != b.Procs {
				t.Errorf("at once: %s In turn: %s", a.Text, b.Text)
			}
		})
	}
}

// imageOf builds a server's program, and gives the cluster its image.
func imageOf(t *testing.T, c *clustertest.Cluster, s server, own string) (program, image string) {
	t.Helper()
	if s.module == "" {
		return own, "localhost/unthrottle:1"
	}
	program, image = install(t, s.module), "localhost/"+s.name+":1"
	c.Import(t, clustertest.Image{Name: image, Entrypoint: []string{"/server"}, Files: map[string]string{"/server": program}})
	return program, image
}

// deploy makes a Deployment of a server with no running pods.
func deploy(t *testing.T, c *clustertest.Cluster, s server, image, cpu string) {
	t.Helper()
	args, err := json.Marshal(s.args("0.0.0.0", "8080"))
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, err := c.KubectlInput(fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 0
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
      - name: server
        image: %[2]s
        args: %[3]s
        ports: [{containerPort: 8080}]
        resources: {limits: {cpu: %[4]q}, requests: {cpu: 50m}}
`, s.name, image, args, cpu), "apply", "-f", "-"); err != nil {
		t.Fatal(err, stderr)
	}
}

// install builds a program of a module, without cgo.
func install(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "install", module)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", module, err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("go install made %q", found)
	}
	return found[0]
}

// tuned runs a tune, reports what it found, and returns the document.
func tuned(t *testing.T, where string, env, command []string) (doc report.Tune) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tune.json")
	args := append([]string{command[1], "-o", file}, command[2:]...)
	cmd := exec.CommandContext(t.Context(), command[0], args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "XDG_CACHE_HOME="+dir)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", where, err, out)
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	load := doc.Loads[doc.Verdict.Load]
	t.Logf("| %s | %.0f requests a second | %s | %d runs | %.0f s |", where, load.Rate, doc.Verdict.Text, len(doc.Runs), doc.Seconds)
	for _, s := range doc.Settings {
		t.Logf("    GOMAXPROCS=%d GOGC=%d: p99 %.1f ms, %.0f µs of CPU a request, throttled in %.0f %% of the periods; %d runs", s.Procs, cmp.Or(s.GOGC, 100),
			s.Metrics["p99-latency-ns"].Median/1e6, s.Metrics["cpu-ns/req"].Median/1000, s.Metrics["throttled-%"].Median, s.Runs)
	}
	return doc
}
