package lab

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestMeasuresKnown holds each constant to an entry of Measures: one without would be filed as 0.
func TestMeasuresKnown(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "measure.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := v.Type.(*ast.Ident); !ok || kind.Name != "Measure" {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if string(Measure(text).entry().Measure) != text || err != nil {
			t.Errorf("%s has no entry in Measures, %v", v.Names[0].Name, err)
		}
		found++
		return true
	})
	if found != len(Measures) {
		t.Errorf("%d constants, and %d entries in Measures", found, len(Measures))
	}
}

// TestMeasures: what a name says of the unit is what the table says.
func TestMeasures(t *testing.T) {
	for _, known := range Measures {
		m, want := known.Measure, 1.0
		switch name := string(m); {
		case strings.Contains(name, "-ns") || strings.HasPrefix(name, "ns/"):
			want = 1e9
		case strings.HasSuffix(name, "-%"):
			want = 100
		}
		if known.Per != want {
			t.Errorf("%s: %+v", m, known)
		}
		if known.Title == "" && known.BenchRank+known.TuneRank > 0 {
			t.Errorf("%s has a column without a title: %+v", m, known.Display)
		}
		figures := map[string]float64{}
		if m.Set(figures, 0.25); figures[string(m)] != 0.25*want || m.In(figures) != 0.25 {
			t.Errorf("%s of 0.25 is filed as %v and found as %v", m, figures, m.In(figures))
		}
	}
	figures := map[string]float64{}
	if ThrottledShare.Set(figures, 0.07); figures["throttled-%"] != 7 {
		t.Errorf("7 %% is filed as %v", figures)
	}
	if v, known := P99.Of(nil); known || v != 0 {
		t.Errorf("of nothing it finds %v", v)
	}
	if m := P99.Metric("about"); m != (Metric{Unit: "p99-latency-ns", Better: "lower", About: "about"}) {
		t.Errorf("%+v", m)
	}
	if kind := Measure("widgets/op").Kind(); kind != Other {
		t.Errorf("a unit of a benchmark's own is %q", kind)
	}
}
