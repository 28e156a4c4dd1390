package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// drawings are the charts of a load, a section each.
func (p tunePart) drawings() []sheet.Section {
	var s sheet.Sheet
	s.Add(sheet.Section{Title: "Every run", Blocks: []sheet.Block{p.dots(p.Tail, true), p.dots(report.TuneCPU, false)}})
	s.Add(sheet.Section{Title: "Percentiles", Blocks: []sheet.Block{p.curves()}})
	never, strips := p.throttling()
	s.Add(sheet.Section{Title: "When it was throttled", Blocks: []sheet.Block{never, strips}})
	s.Add(sheet.Section{Title: "Cost against latency", Blocks: []sheet.Block{p.front()}})
	return s.Sections
}

// label names a setting next to a drawing.
func (p tunePart) label(s report.TuneSetting, lines ...sheet.Cell) sheet.Label {
	tag := ""
	switch {
	case s.Best && s.Current && p.BestTag() == "best":
		tag = p.Tag(s) + ", best"
	case s.Best && !s.Current:
		tag = p.BestTag()
	case p.Tag(s) != "":
		tag = p.Tag(s)
	case s.Dropped != "":
		tag = "dropped"
	}
	return sheet.Label{Name: p.name(s.Key()), Tag: tag, Color: p.color(s.Key()), Lines: lines}
}

// dots are all runs by one quantity: a row for each setting, a mark for each run.
func (p tunePart) dots(of string, first bool) *sheet.Rows {
	order := p.order(of)
	if len(order) == 0 {
		return nil
	}
	c := &sheet.Rows{Factor: p.factor(), X: sheet.Axis{Unit: p.unit(of)}}
	c.Title = p.title(of)
	about := []string{c.Title + " by " + p.factor() + ", a dot for each run"}
	for _, s := range p.Ordered() {
		row := sheet.Series{Label: p.label(s, sheet.Cell{Text: "no figures"}), Empty: "no figures"}
		if v, ok := p.Median(s, of); ok {
			row.Middle, row.Empty, row.Lines[0].Text = &v, "", "median "+p.text(of, v)
		}
		about = append(about, row.Name+": "+row.Lines[0].Text)
		if e, ok := p.Effect(s, of); ok {
			row.Lines = append(row.Lines, sheet.Cell{Text: quantity.Change(e.Ratio), Tone: effectTone(e)})
		}
		for _, r := range p.RunsOf(s) {
			if v, ok := p.Figure(r, of); ok {
				m := p.mark(r, of, v)
				m.Place = order.place(r)
				if p.Paired(s) {
					m.Thread, c.Joined = order.number(r), true
				}
				row.Marks = append(row.Marks, m)
			}
		}
		c.Rows = append(c.Rows, row)
	}
	c.About = strings.Join(about, "; ")
	if first {
		c.Legend = []string{"A dot is a run; the thick line is the median of all."}
		if c.Joined {
			from, to := p.compared()
			c.Legend = append(c.Legend, "A thin line joins the runs of "+to+" and "+from+" of one block.")
		}
		c.Keys = runKeys(c.Rows)
	}
	return c
}

// mark is a run's: open in a block of all settings, filled in a fresh pair.
func (p tunePart) mark(r report.TuneRun, of string, v float64) sheet.Mark {
	m := sheet.Mark{At: v, Open: r.Phase != "confirm"}
	title := []string{p.RunName(r) + ": " + p.text(of, v)}
	if len(r.Marks) > 0 {
		m.Shape = sheet.Triangle
	}
	if p.SLO != "" && !r.SLOHeld {
		m.Shape = sheet.Diamond
		title = append(title, "missed the SLO")
	}
	m.Title = strings.Join(append(title, r.Marks...), ", ")
	return m
}

