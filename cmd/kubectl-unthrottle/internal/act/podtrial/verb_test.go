package podtrial_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/podtrial"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/cli"
)

// A run is one call of the command.
type run struct {
	code           int
	stdout, stderr string
}

// command returns a function that runs kubectl unthrottle against a cluster.
func command(t *testing.T, url string) func(args ...string) run {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": {"server": %q}}], "users": [{"name": "u", "user": {}}],
		"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}], "current-context": "x"}`, url)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	return func(args ...string) run {
		var stdout, stderr bytes.Buffer
		code := cli.Main(context.Background(), args, os.Getenv, strings.NewReader(""), &stdout, &stderr)
		return run{code, stdout.String(), stderr.String()}
	}
}

// TestVerb: a tune from the command line to its document, and nothing is left in the cluster.
func TestVerb(t *testing.T) {
	f, url := podtrial.NewFake(t)
	unthrottle := command(t, url)
	before := len(f.Left())
	r := unthrottle("tune", "deployment/api", "--cpus", "1", "--seed", "3", "--for", "2s", "-o", "tune.json")
	if r.code != 0 || !strings.Contains(r.stdout, "deployment/api") || !strings.Contains(r.stdout, "GOMAXPROCS=2") {
		t.Fatalf("%+v", r)
	}
	t.Log(r.stdout)
	doc := written(t)
	if doc.Verdict.Kind != "change" || doc.LimitKind != podtrial.LimitKind || doc.Environment.Node != "n1" || doc.Environment.CPUs != 8 || doc.Environment.CPU != "Xeon 6" || len(doc.Runs) < 6 {
		t.Errorf("%+v, %+v", doc.Verdict, doc.Environment)
	}
	if left := f.Left(); len(left) != before {
		t.Errorf("left are %q", left)
	}
}

