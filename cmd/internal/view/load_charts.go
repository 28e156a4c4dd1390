package view

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// loadCurve is the percentiles of response and service, with what the SLO asks.
func loadCurve(d *report.Load) *sheet.Field {
	chance := d.Response.Carried()
	c := &sheet.Field{
		Figure: sheet.Figure{
			About:  "Percentiles of response and service. " + curveWords(d),
			Legend: []string{"Response, the unbroken line, counts from when a request was due; service, the dotted one, from when it was sent."},
		},
		X: sheet.Axis{Scale: sheet.Percentiles}, Y: sheet.Axis{Unit: quantity.Second}, Chance: &chance,
		Lines: []sheet.Line{
			{Name: "response", Color: sheet.BaseColor, Points: curvePoints(d.Response.Curve)},
			{Name: "service", Stroke: sheet.Dotted, Points: curvePoints(d.Service.Curve)},
			{Stroke: sheet.NoStroke, Color: sheet.BaseColor, Points: curveMarks("response", d.Response, false)},
			{Stroke: sheet.NoStroke, Points: curveMarks("service", d.Service, true)},
		},
	}
	if d.SLO != nil {
		for _, o := range d.SLO.Latencies {
			c.Limits = append(c.Limits, sheet.Limit{X: o.Percentile, Y: o.Seconds, Text: objective(o)})
		}
	}
	if len(c.Limits) > 0 {
		c.Legend = append(c.Legend, "Below each ▼ the response has to pass: that is the SLO.")
	}
	c.Legend = append(c.Legend, fmt.Sprintf("Beyond the shaded part's beginning there are fewer than %d requests: that is chance.", loadtest.BeyondLeast))
	return c
}

// objective is a time that the SLO sets.
func objective(o report.LoadObjective) string {
	return load.PercentileName(o.Percentile) + " ≤ " + quantity.Seconds(o.Seconds)
}

// curveWords are the curves for those who don't see them.
func curveWords(d *report.Load) string {
	var parts []string
	service := d.Service.Values()
	for i, v := range d.Response.Values() {
		if v.Known {
			parts = append(parts, v.Name+": "+latencyText(v)+" and "+latencyText(service[i]))
		}
	}
	return strings.Join(parts, "; ")
}

func curvePoints(curve []report.CurvePoint) (points []sheet.Point) {
	for _, p := range curve {
		points = append(points, sheet.Point{X: p.Percentile, Y: p.Seconds})
	}
	return points
}

// curveMarks are the percentiles that people know by name; of those of the response the values are written.
func curveMarks(of string, l report.Latencies, open bool) (points []sheet.Point) {
	for _, v := range l.Values() {
		if !v.Known || v.Percentile == 0 || v.Percentile == 75 || v.Percentile == 95 {
			continue
		}
		p := sheet.Point{X: v.Percentile, Y: v.Seconds, Show: sheet.Small, Open: open, Wide: v.Percentile <= 90, Title: of + " " + v.Name + ": " + latencyText(v)}
		if !open {
			p.Text = latencyText(v)
		}
		points = append(points, p)
	}
	return points
}

// loadTries are the windows of a search: p99 by rate.
func loadTries(d *report.Load) *sheet.Field {
	if len(d.Search.Windows) == 0 {
		return nil
	}
	c := &sheet.Field{
		Figure: sheet.Figure{About: "p99 of the windows by rate. " + d.Search.Text, Keys: []sheet.Key{
			{Color: sheet.BaseColor, Text: "held"},
			{Shape: sheet.Triangle, Open: true, Color: sheet.BadColor, Text: "missed"},
			{Shape: sheet.Diamond, Open: true, Text: "invalid: the generator could not keep up"},
		}},
		X: sheet.Axis{Unit: quantity.Rate}, Y: sheet.Axis{Unit: quantity.Second},
	}
	line := sheet.Line{Stroke: sheet.NoStroke}
	for _, w := range d.Search.Windows {
		word, _ := windowWord(w)
		p := sheet.Point{
			X: w.Rate, Y: w.P99, Show: sheet.Large, Color: sheet.BaseColor,
			Title: fmt.Sprintf("%s, %s: p99 %s, %s", w.Phase, quantity.PerSecond(w.Rate), quantity.Latency(w.P99), word),
		}
		switch {
		case !w.Valid:
			p.Shape, p.Open, p.Color = sheet.Diamond, true, sheet.NoColor
		case !w.Held:
			p.Shape, p.Open, p.Color = sheet.Triangle, true, sheet.BadColor
		}
		line.Points = append(line.Points, p)
	}
	c.Lines = []sheet.Line{line}
	if o, ok := p99Objective(d); ok {
		c.Rules = []sheet.Rule{{At: o.Seconds, Text: objective(o), Color: sheet.BadColor}}
	}
	return c
}