// runKeys explain the marks that occur.
func runKeys(rows []sheet.Series) (keys []sheet.Key) {
	for _, k := range []struct {
		has func(sheet.Mark) bool
		key sheet.Key
	}{
		{func(m sheet.Mark) bool { return m.Open }, sheet.Key{Open: true, Text: "block of all"}},
		{func(m sheet.Mark) bool { return !m.Open }, sheet.Key{Text: "fresh pair"}},
		{func(m sheet.Mark) bool { return m.Shape == sheet.Diamond }, sheet.Key{Shape: sheet.Diamond, Text: "it missed the SLO"}},
		{func(m sheet.Mark) bool { return m.Shape == sheet.Triangle }, sheet.Key{Shape: sheet.Triangle, Text: "the host did something else meanwhile"}},
	} {
		if slices.ContainsFunc(rows, func(s sheet.Series) bool { return slices.ContainsFunc(s.Marks, k.has) }) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// A runOrder is the blocks of which there are runs.
type runOrder []int

func (p tunePart) order(of string) (order runOrder) {
	for _, r := range p.Runs {
		if _, ok := p.Figure(r, of); ok && !slices.Contains(order, r.Block) {
			order = append(order, r.Block)
		}
	}
	slices.Sort(order)
	return order
}

// number is a run's, from 1 on.
func (o runOrder) number(r report.TuneRun) int { return slices.Index(o, r.Block) + 1 }

// place is how far down its row a run is.
func (o runOrder) place(r report.TuneRun) float64 {
	if len(o) < 2 {
		return 0.5
	}
	return float64(o.number(r)-1) / float64(len(o)-1)
}

// effects are the ratios with their intervals.
func (p tunePart) effects() *sheet.Rows {
	c := &sheet.Rows{X: sheet.Axis{Scale: sheet.Changes}, Rules: []sheet.Rule{{At: 1}}}
	about := []string{p.change() + ", with 95 % intervals"}
	intervals := false
	for _, e := range p.Effects {
		if e.Ratio <= 0 || e.Says == "" {
			continue
		}
		of := p.Quantity(e)
		row := sheet.Series{
			Band:   band(p.MarginOf(e)),
			Label:  sheet.Label{Name: p.title(of), Color: effectColor(e), Lines: []sheet.Cell{{Text: effectText(of, e.From) + " → " + effectText(of, e.To)}}},
			Middle: &e.Ratio, MiddleText: quantity.Change(e.Ratio),
		}
		if said := e.Said(); said != "" {
			row.Lines = append(row.Lines, sheet.Cell{Text: said, Tone: effectTone(e)})
		}
		if e.Interval() {
			row.Low, row.High, intervals = &e.Low, &e.High, true
			row.RangeText = "(" + quantity.Changes(e.Low, e.High) + ")"
		}
		about = append(about, joined(" ", row.Name, row.MiddleText, row.RangeText, e.Said()))
		c.Rows = append(c.Rows, row)
	}
	c.About = strings.Join(about, "; ")
	c.Legend = []string{"A dot is the ratio in a typical block."}
	if intervals {
		c.Legend = []string{"A dot is the ratio in a typical block, the line its 95 % interval."}
	}
	if slices.ContainsFunc(c.Rows, func(s sheet.Series) bool { return s.Band != nil }) {
		c.Legend = append(c.Legend, p.MarginsNote(p.Effects, p.Percentile()))
	}
	return c
}

// band is what lies within a margin; nil: none that could be drawn.
func band(margin float64) *sheet.Band {
	if !(margin > 0 && margin <= 1) {
		return nil
	}
	return &sheet.Band{From: 1 / (1 + margin), To: 1 + margin}
}

// effectColor is that of its tone.
func effectColor(e report.TuneEffect) sheet.Color {
	return map[sheet.Tone]sheet.Color{sheet.Good: sheet.GoodColor, sheet.Bad: sheet.BadColor}[effectTone(e)]
}

// curves are the percentiles of all settings.
func (p tunePart) curves() *sheet.Field {
	c := &sheet.Field{X: sheet.Axis{Scale: sheet.Percentiles}, Y: sheet.Axis{Unit: quantity.Second}}
	about := []string{"Percentiles of the response by " + p.factor()}
	c.Legend = []string{"How many of the requests were done within which time. A line is a setting: at each percentile the median of its runs."}
	dropped := false
	for _, s := range p.Ordered() { // the best on top
		if len(s.Curve) == 0 {
			continue
		}
		l := sheet.Line{Name: p.name(s.Key()), Color: p.color(s.Key())}
		switch {
		case s.Best && (!s.Current || p.BestTag() == "best"):
			l.Tag = p.BestTag()
		case p.Tag(s) == "current":
			l.Tag = "now"
		case s.Current:
			l.Tag = p.Tag(s)
		}
		if s.Dropped != "" {
			l.Stroke, dropped = sheet.Dotted, true
		}
		for _, point := range s.Curve {
			l.Points = append(l.Points, sheet.Point{X: point.Percentile, Y: point.Seconds})
		}
		c.Lines = append(c.Lines, l)
		text := joined(" ", l.Name, l.Tag)
		for _, of := range []string{"p50", p.Tail} {
			if v := p.median(s, of); v != "" {
				text += ", " + of + " " + v
			}
		}
		about = append(about, text)
	}
	c.About = strings.Join(about, "; ")
	if dropped {
		c.Legend = append(c.Legend, "Dotted: it was dropped after a few blocks.")
	}
	if n := p.Requests(); n > 1 {
		few := max(0, report.Carried(n))
		c.X.High, c.Chance = 100*(1-1/float64(n)), &few
		c.Legend = append(c.Legend, report.FewRequestsNote())
	}
	return c
}

// throttling is when runs were throttled: a strip for each setting, a lane for each run; or the sentence that none was.
func (p tunePart) throttling() (never sheet.Lines, c *sheet.Strips) {
	all := p.Throttling()
	if text := report.NeverThrottled(all); text != "" {
		return sheet.Lines{Texts: []string{text}}, nil
	}
	c = &sheet.Strips{Factor: p.factor(), X: sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear}}
	c.Legend = []string{"A line is a run: the stronger its shade, the more of the periods were throttled.", report.ThrottlingNote()}
	about := []string{"Share of throttled periods over time by " + p.factor()}
	for _, t := range all {
		text := quantity.Share(t.Share) + " throttled, " + quantity.Plural(len(t.Runs), "run")
		strip := sheet.Strip{Label: p.label(t.Setting, sheet.Cell{Text: text})}
		for _, r := range t.Runs {
			n, of := r.ThrottledPeriods()
			lane := sheet.Lane{Kind: sheet.Shaded, Title: fmt.Sprintf("%s: %s throttled, %s", p.RunName(r), quantity.Plural(n, "period"), quantity.Part(n, of))}
			for _, step := range r.Axis {
				share, end := step.ThrottledShare(), step.At+step.Length
				lane.Steps = append(lane.Steps, sheet.Step{From: step.At, To: end, Value: share})
				c.X.High = max(c.X.High, end)
			}
			strip.Lanes = append(strip.Lanes, lane)
		}
		about = append(about, strip.Name+": "+text)
		c.Rows = append(c.Rows, strip)
	}
	c.About = strings.Join(about, "; ")
	return sheet.Lines{}, c
}

// front is what the settings cost against how fast they are.
func (p tunePart) front() *sheet.Field {
	x, y := report.TuneCPU, p.Tail
	c := &sheet.Field{X: sheet.Axis{Title: p.title(x), Unit: p.unit(x)}, Y: sheet.Axis{Title: p.title(y), Unit: p.unit(y)}}
	about := []string{c.Y.Title + " by " + c.X.Title}
	for _, s := range p.Settings {
		at, ok := p.point(s)
		if !ok {
			continue
		}
		label := p.label(s)
		at.Show, at.Name = sheet.Large, joined(" ", label.Name, label.Tag)
		at.Title = fmt.Sprintf("%s: %s %s, %s %s", at.Name, c.X.Title, p.text(x, at.X), c.Y.Title, p.text(y, at.Y))
		about = append(about, at.Title)
		l := sheet.Line{Stroke: sheet.NoStroke, Color: label.Color, Points: []sheet.Point{at}}
		for _, r := range p.RunsOf(s) {
			cpu, cpuOK := p.Figure(r, x)
			tail, tailOK := p.Figure(r, y)
			if cpuOK && tailOK {
				l.Points = append(l.Points, sheet.Point{X: cpu, Y: tail, Show: sheet.Background})
			}
		}
		c.Lines = append(c.Lines, l)
	}
	if len(c.Lines) < 2 {
		return nil
	}
	c.About = strings.Join(about, "; ")
	c.Legend = []string{"A large dot is the median of a setting, a faint one a run."}
	if front := p.Front(); len(front) > 1 {
		l := sheet.Line{Stroke: sheet.Dashed}
		for _, s := range front {
			at, _ := p.point(s)
			l.Points = append(l.Points, at)
		}
		c.Lines = append(c.Lines, l)
		c.Legend = append(c.Legend, "The dashed line joins the settings that no other beats in both.")
	}
	return c
}

// point is where a setting is between cost and latency.
func (p tunePart) point(s report.TuneSetting) (sheet.Point, bool) {
	x, xOK := p.Median(s, report.TuneCPU)
	y, yOK := p.Median(s, p.Tail)
	return sheet.Point{X: x, Y: y}, xOK && yOK && x > 0 && y > 0
}
