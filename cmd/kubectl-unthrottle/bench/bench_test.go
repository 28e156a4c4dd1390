//go:build linux

package bench

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	figures  = flag.Bool("figures", false, "take figures")
	times    = flag.Int("times", 5, "how often each command runs")
	rounds   = flag.Int("scans", 6, "how many scans the agent's cost is taken over")
	programs = flag.Int("programs", 300, "Go programs on the node of TestAgent")
	profile  = flag.String("profile", "", "a file for the CPU profile of the agent while its cost is taken")
	linter   = flag.String("kube-linter", "", "its program, to be timed on the same files")
	scorer   = flag.String("kube-score", "", "its program, to be timed on the same files")
)

func asked(t *testing.T) {
	t.Helper()
	if !*figures {
		t.Skip("it takes figures: go test ./bench -figures -v")
	}
}

// build builds the command as released. An image's has the tag norender.
func build(t *testing.T, tags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubectl-unthrottle")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags="+strings.Join(tags, ","), "-o", program, "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// A cost is what one run of a command took.
type cost struct {
	wall, cpu time.Duration
	memory    int64  // bytes, at most
	text      string // what it said at last
}

// measure runs a command several times and reports the median of each of its costs. Findings are not a failure.
func measure(t *testing.T, name, stdin string, env []string, args ...string) cost {
	t.Helper()
	var all []cost
	var last bytes.Buffer
	for range *times {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), env...)
		last.Reset()
		cmd.Stdout, cmd.Stderr = &last, &last
		if stdin != "" {
			f, err := os.Open(stdin)
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdin = f
			defer f.Close()
		}
		begin := time.Now()
		err := cmd.Run()
		wall := time.Since(begin)
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() < 0 {
			t.Fatalf("%s: %v: %.500s", name, err, &last)
		}
		use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		all = append(all, cost{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), use.Maxrss << 10, ""})
	}
	middle := func(of func(cost) int64) int64 {
		values := make([]int64, len(all))
		for i, c := range all {
			values[i] = of(c)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	c := cost{
		time.Duration(middle(func(c cost) int64 { return int64(c.wall) })), time.Duration(middle(func(c cost) int64 { return int64(c.cpu) })),
		middle(func(c cost) int64 { return c.memory }), last.String(),
	}
	first, _, _ := strings.Cut(c.text, "\n")
	t.Logf("| %s | %.2f s | %.2f s | %d MB |  (%d runs; it begins: %.90s)", name, c.wall.Seconds(), c.cpu.Seconds(), c.memory/1e6, len(all), first)
	return c
}

const (
	templates = 10_000
	inFile    = 50
)

// TestFiles: ten thousand pod templates in two hundred files, and the same as one stream.
func TestFiles(t *testing.T) {
	asked(t)
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var stream bytes.Buffer
	var files []string
	for i := 0; i < templates; i += inFile {
		var b bytes.Buffer
		for n := i; n < i+inFile; n++ {
			b.WriteString(manifest(random, n))
		}
		file := filepath.Join(dir, fmt.Sprintf("%03d.yaml", i/inFile))
		files = append(files, file)
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		stream.Write(b.Bytes())
	}
	one := filepath.Join(t.TempDir(), "stream.yaml")
	if err := os.WriteFile(one, stream.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pod templates, %.1f MB of YAML", templates, float64(stream.Len())/1e6)
	program := build(t)
	measure(t, "lint, files", "", nil, program, "lint", dir)
	measure(t, "lint, one stream", one, nil, program, "lint", "-")
	if *linter != "" {
		measure(t, "kube-linter, files", "", nil, *linter, "lint", dir)
	}
	if *scorer != "" {
		measure(t, "kube-score, files", "", nil, append([]string{*scorer, "score"}, files...)...)
	}
}

// manifest is an object with a pod template, as people write them: no two are the same.
func manifest(random *rand.Rand, n int) string {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	var b strings.Builder
	line := func(indent int, format string, args ...any) {
		b.WriteString(strings.Repeat(" ", indent) + fmt.Sprintf(format, args...) + "\n")
	}
	kind := pick("Deployment", "Deployment", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod")
	version := map[string]string{"Job": "batch/v1", "CronJob": "batch/v1", "Pod": "v1"}[kind]
	if version == "" {
		version = "apps/v1"
	}
	name := fmt.Sprintf("%s-%d", pick("api", "web", "worker", "gateway", "billing"), n)
	b.WriteString("---\n# Source: chart/templates/" + strings.ToLower(kind) + ".yaml\n")
	line(0, "apiVersion: %s", version)
	line(0, "kind: %s", kind)
	line(0, "metadata:")
	line(2, "name: %s", name)
	line(2, "namespace: team-%d", n%40)
	line(2, "labels: {app.kubernetes.io/name: %s, app.kubernetes.io/version: \"1.%d\", team: t%d}", name, random.IntN(90), n%40)
	line(0, "spec:")
	at := 2
	switch kind {
	case "Pod":
	case "CronJob":
		line(2, "schedule: \"*/%d * * * *\"", 1+random.IntN(59))
		line(2, "jobTemplate:")
		line(4, "spec:")
		line(6, "template:")
		line(8, "spec:")
		at = 10
	default:
		if kind != "Job" {
			line(2, "selector:")
			line(4, "matchLabels: {app: %s}", name)
		}
		line(2, "template:")
		line(4, "metadata:")
		line(6, "labels: {app: %s}", name)
		line(6, "annotations:")
		line(8, "checksum/config: %016x%016x", random.Uint64(), random.Uint64())
		line(4, "spec:")
		at = 6
	}
	line(at, "serviceAccountName: %s", name)
	if kind == "Job" || kind == "CronJob" {
		line(at, "restartPolicy: Never")
	}
	line(at, "containers:")
	for c := range 1 + random.IntN(3) {
		line(at, "- name: %s", []string{"app", "proxy", "exporter"}[c])
		line(at+2, "image: registry.example.com/%s:%d.%d", name, random.IntN(9), random.IntN(90))
		line(at+2, "args: [--port=%d, --log-level=%s]", 1024+random.IntN(9000), pick("info", "debug"))
		line(at+2, "ports:")
		line(at+2, "- {name: http, containerPort: %d, protocol: TCP}", 1024+random.IntN(9000))
		line(at+2, "env:")
		line(at+2, "- name: LOG_FORMAT")
		line(at+4, "value: json")
		line(at+2, "- name: POD_NAME")
		line(at+4, "valueFrom:")
		line(at+6, "fieldRef:")
		line(at+8, "fieldPath: metadata.name")
		switch random.IntN(6) {
		case 0:
			line(at+2, "- {name: GOMAXPROCS, value: %q}", pick("1", "2", "4", "8", "500m"))
		case 1:
			line(at+2, "- name: GOMAXPROCS")
			line(at+4, "valueFrom:")
			line(at+6, "resourceFieldRef:")
			line(at+8, "resource: limits.cpu")
			if random.IntN(2) == 0 {
				line(at+8, "divisor: %q", pick("1", "1m"))
			}
		}
		line(at+2, "resources:")
		line(at+4, "requests: {cpu: %s, memory: %dMi}", pick("100m", "250m", "1"), 64+random.IntN(900))
		if random.IntN(3) > 0 {
			line(at+4, "limits: {cpu: %q, memory: %dMi}", pick("500m", "1", "1500m", "2", "4"), 1024+random.IntN(900))
		}
		line(at+2, "readinessProbe:")
		line(at+4, "httpGet: {path: /ready, port: http}")
		line(at+4, "periodSeconds: %d", 1+random.IntN(30))
		line(at+2, "securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}")
		line(at+2, "volumeMounts:")
		line(at+2, "- {name: tmp, mountPath: /tmp}")
	}
	line(at, "volumes:")
	line(at, "- name: tmp")
	line(at+2, "emptyDir: {}")
	return b.String()
}
