package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// benchDots has a row for each setting of a group and a mark for each run. The first of a sheet explains them all.
func benchDots(d *report.Bench, g *report.BenchGroup, first bool) *sheet.Rows {
	if len(g.Settings) == 0 {
		return nil
	}
	compared := len(g.Settings) > 1
	unit, throttled := quantity.UnitOf(g.Figure.Unit), string(lab.ThrottledShare)
	c := &sheet.Rows{Factor: factorName(d.Plan.Compare), X: sheet.Axis{Unit: unit}, Joined: compared}
	var medians []string
	for i, s := range g.Settings {
		row := benchSeries(g, i)
		if m, ok := s.Metrics[throttled]; ok && throttled != g.Figure.Unit {
			share := m.Median / 100
			c.Side, row.Share, row.ShareText = "throttled", &share, quantity.UnitOf(throttled).Text(m.Median)
		}
		c.Rows = append(c.Rows, row)
		medians = append(medians, s.Name+": "+row.Lines[0].Text)
	}
	if base := c.Rows[0].Middle; compared && base != nil {
		c.Rules = []sheet.Rule{{At: *base, Color: sheet.BaseColor}}
	}
	points, blocks := d.Points(g)
	for _, p := range points {
		c.Rows[p.Row].Marks = append(c.Rows[p.Row].Marks, benchMark(p, blocks, unit))
	}
	c.About = fmt.Sprintf("%s by %s, a dot for each run. Medians: %s. %s", benchFigure(g.Figure), c.Factor, strings.Join(medians, ", "), g.Verdict)
	if first {
		c.Legend = dotsLegend(c, g.Settings[0].Name, blocks)
		for _, m := range d.Metrics {
			if c.Side != "" && m.Unit == throttled && m.About != "" {
				c.Legend = append(c.Legend, "Throttled: "+m.About+".")
			}
		}
	}
	c.Keys = dotsKeys(points)
	return c
}

// benchCosts is the same by the cost, where there is one.
func benchCosts(d *report.Bench, g *report.BenchGroup) *sheet.Rows {
	by := g.ByCost()
	if by == nil {
		return nil
	}
	c := benchDots(d, by, false)
	if c != nil {
		c.Title = report.MetricName(by.Figure)
	}
	return c
}

// benchSeries is what is said of a setting: its label, median and interval.
func benchSeries(g *report.BenchGroup, i int) sheet.Series {
	s, unit := g.Settings[i], quantity.UnitOf(g.Figure.Unit)
	row := sheet.Series{Label: sheet.Label{Name: s.Name, Lines: []sheet.Cell{{Text: "no figures"}}}}
	if g.Best != nil && *g.Best == i && g.Claim == lab.Set {
		row.Tag = "best"
	}
	m, ok := s.Metrics[g.Figure.Unit]
	ok = ok && m.N > 0
	if ok {
		row.Middle, row.Lines[0].Text = &m.Median, unit.Text(m.Median)
		if m.Confidence > 0 {
			row.Low, row.High = &m.Low, &m.High
		}
	}
	if i == 0 && len(g.Settings) > 1 {
		row.Color = sheet.BaseColor
		row.Lines = append(row.Lines, sheet.Cell{Text: "the base"})
	}
	if c := s.Versus; c != nil {
		row.Lines = append(row.Lines, sheet.Cell{Text: c.Change + ", " + string(c.Verdict), Tone: tones[string(c.Verdict)]})
	}
	switch {
	case ok && s.Failed > 0:
		row.Lines = append(row.Lines, sheet.Cell{Text: fmt.Sprintf("%d of %d failed", s.Failed, s.Failed+s.Runs), Tone: sheet.Bad})
	case !ok && s.Failed > 0:
		row.Empty = quantity.Plural(s.Failed, "run") + " failed"
	case !ok:
		row.Empty = "no figures"
	}
	return row
}

