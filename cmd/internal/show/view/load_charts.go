package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// loadCurve is the percentiles of response and service, with what the SLO asks.
func loadCurve(d *report.Load) *sheet.Field {
	chance := d.Response.Carried()
	c := &sheet.Field{
		Figure: sheet.Figure{
			About:  "Percentiles of response and service. " + curveWords(d),
			Legend: []string{"Response, the unbroken line, counts from when a request was due; service, the dotted one, from when it was sent.", "Where there is one line only, both are equal."},
		},
		X: sheet.Axis{Scale: sheet.Percentiles}, Y: sheet.Axis{Unit: quantity.Second}, Chance: &chance,
		Lines: []sheet.Line{
			{Name: "response", Color: sheet.BaseColor, Points: curvePoints(d.Response.Curve)},
			{Name: "service", Stroke: sheet.Dotted, Points: curvePoints(d.Service.Curve)},
			{Stroke: sheet.NoStroke, Color: sheet.BaseColor, Points: curveMarks("response", d.Response, false)},
			{Stroke: sheet.NoStroke, Points: curveMarks("service", d.Service, true)},
		},
	}
	if d.SLO != nil && len(d.SLO.Latencies) > 0 {
		c.Legend = append(c.Legend, "The response has to pass below each ▼: that is the SLO.")
		for _, o := range d.SLO.Latencies {
			text := load.PercentileName(o.Percentile) + " ≤ " + quantity.Seconds(o.Seconds)
			c.Limits = append(c.Limits, sheet.Limit{X: o.Percentile, Y: o.Seconds, Text: text})
		}
	}
	c.Legend = append(c.Legend, fmt.Sprintf("Where it is shaded, fewer than %d requests took longer: that is chance.", loadtest.BeyondLeast))
	return c
}

// curveWords says what the curves show, for readers who can't see them.
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
		text := latencyText(v)
		points = append(points, sheet.Point{
			X: v.Percentile, Y: v.Seconds, Show: sheet.Small, Open: open,
			Title: of + " " + v.Name + ": " + text, Text: when(!open, text),
		})
	}
	return points
}

// loadTries draws the windows of a search: p99 by rate.
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
		word := windowWord(w)
		key := c.Keys[slices.Index([]string{"held", "missed", "invalid"}, word)]
		line.Points = append(line.Points, sheet.Point{
			X: w.Rate, Y: w.P99, Show: sheet.Large, Shape: key.Shape, Open: key.Open, Color: key.Color,
			Title: fmt.Sprintf("%s, %s: p99 %s, %s", w.Phase, quantity.PerSecond(w.Rate), quantity.Latency(w.P99), word),
		})
	}
	c.Lines = []sheet.Line{line}
	if rule := p99Rule(d); rule != nil {
		rule.Text = "p99 " + rule.Text
		c.Rules = []sheet.Rule{*rule}
	}
	return c
}

// p99Rule is the time that the SLO sets for the p99; nil: none.
func p99Rule(d *report.Load) *sheet.Rule {
	if d.SLO == nil {
		return nil
	}
	for _, o := range d.SLO.Latencies {
		if o.Percentile == 99 {
			return &sheet.Rule{At: o.Seconds, Text: "≤ " + quantity.Seconds(o.Seconds), Color: sheet.BadColor}
		}
	}
	return nil
}

// loadOverTime is how it went: a strip for each thing, all on one axis of time.
func loadOverTime(d *report.Load) *sheet.Strips {
	t := d.OverTime()
	if t == nil {
		return nil
	}
	c := &sheet.Strips{X: sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: t.End}}
	c.Legend = []string{"Requests count at the moment when they were due."}
	add := func(name, about, end string, color sheet.Color, y sheet.Axis, lanes ...sheet.Lane) *sheet.Strip {
		label := sheet.Label{Name: name, Lines: []sheet.Cell{{Text: about}}, Color: color}
		c.Rows = append(c.Rows, sheet.Strip{Label: label, Y: y, Lanes: lanes, End: end})
		return &c.Rows[len(c.Rows)-1]
	}
	if t.Rate > 0 {
		low, high := quantity.PerSecond(t.LowestRate), quantity.PerSecond(t.Rate)
		about := when(low != high, low+" to ") + high
		y := sheet.Axis{Unit: quantity.Rate, Scale: sheet.Linear, High: t.Rate}
		add("rate", about, "", sheet.NoColor, y, lane(t, sheet.Filled, func(m report.LoadMoment) sheet.Step { return sheet.Step{Value: m.Rate} })).Page = true
	}
	if t.P99 > 0 {
		highest := "max " + quantity.Latency(t.P99)
		s := add("p99", highest, highest, sheet.BaseColor, sheet.Axis{Unit: quantity.Second},
			lane(t, sheet.Filled, func(m report.LoadMoment) sheet.Step { return sheet.Step{Value: m.P99} }),
			lane(t, sheet.Drawn, func(m report.LoadMoment) sheet.Step { return sheet.Step{Value: m.ServiceP99} }))
		s.Rule = p99Rule(d)
		c.Legend = append(c.Legend, "p99: the filled area is the response, the dotted line the service.")
	}
	if t.Throttled >= 0 {
		about, highest := "in no period", "max "+quantity.Share(t.Throttled)
		if t.Throttled > 0 {
			about = highest + " of the periods"
			c.Legend = append(c.Legend, "throttled: the share of the server's periods.")
		}
		l := lane(t, sheet.Filled, func(m report.LoadMoment) sheet.Step {
			title := fmt.Sprintf("at %s: %s throttled", quantity.Lasting(m.From), periods(m.ThrottledPeriods, m.Periods))
			return sheet.Step{Value: m.Throttled, Title: title}
		})
		add("throttled", about, highest, sheet.NoColor, sheet.Axis{Scale: sheet.Linear, High: 1}, l)
	}
	if d.Failed > 0 && t.Failed > 0 {
		highest := "max " + quantity.Share(t.Failed)
		add("failed", highest, highest, sheet.BadColor, sheet.Axis{Scale: sheet.Linear, High: t.Failed},
			lane(t, sheet.Filled, func(m report.LoadMoment) sheet.Step { return sheet.Step{Value: m.Failed} }))
	}
	c.About = "Over time:"
	for _, r := range c.Rows {
		c.About += " " + r.Name + " " + r.Label.Lines[0].Text + ";"
	}
	return c
}

// lane has a step for each moment whose value is known.
func lane(t *report.LoadTime, kind sheet.LaneKind, step func(report.LoadMoment) sheet.Step) sheet.Lane {
	l := sheet.Lane{Kind: kind}
	for _, m := range t.Moments {
		if s := step(m); s.Value >= 0 {
			s.From, s.To = m.From, m.To
			l.Steps = append(l.Steps, s)
		}
	}
	return l
}