// written is the document of a tune with -o tune.json.
func written(t *testing.T) (doc report.Tune) {
	t.Helper()
	data, err := os.ReadFile("tune.json")
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestNodes: at three nodes the runs are those of one, each block at one node, and what differs between them is reported.
func TestNodes(t *testing.T) {
	f, url := podtrial.NewFake(t)
	unthrottle := command(t, url)
	before := len(f.Left())
	args := []string{"tune", "deployment/api", "--cpus", "1", "--seed", "3", "--for", "2s"}
	one := unthrottle(append(slices.Clone(args), "--runs", "one.jsonl")...)
	r := unthrottle(append(slices.Clone(args), "--nodes", "3", "--runs", "runs.jsonl")...)
	if r.code != 0 || first(r.stdout) != first(one.stdout) || !strings.Contains(r.stderr, "node n2 has the CPU EPYC 9 where n1 has Xeon 6, kernel 6.2 where n1 has 6.1") || !strings.Contains(r.stderr, "node n3 is like n1") {
		t.Errorf("%+v\nat one node: %+v", r, one)
	}
	runs, err := os.ReadFile("runs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for block, place := range map[int]string{1: "n1", 2: "n2", 3: "n3", 4: "n1"} {
		for line := range strings.Lines(string(runs)) {
			if strings.Contains(line, fmt.Sprintf(`"block":%d,"seed"`, block)) && !strings.Contains(line, fmt.Sprintf(`"place":%q`, place)) {
				t.Errorf("block %d is not at %s: %s", block, place, line)
			}
		}
	}
	f.Shrink("n2")
	r = unthrottle(append(slices.Clone(args), "--nodes", "2", "--runs", "other.jsonl")...)
	if r.code != 1 || !strings.Contains(r.stderr, "node n2 has 4 CPUs and n1 has 8") {
		t.Errorf("%+v", r)
	}
	if left := f.Left(); len(left) != before {
		t.Errorf("left are %q", left)
	}
}

// TestResume: a node is lost in the middle, which is reported; the rest is done later, and comes to the same as without.
func TestResume(t *testing.T) {
	f, url := podtrial.NewFake(t)
	unthrottle := command(t, url)
	before := len(f.Left())
	args := []string{"tune", "deployment/api", "--cpus", "1", "--seed", "3", "--for", "2s", "--runs", "runs.jsonl"}
	f.LoseNode(9)
	r := unthrottle(args...)
	if r.code != 1 || !strings.Contains(r.stderr, "error: node n1 does not report any more") || !strings.Contains(r.stderr, "hint: continue with kubectl unthrottle tune --resume ") {
		t.Fatalf("%+v", r)
	}
	if left := f.Left(); len(left) != before {
		t.Errorf("left are %q", left)
	}
	f.Mend()
	r = unthrottle("tune", "--resume", "runs.jsonl", "-o", "tune.json")
	if r.code != 0 || !strings.Contains(r.stdout, "GOMAXPROCS=2") {
		t.Fatalf("%+v", r)
	}
	_, url = podtrial.NewFake(t)
	r2 := command(t, url)(append(slices.Clone(args[:len(args)-2]), "-o", "tune.json")...)
	if r2.code != 0 || first(r.stdout) != first(r2.stdout) {
		t.Errorf("gone on with:\n%s\nin one go:\n%s", r.stdout, r2.stdout)
	}
	if left := f.Left(); len(left) != before {
		t.Errorf("left are %q", left)
	}
}

// TestStandsStill: a meter that stands still costs a run, and not the tune. One that does so repeatedly ends it, and that is the first line
// of the output; it doesn't say that a budget is used up.
func TestStandsStill(t *testing.T) {
	args := []string{"tune", "deployment/api", "--cpus", "1", "--seed", "3", "--for", "2s", "--budget", "10m"}
	_, url := podtrial.NewFake(t)
	whole := command(t, url)(args...)
	for name, from := range map[string]int{"the first run": 9, "a later one": 14} {
		t.Run(name, func(t *testing.T) {
			f, url := podtrial.NewFake(t)
			unthrottle := command(t, url)
			f.StandStill(from, 2)
			r := unthrottle(args...)
			if r.code != 0 || first(r.stdout) != first(whole.stdout) || !strings.Contains(r.stdout, "made again, as too little of ") {
				t.Errorf("%+v\nwithout that: %s", r, whole.stdout)
			}

			f, url = podtrial.NewFake(t)
			unthrottle = command(t, url)
			f.StandStill(from, 100)
			r = unthrottle(append(slices.Clone(args), "--runs", "runs.jsonl", "-o", "tune.json", "-o", "tune.html")...)
			if want := "Error: the meter stood still: it saw 800ms of 2s."; r.code != 1 || first(r.stdout) != want || strings.Contains(r.stdout, "used up") {
				t.Fatalf("%+v\nwant %s", r, want)
			}
			if !strings.Contains(r.stderr, "unthrottle: error: the meter stood still: it saw 800ms of 2s\n") || f.Loads() != from+3 {
				t.Errorf("after %d loads: %s", f.Loads(), r.stderr)
			}
			doc := written(t)
			if doc.Failure != "the meter stood still: it saw 800ms of 2s" || !strings.HasPrefix(doc.Verdict.Text, "Error: ") || doc.Finished || doc.Resume == "" {
				t.Errorf("%q, %+v", doc.Failure, doc.Verdict)
			}
			page, err := os.ReadFile("tune.html")
			if err != nil || !bytes.Contains(page, []byte("Error: the meter stood still: it saw 800ms of 2s.")) {
				t.Errorf("the page does not say it: %v", err)
			}
			f.Mend()
			if r = unthrottle("tune", "--resume", "runs.jsonl"); r.code != 0 || first(r.stdout) != first(whole.stdout) {
				t.Errorf("gone on with: %+v", r)
			}
		})
	}
}

// TestLogs: what a container wrote that failed is in the file of --logs, which is its user's alone, and nowhere else. Without that it is said how
// to get it.
func TestLogs(t *testing.T) {
	const secret = "password=hunter2"
	for name, c := range map[string]struct {
		procs  int // with which it fails
		reason string
		code   int
		why    string
	}{
		"a crash of a candidate":            {4, "Error", 2, "container server ended: exit code 2"},
		"a candidate that is out of memory": {4, "OOMKilled", 137, "out of memory: limit 256Mi"},
		"the current setting crashes":       {8, "Error", 2, "container server ended: exit code 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f, url := podtrial.NewFake(t)
			unthrottle := command(t, url)
			f.Kill(c.procs, c.reason, c.code)
			args := []string{"tune", "deployment/api", "--cpus", "1", "--seed", "3", "--for", "2s"}
			r := unthrottle(append(slices.Clone(args), "--runs", "runs.jsonl", "-o", "tune.json", "-o", "tune.html", "-o", "tune.md", "-o", "tune.csv")...)
			all := r.stdout + r.stderr
			files, err := filepath.Glob("*")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all += string(data)
			}
			if strings.Contains(all, secret) || strings.Contains(all, "it listens") || !strings.Contains(all, c.why) || !strings.Contains(r.stdout+r.stderr, "--logs FILE keeps it") {
				t.Errorf("%+v\nin %q", r, files)
			}

			out := strings.Contains(r.stdout, "GOMAXPROCS=4 is out: it was killed where GOMAXPROCS=8 was not (out of memory: limit 256Mi).")
			if killed := c.reason == "OOMKilled"; out != killed || strings.Contains(all, `"out_of_memory":true`) != killed {
				t.Errorf("it is out for lack of memory: %v; %s", out, r.stdout)
			}

			r = unthrottle(append(slices.Clone(args), "--logs", "logs.txt")...)
			log, err := os.ReadFile("logs.txt")
			if err != nil || strings.Contains(r.stdout+r.stderr, secret) || !strings.Contains(r.stdout+r.stderr, "what failed containers logged last is in logs.txt") {
				t.Errorf("%v, %+v", err, r)
			}
			for _, want := range []string{secret, fmt.Sprintf(", container server: %s\n", c.why)} {
				if !strings.Contains(string(log), want) {
					t.Errorf("no %q in %s", want, log)
				}
			}
			if info, err := os.Stat("logs.txt"); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			before := len(f.Left())
			if r = unthrottle(append(slices.Clone(args), "--logs", "logs.txt", "--runs", "again.jsonl")...); r.code != 1 || !strings.Contains(r.stderr, "--logs needs a new file") || len(f.Left()) != before {
				t.Errorf("a file that is there: %+v", r)
			}
		})
	}
	_, url := podtrial.NewFake(t)
	if r := command(t, url)("tune", "deployment/api", "--cpus", "1", "--seed", "3", "--for", "2s", "--logs", "logs.txt"); r.code != 0 || strings.Contains(r.stdout, "logged") {
		t.Errorf("nothing fails: %+v", r)
	}
	if _, err := os.Stat("logs.txt"); err == nil {
		t.Error("nothing failed, and there is a file of logs")
	}
}

