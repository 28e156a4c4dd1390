package view

import (
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/workload"
)

// Workloads shows the built-in programs: what each does, and where it is from.
func Workloads(list []workload.Workload) *sheet.Sheet {
	t := &sheet.Table{Columns: []sheet.Column{{Left: true}, {Left: true, Wrap: true}, {Title: "from", Left: true, Under: true}}}
	for _, w := range list {
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{{Text: w.Name}, {Text: w.About}, {Text: w.Source}}})
	}
	s := &sheet.Sheet{Verb: "bench", Subject: "the built-in programs"}
	s.Add(sheet.Section{Title: "The built-in programs", Quiet: true, Blocks: []sheet.Block{t}})
	return s
}
