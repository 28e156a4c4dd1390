package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

func known(v float64) workload.Amount { return workload.Amount{State: workload.Known, Value: v} }

func deployment(c workload.Container) *workload.Workload {
	c.Name = "app"
	return &workload.Workload{Kind: "Deployment", Name: "api", Pod: workload.Pod{Containers: []workload.Container{c}}}
}

func literal(name, value string) workload.Variable {
	return workload.Variable{Name: name, Form: workload.Literal, Value: value, State: workload.Known}
}

func ref(resource, divisor string) workload.Variable {
	return workload.Variable{Name: "GOMAXPROCS", Form: workload.ResourceRef, Resource: resource, Divisor: divisor}
}

// TestOf: each line is what the kinds have, in their order: Go 1.24, 1.25, 1.26, automaxprocs, unthrottle. "!" is wrong, "all" all
// CPUs of the node, "?" not known.
func TestOf(t *testing.T) {
	open := workload.Amount{State: workload.Unknown, Unknown: "a template"}
	for _, c := range []struct {
		name   string
		w      *workload.Workload
		change func(*workload.Workload)
		nodes  []int
		want   string
	}{
		{"a limit", deployment(workload.Container{Limit: known(2.5)}), nil, nil, "all! 3 3 2 3"},
		{"a limit on two nodes", deployment(workload.Container{Limit: known(2.5)}), nil, []int{2, 8}, "2/all 2/all 2/all 2/all 2/all 8/all! 3 3 2 3"},
		{"half a CPU", deployment(workload.Container{Limit: known(0.5)}), nil, []int{8}, "8/all! 2 2 1 2"},
		{"no limit", deployment(workload.Container{}), nil, nil, "all all all all all"},
		{"no limit on a node", deployment(workload.Container{}), nil, []int{8}, "8/all 8/all 8/all 8/all 8/all"},
		{"a limit of 0 is none", deployment(workload.Container{Limit: known(0)}), nil, []int{8}, "8/all 8/all 8/all 8/all 8/all"},
		{"a limit that is not known", deployment(workload.Container{Limit: open}), nil, []int{8}, "? ? ? ? ?"},
		{"the pod's", deployment(workload.Container{}), func(w *workload.Workload) { w.Pod.Limit = known(1.5) }, []int{8}, "8/all! 2 2 1 2"},
		{"its own before the pod's", deployment(workload.Container{Limit: known(3)}), func(w *workload.Workload) { w.Pod.Limit = known(4) }, []int{8}, "8/all! 3 3 3 3"},
		{"a LimitRange before the pod's", deployment(workload.Container{}), func(w *workload.Workload) {
			w.Pod.Limit, w.Around.Default = known(4), known(3)
		}, []int{8}, "8/all! 3 3 3 3"},
		{"a LimitRange's max", deployment(workload.Container{}), func(w *workload.Workload) { w.Around.LimitMax = known(3) }, []int{8}, "8/all! 3 3 3 3"},
		{"a number", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{literal("GOMAXPROCS", "2")}}), nil, []int{8}, "2 2 2 2 2"},
		{"too large a number", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{literal("GOMAXPROCS", "8")}}), nil, []int{64}, "8! 8! 8! 8! 8!"},
		{"a number, limit not known", deployment(workload.Container{Limit: open, Env: []workload.Variable{literal("GOMAXPROCS", "8")}}), nil, nil, "8 8 8 8 8"},
		{"what Go ignores", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{literal("GOMAXPROCS", "500m")}}), nil, []int{8}, "8/all! 2 2 8/all! 2"},
		{"from the limit", deployment(workload.Container{Limit: known(2.5), Env: []workload.Variable{ref("limits.cpu", "")}}), nil, []int{8}, "3 3 3 3 3"},
		{"in thousandths", deployment(workload.Container{Limit: known(0.25), Env: []workload.Variable{ref("limits.cpu", "1m")}}), nil, []int{8}, "250! 250! 250! 250! 250!"},
		{"from the pod's limit", deployment(workload.Container{Env: []workload.Variable{ref("limits.cpu", "1")}}), func(w *workload.Workload) { w.Pod.Limit = known(1.5) }, []int{8}, "2 2 2 2 2"},
		{"from no limit", deployment(workload.Container{Env: []workload.Variable{ref("limits.cpu", "1")}}), nil, []int{0, 8}, "all all all all all 8/all 8/all 8/all 8/all 8/all"},
		{"from no limit in thousandths", deployment(workload.Container{Env: []workload.Variable{ref("limits.cpu", "1m")}}), nil, []int{8}, "8000! 8000! 8000! 8000! 8000!"},
		{"from a request", deployment(workload.Container{Request: known(1.2), Env: []workload.Variable{ref("requests.cpu", "1")}}), nil, []int{8}, "2 2 2 2 2"},
		{"from no request", deployment(workload.Container{Limit: known(3), Env: []workload.Variable{ref("requests.cpu", "1")}}), nil, []int{8}, "8/all! 3 3 8/all! 3"},
		{"from a ConfigMap that is not known", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{{Name: "GOMAXPROCS", Form: workload.ConfigMap, State: workload.Unknown}}}), nil, nil, "? ? ? ? ?"},
		{"an optional key that is not there", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{{Name: "GOMAXPROCS", Form: workload.ConfigMap}}}), nil, []int{8}, "8/all! 2 2 2 2"},
		{"perhaps from a ConfigMap", deployment(workload.Container{Limit: known(2), EnvFrom: []workload.Source{{Kind: "ConfigMap", Name: "a"}}}), nil, nil, "? ? ? ? ?"},
		{"not from a ConfigMap with a prefix", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{literal("GODEBUG", "")}, EnvFrom: []workload.Source{{Prefix: "X_"}}}), nil, nil, "all! 2 2 2 2"},
		{"the command", deployment(workload.Container{Limit: known(2), Args: []string{"GOMAXPROCS=3 app"}}), nil, nil, "? ? ? ? ?"},
		{"the variable as an argument", deployment(workload.Container{Limit: known(2), Args: []string{"-procs=$(GOMAXPROCS)"}}), nil, []int{8}, "8/all! 2 2 2 2"},
		{"GODEBUG", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{literal("GODEBUG", "containermaxprocs=0")}}), nil, []int{8}, "8/all! 8/all! 8/all! 2 2"},
		{"GODEBUG against the go line", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{literal("GODEBUG", "containermaxprocs=1")}}), nil, []int{8}, "2 2 2 2 2"},
		{"GODEBUG that is not known", deployment(workload.Container{Limit: known(2), Env: []workload.Variable{{Name: "GODEBUG", State: workload.Unknown}}}), nil, nil, "? ? ? ? ?"},
	} {
		if c.change != nil {
			c.change(c.w)
		}
		got := text(t, Of(c.w, &c.w.Pod.Containers[0], binary.Binary{}, c.nodes))
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func text(t *testing.T, f Forecast) string {
	t.Helper()
	var words []string
	for _, l := range f.Lines {
		word := "?"
		switch {
		case l.All && l.Node == 0:
			word = "all"
		case l.All:
			word = fmt.Sprintf("%d/all", l.Procs)
		case l.Procs > 0:
			word = fmt.Sprint(l.Procs)
		}
		if l.Wrong {
			word += "!"
		}
		words = append(words, word)
		if strings.Contains(l.Why, "1048576") { // which stands for all
			t.Errorf("%q", l.Why)
		}
		if l.Why == "" || l.Wrong != (l.Fix != "") || l.Wrong && l.Procs == l.Right && l.Procs > 0 {
			t.Errorf("%+v", l)
		}
	}
	return strings.Join(words, " ")
}

// TestSees: the limit that a kind uses is the one it reads, even where its number is that of the CPUs.
func TestSees(t *testing.T) {
	var got []float64
	for _, l := range Of(deployment(workload.Container{Limit: known(1)}), &workload.Container{Name: "app", Limit: known(1)}, binary.Binary{}, []int{2}).Lines {
		got = append(got, l.Sees)
	}
	if want := []float64{0, 1, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestKnownBinary(t *testing.T) {
	w := deployment(workload.Container{Limit: known(2)})
	for _, c := range []struct {
		b    binary.Binary
		want string
	}{
		{binary.Binary{Known: true}, ""},
		{binary.Binary{Known: true, Program: &procs.Program{GoVersion: "go1.23.4"}}, "8/all!"},
		{binary.Binary{Known: true, Program: &procs.Program{GoVersion: "go1.25.0"}}, "2"},
		{binary.Binary{Known: true, Program: &procs.Program{GoVersion: "devel"}}, "?"},
		{binary.Binary{Known: true, Program: &procs.Program{GoVersion: "go1.23.4"}, Called: true}, "?"},
		{binary.Binary{Known: true, Program: &procs.Program{GoVersion: "go1.23.4"}, Env: []binary.Variable{{Name: "GOMAXPROCS", Value: "3"}}}, "3"},
		{binary.Binary{Known: true, Program: &procs.Program{GoVersion: "go1.25.0"}, Env: []binary.Variable{{Name: "GODEBUG", Value: "containermaxprocs=0"}}}, "8/all!"},
	} {
		if got := text(t, Of(w, &w.Pod.Containers[0], c.b, []int{8})); got != c.want {
			t.Errorf("%v: got %q, want %q", c.b, got, c.want)
		}
	}
}

// A pod's limit is each container's own, to the extent that its cgroup says so.
func TestLimitWords(t *testing.T) {
	for want, l := range map[string]Limit{
		"no CPU limit":                                {},
		"a limit of 1 CPU":                            {State: workload.Known, CPUs: 1, Of: OfContainer},
		"the pod's limit of 0.5 CPUs":                 {State: workload.Known, CPUs: 0.5, Of: OfPod},
		"the LimitRange's default limit of 2 CPUs":    {State: workload.Known, CPUs: 2, Of: OfNamespace},
		"a limit that is not known: it is a template": {State: workload.Unknown, Unknown: "it is a template"},
	} {
		if got := l.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMemoryDivisor(t *testing.T) {
	for text, want := range map[string]float64{"": 1, "0": 1, "1": 1, "1k": 1000, "1Mi": 1 << 20, "1G": 1e9, "1Ei": 1 << 60, "2Mi": 0, "x": 0} {
		if got := MemoryDivisor(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
