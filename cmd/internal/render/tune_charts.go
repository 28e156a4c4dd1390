package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// The drawings of tune's page. As in bench's, places along an axis are in percent of the width, and only heights are in
// pixels, so that the text keeps its size on a phone.

// Heights, in pixels.
const (
	tuneCurveHeight  = 340
	tuneFrontHeight  = 320
	tuneLimitsHeight = 280
	effectRow        = 96
	stripRun         = 12 // of one run in a strip, with what is between it and the next
	stripsMost       = 6  // runs of a setting
)

// tuneDots are all runs by one quantity: a row for each setting, a dot for each run.
type tuneDots struct {
	Title, Label, Factor string
	GOGC                 bool // the factor is a long word
	Height, RowHeight    int
	Ticks                []htmlTick
	Rows                 []tuneDotRow
	Threads              string // that join the runs of a block or pair, as a path in percent and pixels
	Notes                []string

	// What occurs, and so is to be explained.
	First, Explored, Confirmed, Marked, Missed bool
	Joined                                     string // names of the two settings
}

type tuneDotRow struct {
	Name, Tag, Median, Class string
	Verdict, VerdictClass    string
	GridRow, Start           int
	Top, Bottom, Text        int
	At                       string // of the median
	None                     string
	Dots                     []htmlDot
}

// labelTall is how high a row must be for its label on a phone, where a long tag, or a long name, makes it two lines.
func (d *tuneDoc) labelTall() int {
	if d.gogc || slices.ContainsFunc(d.Settings, func(s report.TuneSetting) bool { return s.Best && s.Current }) {
		return 100
	}
	return 80
}

// ordered are the settings as they are drawn: the best and the current beside each other.
func (p *tunePart) ordered() []report.TuneSetting {
	place := func(s report.TuneSetting) int {
		switch {
		case s.Best && !s.Current:
			return 0
		case p.rival != nil && s.Procs == p.rival.Procs && s.GOGC == p.rival.GOGC:
			return 1
		case s.Current:
			return 2
		case s.Dropped != "":
			return 4
		}
		return 3
	}
	settings := slices.Clone(p.settings)
	slices.SortStableFunc(settings, func(a, b report.TuneSetting) int { return cmp.Compare(place(a), place(b)) })
	return settings
}

// tag says what is special of a setting.
func tag(s report.TuneSetting) string {
	switch {
	case s.Best && s.Current:
		return "current, best"
	case s.Best:
		return "best"
	case s.Current:
		return "current"
	case s.Dropped != "":
		return "dropped"
	}
	return ""
}

// together keeps a value on one line.
func together(value string) string { return strings.ReplaceAll(value, " ", "\u00a0") }

// figure is a run's value; false if it has none that counts.
func (p *tunePart) figure(r report.TuneRun, quantity string) (float64, bool) {
	v, ok := r.Metrics[p.units[quantity]]
	return v, ok && r.Valid && r.Error == "" && v > 0
}

// counted: the run is one that settings are compared by, not one of the pilot, nor one that is to explain something.
func counted(r report.TuneRun) bool { return r.Phase == "explore" || r.Phase == "confirm" }

