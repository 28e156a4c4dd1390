package fix

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// check checks what holds for every text: the bytes outside of the edits are the same, the result is read without new problems, the
// workloads are the same but for the variables that were decided about, a second run changes nothing, and lint finds nothing about
// the variables that were changed except that something changes the limit they use.
func check(t testing.TB, in, out []byte, p *Plan, k lint.Known) {
	t.Helper()
	before, after := read(t, in), read(t, out)
	if len(before.Workloads) != len(after.Workloads) {
		t.Fatalf("%d workloads, then %d", len(before.Workloads), len(after.Workloads))
	}
	if n, m := count(before.Problems), count(after.Problems); m > n {
		t.Errorf("%d problems, then %d: %+v", n, m, after.Problems)
	}
	changed := map[string]bool{}
	lines := 0
	for _, d := range p.Decisions {
		if !d.Changes() {
			continue
		}
		changed[d.Finding.Workload+"\x00"+d.Finding.Container+"\x00"+d.Remedy.Variable] = true
		lines++
	}
	if (lines == 0) != bytes.Equal(in, out) {
		t.Errorf("%d changes, and the same text: %t", lines, bytes.Equal(in, out))
	}
	for i, w := range before.Workloads {
		a, b := named(w, changed), named(after.Workloads[i], changed)
		if a != b {
			t.Errorf("before\n%s\nafter\n%s\n%s", a, b, out)
		}
	}
	written := map[string]bool{}
	of := func(at int, container, variable string) string {
		return fmt.Sprint(at, "\x00", container, "\x00", variable)
	}
	for _, d := range p.Decisions {
		for i, w := range before.Workloads { // several may have one name
			if at := d.Finding.At.Offset; d.Changes() && w.At.Offset <= at && at < w.At.End {
				written[of(i, d.Finding.Container, d.Remedy.Variable)] = true
			}
		}
	}
	for i, w := range after.Workloads {
		found, err := lint.Check(t.Context(), w, k)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if written[of(i, f.Container, f.Variable)] && !(f.Rule == "K004" && f.Severity == finding.Warning) {
				t.Errorf("lint finds in what fix wrote: %s %s, container %s: %s\n%s", f.Rule, f.Workload, f.Container, f.Summary, out)
			}
		}
	}
	again, q := fixed(t, out, k)
	if !bytes.Equal(again, out) {
		t.Errorf("the second run changes\n%s\nto\n%s\n%s", out, again, decisions(q))
	}
	if len(p.Files) > 0 {
		if patched := patch(t, in, p.Files[0].Diff()); !bytes.Equal(patched, out) {
			t.Errorf("the diff makes\n%s\nof\n%s\n%s", patched, in, p.Files[0].Diff())
		}
	}
}

func count(problems []manifest.Problem) (n int) {
	for _, p := range problems {
		if p.Severity != manifest.Note {
			n++
		}
	}
	return n
}

// named is what a workload says, without the variables that change.
func named(w *workload.Workload, changed map[string]bool) string {
	c := facts(w)
	for i := range c.Pod.Containers {
		env := &c.Pod.Containers[i]
		env.Env = slices.DeleteFunc(env.Env, func(v workload.Variable) bool {
			return changed[w.String()+"\x00"+env.Name+"\x00"+v.Name]
		})
	}
	return fmt.Sprintf("%+v", *c)
}

// patch applies a unified diff, and holds it to what the text is.
func patch(t testing.TB, in []byte, diff string) []byte {
	t.Helper()
	old := splitLines(in)
	var out []string
	at := 0
	lines := strings.SplitAfter(diff, "\n")
	for i := 2; i < len(lines) && lines[i] != ""; i++ {
		line := lines[i]
		text := line[1:]
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\\ ") {
			text = strings.TrimSuffix(text, "\n")
		}
		switch line[0] {
		case '@':
			var from int
			fmt.Sscanf(line, "@@ -%d", &from)
			if !strings.Contains(strings.Fields(line)[1], ",0") {
				from--
			}
			if from < at {
				t.Fatalf("%s goes back", line)
			}
			out, at = append(out, old[at:from]...), from
		case ' ', '-':
			if at >= len(old) || old[at] != text {
				t.Fatalf("line %d is not %q", at+1, text)
			}
			if at++; line[0] == ' ' {
				out = append(out, text)
			}
		case '+':
			out = append(out, text)
		case '\\':
		default:
			t.Fatalf("odd line %q", line)
		}
	}
	return []byte(strings.Join(append(out, old[at:]...), ""))
}

