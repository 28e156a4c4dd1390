package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

//go:embed tune.html
var tuneHTML string

// TuneHTML writes the document of tune as a page in the manner of BenchHTML: one file, which loads nothing, runs no
// script, and holds the document itself.
func TuneHTML(w io.Writer, d *report.Tune) error {
	document, err := json.Marshal(d) // escapes <, > and &, so that no text ends the element it is in
	if err != nil {
		return fmt.Errorf("writing the document into its page: %w", err)
	}
	page, err := parsePage("tune.html", tuneHTML)
	if err != nil {
		return err
	}
	return page.Execute(w, newTunePage(newTuneDoc(d), document))
}

// tunePage is what the template shows.
type tunePage struct {
	Style, Drawings template.CSS
	Title, Summary  string
	Verdict         htmlVerdict
	Also            []string
	Unfinished      string
	Resume          string
	How             []report.TuneHow
	Doubts          string // a line that leads to the warnings
	Main            *tunePartPage
	Limits          *tuneLimits
	LimitTable      htmlRows
	LimitNotes      []string
	Others          []*tunePartPage
	Facts           []htmlFacts
	Warnings        []string
	Failures        []string
	Command, Seed   string
	Commands        []htmlCommand
	Document        template.JS
}

// A tunePartPage is what is shown of a load.
type tunePartPage struct {
	Heading, Text string
	Claim, Class  string
	Dots          []*tuneDots
	Effects       *tuneEffects
	Curve         *tuneCurve
	Strips        *tuneStrips
	Still         string // no period was throttled, and so there are no strips
	Front         *tuneFront
	Table         htmlRows
	Notes         []string
	EffectTable   htmlRows
}

func newTunePage(d *tuneDoc, document []byte) tunePage {
	p := tunePage{
		Style: pageStyle(), Drawings: drawingsStyle(), Title: "unthrottle tune", Also: tightAll(d.Verdict.Also), How: d.Verdict.How,
		Warnings: d.Warnings, Failures: d.failures(runsListed), Command: report.ShellWords(d.Command), Seed: strconv.FormatUint(d.Seed, 10),
		Document: template.JS(document),
	}
	p.Verdict = htmlVerdict{Text: tightUnits(d.Verdict.Text), Claim: "undecided", Class: "unsure"}
	if d.Verdict.Kind == "change" || d.Verdict.Kind == "keep" {
		p.Verdict.Claim, p.Verdict.Class = d.Verdict.Kind, "sure"
	}
	var summary []string
	if name := d.subject(); name != "" {
		p.Title += ": " + name
		summary = append(summary, name)
	}
	if limit := d.limitWords(); limit == "none" {
		summary = append(summary, "no limit")
	} else if limit != "" {
		summary = append(summary, "limit "+limit)
	}
	if took := d.tookWords(); took != "" {
		summary = append(summary, took)
	}
	p.Summary = strings.Join(summary, ", ")
	if !d.Finished {
		p.Unfinished, p.Resume = "Not finished.", d.Resume
	}
	if n := len(p.Warnings); n > 0 {
		p.Doubts = plural(int64(n), "warning")
	}
	if n := len(d.failures(1 << 30)); n > 0 {
		if p.Doubts != "" {
			p.Doubts += ", "
		}
		p.Doubts += plural(int64(n), "run") + " without figures"
	}
	for i, part := range d.parts() {
		if made := newTunePartPage(part); i == 0 {
			p.Main = made
		} else {
			p.Others = append(p.Others, made)
		}
	}
	p.Limits = newTuneLimits(d)
	if rows, tail := d.limitTable(); rows != nil {
		p.LimitTable, p.LimitNotes = htmlRows{tightRow(rows[0]), tightRows(rows[1:])}, tightAll(d.limitNotes(tail, "CPU"))
	}
	p.Facts = []htmlFacts{d.measured(), d.environment()}
	filter := ""
	if slices.ContainsFunc(d.Runs, func(r report.TuneRun) bool { return r.Phase == "confirm" }) {
		filter = " -filter /phase:confirm"
	}
	p.Commands = []htmlCommand{
		documentCommand("tune"),
		{"For benchstat, whose comparisons are not paired and so see less:", "unthrottle report --format bench -o tune.txt tune.json\nbenchstat -col /gomaxprocs" + filter + " -ignore /block tune.txt"},
	}
	return p
}

