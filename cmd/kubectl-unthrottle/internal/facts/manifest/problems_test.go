package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// TestFold: what is in a file many times is reported once, and no matter how much there is, it is not lost that something could not be read.
func TestFold(t *testing.T) {
	type one struct {
		severity Severity
		format   string
		line     int
	}
	many := func(n int, severity Severity, format string, line int) (all []one) {
		for i := range n {
			all = append(all, one{severity, format, line + i})
		}
		return all
	}
	kinds := func(n int, severity Severity) (all []one) {
		for i := range n {
			all = append(all, one{severity, fmt.Sprintf("kind %d", i), i + 1})
		}
		return all
	}
	for _, c := range []struct {
		name string
		in   []one
		want []string // the first and the last ones of more than five
	}{
		{"few", many(3, Warning, "a %d", 1), []string{"warning 1 a 1", "warning 2 a 2", "warning 3 a 3"}},
		{"four", many(4, Warning, "a %d", 7), []string{"warning 7 a 7; and 3 more like this, the next in lines 8, 9 and 10"}},
		{"many", many(5000, Error, "a %d", 7), []string{"error 7 a 7; and 4,999 more like this, the next in lines 8, 9 and 10"}},
		{"in one line", []one{{Note, "a", 1}, {Note, "a", 1}, {Note, "a", 1}, {Note, "a", 1}}, []string{"note 1 a; and 3 more like this, the next in line 1"}},
		{"of two kinds", slices.Concat(many(4, Note, "b", 9), many(4, Error, "b", 1)), []string{
			"error 1 b; and 3 more like this, the next in lines 2, 3 and 4", "note 9 b; and 3 more like this, the next in lines 10, 11 and 12",
		}},
		{"of many kinds", append(kinds(80, Note), one{Warning, "x", 98}, one{Error, "y", 99}, one{Note, "z", 100}), []string{
			"note 1 kind 0", "note 50 kind 49", "error 51 too many problems in this file: the rest are left out",
		}},
	} {
		r := &reader{set: &Set{}, join: newJoin()}
		f := &File{Name: "a.yaml"}
		for _, p := range c.in {
			text := p.format
			if strings.Contains(text, "%d") {
				r.problem(f, workload.Position{File: f.Name, Line: p.line, Offset: p.line}, p.severity, "", text, p.line)
			} else {
				r.problem(f, workload.Position{File: f.Name, Line: p.line, Offset: p.line}, p.severity, "", "%v", text)
			}
		}
		r.fold(f)
		sortProblems(r.set.Problems)
		var got []string
		for _, p := range r.set.Problems {
			got = append(got, fmt.Sprintf("%s %d %s", p.Severity, p.At.Line, p.Text))
		}
		if len(got) > 5 {
			got = append(got[:1], got[len(got)-2:]...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
