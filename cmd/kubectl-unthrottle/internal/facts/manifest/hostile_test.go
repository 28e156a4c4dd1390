package manifest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// allocated is how many bytes something asks for, all together.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// container is a pod of one container with these lines in it.
func container(lines string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: n}\nspec:\n  containers:\n  - name: app\n    image: app\n" + lines
}

// doublings is an environment in which each value is twice the one before it.
func doublings(n int, first string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    env:\n    - {name: V0, value: %q}\n", first)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "    - {name: V%d, value: $(V%d)$(V%d)}\n", i, i-1, i-1)
	}
	fmt.Fprintf(&b, "    - {name: GOMAXPROCS, value: $(V%d)}\n", n)
	return container(b.String())
}

// TestDoublings puts values into values. What becomes too long is not known, and is never made.
func TestDoublings(t *testing.T) {
	for n, want := range map[int]workload.State{3: workload.Known, 12: workload.Known, 13: workload.Unknown, 60: workload.Unknown} {
		var set *Set
		if bytes := allocated(func() { set = read(t, doublings(n, "1")) }); bytes > 8<<20 {
			t.Errorf("%d doublings ask for %d bytes", n, bytes)
		}
		v, ok := set.Workloads[0].Pod.Containers[0].Var("GOMAXPROCS")
		if !ok || v.State != want {
			t.Errorf("%d doublings: %+v", n, v)
		}
		if want == workload.Unknown && !strings.Contains(v.Unknown, "more than 4 KiB") {
			t.Errorf("%d doublings are not known, for %q", n, v.Unknown)
		}
		if want == workload.Known && len(v.Value) != 1<<n {
			t.Errorf("%d doublings make %d letters", n, len(v.Value))
		}
	}
}

// TestReasons is a chain of values whose first one is not known: the reason does not grow with it.
func TestReasons(t *testing.T) {
	var b strings.Builder
	b.WriteString("    env:\n    - {name: V0, valueFrom: {configMapKeyRef: {name: c, key: k}}}\n")
	for i := 1; i <= 5000; i++ {
		fmt.Fprintf(&b, "    - {name: V%d, value: $(V%d)}\n", i, i-1)
	}
	b.WriteString("    - {name: GOMAXPROCS, value: $(V5000)}\n")
	var set *Set
	if bytes := allocated(func() { set = read(t, container(b.String())) }); bytes > 64<<20 {
		t.Errorf("a chain of 5,000 asks for %d bytes", bytes)
	}
	v, _ := set.Workloads[0].Pod.Containers[0].Var("GOMAXPROCS")
	if v.State != workload.Unknown || !strings.Contains(v.Unknown, "ConfigMap c is not among the files") || len(v.Unknown) > 400 {
		t.Errorf("%+v", v)
	}
}

// TestWholeSources takes the variables of ConfigMaps in their order: the last one counts, and one that is not known undoes
// what came before it.
func TestWholeSources(t *testing.T) {
	maps := "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n}, data: {GOMAXPROCS: '1', GOGC: '50'}}\n" +
		"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: n}, data: {GOMAXPROCS: '2', MAXPROCS: '3'}}\n"
	for from, want := range map[string]string{
		"[{configMapRef: {name: a}}]":                                                                  "1",
		"[{configMapRef: {name: a}}, {configMapRef: {name: b}}]":                                       "2",
		"[{configMapRef: {name: b}}, {configMapRef: {name: a}}, {configMapRef: {name: b}}]":            "2",
		"[{configMapRef: {name: a}}, {prefix: GO, configMapRef: {name: b}}]":                           "3",
		"[{configMapRef: {name: a}}, {configMapRef: {name: x}}]":                                       "",
		"[{configMapRef: {name: a}}, {prefix: GOMAX, configMapRef: {name: x}}]":                        "",
		"[{configMapRef: {name: a}}, {prefix: GOMIN, configMapRef: {name: x}}]":                        "1",
		"[{configMapRef: {name: x}}, {configMapRef: {name: a}}]":                                       "1",
		"[{configMapRef: {name: a}}, {configMapRef: {name: x}}, {configMapRef: {name: b}}]":            "2",
		"[{configMapRef: {name: a}}, {configMapRef: {name: x}}, {prefix: X, configMapRef: {name: b}}]": "",
	} {
		set := read(t, container("    envFrom: "+from+"\n")+maps)
		v, ok := set.Workloads[0].Pod.Containers[0].Var("GOMAXPROCS")
		if !ok || v.Value != want || (v.State == workload.Known) != (want != "") {
			t.Errorf("%s: %+v", from, v)
		}
		if want == "" && !strings.Contains(v.Unknown, "ConfigMap x is not among") {
			t.Errorf("%s: %q", from, v.Unknown)
		}
	}
}

