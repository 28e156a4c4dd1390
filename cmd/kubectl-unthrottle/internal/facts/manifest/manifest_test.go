package manifest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

var update = flag.Bool("update", false, "write the golden parts of testdata/*.txtar")

// TestRead reads the files of each archive in testdata, and compares the facts with its last part. The archive's first line
// has the names that are read; the file called stdin is standard input.
func TestRead(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	for _, name := range archives {
		name, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var stdin []byte
			want := -1
			for i, f := range a.Files {
				switch f.Name {
				case "want":
					want = i
				case "stdin":
					stdin = f.Data
				default:
					path := filepath.Join(dir, f.Name)
					if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, f.Data, 0o666); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Chdir(dir)
			line, _, _ := strings.Cut(string(a.Comment), "\n")
			set, err := Read(t.Context(), Options{Stdin: bytes.NewReader(stdin)}, strings.Fields(line)...)
			if err != nil {
				t.Fatal(err)
			}
			check(t, set)
			got := dump(set)
			if *update {
				if want < 0 {
					a.Files = append(a.Files, txtar.File{Name: "want"})
					want = len(a.Files) - 1
				}
				a.Files[want].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want < 0 || got != string(a.Files[want].Data) {
				t.Errorf("read:\n%s\nUse -update, and look at the difference.", got)
			}
		})
	}
}

func read(t testing.TB, text string) *Set {
	t.Helper()
	set, err := Read(context.Background(), Options{Stdin: strings.NewReader(text)}, "-")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const pod = `apiVersion: v1
kind: Pod
metadata:
  name: é
spec:
  containers:
  - name: app
    image: app:1
    resources: {limits: {cpu: 500m}}
    env:
    - name: GOMAXPROCS
      valueFrom:
        resourceFieldRef: {resource: limits.cpu, divisor: "1m"}
`

// TestPlaces finds nodes in texts that are written in a way of their own. Each is split as a file is, and its last part is read.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[a: b]", "[a: b] a: b a b"},
		{"[a: b, {c: d}, e]", "[a: b, {c: d}, e] a: b a b {c: d} c d e"},
		{"[{a: b}: c]", "[{a: b}: c] {a: b}: c {a: b} a b c"},
		{"[? a : b, [c]: d]", "[? a : b, [c]: d] ? a : b a b [c]: d [c] c d"},
		{"[&x a: &y {b: c}]", "[&x a: &y {b: c}] &x a: &y {b: c} &x a &y {b: c} b c"},
		{"{a: !!str &x}", "{a: !!str &x} a !!str &x"},
		{"{a: [!!str &x, &y !!str ]}", "{a: [!!str &x, &y !!str ]} a [!!str &x, &y !!str ] !!str &x &y !!str"},
		{"x: 1\n...\n\uFEFFa: b\n", "a: b a b"},
		{"x: 1\n...\n\uFEFF---\na: b\n", "a: b a b"},
		{"x: 1\n---\n\uFEFFa: \uFEFFb\n", "\uFEFFa: \uFEFFb \uFEFFa \uFEFFb"},
		{"[\na: \n\n]", "[\na: \n\n] a a "},
		{"! [a]", "! [a] a"},
		{"[! a: ! {}]", "[! a: ! {}] ! a: ! {} ! a ! {}"},
		{"a: b\n? c", "a: b\n? c a b c "},
		{"a: |+\n\u2028b: c\n", "a: |+\n\u2028b: c a |+ b c"},
		{"a: b\u0085\u2028c: d\u2029\re: f", "a: b\u0085\u2028c: d\u2029\re: f a b c d e f"},
	} {
		data := []byte(c.text)
		units, _ := split(data, 0)
		u := units[len(units)-1]
		root, err := parseYAML(data, u.start, u.end)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var got []string
		root.walk(func(n *Node) bool {
			got = append(got, c.text[n.Start:n.End])
			return true
		})
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%q has %q, want %q", c.text, got, c.want)
		}
	}
	if _, err := parseYAML([]byte("x: 1\n...\n\xFF\xFEa\x00"), 9, 13); err == nil || err.Error() != "it is UTF-16" {
		t.Errorf("UTF-16 behind another document: %v", err)
	}
}

