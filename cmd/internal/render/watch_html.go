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

//go:embed watch.html
var watchHTML string

// WatchHTML writes the document of watch as a page in the manner of LoadHTML: one file, which loads nothing, runs no
// script, and holds the document itself.
func WatchHTML(w io.Writer, d *report.Watch) error {
	document, err := json.Marshal(d) // escapes <, > and &, so that no text ends the element it is in
	if err != nil {
		return fmt.Errorf("writing the document into its page: %w", err)
	}
	page, err := parsePage("watch.html", watchHTML)
	if err != nil {
		return err
	}
	if err := parsePeriods(page); err != nil {
		return err
	}
	return page.Execute(w, newWatchPage(d, document))
}

// watchPage is what the template shows.
type watchPage struct {
	Style, Drawings, Periods template.CSS
	Title, Summary           string
	Claim, Class, Text       string
	Warnings                 []string
	Chart                    *periodChart
	Figure, Legend           string
	Longest                  htmlRows
	Facts                    []htmlFacts
	Command                  string
	Commands                 []htmlCommand
	Document                 template.JS
}

// usualPeriod is what rows are drawn in where no quota is known.
const usualPeriod = 0.1

// longestListed is how many freezes the page lists.
const longestListed = 10

func newWatchPage(d *report.Watch, document []byte) watchPage {
	p := watchPage{
		Style: pageStyle(), Drawings: drawingsStyle(), Periods: periodsStyle(),
		Title: "unthrottle watch: " + watchSubject(d), Summary: tight(watchSubject(d) + ", " + lasting(d.Elapsed)),
		Claim: watchClaim(d, Style{}), Class: "unsure", Text: tight(upperFirst(watchVerdict(d)) + "."),
		Command: report.ShellWords(d.Command), Document: template.JS(document),
	}
	switch d.Cause {
	case "throttled", "contended":
		p.Class = "failed"
	case "none":
		p.Class = "sure"
	}
	for _, text := range d.Warnings {
		p.Warnings = append(p.Warnings, printable(text))
	}
	period, phase := usualPeriod, 0.0
	if d.PeriodSeconds != nil {
		period = *d.PeriodSeconds
	}
	if d.Cause == "throttled" && d.Rhythm.Period > 0 {
		phase = d.Rhythm.Phase
	}
	p.Chart = newPeriodChart(d.Elapsed, period, phase, watchSpans(d))
	p.Figure = "Filled: nothing ran. From left to right " + seconds(period) + ", from top to bottom " + lasting(d.Elapsed)
	p.Legend = "A row for each period."
	if p.Chart != nil && p.Chart.Each > 1 {
		p.Legend = fmt.Sprintf("A row for %d periods: the more of them were frozen, the darker.", p.Chart.Each)
	}
	if d.Cause == "throttled" && d.Rhythm.Period > 0 {
		p.Legend += " It begins where the kernel refills the quota: what ends there is throttling."
	}
	p.Longest = watchLongest(d)
	facts := watchFacts(d)
	for i := range facts {
		for j, text := range facts[i].Texts {
			facts[i].Texts[j] = tight(printable(text))
		}
	}
	p.Facts = []htmlFacts{{"What it rests on", facts}, watchAsked(d)}
	p.Commands = []htmlCommand{documentCommand("watch")}
	return p
}

func watchSpans(d *report.Watch) (spans []span) {
	for _, f := range d.Freezes {
		spans = append(spans, span{f.Start, f.End})
	}
	return spans
}

// watchLongest is the table of the longest freezes.
func watchLongest(d *report.Watch) (rows htmlRows) {
	freezes := slices.Clone(d.Freezes)
	slices.SortStableFunc(freezes, func(a, b report.WatchFreeze) int {
		switch la, lb := a.End-a.Start, b.End-b.Start; {
		case la > lb:
			return -1
		case la < lb:
			return 1
		}
		return 0
	})
	rows.Head = []htmlCell{{"began at", "left"}, {"lasted", ""}, {"ended", "left"}}
	for _, f := range freezes[:min(len(freezes), longestListed)] {
		end := "at another time"
		if f.AtPhase && d.Cause == "throttled" {
			end = "with the refill of the quota"
		}
		rows.Rows = append(rows.Rows, []htmlCell{{fmt.Sprintf("%.3f s", f.Start), "left"}, {seconds(f.End - f.Start), ""}, {end, "left"}})
	}
	return rows
}

// watchAsked says what was done.
func watchAsked(d *report.Watch) htmlFacts {
	f := htmlFacts{Title: "What was watched"}
	f.add("subject", watchSubject(d))
	if d.Moved {
		f.add("heartbeat", "a process of its own, moved into that group for the time")
	}
	f.add("began", printable(d.Began))
	f.add("watched", lasting(d.Elapsed))
	f.add("made by", printable(d.MadeBy))
	return f
}

// WatchMarkdown writes the verdict and what it rests on, to be put into an issue.
func WatchMarkdown(w io.Writer, d *report.Watch) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s: %s**\n\n", watchClaim(d, Style{}), markdown(watchVerdict(d)))
	fmt.Fprintf(&b, "%s, %s\n\n", markdown(upperFirst(watchSubject(d))), lasting(d.Elapsed))
	for _, f := range watchFacts(d) {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, markdown(strings.Join(f.Texts, "; ")))
	}
	for _, text := range d.Warnings {
		fmt.Fprintf(&b, "- warning: %s\n", markdown(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