// TestLinear makes more and more of one thing. What that asks for grows with the text.
func TestLinear(t *testing.T) {
	many := func(n int, line string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, line, i)
		}
		return b.String()
	}
	keys := func(n int) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: n}\ndata:\n" + many(n, "  KEY%d: 'x'\n")
	}
	shared := strings.Repeat("k", 100_000)
	for name, text := range map[string]func(n int) string{
		"variables": func(n int) string { return container("    env:\n" + many(n, "    - {name: V%d, value: x}\n")) },
		"sources": func(n int) string {
			return container("    envFrom:\n"+many(n, "    - {configMapRef: {name: c}} #%d\n")) + keys(n)
		},
		"prefixes": func(n int) string {
			return container("    envFrom:\n"+many(n, "    - {prefix: P%d, configMapRef: {name: c}}\n")) + keys(n)
		},
		"unknown sources": func(n int) string {
			return container("    envFrom:\n" + many(n, "    - {prefix: P%d, configMapRef: {name: x}}\n"))
		},
		"containers": func(n int) string {
			return container(many(n, "  - {name: c%d, image: i, envFrom: [{configMapRef: {name: c}}]}\n")) + keys(n)
		},
		"init containers": func(n int) string { return container("  initContainers:\n" + many(n, "  - {name: c%d, image: i}\n")) },
		"volumes":         func(n int) string { return container("  volumes:\n" + many(n, "  - {name: v%d, emptyDir: {}}\n")) },
		"limits by name": func(n int) string {
			return container(many(n, "  - {name: c%d, image: i, env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {containerName: app, resource: limits.cpu}}}]}\n"))
		},
		"limit ranges": func(n int) string {
			return container(many(n, "  - {name: c%d, image: i}\n")) + many(n, "---\n{apiVersion: v1, kind: LimitRange, metadata: {name: l%d, namespace: n}, spec: {limits: [{type: Container, max: {cpu: 1}}]}}\n")
		},
		"autoscalers": func(n int) string {
			return container("") + many(n, "---\n{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: v%d, namespace: n}, spec: {targetRef: {kind: Pod, name: p}}}\n")
		},
		"lists": func(n int) string {
			return "apiVersion: v1\nkind: List\nitems:\n" + many(n, "- {apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [{name: a}]}}\n")
		},
		"documents": func(n int) string {
			return many(n, "---\n{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [{name: a}]}}\n")
		},
		"no documents": func(n int) string { return many(100*n, "---\n#%d\n") },
		"a long key": func(n int) string {
			return "apiVersion: x/v1\nkind: X\nspec:\n  ? " + shared + "\n  :\n" + many(n, "  - {a: %d}\n")
		},
		"a long name": func(n int) string {
			return "apiVersion: x/v1\nkind: X\nmetadata: {name: " + shared + "}\nspec:\n  containers:\n" + many(n, "  - {name: c%d, image: i}\n")
		},
		"one long line": func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[` + many(n, `{"name":"c%d","image":"i"},`) + `{}]}}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			small, large := text(500), text(2000)
			a := allocated(func() { read(t, small) })
			b := allocated(func() { read(t, large) })
			// Four times as much of it is at most eight times the work: maps and slices grow by steps.
			if b > 8*a+16<<20 {
				t.Errorf("%d bytes of text ask for %d, and %d for %d", len(small), a, len(large), b)
			}
		})
	}
}

