package manifest

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"k8s.io/apimachinery/pkg/api/resource"
	kubectl "sigs.k8s.io/yaml"
)

// seeds are all files of the tables in testdata.
func seeds(t testing.TB) [][]byte {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	var list [][]byte
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if f.Name != "want" {
				list = append(list, f.Data)
			}
		}
	}
	return append(list, []byte("\uFEFF"+strings.ReplaceAll(pod, "\n", "\r\n")))
}

// FuzzRead reads anything. What is read has places that are right, and is the same when it is read again.
func FuzzRead(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set := read(t, string(text))
		check(t, set)
		if again := read(t, string(text)); dump(again) != dump(set) {
			t.Errorf("read twice:\n%s\n%s", dump(set), dump(again))
		}
	})
}

// FuzzKubectl compares what a YAML document means here with what kubectl's own library makes of it.
func FuzzKubectl(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Add([]byte("a: &x {b: 1}\nc:\n  b: 2\n  <<: *x\nd:\n  <<: [*x, {b: 3, e: 4}]\n  f: yes\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		units, _ := split(text, 0)
		for _, u := range units {
			if u.json || u.inList || bytes.Contains(text[u.start:u.end], []byte("%")) {
				continue
			}
			root, err := parseYAML(text, u.start, u.end)
			if err != nil || root == nil || checkAliases(root) != nil {
				continue
			}
			asJSON, err := kubectl.YAMLToJSON(text[u.start:u.end])
			if err != nil {
				continue
			}
			var want any
			decoder := json.NewDecoder(bytes.NewReader(asJSON))
			decoder.UseNumber()
			if decoder.Decode(&want) != nil {
				continue
			}
			if got, ok := meaning(root); ok && !equal(got, want) {
				t.Errorf("%q means\n%v here, and\n%v to kubectl", text[u.start:u.end], got, want)
			}
		}
	})
}

// meaning makes a value of a node: maps, lists, strings, nil, and true for other scalars. It says no for what the two YAML
// versions are known to differ in: keys and tags of other kinds.
func meaning(n *Node) (any, bool) {
	n = n.resolved()
	switch n.Kind {
	case Map:
		m := map[string]any{}
		if oddKeys(n, map[*Node]bool{}) {
			return nil, false
		}
		for _, p := range n.pairs(nil, false, map[string]bool{}, map[*Node]bool{}) {
			value, ok := meaning(p.value)
			if got, _ := n.get(p.key); got != p.value || !ok {
				return nil, false
			}
			m[p.key] = value
		}
		return m, true
	case List:
		list := []any{}
		for _, item := range n.Items {
			value, ok := meaning(item)
			if !ok {
				return nil, false
			}
			list = append(list, value)
		}
		return list, true
	}
	switch {
	case n.Tag == "!!timestamp" || n.Tag != "!!str" && n.Style != Plain || n.Start != n.Body:
		return nil, false
	case n.isNull():
		return nil, true
	case n.isString():
		return n.Value, true
	}
	return true, true
}

// oddKeys says whether a map, or what merge keys bring to it, has keys that aren't texts.
func oddKeys(n *Node, seen map[*Node]bool) bool {
	n = n.resolved()
	if seen[n] {
		return false
	}
	seen[n] = true
	for i, k := range n.Keys {
		switch k := k.resolved(); {
		case k.Kind != Scalar, isMerge(k) && k.Style != Plain, !k.isString() && !isMerge(k):
			return true
		case isMerge(k):
			sources := []*Node{n.Items[i].resolved()}
			if sources[0].Kind == List {
				sources = sources[0].Items
			}
			if slices.ContainsFunc(sources, func(source *Node) bool { return oddKeys(source, seen) }) {
				return true
			}
		}
	}
	return false
}

// equal compares a meaning with a JSON value. YAML 1.1 and 1.2 differ in some numbers, which are strings to the other.
func equal(got, want any) bool {
	switch got := got.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok || len(got) != len(w) {
			return false
		}
		for k, v := range got {
			if other, ok := w[k]; !ok || !equal(v, other) {
				return false
			}
		}
		return true
	case []any:
		w, ok := want.([]any)
		if !ok || len(got) != len(w) {
			return false
		}
		for i := range got {
			if !equal(got[i], w[i]) {
				return false
			}
		}
		return true
	case string:
		return reflect.DeepEqual(got, want)
	case nil:
		return want == nil
	}
	switch want.(type) {
	case json.Number, bool:
		return true
	}
	return false
}

// FuzzJSON compares the JSON reader with the standard library's.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a": [1, 2.5e3, true, null, "\u00e9\n", {}]}`, `[`, `{"a":1,}`, `"\ud83d\ude00"`, "[1]x", `{"a" 1}`, "-", "01", "\"\xff\""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := parseJSON(text, 0, len(text))
		if (err == nil) != json.Valid(text) {
			t.Fatalf("%q: %v; valid: %v", text, err, json.Valid(text))
		}
		if err != nil {
			return
		}
		n.walk(func(n *Node) bool {
			if !json.Valid(text[n.Start:n.End]) {
				t.Errorf("%q is no value", text[n.Start:n.End])
			}
			var value string
			if n.Kind == Scalar && n.Tag == "!!str" && (json.Unmarshal(text[n.Start:n.End], &value) != nil || value != n.Value) {
				t.Errorf("%q is read as %q", text[n.Start:n.End], n.Value)
			}
			return true
		})
	})
}

// FuzzQuantity compares our quantities with those of the API server.
func FuzzQuantity(f *testing.F) {
	for _, text := range []string{
		"500m", "0.5", "1", "1e3m", "2k", "100Ki", "-1.5", "+3", ".", "m", "1E", "1e-3", "1.5Gi", "0.0000000001", "9223372036854775807", "1Ei", "1i", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, err := quantity.ParseResource(text)
		// We have bounds for the length and the exponent that the API server lacks: its library works for minutes on 7e-77777771.
		if err != nil && (len(text) > 100 || strings.ContainsAny(text, "eE")) {
			return
		}
		theirs, theirErr := resource.ParseQuantity(text)
		if (err == nil) != (theirErr == nil) {
			// Without a digit the API server takes some texts for 0 and refuses others.
			if number := strings.TrimLeft(text, "+-."); number == "" || number[0] < '0' || number[0] > '9' {
				return
			}
			t.Fatalf("%q: %v; the API server says %v", text, err, theirErr)
		}
		// The library changes amounts below 0: -.1Gi into one that is 2 bytes more, and -.1n into one above 0. The API server refuses them.
		if err != nil || math.Abs(ours.Float()) > 1e15 || ours.Float() < 0 {
			return
		}
		if ours.Milli() != theirs.MilliValue() || ours.Whole() != theirs.Value() {
			t.Fatalf("%q: %d milli and %d whole; the API server says %d and %d", text, ours.Milli(), ours.Whole(), theirs.MilliValue(), theirs.Value())
		}
	})
}
