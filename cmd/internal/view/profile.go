package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Profile shows what the profile is of, beside which limit, its CPU time by class, and why that is no verdict.
func Profile(d *report.Profile) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "profile", Subject: d.Subject(), Heading: true, Warnings: d.Warnings, Document: d, Command: report.ShellWords(d.Command),
		Claims: []sheet.Claim{{Word: "no verdict", Tone: sheet.Unsure, Text: d.Answer()}},
	}
	if d.Excess.Share != nil {
		s.Claims[0].More = []string{d.Hint()}
	}
	s.Add(sheet.Section{Title: "What is known besides", Quiet: true, Blocks: []sheet.Block{profileFacts(d)}})
	s.Add(sheet.Section{Title: "What is wrong", Blocks: []sheet.Block{sheet.Findings(d.Findings)}})
	s.Add(sheet.Section{
		Title: "Flame graph", About: "Stacks of functions, callers at the top; as wide as their CPU time, in the colour of their class",
		Detail: true, Blocks: []sheet.Block{profileFlame(d)},
	})
	s.Add(sheet.Section{Title: "Classes", Quiet: true, Blocks: []sheet.Block{profileClasses(d)}})
	s.Add(sheet.Section{Title: "Why a profile alone is no verdict", Blocks: []sheet.Block{sheet.Lines{Texts: d.Why}}})
	s.Add(next(d.Next()))
	return s
}

func profileFacts(d *report.Profile) (f sheet.Facts) {
	f.Add("limit", profileLimit(d.Limit))
	f.Add("CPU used", profileUsed(d))
	if d.Procs != nil {
		from := "read from its memory"
		if d.ProcsFrom == "metrics" {
			from = "from its metrics"
		}
		f.Add("GOMAXPROCS", fmt.Sprintf("%d, %s", *d.Procs, from))
	}
	if p := d.Process; p != nil && p.Periods != nil && p.ThrottledPeriods != nil && *p.Periods > 0 {
		text := "in " + watchPeriods(*p.ThrottledPeriods, *p.Periods) + " while the profile was taken"
		if p.ThrottledShare != nil {
			text += " (" + quantity.Share(*p.ThrottledShare) + "), by the kernel's count"
		}
		f.Add("throttled", text)
	}
	if d.Demand != nil {
		f.Add("demand", d.Demand.Text(), profileDemand(d.Demand))
	}
	f.Add("excess", profileExcess(d.Excess))
	if d.Interrupt != nil && *d.Interrupt > 0 {
		f.Add("interrupted", quantity.Share(*d.Interrupt)+" of the samples came while their thread was not on a CPU: frozen or waiting; a few % are usual")
	}
	if d.Base != nil {
		f.Add("base", profileBase(d.Base)...)
	}
	return f
}

func profileLimit(l report.ProfileLimit) string {
	switch {
	case l.CPUs != nil && l.From == "--limit":
		return quantity.CPUs(*l.CPUs) + ", as --limit says"
	case l.CPUs != nil:
		return quantity.CPUs(*l.CPUs) + ", set by " + l.From
	case l.State == "none":
		return "none"
	case l.State == "hidden":
		return "hidden: it is throttled, and no quota is in sight"
	case l.State == "unknown":
		return "unknown: it could not be read"
	}
	return "not given: --limit CPUS or --pid PID holds the CPU time against one"
}

// profileUsed is how much CPU time a second was used, by whose count.
func profileUsed(d *report.Profile) string {
	var parts []string
	if d.CPUs != nil {
		parts = append(parts, quantity.UsedCPUs(*d.CPUs)+" by the profile")
	}
	if d.Process != nil && d.Process.CPUs != nil {
		parts = append(parts, quantity.UsedCPUs(*d.Process.CPUs)+" by the kernel's count")
	}
	text := strings.Join(parts, ", ")
	if text == "" || d.Limit.Share == nil || d.Limit.Saturated == nil {
		return text
	}
	text += "; that is " + quantity.Share(*d.Limit.Share) + " of the limit"
	if *d.Limit.Saturated {
		text += ": saturated"
	}
	return text
}

// profileDemand says what the demand is from.
func profileDemand(m *report.ProfileDemand) string {
	text := "from /cpu/classes: (total − idle) ÷ CPU used"
	switch {
	case m.Over == "start":
		text += ", since the program's start"
	case m.Over == "files":
		text += ", between two pages of metrics"
	case m.Wanted != nil && m.Got != nil:
		text += ", " + quantity.Hundredths(*m.Wanted) + " Ps and " + quantity.UsedCPUs(*m.Got)
		if m.Covered != nil {
			text += "; it moves with collections only, which were " + quantity.Seconds(*m.Covered) + " apart"
		}
	}
	return text
}

func profileExcess(e report.ProfileExcess) string {
	switch {
	case e.Share == nil:
		return "not known: there are no samples"
	case e.Margin == nil:
		return quantity.Share(*e.Share) + " of the CPU time"
	}
	return quantity.Share(*e.Share) + " " + quantity.Margin(*e.Margin) + " of the CPU time"
}

func profileBase(b *report.ProfileBase) []string {
	text := report.ShellWord(b.Source) + ": " + quantity.Seconds(b.CPU) + " of CPU time"
	if b.Seconds != nil {
		text += " in " + quantity.Seconds(*b.Seconds)
	}
	if b.ExcessShare != nil {
		text += ", excess " + quantity.Share(*b.ExcessShare)
	}
	if b.PerUnit == nil {
		return []string{text}
	}
	unit := "unit of work"
	if b.UnitsBy == "program" {
		unit = "second of its own code"
	}
	costs := "a " + unit + " costs " + quantity.Times(*b.PerUnit) + " the CPU time of the base"
	if b.ExcessAdded != nil {
		costs += "; excess is " + quantity.Points(*b.ExcessAdded) + " of the difference"
	}
	return []string{text, costs}
}