func newTuneDots(p *tunePart, quantity string) *tuneDots {
	b := newBounds()
	type slot struct {
		confirm bool
		block   int
	}
	var slots []slot
	for _, r := range p.runs {
		if v, ok := p.figure(r, quantity); ok && counted(r) {
			b.add(v)
			if s := (slot{r.Phase == "confirm", r.Block}); !slices.Contains(slots, s) {
				slots = append(slots, s)
			}
		}
	}
	if b.high == 0 || len(p.settings) == 0 {
		return nil
	}
	slices.SortFunc(slots, func(a, b slot) int {
		if a.confirm != b.confirm {
			if a.confirm {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.block, b.block)
	})
	x := b.axis(p.axisUnit(quantity))
	c := &tuneDots{Title: p.headline(quantity), Factor: p.factor(), GOGC: p.gogc, Ticks: x.ticks(), Notes: x.notes()}
	c.RowHeight = max(p.labelTall(), min(2*rowMargin+5*(len(slots)+1), 130))
	c.Height = axisHeight + len(p.settings)*c.RowHeight
	first := map[slot]string{}
	order := p.ordered()
	var threads strings.Builder
	medians := make([]string, len(order))
	joined := p.rival != nil && len(order) > 1 && (order[0].Current || order[1].Current)
	for i, s := range order {
		start := axisHeight + i*c.RowHeight
		row := tuneDotRow{
			Name: p.name(s.Procs, s.GOGC), Tag: tag(s), Class: p.color(s.Procs, s.GOGC), GridRow: i + 2, Start: start,
			Top: start + rowMargin/2, Bottom: start + c.RowHeight - rowMargin/2, Text: start + c.RowHeight/2 + 4, Median: "no figures", None: "no figures",
		}
		medians[i] = row.Median
		if v, ok := p.median(s, quantity); ok {
			medians[i] = together(p.value(quantity, v))
			row.Median, row.At, row.None = "median "+medians[i], x.at(v), ""
		}
		if e, _, ok := p.effect(s, quantity); ok && !s.Current {
			row.Verdict, row.VerdictClass = tight(changed(e.Ratio)), strings.TrimSpace(effectClass(e))
		}
		for _, r := range p.runs {
			v, ok := p.figure(r, quantity)
			if !ok || !counted(r) || !of(r, s) {
				continue
			}
			at := slot{r.Phase == "confirm", r.Block}
			k, steps := slices.Index(slots, at), len(slots)
			if slots[0].confirm != slots[steps-1].confirm { // a gap between the phases
				steps++
				if at.confirm {
					k++
				}
			}
			offset := float64(c.RowHeight) / 2
			if steps > 1 {
				offset = rowMargin + float64(c.RowHeight-2*rowMargin)*float64(k)/float64(steps-1)
			}
			dot := htmlDot{X: x.at(v), Y: pixels(float64(start) + offset), Text: p.runWords(r) + ": " + p.value(quantity, v)}
			if at.confirm {
				c.Confirmed = true
			} else {
				c.Explored, dot.Class = true, "open"
			}
			switch {
			case p.load.SLO != "" && !r.SLOHeld:
				dot.Shape, c.Missed = "far", true
				dot.Text += ", missed the SLO"
			case len(r.Marks) > 0:
				dot.Shape, c.Marked = "marked", true
			}
			if len(r.Marks) > 0 {
				dot.Text += ", " + strings.Join(r.Marks, ", ")
			}
			row.Dots = append(row.Dots, dot)
			point := strings.TrimSuffix(dot.X, "%") + " " + dot.Y
			switch {
			case !joined || i > 1:
			case first[at] == "":
				first[at] = point
			case i == 1:
				threads.WriteString("M" + first[at] + "L" + point)
			}
		}
		c.Rows = append(c.Rows, row)
	}
	c.Threads = threads.String()
	if c.Threads != "" {
		c.Joined = c.Rows[0].Name + " and " + c.Rows[1].Name
	}
	c.Label = fmt.Sprintf("%s by %s, a dot for each run. Medians:", c.Title, c.Factor)
	for i, r := range c.Rows {
		c.Label += " " + r.Name + ": " + medians[i] + ";"
	}
	return c
}

// tuneEffects are the ratios of the confirmation with their intervals.
type tuneEffects struct {
	Title, Label  string
	Height        int
	Ticks         []htmlTick
	One           string // where nothing changes
	Band, BandW   string // of the margin
	BandTall      int
	Margin        string
	Rows          []tuneEffectRow
	Pairs         string
	WithIntervals bool
}

type tuneEffectRow struct {
	Name, From, Verdict, Class string
	GridRow, Start, Y, TextY   int
	At, Left, Right            string
	Text, Interval, Anchor     string
}

// ratioTicks are ratios that have a round name, the most important first.
var ratioTicks = []float64{
	1, 0.5, 2, 0.1, 10, 0.2, 5, 0.8, 1.2, 0.01, 100, 0.9, 1.1, 0.7, 1.5, 0.6, 0.4, 0.3, 3, 0.95, 1.05, 0.02, 50, 0.05, 20, 0.98, 1.02, 0.99, 1.01,
}

func newTuneEffects(p *tunePart) *tuneEffects {
	margin := max(0, min(p.Margin, 1))
	low, high := 1/(1+margin), 1+margin
	var shown []report.TuneEffect
	for _, e := range p.load.Effects {
		if e.Ratio <= 0 || e.Metric == "slo" {
			continue
		}
		shown = append(shown, e)
		for _, v := range []float64{e.Ratio, e.Low, e.High} {
			if v > 1e-6 && v < 1e6 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if len(shown) == 0 {
		return nil
	}
	if high/low < 1.1 {
		low, high = low/1.05, high*1.05
	}
	room := math.Pow(high/low, 0.08)
	x := axis{low: low / room, high: high * room, log: true}
	c := &tuneEffects{One: x.at(1), Height: axisHeight + len(shown)*effectRow, BandTall: len(shown) * effectRow, Title: "Change from the current setting", Pairs: plural(int64(p.load.Pairs), "fresh pair")}
	if p.rival != nil {
		current := "the current setting"
		for _, s := range p.settings {
			if s.Current {
				current = p.name(s.Procs, s.GOGC)
			}
		}
		c.Title = "Change from " + current + " to " + p.name(p.rival.Procs, p.rival.GOGC)
	}
	if margin > 0 {
		c.Band, c.BandW, c.Margin = x.at(1/(1+margin)), inPercent(x.share(1+margin)-x.share(1/(1+margin))), tight(percent(margin))
	}
	var taken []float64
	for _, v := range ratioTicks {
		at := x.share(v)
		near := 100.0
		for _, other := range taken {
			near = min(near, math.Abs(at-other))
		}
		if v < x.low || v > x.high || near < 9 {
			continue
		}
		text := changed(v)
		if v == 1 {
			text = "0"
		}
		taken = append(taken, at)
		c.Ticks = append(c.Ticks, newTick(at, tight(text), near < 20))
	}
	c.Label = c.Title + ", with 95 % intervals:"
	for i, e := range shown {
		quantity := p.effectQuantity(e)
		start := axisHeight + i*effectRow
		row := tuneEffectRow{
			Name: p.title(quantity), From: together(effectValue(quantity, e.From)) + " → " + together(effectValue(quantity, e.To)), Verdict: effectVerdict(e),
			Class: strings.TrimSpace(effectClass(e)), GridRow: i + 2, Start: start, Y: start + effectRow/2 + 8, TextY: start + effectRow/2 - 8,
			At: x.at(e.Ratio), Text: tight(changed(e.Ratio)), Anchor: newTick(x.share(e.Ratio), "", false).Anchor,
		}
		if text := changedInterval(e); text != "" && e.High > 0 {
			row.Left, row.Right, c.WithIntervals = x.at(e.Low), x.at(e.High), true
			row.Interval = tight(" (" + text + ")")
			switch at := x.share(e.Ratio); { // it is long
			case at < 30:
				row.Anchor = "start"
			case at > 70:
				row.Anchor = "end"
			}
		}
		c.Label += fmt.Sprintf(" %s %s%s %s;", row.Name, row.Text, row.Interval, row.Verdict)
		c.Rows = append(c.Rows, row)
	}
	return c
}

// A tuneCurve are the percentile curves of all settings.
type tuneCurve struct {
	Label    string
	Height   int
	Across   []htmlTick
	Up       []upTick
	Few      string // where fewer than ten requests of a run begin; "": nowhere
	FewWidth string
	Lines    []tuneLine
	Log      bool
	Dropped  bool
	Note     string
}

type tuneLine struct {
	Name, Tag, Class, Points string // the tag is shown where there is room
	LabelY                   float64
	Dropped                  bool
}

func newTuneCurve(p *tunePart) *tuneCurve {
	var count int64
	end, b := 0.0, newBounds()
	for _, s := range p.settings {
		for _, point := range s.Curve {
			count = max(count, point.Count)
			if point.Percentile < 100 {
				end = max(end, nines(point.Percentile))
			}
			b.add(point.Seconds)
		}
	}
	if b.high == 0 {
		return nil
	}
	for _, r := range p.runs {
		if n := len(r.Curve); count == 0 && n > 0 { // a setting's curve, of several runs, need not have counts
			count = r.Curve[n-1].Count
		}
	}
	end = max(1, min(end, 6))
	if count > 1 {
		end = max(1, math.Log10(float64(count)))
	}
	axes := curveAxes{end: end, y: b.axis("sec")}
	c := &tuneCurve{Height: tuneCurveHeight, Log: axes.y.log, Up: upTicks(axes.y, tuneCurveHeight)}
	if !axes.y.log && axes.y.low > 0 {
		c.Note = "The axis of times does not begin at 0."
	}
	for _, percentile := range curveTicks {
		if nines(percentile) <= end {
			text := "p" + number(percentile)
			if percentile == 0 {
				text = "0"
			}
			c.Across = append(c.Across, newTick(100*axes.across(percentile), text, percentile == 0 || percentile == 50 || count > 0 && nines(percentile) > carried(count)))
		}
	}
	if few := 100 * max(0, carried(count)) / end; count > 0 && few < 100 {
		c.Few, c.FewWidth = inPercent(few), inPercent(100-few)
	}
	c.Label = "Percentiles of the response by " + p.factor() + ":"
	for _, s := range slices.Backward(p.ordered()) { // the best on top
		if len(s.Curve) == 0 {
			continue
		}
		var points []string
		y := 0.0
		for _, point := range s.Curve {
			y = down(axes.y.share(point.Seconds), tuneCurveHeight)
			points = append(points, strings.TrimSuffix(inPercent(100*axes.across(point.Percentile)), "%")+","+pixels(y))
		}
		name, mark := p.name(s.Procs, s.GOGC), ""
		switch {
		case s.Best:
			mark = " best"
		case s.Current:
			mark = " now"
		}
		c.Dropped = c.Dropped || s.Dropped != ""
		c.Lines = append(c.Lines, tuneLine{Name: name, Tag: mark, Class: p.color(s.Procs, s.GOGC), Points: strings.Join(points, " "), LabelY: y + 4, Dropped: s.Dropped != ""})
		c.Label += " " + name + mark
		for _, quantity := range []string{"p50", p.tail()} {
			if v, ok := p.median(s, quantity); ok {
				c.Label += ", " + quantity + " " + p.value(quantity, v)
			}
		}
		c.Label += ";"
	}
	places := make([]float64, len(c.Lines))
	for i, l := range c.Lines {
		places[i] = l.LabelY
	}
	for i, y := range apart(places, tuneCurveHeight) {
		c.Lines[i].LabelY = math.Round(y*10) / 10
	}
	return c
}

// apart moves labels so that they are labelHeight from each other, and no further down than the drawing goes.
func apart(places []float64, bottom float64) []float64 {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(places[a], places[b]) })
	out := slices.Clone(places)
	for k := 1; k < len(order); k++ {
		out[order[k]] = max(out[order[k]], out[order[k-1]]+labelHeight)
	}
	limit := bottom
	for _, i := range slices.Backward(order) {
		out[i] = min(out[i], limit)
		limit = out[i] - labelHeight
	}
	return out
}

// tuneStrips are when runs were throttled: a strip for each setting, a line for each run.
type tuneStrips struct {
	Label, Factor, Which string
	GOGC                 bool
	Height               int
	Rows                 string // heights, for the grid
	Ticks                []htmlTick
	Strips               []tuneStrip
}

type tuneStrip struct {
	Name, Tag, About, Class string
	GridRow, Start          int
	Runs                    []tuneStripRun
}

type tuneStripRun struct {
	Title, Length string
	Y             int
	Steps         []tuneStripStep
}

type tuneStripStep struct{ X, Width, Share string }

// newTuneStrips draws the runs of the confirmation; of settings that weren't in it those of the last blocks. Where nothing
// was throttled, it says so.
func newTuneStrips(p *tunePart) (*tuneStrips, string) {
	c := &tuneStrips{Factor: p.factor(), GOGC: p.gogc, Which: "the last runs of the confirmation, and of the exploration of settings that were not in it"}
	end, throttled, confirmed := 0.0, int64(0), false
	type chosen struct {
		setting report.TuneSetting
		runs    []report.TuneRun
	}
	var all []chosen
	for _, s := range p.ordered() {
		var confirm, explore []report.TuneRun
		for _, r := range p.runs {
			if !of(r, s) || !r.Valid || r.Error != "" || !slices.ContainsFunc(r.Axis, func(step report.TuneStep) bool { return step.Periods > 0 }) {
				continue
			}
			switch r.Phase {
			case "confirm":
				confirm = append(confirm, r)
			case "explore":
				explore = append(explore, r)
			}
		}
		runs := explore
		if len(confirm) > 0 {
			runs, confirmed = confirm, true
		}
		runs = runs[max(0, len(runs)-stripsMost):]
		for _, r := range runs {
			for _, step := range r.Axis {
				end = max(end, step.At+step.Length)
				throttled += max(0, step.Throttled)
			}
		}
		if len(runs) > 0 {
			all = append(all, chosen{s, runs})
		}
	}
	switch {
	case len(all) == 0 || end <= 0:
		return nil, ""
	case throttled == 0:
		return nil, "In none of the runs was any period throttled."
	case !confirmed:
		c.Which = "the last runs of the exploration"
	}
	c.Ticks = axis{unit: "sec", high: end}.ticks()
	start := axisHeight
	rows := []string{"26px"}
	c.Label = "Share of throttled periods over time by " + c.Factor + ":"
	for i, choice := range all {
		tall := max(p.labelTall(), stripRun*len(choice.runs)+2*rowMargin)
		s := choice.setting
		strip := tuneStrip{Name: p.name(s.Procs, s.GOGC), Tag: tag(s), Class: p.color(s.Procs, s.GOGC), GridRow: i + 2, Start: start}
		var periods, stopped int64
		for k, r := range choice.runs {
			run := tuneStripRun{Y: start + (tall-stripRun*len(choice.runs))/2 + k*stripRun + 1}
			length := 0.0
			for _, step := range r.Axis {
				length = max(length, step.At+step.Length)
				if stop, of := step.ThrottledPeriods(); stop > 0 && step.Length > 0 && step.At >= 0 {
					run.Steps = append(run.Steps, tuneStripStep{
						inPercent(100 * step.At / end), inPercent(100 * step.Length / end), strconv.FormatFloat(math.Round(100*float64(stop)/float64(of))/100, 'f', -1, 64),
					})
				}
			}
			run.Length = inPercent(100 * length / end)
			n, of := r.ThrottledPeriods()
			run.Title = fmt.Sprintf("%s: %s throttled%s", p.runWords(r), plural(n, "period"), part(n, of))
			periods, stopped = periods+of, stopped+n
			strip.Runs = append(strip.Runs, run)
		}
		strip.About = tight(percent(float64(stopped)/float64(max(periods, 1)))) + " throttled, " + plural(int64(len(choice.runs)), "run")
		c.Label += " " + strip.Name + ": " + strip.About + ";"
		rows = append(rows, strconv.Itoa(tall)+"px")
		start += tall
		c.Strips = append(c.Strips, strip)
	}
	c.Height, c.Rows = start, strings.Join(rows, " ")
	return c, ""
}

// A tuneFront is what a setting costs against how fast it is.
type tuneFront struct {
	Title, Label string
	Across       []htmlTick
	Up           []upTick
	Height       int
	Path         string // of the front, in percent and pixels
	Points       []tuneFrontPoint
	XTitle       string
	YTitle       string
	Notes        []string
}

type tuneFrontPoint struct {
	Name, Class, Title string
	X, Y               string
	LabelY             float64
	DX                 string
	Anchor             string
	Runs               []htmlDot
	x, y               float64 // in percent, in pixels
}

func newTuneFront(p *tunePart) *tuneFront {
	across, up := quantityCPU, p.tail()
	xs, ys := newBounds(), newBounds()
	type place struct {
		s    report.TuneSetting
		x, y float64
	}
	var places []place
	for _, s := range p.settings {
		x, ok := p.median(s, across)
		y, alsoOK := p.median(s, up)
		if !ok || !alsoOK || x <= 0 || y <= 0 {
			continue
		}
		places = append(places, place{s, x, y})
		xs.add(x)
		ys.add(y)
		for _, r := range p.runs {
			if of(r, s) && counted(r) {
				if v, ok := p.figure(r, across); ok {
					xs.add(v)
				}
				if v, ok := p.figure(r, up); ok {
					ys.add(v)
				}
			}
		}
	}
	if len(places) < 2 {
		return nil
	}
	x, y := xs.axis(p.axisUnit(across)), ys.axis(p.axisUnit(up))
	c := &tuneFront{Height: tuneFrontHeight, Across: x.ticks(), Up: upTicks(y, tuneFrontHeight), XTitle: p.title(across), YTitle: p.title(up)}
	c.Title = c.YTitle + " by " + c.XTitle
	c.Notes = append(c.Notes, axisNotes("across", x)...)
	c.Notes = append(c.Notes, axisNotes("up", y)...)
	c.Label = c.Title + ":"
	for _, at := range places {
		point := tuneFrontPoint{
			Name: strings.TrimSpace(p.name(at.s.Procs, at.s.GOGC) + " " + tag(at.s)), Class: p.color(at.s.Procs, at.s.GOGC), x: x.share(at.x), y: down(y.share(at.y), tuneFrontHeight),
			DX: "10", Anchor: "start",
		}
		point.X, point.Y, point.LabelY = inPercent(point.x), pixels(point.y), point.y+4
		if point.x > 55 {
			point.DX, point.Anchor = "-10", "end"
		}
		point.Title = fmt.Sprintf("%s: %s %s, %s %s", point.Name, c.XTitle, p.value(across, at.x), c.YTitle, p.value(up, at.y))
		c.Label += " " + point.Title + ";"
		for _, r := range p.runs {
			vx, ok := p.figure(r, across)
			vy, alsoOK := p.figure(r, up)
			if ok && alsoOK && of(r, at.s) && counted(r) {
				point.Runs = append(point.Runs, htmlDot{X: x.at(vx), Y: pixels(down(y.share(vy), tuneFrontHeight))})
			}
		}
		c.Points = append(c.Points, point)
	}
	higher := up == quantityRate
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.x, b.x) })
	best, path, steps := math.Inf(1), "", 0
	for _, at := range places {
		v := at.y
		if higher {
			v = -v
		}
		if v < best {
			best = v
			steps++
			path += " " + strings.TrimSuffix(x.at(at.x), "%") + "," + pixels(down(y.share(at.y), tuneFrontHeight))
		}
	}
	if steps > 1 {
		c.Path = strings.TrimSpace(path)
	}
	c.spread()
	return c
}