// TestStrings asks which plain scalars are strings to kubectl.
func TestStrings(t *testing.T) {
	for text, want := range map[string]bool{
		"a": true, "1": false, "yes": false, "Yes": false, "YES": false, "yEs": true, "oN": true, "off": false, "y": false, "0o17": false, "0o+17": true,
		"-0o_17": false, "null": false, "~": false, "nULL": true, "1e3": false, "true": false, "tRue": true,
	} {
		root, err := parseYAML([]byte(text), 0, len(text))
		if err != nil || root.isString() != want {
			t.Errorf("%s is a string: %v, %v", text, !want, err)
		}
	}
}

// TestColumns counts the characters of one long line of all that a text may have in it, from each byte to each.
func TestColumns(t *testing.T) {
	parts := []string{"a", "é", "\u2028", "𝄞", "\xB3", "\xFF", "\xE2\x80", "\xF0\x9D\x84", "\xED\xA0\x80"}
	var text []byte
	for i := 0; len(text) < 3*block; i++ {
		text = append(text, parts[(i*i+i/7)%len(parts)]...)
	}
	l := newLines(text, 0)
	for _, near := range []int{0, block, 2 * block, len(text) - 9} {
		for to := max(0, near-9); to < near+9; to++ {
			if got, want := l.letters(0, to), utf8.RuneCount(text[:to]); got != want {
				t.Errorf("%d characters before byte %d, want %d", got, to, want)
			}
		}
	}
}

// TestEncodings reads one pod with every kind of line end, mark and indentation.
func TestEncodings(t *testing.T) {
	for _, c := range []struct{ name, text, problem string }{
		{"plain", pod, ""},
		{"CRLF", strings.ReplaceAll(pod, "\n", "\r\n"), ""},
		{"byte order mark", "\uFEFF" + pod, ""},
		{"byte order mark and CRLF", "\uFEFF" + strings.ReplaceAll(pod, "\n", "\r\n"), ""},
		{"byte order mark and marker", "\uFEFF---\n" + pod, ""},
		{"no line end at the end", strings.TrimSuffix(pod, "\n"), ""},
		{"directive", "%YAML 1.1\n---\n" + pod, ""},
		{"comments before", "# one\n\n# two\n---\n" + pod + "...\n", ""},
		{"NEL in a comment", "# one\u0085# two\n" + pod, ""},
		{"line separator", "# one\u2028# two\n" + pod, ""},
		{"tab", strings.ReplaceAll(pod, "    image", "\timage"), "tab"},
		{"UTF-16", "\xFF\xFEa\x00", "UTF-8"},
		{"a zero byte", strings.ReplaceAll(pod, "app:1", "app\x00"), "control characters"},
		{"not UTF-8", strings.ReplaceAll(pod, "é", "\xE9"), "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := read(t, c.text)
			check(t, set)
			if c.problem != "" {
				if len(set.Problems) != 1 || !strings.Contains(set.Problems[0].Text+set.Problems[0].Hint, c.problem) {
					t.Fatalf("problems: %v", set.Problems)
				}
				return
			}
			if len(set.Workloads) != 1 || len(set.Problems) != 0 {
				t.Fatalf("%d workloads, problems %v", len(set.Workloads), set.Problems)
			}
			w := set.Workloads[0]
			v, ok := w.Pod.Containers[0].Var("GOMAXPROCS")
			if !ok || v.Value != "500" || w.Name != "é" {
				t.Errorf("%s has GOMAXPROCS %+v", w, v)
			}
			if text := string(set.Files[0].Data[v.DivisorAt.Offset:v.DivisorAt.End]); text != `"1m"` {
				t.Errorf("the divisor's place has %s", text)
			}
		})
	}
}

