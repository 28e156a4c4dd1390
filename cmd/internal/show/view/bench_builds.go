package view

import (
	"cmp"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// benchChanged are the claims of builds: the answer for all benchmarks where there are many, and then of those alone that changed.
func benchChanged(d *report.Bench, claims []sheet.Claim) (shown []sheet.Claim) {
	text, worst := d.Changed()
	if text != "" {
		shown = append(shown, sheet.Claim{Word: string(worst), Tone: cmp.Or(tones[string(worst)], sheet.Unsure), Whole: true, Text: text})
	}
	for _, kind := range changeOrder {
		for i, c := range claims {
			switch {
			case d.Groups[i].Claim != kind:
			case text == "":
				shown = append(shown, c)
			case kind == lab.Worse || kind == lab.Better || kind == lab.Failed: // the others are in the table
				c.More = nil
				shown = append(shown, c)
			}
		}
	}
	if text := d.Identical(); text != "" {
		shown = append(shown, sheet.Claim{Word: "identical", Tone: sheet.Good, Whole: true, Text: text})
	}
	return shown
}

// changeOrder is the order of a table of builds: what the user must look at comes first.
var changeOrder = []lab.ClaimKind{lab.Worse, lab.Failed, lab.TooFew, lab.Undecided, lab.Better, lab.NoWorse, lab.Alone}

// benchChanges has a row for each benchmark, where there are many in two builds.
func benchChanges(d *report.Bench) *sheet.Table {
	text, _ := d.Changed()
	if text == "" || len(d.Plan.Builds) != 2 {
		return nil
	}
	t := &sheet.Table{Columns: []sheet.Column{
		{Title: "benchmark", Left: true},
		{Title: d.Groups[0].Settings[0].Name, Rank: 3},
		{Title: "time"},
		{Title: "interval", With: "time", Rank: 1},
		{Title: "CPU"},
		{Title: "interval", With: "CPU", Rank: 2},
		{Title: "pairs", Rank: 4},
		{Left: true},
	}}
	for _, kind := range changeOrder {
		for i := range d.Groups {
			g := &d.Groups[i]
			if g.Claim != kind || len(g.Settings) != 2 {
				continue
			}
			base, other := g.Settings[0], g.Settings[1]
			pairs := ""
			if other.Versus != nil {
				pairs = strconv.Itoa(other.Versus.Pairs)
			}
			m, ok := base.Metrics[g.Figure.Unit]
			t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{
				{Text: g.Name},
				{Text: cmp.Or(when(ok, quantity.UnitOf(g.Figure.Unit).Text(m.Median)), dash)},
				benchVersus(other.Versus, 0), benchVersus(other.Versus, 1), benchVersus(other.CostVersus, 0), benchVersus(other.CostVersus, 1),
				{Text: pairs},
				{Text: g.Word(), Tone: cmp.Or(tones[string(g.Claim)], sheet.Unsure)},
			}})
		}
	}
	return t
}
