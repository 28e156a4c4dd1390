package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// limits is what each limit carries.
func (d *tuneDoc) limits() *sheet.Table {
	if d.LimitsMemory() {
		return d.memoryLimits()
	}
	tail, cpu := d.MainLoad().Percentile(), d.title(report.TuneCPU)
	t := &sheet.Table{Name: "limits", Columns: []sheet.Column{{Title: "limit", Left: true}}}
	procs := d.LimitProcs()
	var rates []string
	for _, n := range procs {
		rates = append(rates, "GOMAXPROCS="+strconv.Itoa(n))
		t.Columns = append(t.Columns, sheet.Column{Title: rates[len(rates)-1], Short: "with " + strconv.Itoa(n), Rank: 1, With: rates[0]})
	}
	t.Columns = append(t.Columns, sheet.Column{Title: "held"}, sheet.Column{Title: "slower"}, sheet.Column{Title: tail, Rank: 2, With: cpu}, sheet.Column{Title: cpu, Rank: 3}, sheet.Column{Title: "will do", Left: true})
	for i := range d.Limits {
		l := &d.Limits[i]
		row := sheet.Row{Cells: []sheet.Cell{{Text: d.LimitText(l)}}}
		for _, n := range procs {
			row.Cells = append(row.Cells, sheet.Cell{Text: limitRate(l, n)})
		}
		row.Cells = append(row.Cells, d.heldCell(l), sheet.Cell{Text: l.Slower()}, sheet.Cell{Text: orDash(latency(l.P99))}, sheet.Cell{Text: orDash(latency(l.CPU))}, d.willCell(l))
		t.Rows = append(t.Rows, row)
	}
	t.Notes = []sheet.Note{
		{Text: d.RatesNote(), Needs: rates},
		{Text: d.HeldNote(tail, "CPU"), Needs: []string{tail, cpu}, Narrow: d.HeldNote()},
	}
	if note := d.SlowerNote(); note != "" {
		t.Notes = append(t.Notes, sheet.Note{Text: note})
	}
	return t
}

// memoryLimits is what each memory limit carries.
func (d *tuneDoc) memoryLimits() *sheet.Table {
	tail, cpu, change := d.MainLoad().Percentile(), d.title(report.TuneCPU), "CPU change"
	t := &sheet.Table{Name: "limits", Columns: []sheet.Column{
		{Title: "memory", Left: true},
		{Title: "held"},
		{Title: "slower", Rank: 1},
		{Title: tail, Rank: 2},
		{Title: cpu, Rank: 4},
		{Title: change},
		{Title: "interval", Rank: 3, With: change},
		{Title: "peak"},
		{Title: "will do", Left: true},
	}}
	for i := range d.Limits {
		l := &d.Limits[i]
		var by, interval, peak string
		limit := "no limit"
		if l.Memory > 0 {
			limit = quantity.Bytes(l.Memory)
		}
		if b := l.Beside; b != nil {
			by, interval = quantity.Change(b.Ratio), when(b.High > 0, quantity.Changes(b.Low, b.High))
		}
		if l.Peak > 0 {
			peak = quantity.Bytes(l.Peak)
		}
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{
			{Text: limit},
			d.heldCell(l),
			{Text: l.Slower()},
			{Text: orDash(latency(l.P99))},
			{Text: orDash(latency(l.CPU))},
			{Text: by},
			{Text: interval},
			{Text: orDash(peak)},
			d.willCell(l),
		}})
	}
	t.Notes = []sheet.Note{
		{Text: d.HeldNote()},
		{Text: quantity.List([]string{tail, "CPU", "peak"}) + " are medians of all windows at your rate.", Needs: []string{tail, cpu}, Narrow: "Peak is a median of all windows at your rate."},
	}
	if slices.ContainsFunc(d.Limits, func(l report.TuneLimit) bool { return l.Beside != nil }) {
		t.Notes = append(t.Notes, sheet.Note{Text: "CPU change: against the smallest that will do, by windows in turns."})
	}
	if note := d.SlowerNote(); note != "" {
		t.Notes = append(t.Notes, sheet.Note{Text: note, Needs: []string{"slower"}})
	}
	return t
}

// heldCell is how many windows held the SLO.
func (d *tuneDoc) heldCell(l *report.TuneLimit) sheet.Cell {
	if l.Of == 0 {
		return sheet.Cell{Text: dash}
	}
	return sheet.Cell{Text: fmt.Sprintf("%d of %d", l.Held, l.Of) + when(!l.ByGo(), " with "+strconv.Itoa(l.Procs))}
}