// TestLongLists cuts lists into objects, and wants what reading them whole gives.
func TestLongLists(t *testing.T) {
	const objects = 5000
	item := strings.ReplaceAll(strings.TrimSuffix(pod, "\n"), "\n", "\n  ")
	var yamlText, indented, jsonText strings.Builder
	yamlText.WriteString("apiVersion: v1\nitems:\n")
	indented.WriteString("apiVersion: v1\nkind: PodList\nitems:\n")
	jsonText.WriteString(`{"apiVersion": "v1", "items": [`)
	for i := range objects {
		object := strings.ReplaceAll(item, "name: é", fmt.Sprintf("name: é%d", i))
		fmt.Fprintf(&yamlText, "- %s\n", object)
		fmt.Fprintf(&indented, "  - %s\n", strings.ReplaceAll(object, "\n", "\n  "))
		if i > 0 {
			jsonText.WriteString(", ")
		}
		fmt.Fprintf(&jsonText, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "é%d"}, "padding": %q, "spec": {"containers": [{"name": "app", "image": "a\n", "env": [{"name": "GOMAXPROCS", "value": "7"}]}]}}`, i, strings.Repeat("x", 300))
	}
	typed := strings.ReplaceAll(strings.ReplaceAll(indented.String(), "  - apiVersion: v1\n    kind: Pod\n    metadata:", "  - metadata:"), "    env:", "    env: # one")
	yamlText.WriteString("kind: List\nmetadata:\n  resourceVersion: \"\"\n")
	jsonText.WriteString(`], "kind": "List"}`)
	for name, text := range map[string]string{"kubectl": yamlText.String(), "indented": indented.String(), "typed": typed, "JSON": jsonText.String()} {
		t.Run(name, func(t *testing.T) {
			if len(text) <= smallList {
				t.Fatalf("the list has %d bytes and is not cut", len(text))
			}
			whole := read(t, text)
			cut, err := Read(t.Context(), Options{Stdin: strings.NewReader(text), MaxObject: 1000}, "-")
			if err != nil {
				t.Fatal(err)
			}
			if len(whole.Workloads) != objects || len(whole.Problems) > 0 {
				t.Fatalf("%d workloads, problems %v", len(whole.Workloads), whole.Problems)
			}
			if dump(whole) != dump(cut) {
				t.Error("a smaller bound for objects changes what is read")
			}
			last := whole.Workloads[objects-1]
			if last.At.Path != fmt.Sprintf("items[%d]", objects-1) || last.Name != fmt.Sprintf("é%d", objects-1) {
				t.Errorf("the last one is %s at %s", last, last.At.Path)
			}
			for _, i := range []int{0, 1, objects / 2, objects - 1} {
				one := &Set{Files: whole.Files, Workloads: whole.Workloads[i : i+1]}
				check(t, one)
			}
		})
	}
}

// TestBounds reads what is made to exhaust a reader.
func TestBounds(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("apiVersion: v1\nkind: Pod\na0: &a0 [x, x]\n")
	var merge strings.Builder
	merge.WriteString("apiVersion: v1\nkind: Pod\na0: &a0 {x: y}\n")
	for i := range 60 {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
		fmt.Fprintf(&merge, "a%d: &a%d {<<: [*a%d, *a%d]}\n", i+1, i+1, i, i)
	}
	merge.WriteString("spec: *a60\n")
	for _, c := range []struct{ name, text, problem string }{
		{"alias bomb", bomb.String(), "aliases stand for more than"},
		{"merge bomb", merge.String(), "aliases stand for more than"},
		{"circle", "apiVersion: v1\nkind: Pod\nspec: &a {b: *a}\n", "a part of"},
		{"unknown alias", "apiVersion: v1\nkind: Pod\nspec: *a\n", "unknown anchor"},
		{"large object", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: " + strings.Repeat("x", 5<<20), "more than 4 MiB"},
		{"deep flow", "apiVersion: v1\nkind: Pod\nspec: " + strings.Repeat("[", 100_000), "depth"},
		{"deep JSON", `{"apiVersion": "v1", "spec": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", "depth"},
		{"JSON cut off", `{"apiVersion": "v1", "kind": "Pod"}{"apiVersion": "v1", `, "double quotes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := read(t, c.text)
			if len(set.Problems) == 0 || !strings.Contains(set.Problems[0].Text, c.problem) {
				t.Errorf("problems: %v", set.Problems)
			}
		})
	}
	t.Run("large file", func(t *testing.T) {
		set, err := Read(t.Context(), Options{Stdin: strings.NewReader(pod), MaxBytes: 10}, "-")
		if err != nil || len(set.Problems) != 1 || !strings.Contains(set.Problems[0].Text, "more than") {
			t.Errorf("%v, problems %v", err, set.Problems)
		}
	})
	t.Run("many duplicates", func(t *testing.T) {
		set := read(t, pod+strings.Repeat("x: 1\n", 1000))
		const want = `the key "x" is repeated in line 14; and 998 more like this, the next in lines 16, 17 and 18`
		if len(set.Problems) != 1 || set.Problems[0].Text != want || set.Problems[0].At.Line != 15 || len(set.Workloads) != 1 {
			t.Errorf("%+v, %d workloads", set.Problems, len(set.Workloads))
		}
	})
}