// profileClasses are the classes, the largest first: those that grow with GOMAXPROCS, with their sum, and the others.
func profileClasses(d *report.Profile) *sheet.Table {
	t := &sheet.Table{Name: "classes", Columns: []sheet.Column{
		{Title: "class", Left: true},
		{Title: "share"},
		{Title: "base", Rank: 1},
		{Title: "a unit"},
		{Title: "CPU time"},
		{Title: "what it is", Left: true, Wrap: true, Rank: 2},
		{Title: "where it ran", Left: true, Wrap: true, Detail: true},
	}}
	var grows, stays []sheet.Row
	for _, c := range d.Sorted() {
		row := sheet.Row{Color: profileColor(c.Name), Cells: []sheet.Cell{{Text: c.Name}, {Text: quantity.Share(c.Share)}, {}, {}, {}, {Text: c.About}, {Text: profileTop(c)}}}
		if d.Base != nil {
			row.Cells[2].Text, row.Cells[3] = orShare(c.BaseShare), profileUnit(c)
		} else {
			row.Cells[4].Text = quantity.Seconds(c.CPU)
		}
		if c.Excess {
			grows = append(grows, row)
		} else {
			stays = append(stays, row)
		}
	}
	if d.Excess.Share != nil {
		sum := sheet.Row{Total: true, Cells: []sheet.Cell{{Text: "excess"}, {Text: quantity.Share(*d.Excess.Share)}, {}, {}, {}}}
		if d.Base != nil {
			sum.Cells[2].Text = orShare(d.Base.ExcessShare)
		} else {
			sum.Cells[4].Text = quantity.Seconds(d.Excess.CPU)
		}
		grows = append(grows, sum)
	}
	t.Rows = append(group("grows with GOMAXPROCS", grows), group("does not", stays)...)
	t.Notes = []sheet.Note{{Text: "A unit: CPU time a unit of work, as a multiple of that of the base.", Needs: []string{"a unit"}}}
	return t
}

// group puts a title above rows, if there are any.
func group(title string, rows []sheet.Row) []sheet.Row {
	if len(rows) == 0 {
		return nil
	}
	return append([]sheet.Row{{Group: true, Cells: []sheet.Cell{{Text: title}}}}, rows...)
}

func orShare(share *float64) string {
	if share == nil {
		return dash
	}
	return quantity.Share(*share)
}

func profileUnit(c report.ProfileClass) sheet.Cell {
	switch {
	case c.PerUnit == nil:
		return sheet.Cell{Text: dash}
	case c.Costly():
		return sheet.Cell{Text: quantity.Times(*c.PerUnit), Tone: sheet.Bad}
	}
	return sheet.Cell{Text: quantity.Times(*c.PerUnit)}
}

// profileTopShown is how many functions of a class are shown.
const profileTopShown = 3

func profileTop(c report.ProfileClass) string {
	var parts []string
	for _, f := range c.Top[:min(profileTopShown, len(c.Top))] {
		parts = append(parts, f.Name+" "+quantity.Seconds(f.CPU))
	}
	return strings.Join(parts, ", ")
}

// profileColors are the classes in the order of the colours of flames: those that grow with GOMAXPROCS have the warm ones, the
// program's own code a pale one.
var profileColors = []string{
	"steal", "wake-sleep", "idle-mark", "stop-world", "preempt", "sweep-lock", "mark", "sweep", "gc-other", "lock", "schedule", "netpoll", "alloc",
	"program", "other",
}

func profileColor(class string) sheet.Color {
	if i := slices.Index(profileColors, class); i >= 0 {
		return sheet.FirstFlame + sheet.Color(i)
	}
	return sheet.NoColor
}

// profileFlame is the tree of stacks: a frame comes after the one that it is in.
func profileFlame(d *report.Profile) *sheet.Flame {
	if d.CPU <= 0 {
		return nil
	}
	c := &sheet.Flame{Figure: sheet.Figure{
		About:  "Flame graph: stacks of functions, each as wide as its CPU time.",
		Legend: []string{"A red line above: it grows with GOMAXPROCS. Frames of less than 0.1 % are left out."},
	}}
	marked := map[string]bool{}
	for _, class := range d.Sorted() {
		if class.CPU <= 0 {
			continue
		}
		marked[class.Name] = class.Excess
		c.Classes = append(c.Classes, sheet.Class{Name: class.Name, Text: quantity.Share(class.Share), Color: profileColor(class.Name), Marked: class.Excess})
		c.About += " " + class.Name + " " + quantity.Share(class.Share) + ";"
	}
	type place struct{ next, end float64 } // where the next child begins, and where its parent ends
	places := []place{{0, 1}}
	for _, f := range d.Frames {
		depth := max(1, min(f.Depth, len(places)))
		of := &places[depth-1]
		from := of.next
		width := min(max(0, f.CPU/d.CPU), of.end-from)
		of.next += width
		places = append(places[:depth], place{from, from + width})
		c.Frames = append(c.Frames, sheet.Frame{
			Depth: depth, From: from, Width: width, Name: shortFunction(f.Function), Class: f.Class, Marked: marked[f.Class],
			Title: fmt.Sprintf("%s: %s, %s of the CPU time, %s", f.Function, quantity.Seconds(f.CPU), quantity.Share(f.CPU/d.CPU), f.Class),
		})
	}
	return c
}