// willCell is whether a limit will do.
func (d *tuneDoc) willCell(l *report.TuneLimit) sheet.Cell {
	cell := sheet.Cell{Text: orDash(d.Enough(l))}
	if l.Will {
		cell.Tone = sheet.Good
	}
	return cell
}

// memoryChart is the CPU time of a request by memory limit.
func (d *tuneDoc) memoryChart() *sheet.Field {
	const headroom = 1.1
	cpu := d.title(report.TuneCPU)
	c := &sheet.Field{X: sheet.Axis{Title: "memory limit", Unit: quantity.Byte}, Y: sheet.Axis{Title: cpu, Unit: quantity.Second, Scale: sheet.Linear}}
	about := []string{cpu + ", by memory limit"}
	line := sheet.Line{Name: cpu, Color: d.color(report.TuneKey{Procs: d.Current.Procs})}
	for i := range d.Limits {
		l := &d.Limits[i]
		if l.Memory == 0 || l.CPU <= 0 {
			continue
		}
		c.X.Ticks = append(c.X.Ticks, float64(l.Memory))
		c.Y.High = max(c.Y.High, headroom*l.CPU) // from 0: small differences must look small
		text := joined("; ", d.LimitText(l)+": "+latency(l.CPU), d.Enough(l))
		line.Points = append(line.Points, sheet.Point{X: float64(l.Memory), Y: l.CPU, Show: sheet.Small, Title: text})
		about = append(about, text)
	}
	if len(line.Points) > 1 {
		c.Lines = []sheet.Line{line}
	}
	c.About = strings.Join(about, "; ")
	c.Legend = []string{"Medians of all windows at your rate. Under a limit that was too small there may be none."}
	if will := d.Verdict.Memory; will > 0 {
		c.Posts = []sheet.Rule{{At: float64(will), Text: quantity.Bytes(will) + " will do"}}
	}
	return c
}

// latency writes a time; "" for none.
func latency(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return quantity.Latency(seconds)
}

func limitRate(l *report.TuneLimit, procs int) string {
	r := l.Rates(procs)
	if r == nil || len(r.Windows) == 0 {
		return dash
	}
	text := "none"
	if r.Rate > 0 {
		text = quantity.PerSecond(r.Rate)
	}
	if l.Better(r) {
		text = "→ " + text
	}
	if r.Default {
		text += "*"
	}
	return text
}

// limitsChart is the highest rate of each setting by limit.
func (d *tuneDoc) limitsChart() *sheet.Field {
	c := &sheet.Field{X: sheet.Axis{Title: "limit", Unit: quantity.CPU}, Y: sheet.Axis{Title: "highest rate, a second", Unit: quantity.Rate}}
	about := []string{"The highest rate at which the SLO holds, by limit"}
	for _, l := range d.Limits {
		if l.CPUs > 0 {
			c.X.Ticks = append(c.X.Ticks, l.CPUs)
		}
	}
	c.Legend = []string{"A line is a GOMAXPROCS: the highest rate at which it holds the SLO under each limit that was tried."}
	byItself := false
	for _, n := range d.LimitProcs() {
		line := sheet.Line{Name: "GOMAXPROCS=" + strconv.Itoa(n), Short: strconv.Itoa(n), Color: d.color(report.TuneKey{Procs: n})}
		for i := range d.Limits {
			l := &d.Limits[i]
			r := l.Rates(n)
			if r == nil || r.Rate <= 0 || l.CPUs <= 0 {
				continue
			}
			text := joined("; ", fmt.Sprintf("%s, GOMAXPROCS=%d: %s", quantity.CPUs(l.CPUs), n, quantity.PerSecond(r.Rate)), r.Text)
			line.Points = append(line.Points, sheet.Point{X: l.CPUs, Y: r.Rate, Show: sheet.Small, Open: r.Default, Title: text})
			about = append(about, text)
			byItself = byItself || r.Default
		}
		if len(line.Points) > 0 {
			c.Lines = append(c.Lines, line)
		}
	}
	c.About = strings.Join(about, "; ")
	if byItself {
		c.Legend = append(c.Legend, "Hollow: what Go chooses by itself under that limit.")
	}
	if rate := d.MainLoad().Rate; rate > 0 {
		c.Rules = []sheet.Rule{{At: rate, Text: "your rate, " + quantity.PerSecond(rate), Color: sheet.BadColor}}
	}
	if will := d.Verdict.LimitCPUs; will > 0 {
		c.Posts = []sheet.Rule{{At: will, Text: quantity.CPUs(will) + " will do"}}
	}
	return c
}