// TestFallen: where only the current setting dies under the load, the tune goes on without it, and says so.
func TestFallen(t *testing.T) {
	f, url := podtrial.NewFake(t)
	unthrottle := command(t, url)
	before := len(f.Left())
	f.Kill(8, "OOMKilled", 137)
	r := unthrottle("tune", "deployment/api", "--cpus", "1", "--seed", "3", "--for", "2s", "-o", "tune.json", "--fail-on", "warning")
	for _, want := range []string{
		"Set GOMAXPROCS=2: the current 8 does not survive this load.\n",
		"The current setting, GOMAXPROCS=8, does not survive this load: out of memory: limit 256Mi.",
		"Of those that do, GOMAXPROCS=2 is what the others are compared with.",
		"GOMAXPROCS=2 was used instead",
	} {
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), strings.TrimSpace(want)) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r.code != 3 || !strings.HasPrefix(r.stdout, "Set GOMAXPROCS=2:") {
		t.Errorf("%+v", r)
	}
	doc := written(t)
	want := []report.TuneFallen{{Procs: 8, Error: "out of memory: limit 256Mi", Killed: true}}
	if v := doc.Verdict; v.Kind != "change" || v.Procs != 2 || doc.Current.Procs != 8 || !slices.Equal(doc.Loads[0].Fallen, want) || len(v.How) == 0 {
		t.Errorf("%+v, %+v", v, doc.Loads[0].Fallen)
	}
	if left := f.Left(); len(left) != before {
		t.Errorf("left are %q", left)
	}
}