// p99Objective is the time that the SLO sets for the p99.
func p99Objective(d *report.Load) (report.LoadObjective, bool) {
	if d.SLO != nil {
		for _, o := range d.SLO.Latencies {
			if o.Percentile == 99 {
				return o, true
			}
		}
	}
	return report.LoadObjective{}, false
}

// loadOverTime is how it went: a strip for each thing, all on one axis of time.
func loadOverTime(d *report.Load) *sheet.Strips {
	t := d.OverTime()
	if t == nil {
		return nil
	}
	c := &sheet.Strips{X: sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: t.End}}
	c.Legend = []string{"Requests belong to the moment when they were due."}
	add := func(name, about, end string, color sheet.Color, y sheet.Axis, lanes ...sheet.Lane) *sheet.Strip {
		label := sheet.Label{Name: name, Lines: []sheet.Cell{{Text: about}}, Color: color}
		c.Rows = append(c.Rows, sheet.Strip{Label: label, Y: y, Lanes: lanes, End: end})
		return &c.Rows[len(c.Rows)-1]
	}
	if t.Rate > 0 {
		low, high := quantity.PerSecond(t.LowestRate), quantity.PerSecond(t.Rate)
		about := low + " to " + high
		if low == high {
			about = high
		}
		y := sheet.Axis{Unit: quantity.Rate, Scale: sheet.Linear, High: t.Rate}
		add("rate", about, "", sheet.NoColor, y, lane(t, sheet.Filled, func(m report.LoadMoment) float64 { return m.Rate })).Page = true
	}
	if t.P99 > 0 {
		highest := "max " + quantity.Latency(t.P99)
		s := add("p99", highest, highest, sheet.BaseColor, sheet.Axis{Unit: quantity.Second},
			lane(t, sheet.Filled, func(m report.LoadMoment) float64 { return m.P99 }),
			lane(t, sheet.Drawn, func(m report.LoadMoment) float64 { return m.ServiceP99 }))
		if o, ok := p99Objective(d); ok {
			s.Rule = &sheet.Rule{At: o.Seconds, Text: "≤ " + quantity.Seconds(o.Seconds), Color: sheet.BadColor}
		}
		c.Legend = append(c.Legend, "p99: the response is filled, the dotted line is the service.")
	}
	if t.Throttled >= 0 {
		about, highest := "in no period", "max "+quantity.Share(t.Throttled)
		if t.Throttled > 0 {
			about = highest + " of the periods"
			c.Legend = append(c.Legend, "Hatched: the share of the server's periods in which it was throttled.")
		}
		add("throttled", about, highest, sheet.NoColor, sheet.Axis{Scale: sheet.Linear, High: 1}, throttledLane(t))
	}
	if d.Failed > 0 && t.Failed > 0 {
		highest := "max " + quantity.Share(t.Failed)
		add("failed", highest, highest, sheet.BadColor, sheet.Axis{Scale: sheet.Linear, High: t.Failed},
			lane(t, sheet.Filled, func(m report.LoadMoment) float64 { return m.Failed }))
	}
	c.About = "Over time:"
	for _, r := range c.Rows {
		c.About += " " + r.Name + " " + r.Label.Lines[0].Text + ";"
	}
	return c
}

// lane is a step for each moment that says something.
func lane(t *report.LoadTime, kind sheet.LaneKind, value func(report.LoadMoment) float64) sheet.Lane {
	l := sheet.Lane{Kind: kind}
	for _, m := range t.Moments {
		if v := value(m); v >= 0 {
			l.Steps = append(l.Steps, sheet.Step{From: m.From, To: m.To, Value: v})
		}
	}
	return l
}

func throttledLane(t *report.LoadTime) sheet.Lane {
	l := lane(t, sheet.Hatched, func(m report.LoadMoment) float64 { return m.Throttled })
	n := 0
	for _, m := range t.Moments {
		if m.Throttled < 0 {
			continue
		}
		l.Steps[n].Title = fmt.Sprintf("at %s: %d of %s throttled", quantity.Lasting(m.From), m.ThrottledPeriods, quantity.Plural(m.Periods, "period"))
		n++
	}
	return l
}