var unitSpaces = strings.NewReplacer(" %", "\u00a0%", " ms", "\u00a0ms", " µs", "\u00a0µs", " MiB", "\u00a0MiB", " GiB", "\u00a0GiB")

// tightUnits keeps units on the line of their numbers.
func tightUnits(text string) string { return unitSpaces.Replace(text) }

func tightAll(texts []string) (out []string) {
	for _, text := range texts {
		out = append(out, tightUnits(text))
	}
	return out
}

func tightRow(row []htmlCell) (out []htmlCell) {
	for _, c := range row {
		out = append(out, htmlCell{tight(c.Text), c.Class})
	}
	return out
}

func tightRows(rows [][]htmlCell) (out [][]htmlCell) {
	for _, row := range rows {
		out = append(out, tightRow(row))
	}
	return out
}

func newTunePartPage(p *tunePart) *tunePartPage {
	out := &tunePartPage{Heading: tight(upperFirst(p.where())), Text: tightUnits(p.load.Text), Claim: p.advice(), Class: "unsure", Notes: tightAll(p.notes())}
	if p.load.Done && (p.load.Kind == "change" || p.load.Kind == "keep") {
		out.Class = "sure"
	}
	for _, quantity := range []string{p.tail(), quantityCPU} {
		if dots := newTuneDots(p, quantity); dots != nil {
			dots.First = len(out.Dots) == 0
			out.Dots = append(out.Dots, dots)
		}
	}
	out.Effects = newTuneEffects(p)
	out.Curve = newTuneCurve(p)
	out.Strips, out.Still = newTuneStrips(p)
	out.Front = newTuneFront(p)
	if len(p.settings) > 0 {
		rows := tightRows(p.table())
		out.Table = htmlRows{rows[0], rows[1:]}
	}
	if len(p.load.Effects) > 0 {
		out.EffectTable = p.effectTable()
	}
	return out
}

// effectTable is the confirmation in numbers.
func (p *tunePart) effectTable() htmlRows {
	from, to := "current", "best"
	if p.rival != nil {
		to = p.name(p.rival.Procs, p.rival.GOGC)
	}
	for _, s := range p.settings {
		if s.Current {
			from = p.name(s.Procs, s.GOGC)
		}
	}
	t := htmlRows{Head: []htmlCell{{"", "left"}, {from, ""}, {to, ""}, {"change", ""}, {"95\u00a0% interval", ""}, {"p, adjusted", ""}, {"", "left"}}}
	for _, e := range p.load.Effects {
		quantity := p.effectQuantity(e)
		row := []htmlCell{{p.title(quantity), "left"}, {effectValue(quantity, e.From), ""}, {effectValue(quantity, e.To), ""}, {}, {}, {}, {}}
		if e.Ratio > 0 {
			row[3].Text = changed(e.Ratio)
			row[4].Text = changedInterval(e)
		}
		if e.Adjusted > 0 && e.Verdict != "" {
			row[5].Text = strconv.FormatFloat(e.Adjusted, 'g', 2, 64)
		}
		var verdict []string
		if text := effectVerdict(e); text != "" {
			verdict = append(verdict, text)
		}
		if !e.Decides {
			verdict = append(verdict, "does not decide")
		}
		row[6] = htmlCell{strings.Join(verdict, ", "), "left" + effectClass(e)}
		t.Rows = append(t.Rows, tightRow(row))
	}
	return t
}

// effectVerdict is what may be said of an effect.
func effectVerdict(e report.TuneEffect) string {
	switch e.Verdict {
	case "same":
		return "no worthwhile difference"
	case "better", "worse", "undecided", "too few":
		return e.Verdict
	}
	return ""
}

func (d *tuneDoc) environment() htmlFacts {
	e := d.Environment
	f := htmlFacts{Title: "Environment"}
	f.add("limit", append([]string{strings.Replace(e.LimitKind, "cgroup-v", "cgroup v", 1)}, e.Notes...)...)
	if e.OS != "" {
		f.add("system", e.OS+"/"+e.Arch)
	}
	f.add("kernel", e.Kernel)
	f.add("CPU", e.CPU)
	if e.CPUs > 0 {
		f.add("CPUs", cpus(float64(e.CPUs))+" may be used")
	}
	if e.Memory > 0 {
		f.add("memory", bytes(e.Memory))
	}
	f.add("Go", e.Go)
	f.add("made by", d.MadeBy)
	f.add("made at", d.Time)
	return f
}