// first is the first line, which has the verdict.
func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// TestUsage: what is refused, and what is said instead.
func TestUsage(t *testing.T) {
	f, url := podtrial.NewFake(t)
	unthrottle := command(t, url)
	before := len(f.Left())
	for name, test := range map[string]struct {
		args  string
		code  int
		want  string
		asked bool // the cluster
	}{
		"no workload":         {"", 2, "tune takes one workload, got 0", false},
		"two workloads":       {"deployment/api deployment/b", 2, "tune takes one workload, got 2", false},
		"no kind":             {"api", 2, `"api" names no workload`, true},
		"it is not there":     {"deployment/other", 1, "there is no deployment/other in namespace team", true},
		"no such container":   {"deployment/api -c other", 2, "deployment/api has no container other", true},
		"a path":              {"deployment/api --path x", 2, "--path x does not begin with /", false},
		"a file of ours":      {"deployment/api --data @x", 2, "is a file of this machine", false},
		"targets":             {"deployment/api --targets x", 2, "--targets is of this machine", false},
		"a program":           {"-- ./server", 2, "a program of this machine is tuned by unthrottle tune", false},
		"at once and in turn": {"deployment/api --at-once yes --nodes 2", 2, "settings take turns on each of several nodes", false},
		"limits at once":      {"deployment/api --cpus 1,2 --slo p99=5ms --rate 10 --at-once no", 2, "--at-once is for one limit", false},
		"limits without SLO":  {"deployment/api --cpus 1,2", 2, "is only known for a server with an --slo and a --rate", false},
		"a file and a name":   {"deployment/api -f x", 2, "--filename cannot be used together", false},
		"no such file":        {"-f none.yaml", 1, "reading the workload", false},
		"a margin of nothing": {"deployment/api --margin 0.01%", 2, "no number of runs would be enough", false},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"tune"}, strings.Fields(test.args)...)
			if !test.asked {
				args = slices.Insert(args, 1, "--server", "http://127.0.0.1:1") // where nothing answers
			}
			r := unthrottle(args...)
			if r.code != test.code || !strings.Contains(r.stderr, test.want) || r.stdout != "" {
				t.Errorf("%+v, want %d and %q", r, test.code, test.want)
			}
		})
	}
	r := unthrottle("tune", "deploy/api", "--dry-run", "--procs", "2", "--cpus", "1.5")
	if r.code != 0 || !strings.Contains(r.stdout, "kind: Namespace\n") || !strings.Contains(r.stdout, "cpu: 1500m") || !strings.Contains(r.stdout, "- name: GOMAXPROCS\n") {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile("pod.yaml", []byte(r.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if left := f.Left(); len(left) != before {
		t.Errorf("made were %q", left)
	}
	if err := os.WriteFile("pod.yaml", []byte("kind: Service\n---\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := unthrottle("tune", "-f", "pod.yaml"); r.code != 2 || !strings.Contains(r.stderr, "where does it listen?") {
		t.Errorf("%+v", r)
	}
	if r := unthrottle("tune", "-f", "pod.yaml", "--port", "80", "--dry-run", "--in", "x"); r.code != 0 || strings.Contains(r.stdout, "kind: Namespace") {
		t.Errorf("%+v", r)
	}
}