// benchMark is a run. Within a row the first block is on top; runs that are remarked on have another shape.
func benchMark(p report.BenchPoint, blocks int, unit quantity.Unit) sheet.Mark {
	m := sheet.Mark{At: p.Value, Place: 0.5, Thread: p.Place + 1, Open: p.Outlier}
	if blocks > 1 {
		m.Place = float64(p.Place) / float64(blocks-1)
	}
	switch {
	case len(p.Marks) > 0:
		m.Shape = sheet.Triangle
	case p.Outlier:
		m.Shape = sheet.Diamond
	}
	m.Title = joined(", ", fmt.Sprintf("block %d: %s", p.Block, unit.Text(p.Value)),
		when(p.Outlier, "far from the others"), strings.Join(p.Marks, ", "))
	return m
}

// dotsLegend explains the dots and lines that occur.
func dotsLegend(c *sheet.Rows, base string, blocks int) []string {
	intervals := slices.ContainsFunc(c.Rows, func(s sheet.Series) bool { return s.Low != nil })
	return []string{
		"A dot is a run" + when(blocks > 1, ", the first block's on top") + when(c.Joined, ", and a thin line joins the runs of one block") + ".",
		"The thick line is the median" + when(intervals, ", with its 95 % interval shaded behind it") +
			when(len(c.Rules) > 0, "; the dashed one is the median of "+base+", the base") + ".",
	}
}

// dotsKeys explain the shapes that occur.
func dotsKeys(points []report.BenchPoint) (keys []sheet.Key) {
	add := func(key sheet.Key, occurs func(report.BenchPoint) bool) {
		if slices.ContainsFunc(points, occurs) {
			keys = append(keys, key)
		}
	}
	marked := func(p report.BenchPoint) bool { return len(p.Marks) > 0 }
	add(sheet.Key{Shape: sheet.Diamond, Open: true, Text: "far from the others"}, func(p report.BenchPoint) bool { return p.Outlier })
	add(sheet.Key{Shape: sheet.Triangle, Text: "the host did something else meanwhile"}, marked)
	add(sheet.Key{Shape: sheet.Triangle, Open: true, Text: "both"}, func(p report.BenchPoint) bool { return p.Outlier && marked(p) })
	return keys
}

// benchActivity is when the last run of each setting ran and stood still, where a program writes that down.
func benchActivity(d *report.Bench, g *report.BenchGroup) *sheet.Strips {
	all, window := d.Activity(g)
	if len(all) == 0 {
		return nil
	}
	c := &sheet.Strips{
		Figure: sheet.Figure{
			Title: "When it ran and when it stood still",
			About: "When the last run of each setting ran and stood still",
			Legend: []string{
				"Filled: it ran; grey: it stood still.", "From the middle of the last run of each setting.",
				"The marks are 100 ms apart, as the kernel's periods usually are; where those begin is not known.",
			},
		},
		X: sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: window}, Each: 0.1,
	}
	for _, a := range all {
		s := g.Settings[a.Row]
		l := sheet.Lane{Kind: sheet.Ran, Title: fmt.Sprintf("%s: block %d, from %s of the run", s.Name, a.Block, quantity.Seconds(a.From))}
		for _, ran := range a.Ran {
			l.Steps = append(l.Steps, sheet.Step{From: ran.From, To: ran.To, Value: 1})
		}
		strip := sheet.Strip{Label: sheet.Label{Name: s.Name}, Lanes: []sheet.Lane{l}}
		if on, off := s.Metrics["on-ms"], s.Metrics["off-ms"]; on.N > 0 && off.N > 0 {
			unit := quantity.UnitOf("on-ms")
			about := unit.Text(on.Median) + " on, " + unit.Text(off.Median) + " off"
			strip.Lines = []sheet.Cell{{Text: about}}
			c.About += "; " + s.Name + ": " + about
		}
		c.Rows = append(c.Rows, strip)
	}
	return c
}