// spread keeps labels apart that are beside each other.
func (c *tuneFront) spread() {
	const wide = 25 // percent: how far a label reaches on a phone
	for range len(c.Points) {
		for i := range c.Points {
			for j := range i {
				a, b := &c.Points[i], &c.Points[j]
				if math.Abs(a.x-b.x) > wide && a.Anchor == b.Anchor || math.Abs(a.LabelY-b.LabelY) >= labelHeight {
					continue
				}
				if a.LabelY < b.LabelY {
					a, b = b, a
				}
				move := (labelHeight - (a.LabelY - b.LabelY)) / 2
				a.LabelY, b.LabelY = math.Round(10*(a.LabelY+move))/10, math.Round(10*(b.LabelY-move))/10
			}
		}
	}
}

// axisNotes says of an axis of two which it is.
func axisNotes(which string, a axis) []string {
	switch {
	case a.log:
		return []string{"The axis " + which + " is logarithmic."}
	case a.low > 0:
		return []string{"The axis " + which + " does not begin at 0."}
	}
	return nil
}

// tuneLimits is the highest rate of each setting by limit.
type tuneLimits struct {
	Label     string
	Height    int
	Across    []htmlTick
	Up        []upTick
	Lines     []tuneLimitLine
	Rate      string // y of the user's rate; "": not known
	RateText  string
	Will      string // x of the smallest limit that will do
	WillText  string
	Anchor    string
	Notes     []string
	IsDefault bool
}

