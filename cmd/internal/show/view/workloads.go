package view

import (
	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Workloads shows the built-in programs: what each does, and where it is from.
func Workloads(list []workload.Workload) *sheet.Sheet {
	t := &sheet.Table{Columns: []sheet.Column{{Left: true}, {Left: true, Wrap: true}, {Title: "from", Left: true, Under: true}}}
	for _, w := range list {
		t.Add(w.Name, w.About, w.Source)
	}
	s := &sheet.Sheet{Verb: "bench", Subject: "the built-in programs"}
	s.Add(quiet("The built-in programs", t))
	return s
}