// untouched says whether all that must not be touched comes out as written, and in its order. That holds for what the writer below makes,
// and not for every text: a removed entry takes with it what someone wrote into it.
func untouched(in, out []byte) bool {
	rest := out
	for line := range bytes.Lines(in) {
		i := bytes.Index(line, []byte("untouched:"))
		if i < 0 {
			continue
		}
		at := bytes.Index(rest, bytes.TrimRight(line[i:], "\r\n"))
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// A writer writes manifests at random, in the styles that people have.
type writer struct {
	*rand.Rand
	b     strings.Builder
	valid bool // it is an object that an API server may take
	names map[string]bool
}

func (w *writer) pick(list ...string) string { return list[w.IntN(len(list))] }
func (w *writer) maybe(n int) bool           { return w.IntN(n) == 0 }

func (w *writer) comment(indent string) {
	if w.maybe(5) {
		w.b.WriteString(w.pick("", "\n", indent, indent+"  ", "") + w.pick("# a comment", "# - name: OLD", "#", "# unthrottle:ignore K004 why") + "\n")
	}
}

func (w *writer) tail() string { return w.pick("", "", "", " # it says", "  ") }

// entry is the pairs of a variable, as a block's lines or in brackets.
func (w *writer) entry() (pairs [][2]string) {
	name := w.pick("GOMAXPROCS", "GOMAXPROCS", "GODEBUG", "GOMEMLIMIT", "A", "B", "GOGC")
	for w.valid && w.names[name] {
		name = w.pick("GOMAXPROCS", "GODEBUG", "GOMEMLIMIT", "A", "B", "GOGC")
	}
	if w.names != nil {
		w.names[name] = true
	}
	value := map[string][]string{
		"GOMAXPROCS": {`"8"`, `'1'`, `"500m"`, `"2"`, `""`, "$(N)", `"64"`}, "GODEBUG": {`containermaxprocs=0`, `"updatemaxprocs=0"`, `'x=1'`},
		"GOMEMLIMIT": {"1GiB"}, "A": {"a", `"untouched"`}, "B": {"b", "$(GOMAXPROCS)", "|-\n{indent}  text\n{indent}  more"}, "GOGC": {`"50"`},
	}[name]
	switch {
	case strings.HasPrefix(name, "GOM") && w.maybe(2):
		resource := w.pick("limits.cpu", "limits.cpu", "requests.cpu")
		if name == "GOMEMLIMIT" {
			resource = "limits.memory"
		}
		return [][2]string{{"name", name}, {"ref", resource + " " + w.pick("", "1m", `"1"`, "1Mi", `"0"`, "1m") + " " + w.pick("", "", "a", "b")}}
	default:
		pairs = [][2]string{{"name", name}, {"value", w.pick(value...)}}
	}
	if w.maybe(6) {
		slices.Reverse(pairs)
	}
	return pairs
}

func (w *writer) env(indent string) {
	n := w.IntN(4)
	w.names = map[string]bool{}
	if n == 0 {
		w.b.WriteString(w.pick("", "", indent+"env: []\n", indent+"env:\n"))
		return
	}
	if w.maybe(3) { // in brackets
		var items []string
		for range n {
			var parts []string
			for _, p := range w.entry() {
				switch {
				case p[0] == "ref":
					f := strings.Split(p[1], " ")
					ref := "resource: " + f[0]
					if f[1] != "" {
						ref += ", divisor: " + f[1]
					}
					if f[2] != "" {
						ref += ", containerName: " + f[2]
					}
					parts = append(parts, "valueFrom: {resourceFieldRef: {"+ref+"}}")
				case strings.HasPrefix(p[1], "|"):
					parts = append(parts, "value: text")
				default:
					parts = append(parts, p[0]+": "+p[1])
				}
			}
			items = append(items, "{"+strings.Join(parts, w.pick(", ", ",", " , "))+"}")
		}
		comma := w.pick(", ", ",", ",\n"+indent+"  ")
		w.b.WriteString(indent + "env: [" + w.pick("", " ", "\n"+indent+"  ") + strings.Join(items, comma) + w.pick("", " ", ",") + "]" + w.tail() + "\n")
		return
	}
	w.b.WriteString(indent + "env:" + w.tail() + "\n")
	in := indent + w.pick("", "  ", "    ")
	for range n {
		w.comment(in)
		first := true
		for _, p := range w.entry() {
			lead := in + "  "
			if first {
				lead = in + "- "
			}
			if first && w.maybe(9) {
				lead = in + "-\n" + in + "  "
			}
			if first && w.maybe(20) {
				lead = in + "- &anchor\n" + in + "  "
			}
			first = false
			if p[0] == "ref" {
				f := strings.Split(p[1], " ")
				w.b.WriteString(lead + "valueFrom:\n" + in + "    resourceFieldRef:\n")
				if f[2] != "" {
					w.b.WriteString(in + "      containerName: " + f[2] + "\n")
				}
				w.b.WriteString(in + "      resource: " + f[0] + w.tail() + "\n")
				if f[1] != "" {
					w.b.WriteString(in + "      divisor: " + f[1] + w.tail() + "\n")
				}
				continue
			}
			w.b.WriteString(lead + p[0] + ": " + strings.ReplaceAll(p[1], "{indent}", in+"  ") + w.pick("", w.tail()) + "\n")
		}
		w.comment(in + "  ")
	}
}

func (w *writer) container(name, in string) {
	w.comment(in)
	indent := in + "  "
	parts := []func(){
		func() { w.b.WriteString(indent + "name: " + name + w.tail() + "\n") },
		func() { w.b.WriteString(indent + "image: example.com/" + name + "\n") },
		func() { w.env(indent) },
		func() {
			if !w.maybe(4) {
				w.b.WriteString(indent + "resources:\n" + indent + "  limits: {cpu: " + w.pick("250m", `"1"`, "2", "1500m") + ", memory: 1Gi}\n")
			}
		},
	}
	if !w.valid {
		parts = append(parts, func() { w.b.WriteString(indent + "untouched: {a: 1}   # as it is\n") })
	}
	if w.maybe(2) {
		w.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	}
	start := w.b.Len()
	for _, p := range parts {
		p()
	}
	// The first line of the item gets its dash.
	text := w.b.String()
	head, body := text[:start], text[start:]
	w.b.Reset()
	if line := strings.Index(body, indent); line >= 0 && strings.HasPrefix(body, indent) {
		body = in + "- " + strings.TrimPrefix(body, indent)
	}
	w.b.WriteString(head + body)
}

func (w *writer) document() {
	w.b.WriteString("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api}\nspec:\n")
	if w.valid {
		w.b.WriteString("  selector: {matchLabels: {app: api}}\n  template:\n    metadata: {labels: {app: api}}\n    spec:\n      containers:\n")
	} else {
		w.b.WriteString("  untouched: 1\n  template:\n    spec:\n      containers:\n")
	}
	in := "      " + w.pick("", "  ")
	w.container("a", in)
	if w.maybe(2) {
		w.container("b", in)
	}
	w.comment("      ")
	if !w.valid && w.maybe(2) {
		w.b.WriteString("      untouched:   [1,2]\n")
	}
}

func random(seed uint64) []byte {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range 1 + w.IntN(2) {
		if i > 0 {
			w.b.WriteString("---\n")
		}
		w.document()
	}
	text := w.b.String()
	if w.maybe(5) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if w.maybe(5) {
		text = strings.TrimRight(text, "\r\n")
	}
	return []byte(text)
}

func TestRandomManifests(t *testing.T) {
	changes, kept, failed := 0, 0, 0
	left := map[string]int{}
	for seed := range uint64(4000) {
		in := random(seed)
		k := known(t, []string{"", "1.24", "1.26"}[seed%3])
		out, p := fixed(t, in, k)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			check(t, in, out, p, k)
			if !untouched(in, out) {
				t.Errorf("lines are in another order\n%s\nthen\n%s", in, out)
			}
			if t.Failed() {
				t.Logf("%s%s", in, decisions(p))
				failed++
			}
		})
		if failed == 5 {
			t.FailNow()
		}
		for _, d := range p.Decisions {
			if d.Changes() {
				changes++
			} else if d.Remedy.Why == errBack.Error() {
				kept++
				if kept < 4 {
					t.Logf("seed %d does not read back:\n%s", seed, in)
				}
			} else {
				left[d.Remedy.Why]++
			}
		}
	}
	t.Logf("%d changes, %d do not read back, others left: %v", changes, kept, left)
	if changes < 2000 || kept > changes/100 {
		t.Errorf("%d changes, and %d that do not read back", changes, kept)
	}
}

// FuzzFix changes any text.
func FuzzFix(f *testing.F) {
	_, files := cases(f)
	for name, data := range files {
		if strings.Contains(name, "/in.") {
			f.Add(bytesOf(data), uint8(len(name)))
		}
	}
	for seed := range uint64(20) {
		f.Add(random(seed), uint8(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte, version uint8) {
		k := known(t, []string{"", "1.24", "1.26"}[version%3])
		out, p := fixed(t, in, k)
		check(t, in, out, p, k)
		p.Strategic()
		p.JSON6902()
		p.Kustomize()
	})
}