type tuneLimitLine struct {
	Name, Class, Points string
	LabelY              float64
	Dots                []htmlDot
}

func newTuneLimits(d *tuneDoc) *tuneLimits {
	xs, ys := newBounds(), newBounds()
	rate := 0.0
	if d.main >= 0 {
		rate = d.Loads[d.main].Rate
	}
	ys.add(rate)
	var procs []int
	known := false
	for _, l := range d.Limits {
		for _, s := range l.Settings {
			if s.Rate > 0 && l.CPUs > 0 {
				xs.add(l.CPUs)
				ys.add(s.Rate)
				known = true
				if !slices.Contains(procs, s.Procs) {
					procs = append(procs, s.Procs)
				}
			}
		}
	}
	if !known {
		return nil
	}
	slices.Sort(procs)
	x, y := xs.axis("limit"), ys.axis("/s")
	c := &tuneLimits{Height: tuneLimitsHeight, Up: upTicks(y, tuneLimitsHeight), Label: "The highest rate at which the SLO holds, by limit:"}
	limits := slices.Clone(d.Limits)
	slices.SortStableFunc(limits, func(a, b report.TuneLimit) int { return cmp.Compare(a.CPUs, b.CPUs) })
	last := math.Inf(-1)
	for i, l := range limits {
		if share := x.share(l.CPUs); l.CPUs > 0 && share-last >= 5 {
			c.Across = append(c.Across, newTick(share, cpus(l.CPUs), narrow(len(limits), i)))
			last = share
		}
	}
	for _, n := range procs {
		line := tuneLimitLine{Name: strconv.Itoa(n), Class: d.color(n, 0)}
		var points []string
		for _, l := range limits {
			for _, s := range l.Settings {
				if s.Procs != n || s.Rate <= 0 || l.CPUs <= 0 {
					continue
				}
				at := down(y.share(s.Rate), tuneLimitsHeight)
				dot := htmlDot{X: x.at(l.CPUs), Y: pixels(at), Text: fmt.Sprintf("%s, GOMAXPROCS=%d: %s", cpus(l.CPUs), n, perSecond(s.Rate))}
				if s.Text != "" {
					dot.Text += "; " + s.Text
				}
				if s.Default {
					dot.Class, c.IsDefault = "open", true
				}
				line.LabelY = at + 4
				line.Dots = append(line.Dots, dot)
				points = append(points, strings.TrimSuffix(dot.X, "%")+","+dot.Y)
				c.Label += " " + dot.Text + ";"
			}
		}
		line.Points = strings.Join(points, " ")
		c.Lines = append(c.Lines, line)
	}
	places := make([]float64, len(c.Lines))
	for i, l := range c.Lines {
		places[i] = l.LabelY
	}
	for i, at := range apart(places, tuneLimitsHeight) {
		c.Lines[i].LabelY = math.Round(at*10) / 10
	}
	if rate > 0 {
		c.Rate, c.RateText = pixels(down(y.share(rate), tuneLimitsHeight)), "your rate, "+perSecond(rate)
	}
	if will := d.Verdict.LimitCPUs; will > 0 {
		tick := newTick(x.share(will), "", false)
		c.Will, c.WillText, c.Anchor = tick.At, cpus(will)+" will do", tick.Anchor
	}
	c.Notes = append(axisNotes("across", x), axisNotes("up", y)...)
	return c
}
