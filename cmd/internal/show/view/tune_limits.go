package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// limits is what each limit carries.
func (d *tuneDoc) limits() *sheet.Table {
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
		row := sheet.Row{Cells: []sheet.Cell{{Text: tuneLimit(l.CPUs)}}}
		for _, n := range procs {
			row.Cells = append(row.Cells, sheet.Cell{Text: limitRate(l, n)})
		}
		held, will := "", sheet.Cell{Text: orDash(d.Enough(l))}
		if l.Of > 0 {
			held = fmt.Sprintf("%d of %d", l.Held, l.Of) + when(!l.ByGo(), " with "+strconv.Itoa(l.Procs))
		}
		if l.Will {
			will.Tone = sheet.Good
		}
		row.Cells = append(row.Cells, sheet.Cell{Text: orDash(held)}, sheet.Cell{Text: l.Slower()}, sheet.Cell{Text: orDash(latency(l.P99))}, sheet.Cell{Text: orDash(latency(l.CPU))}, will)
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

// latency writes a time; "" if there is none.
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
