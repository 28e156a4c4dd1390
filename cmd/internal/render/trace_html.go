package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

//go:embed trace.html
var traceHTML string

// TraceHTML writes the document of trace as a page in the manner of WatchHTML: one file, which loads nothing, runs no
// script, and holds the document itself.
func TraceHTML(w io.Writer, d *report.Trace) error {
	document, err := json.Marshal(d) // escapes <, > and &, so that no text ends the element it is in
	if err != nil {
		return fmt.Errorf("writing the document into its page: %w", err)
	}
	page, err := parsePage("trace.html", traceHTML)
	if err != nil {
		return err
	}
	if err := parsePeriods(page); err != nil {
		return err
	}
	return page.Execute(w, newTracePage(printableTrace(d), document))
}

// tracePage is what the template shows.
type tracePage struct {
	Style, Drawings, Periods template.CSS
	Title, Summary           string
	Claim, Class, Text       string
	Low                      bool
	Warnings                 []string
	Chart                    *periodChart
	Figure, Legend           string
	Standstills              string
	Longest                  []traceMoment
	Requests                 string
	Handlers                 htmlRows
	Facts                    []htmlFacts
	Next                     []htmlCommand
	Command                  string
	Commands                 []htmlCommand
	Document                 template.JS
}

// traceMoment is a row of the longest freezes.
type traceMoment struct {
	At, Lasted, End string
	Ran, Waited     []string
}

func newTracePage(d *report.Trace, document []byte) tracePage {
	p := tracePage{
		Style: pageStyle(), Drawings: drawingsStyle(), Periods: periodsStyle(),
		Title: "unthrottle trace: " + traceSubject(d), Summary: tight(traceSubject(d)),
		Claim: traceClaim(d, Style{}), Class: "unsure", Low: d.Confidence == "low" && d.Cause != "unsure",
		Text: tight(upperFirst(strings.TrimSuffix(traceHeadline(d, Style{}), traceDoubtful(d))) + "."), Warnings: d.Warnings,
		Next: traceNext(d), Command: report.ShellWords(d.Command), Document: template.JS(document),
	}
	switch d.Cause {
	case "throttled", "contended":
		p.Class = "failed"
	case "none":
		p.Class = "sure"
	}
	p.Standstills, _ = traceStill(d)
	p.chart(d)
	for _, m := range d.Longest {
		p.Longest = append(p.Longest, newTraceMomentRow(d, m))
	}
	if h := d.Handlers; h != nil {
		texts := traceHandlers(h)
		p.Requests = tight(upperFirst(texts[0])) + "."
		p.Handlers.Head = []htmlCell{{"", "left"}, {"p50", ""}, {"p99", ""}, {"longest", ""}}
		for _, row := range []struct {
			name string
			l    report.TraceLatency
		}{{"took", h.Took}, {"freezes added", h.Added}, {"without freezes", h.Without}} {
			p.Handlers.Rows = append(p.Handlers.Rows, []htmlCell{{row.name, "left"}, {traceTime(row.l.P50), ""}, {traceTime(row.l.P99), ""}, {traceTime(row.l.Max), ""}})
		}
	}
	facts := slices.DeleteFunc(traceFacts(d), func(f htmlFact) bool { return f.Name == "requests" })
	for i := range facts {
		for j, text := range facts[i].Texts {
			facts[i].Texts[j] = tight(text)
		}
	}
	p.Facts = []htmlFacts{{"What it rests on", facts}, traceAsked(d)}
	for i := range p.Next {
		p.Next[i].Lines = strings.ReplaceAll(p.Next[i].Lines, "\n  ", "\n")
	}
	p.Commands = []htmlCommand{documentCommand("trace")}
	return p
}

// chart draws all periods.
func (p *tracePage) chart(d *report.Trace) {
	period, phase, quota := traceFold(d)
	p.Legend = "A row for each period."
	if quota {
		p.Legend += " It begins where the kernel refills the quota: what ends there is throttling."
	} else {
		p.Legend += fmt.Sprintf(" Freezes by a quota of %s would end below each other.", seconds(period))
	}
	spans := make([]span, 0, len(d.Freezes))
	for _, f := range d.Freezes {
		spans = append(spans, span{f.Start, max(f.Start, f.End)})
	}
	if p.Chart = newPeriodChart(d.Wall, period, phase, spans); p.Chart == nil {
		return
	}
	_, was := traceStill(d)
	p.Figure = "Filled: " + was + ". From left to right " + seconds(period) + ", from top to bottom " + lasting(d.Wall)
	if p.Chart.Each > 1 {
		p.Legend = strings.Replace(p.Legend, "A row for each period.", fmt.Sprintf("A row for %d periods: the more of them were frozen, the darker.", p.Chart.Each), 1)
	}
}

func newTraceMomentRow(d *report.Trace, m report.TraceMoment) traceMoment {
	row := traceMoment{At: traceAt(m.Start), Lasted: seconds(m.End - m.Start)}
	switch traceEnd(d, m.TraceFreeze) {
	case "refill":
		row.End = "to the refill"
	case "at another time":
		row.End = "not to a refill"
	}
	one := func(g report.TraceGoroutine) string {
		name := traceGoroutine(g)
		if id := fmt.Sprintf("goroutine %d", g.ID); name != id {
			name = fmt.Sprintf("%d: %s", g.ID, name)
		}
		if g.For > 0 {
			name += ", for " + seconds(g.For)
		}
		return name
	}
	for _, g := range m.Running {
		row.Ran = append(row.Ran, one(g))
	}
	if len(m.Running) == 0 {
		row.Ran = []string{traceRan(report.TraceMoment{Ps: m.Ps})}
	}
	if m.Serving {
		row.Ran = append(row.Ran, "serving requests")
	}
	if m.GC {
		row.Ran = append(row.Ran, "garbage collection")
	}
	for _, g := range m.Waiting {
		row.Waited = append(row.Waited, one(g))
	}
	if more := m.Waited - len(m.Waiting); more > 0 {
		row.Waited = append(row.Waited, fmt.Sprintf("and %d more", more))
	}
	return row
}

// traceAsked says what was done.
func traceAsked(d *report.Trace) htmlFacts {
	f := htmlFacts{Title: "What was read"}
	f.add("source", report.ShellWord(d.Source))
	if len(d.Recorded) > 0 {
		f.add("program", report.ShellWords(d.Recorded))
	}
	if d.Process != nil {
		text := fmt.Sprintf("%d %s", d.Process.PID, d.Process.Name)
		if d.Process.Live != nil {
			text += fmt.Sprintf(", GOMAXPROCS %d by its memory", *d.Process.Live)
		}
		f.add("process", text)
	}
	f.add("began", d.Began)
	f.add("lasted", lasting(d.Wall))
	if d.Period != nil {
		f.add("period", seconds(*d.Period)+map[string]string{"given": ", as --period says", "limit": ", that of the limit", "rhythm": ", by the rhythm of the freezes"}[d.PeriodFrom])
	}
	if d.Rhythm.Period > 0 {
		f.add("rhythm", fmt.Sprintf("R %.2f at %s; %s of the frozen time ends within %s of one phase", d.Rhythm.R, seconds(d.Rhythm.Period), percent(d.Rhythm.Locked), seconds(d.Rhythm.Window)))
	}
	f.add("silences", fmt.Sprintf("1 of 100 is above %s", seconds(d.Density.P99)))
	f.add("made by", d.MadeBy)
	return f
}
