package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Profile shows what the profile is of, under which limit, its CPU time by class, and why that is not a verdict.
func Profile(d *report.Profile) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "profile", Subject: d.Subject(), Heading: true, Warnings: d.Warnings, Document: d, Command: report.Typed(d.Command),
		Claims: []sheet.Claim{profileClaim(d)},
	}
	s.Add(quiet("What else is known", profileFacts(d)))
	s.Add(wrong(d.Findings))
	s.Add(sheet.Section{
		Title: "Flame graph", About: "Stacks of functions, callers at the top; as wide as their CPU time, in the colour of their class",
		Detail: true, Blocks: []sheet.Block{profileFlame(d)},
	})
	s.Add(quiet("Classes", profileClasses(d)))
	s.Add(sheet.Section{Title: "Why a profile alone is not a verdict", Folded: true, Blocks: []sheet.Block{sheet.Lines{Texts: d.Why}}})
	s.Add(next(d.Next()))
	return s
}

// profileClaim is how the program fared under its limit, if that is known, and what its classes suggest: not a verdict.
func profileClaim(d *report.Profile) sheet.Claim {
	c := sheet.Claim{Word: "no verdict", Tone: sheet.Unsure, Text: d.Answer()}
	if hint := d.Hint(); d.Excess.Share != nil {
		c.More = []string{hint}
	}
	if lead := d.Lead(); lead != "" {
		c.Text, c.More = lead, []string{strings.Join(append([]string{d.Answer()}, c.More...), ": ")}
	}
	return c
}

func profileFacts(d *report.Profile) (f sheet.Facts) {
	f.Add("limit", profileLimit(d.Limit))
	f.Add("CPU used", profileUsed(d))
	if p := d.Process; p != nil && p.Periods != nil && p.ThrottledPeriods != nil && *p.Periods > 0 {
		f.Add("throttled", "in "+periods(*p.ThrottledPeriods, *p.Periods)+" while the profile was taken"+
			around(" (", known(p.ThrottledShare, quantity.Share), "), by the kernel's count"))
	}
	from := cmp.Or(when(d.ProcsFrom == "metrics", ", from its metrics"), ", read from its memory")
	f.Add("GOMAXPROCS", around("", known(d.Procs, strconv.Itoa), from))
	if d.Demand != nil {
		f.Add("demand", d.Demand.Text(), profileDemand(d.Demand))
	}
	margin := around(" ", known(d.Excess.Margin, quantity.Margin), "")
	f.Add("excess", cmp.Or(around("", known(d.Excess.Share, quantity.Share), margin+" of the CPU time"), "not known: there are no samples"))
	if d.Interrupt != nil && *d.Interrupt > 0 {
		f.Add("interrupted", quantity.Share(*d.Interrupt)+" of the samples came while their thread was not on a CPU: frozen or waiting; a few % is normal")
	}
	if d.Base != nil {
		f.Add("base", profileBase(d.Base)...)
	}
	return f
}

func profileLimit(l report.ProfileLimit) string {
	from := cmp.Or(when(l.From == "--limit", ", as --limit says"), ", set by "+l.From)
	others := map[string]string{
		"none": "none", "hidden": "hidden: it is throttled, but no quota can be seen", "unknown": "unknown: it could not be read",
	}
	return cmp.Or(around("", known(l.CPUs, quantity.CPUs), from), others[l.State],
		"not given: --limit CPUS or --pid PID compares the CPU time with one")
}

// profileUsed is how much CPU time a second was used, and by which count.
func profileUsed(d *report.Profile) string {
	counted := known(d.Process, func(p report.ProfileProcess) *float64 { return p.CPUs })
	text := joined(", ", around("", known(d.CPUs, quantity.UsedCPUs), " by the profile"),
		around("", known(counted, quantity.UsedCPUs), " by the kernel's count"))
	if text == "" || d.Limit.Share == nil || d.Limit.Saturated == nil {
		return text
	}
	return text + "; that is " + quantity.Share(*d.Limit.Share) + " of the limit" + when(*d.Limit.Saturated, ": saturated")
}

// profileDemand says where the demand was read.
func profileDemand(m *report.ProfileDemand) string {
	text := "from /cpu/classes: (total − idle) ÷ CPU used"
	switch {
	case m.Over == "start":
		text += ", since the program's start"
	case m.Over == "files":
		text += ", between two pages of metrics"
	case m.Wanted != nil && m.Got != nil:
		text += ", " + quantity.Hundredths(*m.Wanted) + " Ps and " + quantity.UsedCPUs(*m.Got) +
			around("; it is updated only at collections, which were ", known(m.Covered, quantity.Seconds), " apart")
	}
	return text
}

func profileBase(b *report.ProfileBase) []string {
	text := report.ShellWord(b.Source) + ": " + quantity.Seconds(b.CPU) + " of CPU time" +
		around(" in ", known(b.Seconds, quantity.Seconds), "") + around(", excess ", known(b.ExcessShare, quantity.Share), "")
	unit := cmp.Or(when(b.UnitsBy == "program", "a second of its own code"), "a unit of work")
	added := around("; excess is ", known(b.ExcessAdded, quantity.Points), " of the difference")
	return []string{text, around(unit+" costs ", known(b.PerUnit, quantity.Times), " the CPU time of the base"+added)}
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
	add := func(to *sheet.Table, name string, share, cpu float64, base *float64, more ...string) *sheet.Row {
		cells := []string{name, quantity.Share(share), "", "", quantity.Seconds(cpu)}
		if d.Base != nil {
			cells[2], cells[4] = orDash(known(base, quantity.Share)), ""
		}
		return to.Add(append(cells, more...)...)
	}
	var grows, stays sheet.Table
	for _, c := range d.Sorted() {
		to := &stays
		if c.Excess {
			to = &grows
		}
		row := add(to, c.Name, c.Share, c.CPU, c.BaseShare, c.About, profileTop(c))
		row.Color = profileColor(c.Name)
		if d.Base != nil {
			row.Cells[3].Text = orDash(known(c.PerUnit, quantity.Times))
		}
		if c.Costly() {
			row.Cells[3].Tone = sheet.Bad
		}
	}
	if d.Excess.Share != nil {
		base := known(d.Base, func(b report.ProfileBase) *float64 { return b.ExcessShare })
		add(&grows, "excess", *d.Excess.Share, d.Excess.CPU, base).Total = true
	}
	t.Rows = append(group("grows with GOMAXPROCS", grows.Rows), group("does not", stays.Rows)...)
	t.Notes = []sheet.Note{{Text: "A unit: CPU time a unit of work, as a multiple of the base's.", Needs: []string{"a unit"}}}
	return t
}

// group puts a title above rows, if there are any.
func group(title string, rows []sheet.Row) []sheet.Row {
	if len(rows) == 0 {
		return nil
	}
	return append([]sheet.Row{{Group: true, Cells: []sheet.Cell{{Text: title}}}}, rows...)
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
