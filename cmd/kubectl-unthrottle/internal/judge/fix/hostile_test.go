package fix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// deadline is for work that took minutes when it grew with the square of what is there, and takes some seconds.
const deadline = 60 * time.Second

const entry = `{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}`

// large are files with n changes.
var large = map[string]func(n int) string{
	"containers": func(n int) string {
		var b strings.Builder
		b.WriteString("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      containers:\n")
		for i := range n {
			fmt.Fprintf(&b, "      - name: c%d\n        image: example.com/a\n        resources: {limits: {cpu: 2}}\n        env:\n        - %s\n", i, entry)
		}
		return b.String()
	},
	"containers on a line": func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("{name: c%d, image: example.com/a, resources: {limits: {cpu: 2}}, env: [%s]}", i, entry))
		}
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [" + strings.Join(all, ", ") + "]}}}}\n"
	},
	"items": func(n int) string {
		var b strings.Builder
		b.WriteString("apiVersion: v1\nkind: List\nitems:\n")
		for i := range n {
			fmt.Fprintf(&b, "- apiVersion: v1\n  kind: Pod\n  metadata: {name: p%d}\n  spec:\n    containers:\n    - name: c\n      image: example.com/a\n      resources: {limits: {cpu: 2}}\n      env: [%s]\n", i, entry)
		}
		return b.String()
	},
	"documents": func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "---\n# Source: chart/templates/a.yaml\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec:\n  containers:\n  - name: c\n    image: example.com/a\n    resources: {limits: {cpu: 2}}\n    env: [%s]\n", i, entry)
		}
		return b.String()
	},
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// all makes a plan, and all that is made of plans.
func all(t *testing.T, ctx context.Context, text string, n int) {
	t.Helper()
	p, err := Make(ctx, read(t, []byte(text)), lint.Known{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range p.Decisions {
		if !d.Changes() {
			t.Fatalf("one of %d changes is not made: %s", n, d.Remedy.Why)
		}
		p.TemplateOf(d)
	}
	if len(p.Decisions) != n {
		t.Fatalf("%d decisions about %d", len(p.Decisions), n)
	}
	p.Strategic()
	p.JSON6902()
	p.Kustomize()
	if p.Files[0].Diff() == "" {
		t.Fatal("nothing changes")
	}
}

// TestLinear: what a file costs grows as it does, in bytes and, where nothing is allocated, in time.
func TestLinear(t *testing.T) {
	for name, text := range large {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) uint64 {
				in := text(n)
				return allocated(func() { all(t, t.Context(), in, n) })
			}
			once, twice, four := cost(500), cost(1000), cost(2000)
			if 2*twice > 5*once || four > 5*once {
				t.Errorf("500, 1,000 and 2,000 ask for %d, %d and %d bytes", once, twice, four)
			}
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			in := text(4000)
			if all(t, ctx, in, 4000); ctx.Err() != nil {
				t.Errorf("4,000 take longer than %s", deadline)
			}
		})
	}
}

// TestDoublings: values that are put into values are too long to be made, and nothing is found, foretold or changed by them.
func TestDoublings(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    image: example.com/a\n    resources: {limits: {cpu: 2}}\n    env:\n    - {name: V0, value: \"1\"}\n")
	for i := 1; i <= 60; i++ {
		fmt.Fprintf(&b, "    - {name: V%d, value: $(V%d)$(V%d)}\n", i, i-1, i-1)
	}
	b.WriteString("    - {name: GOMAXPROCS, value: $(V60)}\n")
	in := []byte(b.String())
	const most = 32 << 20 // the values would have an exabyte; all of this takes some two megabytes
	bytesOf := allocated(func() {
		w := read(t, in).Workloads[0]
		found, err := lint.Check(t.Context(), w, lint.Known{})
		if err != nil || len(found) != 0 {
			t.Errorf("found %+v, %v", found, err)
		}
		for _, nodes := range [][]int{nil, {4, 64}} {
			f := forecast.Of(w, &w.Pod.Containers[0], known(t, "1.26").Of(w, &w.Pod.Containers[0]), nodes)
			if f.Setting.State != workload.Unknown || f.Setting.Valid() {
				t.Errorf("the setting is %+v", f.Setting)
			}
			for _, line := range f.Lines {
				if line.Wrong || line.Procs != 0 || !strings.Contains(line.Why, "not known") {
					t.Errorf("foretold %+v", line)
				}
			}
		}
		out, p := fixed(t, in, lint.Known{})
		if !bytes.Equal(out, in) || len(p.Decisions) != 0 {
			t.Errorf("decided\n%s", decisions(p))
		}
	})
	if bytesOf > most {
		t.Errorf("60 doublings ask for %d bytes", bytesOf)
	}
}

// counted is a context that ends when it has been looked at so often.
type counted struct {
	context.Context
	looks int
}

func (c *counted) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestEnds: a context ends the work on a large object, wherever it is.
func TestEnds(t *testing.T) {
	set := read(t, []byte(large["containers"](50)))
	whole := &counted{t.Context(), 1 << 30}
	if _, err := Make(whole, set, lint.Known{}); err != nil {
		t.Fatal(err)
	}
	looks := 1<<30 - whole.looks
	if looks < 100 {
		t.Errorf("the context is looked at %d times for 50 containers", looks)
	}
	for n := range looks {
		if p, err := Make(&counted{t.Context(), n}, set, lint.Known{}); !errors.Is(err, context.Canceled) && n < looks-1 {
			t.Errorf("after %d of %d looks: %v, %v", n, looks, p, err)
		}
	}
}

// TestMost: more changes than are made together, or more findings than are reported together, are an error that says so.
func TestMost(t *testing.T) {
	for want, test := range map[string]struct{ old, new string }{
		"more than 20000 changes":   {},
		"more than 100000 findings": {entry, `{name: GOMAXPROCS, value: "2"}`}, // what is right depends on the program: nothing is changed
	} {
		set := read(t, []byte(strings.ReplaceAll(large["containers"](1000), test.old, test.new)))
		set.Workloads = slices.Repeat(set.Workloads, 101)
		if p, err := Make(t.Context(), set, lint.Known{}); err == nil || err.Error() != want {
			t.Errorf("want %q: %v, %v", want, p, err)
		}
	}
}