// TestEmptyDocuments keeps nothing of documents that are empty, and says where it stopped reading.
func TestEmptyDocuments(t *testing.T) {
	text := strings.Repeat("---\n", 1<<20) + pod
	var set *Set
	if bytes := allocated(func() { set = read(t, text) }); bytes > uint64(8*len(text)) {
		t.Errorf("%d bytes of markers ask for %d", len(text), bytes)
	}
	if len(set.Workloads) != 1 || set.Workloads[0].At.Line != 1<<20+1 || set.Workloads[0].At.Document != 1<<20-1 && set.Workloads[0].At.Document != 1<<20 {
		t.Errorf("%d workloads, %+v", len(set.Workloads), set.Problems)
	}
	set = read(t, pod+strings.Repeat("---\na: 1\n", mostDocuments))
	if len(set.Workloads) != 1 || len(set.Problems) != 1 || set.Problems[0].Severity != Error || !strings.Contains(set.Problems[0].Text, "more than 100000 documents") {
		t.Errorf("%d workloads, problems %v", len(set.Workloads), set.Problems)
	}
}

// TestLevels nests lists in lists, and refuses what no one writes.
func TestLevels(t *testing.T) {
	const n = 500
	set := read(t, strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, n)+strings.Repeat("]}", n))
	if len(set.Problems) != 1 || set.Problems[0].Severity != Error {
		t.Errorf("problems %v", set.Problems)
	}
	for _, open := range []string{"[", "{a: "} { // whatever is said about it, it ends
		read(t, "kind: "+strings.Repeat(open, 9_000))
	}
}

// TestAliasedText lets aliases stand for one long text many times.
func TestAliasedText(t *testing.T) {
	set := read(t, container("    args:\n    - &x "+strings.Repeat("x", 200_000)+"\n"+strings.Repeat("    - *x\n", 20_000)))
	if len(set.Workloads) != 0 || len(set.Problems) != 1 || !strings.Contains(set.Problems[0].Text, "aliases") {
		t.Errorf("%d workloads, problems %v", len(set.Workloads), set.Problems)
	}
}

// An endless stream always has something to read.
type endless struct{ wait chan struct{} }

func (e endless) Read(p []byte) (int, error) {
	if e.wait != nil {
		<-e.wait
	}
	return len(p), nil
}

// TestStreams reads what does not end.
func TestStreams(t *testing.T) {
	var err error
	if bytes := allocated(func() { _, err = readAll(t.Context(), endless{}, 8<<20) }); !errors.Is(err, errTooLarge) || bytes > 24<<20 {
		t.Errorf("%d bytes, error %v", bytes, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	silent := endless{make(chan struct{})}
	defer close(silent.wait)
	if _, err := readAll(ctx, silent, 1<<10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// FuzzGrowth builds pods from three numbers. What one asks for is bounded by what it has.
func FuzzGrowth(f *testing.F) {
	f.Add(uint16(60), uint16(1), uint16(1))
	f.Add(uint16(3), uint16(300), uint16(20))
	f.Fuzz(func(t *testing.T, depth, wide, length uint16) {
		text := "    env:\n    - {name: V0, value: " + strings.Repeat("x", int(length%500)+1) + "}\n"
		for i := 1; i <= int(depth%300); i++ {
			text += fmt.Sprintf("    - {name: V%d, value: a%s}\n", i, strings.Repeat(fmt.Sprintf("$(V%d)", i-1), int(wide%50)))
		}
		text = container(text + fmt.Sprintf("    - {name: GOMAXPROCS, value: $(V%d)}\n", depth%300))
		if bytes := allocated(func() { read(t, text) }); bytes > uint64(500*len(text)+16<<20) {
			t.Errorf("%d bytes of text ask for %d", len(text), bytes)
		}
	})
}

// TestMostContainers reads as many pods and containers as it looks at, says where it stopped, and says it once.
func TestMostContainers(t *testing.T) {
	const inOne = 20_000 // in an object of less than 4 MiB
	text := container("  initContainers:\n" + strings.Repeat("  - {name: a}\n", inOne-2))
	set := read(t, strings.Repeat("---\n"+text, mostContainers/inOne)+"---\n"+text)
	if len(set.Workloads) != mostContainers/inOne || len(set.Problems) != 1 || set.Problems[0].Severity != Error ||
		set.Problems[0].Text != "more than 200000 pods and containers: those from here on are not looked at" {
		t.Errorf("%d workloads, problems %v", len(set.Workloads), set.Problems)
	}
	for _, w := range set.Workloads {
		if len(w.Pod.Containers) != inOne-1 {
			t.Errorf("%v has %d containers", w, len(w.Pod.Containers))
		}
	}
}