// TestFiles walks directories with links, and names that can't be read.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, d := range []string{"a/b", "a/.hidden", "a/node_modules/x", "elsewhere"} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a/one.yaml", "a/b/two.yml", "a/.hidden/no.yaml", "a/.no.yaml", "a/node_modules/x/no.yaml", "elsewhere/three.yaml", "a/no.txt"} {
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(pod, "é", filepath.Base(name))), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for to, link := range map[string]string{"a/b/up": "..", "a/b/again.yaml": "../one.yaml", "a/away": "../elsewhere", "a/nowhere.yaml": "missing"} {
		if err := os.Symlink(link, to); err != nil {
			if runtime.GOOS == "windows" {
				t.Skip("no symbolic links here: ", err)
			}
			t.Fatal(err)
		}
	}
	set, err := Read(t.Context(), Options{}, "a", "a/one.yaml", "missing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range set.Workloads {
		names = append(names, w.Name)
	}
	if got := strings.Join(names, " "); got != "one.yaml two.yml" && got != "two.yml one.yaml" {
		t.Errorf("read %s", got)
	}
	p := set.Problems
	if len(p) != 2 || p[0].At.File != filepath.Join("a", "away") || p[0].Severity != Note || p[1].At.File != "missing.yaml" || p[1].Severity != Error {
		t.Errorf("problems %v", p)
	}
	if set, err = Read(t.Context(), Options{}, "a/away"); err != nil || len(set.Workloads) != 1 || set.Workloads[0].Name != "three.yaml" {
		t.Errorf("a link that is named: %v, %v", set, err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, Options{Stdin: strings.NewReader(pod)}, "-"); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

// TestTree finds values again by their places.
func TestTree(t *testing.T) {
	set := read(t, pod+"---\n"+pod)
	f := set.Files[0]
	for _, w := range set.Workloads {
		root, err := f.Tree(w.At)
		if err != nil || root.Start != w.At.Offset || root.End != w.At.End {
			t.Errorf("%v: %v", w.At, err)
		}
	}
	if _, err := f.Tree(workload.Position{Offset: len(f.Data)}); err == nil {
		t.Error("something stands after the end")
	}
}

func BenchmarkRead(b *testing.B) {
	const objects = 10_000
	var text strings.Builder
	for i := range objects {
		text.WriteString("---\n" + strings.ReplaceAll(pod, "name: é", fmt.Sprintf("name: p%d", i)))
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if set := read(b, text.String()); len(set.Workloads) != objects {
			b.Fatal(len(set.Workloads))
		}
	}
}
