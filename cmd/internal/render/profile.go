package render

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// ProfileText writes the document of profile for people: what the profile is of, beside which limit, its CPU time by class,
// and why that is no verdict.
func ProfileText(w io.Writer, d *report.Profile, style Style) error {
	d = printableProfile(d)
	t := &loadText{style: style, width: style.Width}
	if t.width == 0 {
		t.width = 80
	}
	t.line("", t.style.bold(profileTitle(d)))
	t.WriteByte('\n')
	for _, f := range profileFacts(d) {
		mark := t.style.bold(pad(f.Name, 12))
		for _, text := range f.Texts {
			t.line("  "+mark, text)
			mark = strings.Repeat(" ", 12)
		}
	}
	t.profileClasses(d)
	t.WriteByte('\n')
	for _, why := range profileWhy(d) {
		t.line("", why)
	}
	for _, next := range profileNext(d) {
		t.WriteByte('\n')
		t.line("", next.Text)
		t.WriteString("  " + next.Lines + "\n")
	}
	if len(d.Warnings) > 0 {
		t.WriteByte('\n')
		warnings(&t.Builder, d.Warnings, style)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// profileClasses is the table of classes, with what they are in lines that end where the screen does.
func (t *loadText) profileClasses(d *report.Profile) {
	groups := profileGroups(d)
	head := profileHead(d)
	rows := [][]htmlCell{head}
	for _, g := range groups {
		for _, row := range g.Rows {
			rows = append(rows, row.Cells)
		}
	}
	lines := tableLines(rows, t.style, func(c htmlCell, text string) string {
		if strings.Contains(c.Class, "worse") {
			return t.style.bad(text)
		}
		return text
	})
	left := widest(lines) + 4
	s := Style{Color: t.style.Color, Width: t.width}
	put := func(line, about string) {
		line = "  " + line
		if t.width-left < 20 {
			t.WriteString(strings.TrimRight(line, " ") + "\n")
			return
		}
		line += strings.Repeat(" ", left-visible(line))
		t.WriteString(strings.TrimRight(line+s.wrap(about, left), " ") + "\n")
	}
	t.WriteByte('\n')
	put(lines[0], "")
	lines = lines[1:]
	for _, g := range groups {
		t.WriteString(t.style.bold("  "+g.Title) + "\n")
		for _, row := range g.Rows {
			about := row.About
			if row.Sum {
				lines[0] = t.style.bold(lines[0])
			}
			put(lines[0], about)
			lines = lines[1:]
		}
	}
}

// printableProfile is a copy that is safe to show.
func printableProfile(d *report.Profile) *report.Profile {
	c := clean(reflect.ValueOf(*d)).Interface().(report.Profile)
	c.Command, c.Source, c.Saved = d.Command, d.Source, d.Saved // report.ShellWords takes care of them
	for i := range c.Classes {
		c.Classes[i].Share = max(0, min(c.Classes[i].Share, 1))
	}
	return &c
}

func profileName(d *report.Profile) string {
	switch {
	case d.Program != "":
		return d.Program
	case d.Process != nil && d.Process.Name != "":
		return d.Process.Name
	}
	return "a program"
}

func profileTitle(d *report.Profile) string {
	title := fmt.Sprintf("CPU profile of %s: %s of CPU time", profileName(d), seconds(d.CPU))
	if d.Seconds != nil {
		title += " in " + seconds(*d.Seconds)
	}
	return title + ", " + thousands(d.Samples) + plainPlural(d.Samples, " sample")
}

// plainPlural is the word alone.
func plainPlural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// profileFacts are what is known besides the classes.
func profileFacts(d *report.Profile) []htmlFact {
	f := htmlFacts{}
	f.add("limit", profileLimit(d.Limit))
	if text := profileUsed(d); text != "" {
		f.add("CPU used", text)
	}
	if d.Procs != nil {
		from := "read from its memory"
		if d.ProcsFrom == "metrics" {
			from = "from its metrics"
		}
		f.add("GOMAXPROCS", fmt.Sprintf("%d, %s", *d.Procs, from))
	}
	if p := d.Process; p != nil && p.Periods != nil && p.ThrottledPeriods != nil && *p.Periods > 0 {
		text := fmt.Sprintf("in %d of %s while the profile was taken", *p.ThrottledPeriods, plural(*p.Periods, "period"))
		if p.ThrottledShare != nil {
			text += " (" + percent(*p.ThrottledShare) + "), by the kernel's count"
		}
		f.add("throttled", text)
	}
	if d.Demand != nil {
		f.add("demand", profileDemand(d.Demand)...)
	}
	f.add("excess", profileExcess(d)...)
	if d.Interrupt != nil && *d.Interrupt > 0 {
		f.add("interrupted", percent(*d.Interrupt)+" of the samples came while their thread was not on a CPU: frozen or waiting; a few % are usual")
	}
	if d.Base != nil {
		f.add("base", profileBase(d.Base)...)
	}
	return f.Facts
}

func profileLimit(l report.ProfileLimit) string {
	switch {
	case l.CPUs != nil && l.From == "--limit":
		return cpus(*l.CPUs) + ", as --limit says"
	case l.CPUs != nil:
		return cpus(*l.CPUs) + ", set by " + l.From
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
		parts = append(parts, cpus(hundredths(*d.CPUs))+" by the profile")
	}
	if d.Process != nil && d.Process.CPUs != nil {
		parts = append(parts, cpus(hundredths(*d.Process.CPUs))+" by the kernel's count")
	}
	text := strings.Join(parts, ", ")
	if text == "" || d.Limit.Share == nil || d.Limit.Saturated == nil {
		return text
	}
	text += "; that is " + percent(*d.Limit.Share) + " of the limit"
	if *d.Limit.Saturated {
		return text + ": saturated"
	}
	return text
}

func profileDemand(m *report.ProfileDemand) []string {
	texts := []string{m.Text()}
	how := "from /cpu/classes: (total − idle) ÷ CPU used"
	switch {
	case m.Over == "start":
		how += ", since the program's start"
	case m.Over == "files":
		how += ", between two pages of metrics"
	case m.Wanted != nil && m.Got != nil:
		how += fmt.Sprintf(", %s Ps and %s", number(hundredths(*m.Wanted)), cpus(hundredths(*m.Got)))
		if m.Covered != nil {
			how += fmt.Sprintf("; it moves with collections only, which were %s apart", seconds(*m.Covered))
		}
	}
	return append(texts, how)
}

func profileExcess(d *report.Profile) []string {
	e := d.Excess
	if e.Share == nil {
		return []string{"not known: there are no samples"}
	}
	text := percent(*e.Share)
	if e.Margin != nil {
		text += " ± " + number(math.Round(*e.Margin*1000)/10) + " points"
	}
	return []string{text + " of the CPU time is in classes that grow with GOMAXPROCS", d.Hint()}
}

func profileBase(b *report.ProfileBase) []string {
	text := report.ShellWord(b.Source) + ": " + seconds(b.CPU) + " of CPU time"
	if b.Seconds != nil {
		text += " in " + seconds(*b.Seconds)
	}
	if b.ExcessShare != nil {
		text += ", excess " + percent(*b.ExcessShare)
	}
	texts := []string{text}
	unit := "unit of work"
	if b.UnitsBy == "program" {
		unit = "second of its own code"
	}
	if b.PerUnit != nil {
		text := "a " + unit + " costs ×" + factor(*b.PerUnit) + " the CPU time of the base"
		if b.ExcessAdded != nil {
			text += fmt.Sprintf("; excess is %s points of the difference", signed(*b.ExcessAdded*100))
		}
		texts = append(texts, text)
	}
	return texts
}

func signed(v float64) string {
	text := number(math.Round(v))
	if v >= 0.5 {
		text = "+" + text
	}
	return strings.Replace(text, "-", "−", 1)
}

// factor prints a ratio with three digits at most.
func factor(v float64) string {
	switch {
	case v >= 100:
		return thousands(int64(v + 0.5))
	case v >= 10:
		return number(float64(int64(v*10+0.5)) / 10)
	}
	return number(hundredths(v))
}

// A profileGroup is a part of the table of classes.
type profileGroup struct {
	Title string
	Rows  []profileRow
}

type profileRow struct {
	Class string // its name, for its colour; "": a sum
	Cells []htmlCell
	About string
	Sum   bool
	Top   string
	Bar   string // its share, for a bar
}

// profileHead are the table's headings.
func profileHead(d *report.Profile) []htmlCell {
	head := []htmlCell{{"class", "left"}, {"share", ""}}
	if d.Base != nil {
		return append(head, htmlCell{"base", ""}, htmlCell{"a unit", ""})
	}
	return append(head, htmlCell{"CPU time", ""})
}

// profileGroups are the classes that are in the profile or its base, the largest first: those that grow with GOMAXPROCS,
// with their sum, and the others.
func profileGroups(d *report.Profile) []profileGroup {
	grow, stay := profileGroup{Title: "grows with GOMAXPROCS"}, profileGroup{Title: "does not"}
	for _, c := range bySize(d.Classes) {
		if c.CPU <= 0 && (c.BaseShare == nil || *c.BaseShare <= 0) {
			continue
		}
		row := profileRow{Class: c.Name, About: c.About, Cells: []htmlCell{{c.Name, "left"}, {percent(c.Share), ""}}, Bar: inPercent(100 * c.Share)}
		if d.Base != nil {
			row.Cells = append(row.Cells, shareCell(c.BaseShare), unitCell(c))
		} else {
			row.Cells = append(row.Cells, htmlCell{seconds(c.CPU), ""})
		}
		row.Top = profileTop(c)
		if c.Excess {
			grow.Rows = append(grow.Rows, row)
		} else {
			stay.Rows = append(stay.Rows, row)
		}
	}
	if d.Excess.Share != nil {
		sum := profileRow{Sum: true, Cells: []htmlCell{{"excess", "left"}, {percent(*d.Excess.Share), ""}}, Bar: inPercent(100 * max(0, min(*d.Excess.Share, 1)))}
		if d.Base != nil {
			sum.Cells = append(sum.Cells, shareCell(d.Base.ExcessShare), htmlCell{"", ""})
		} else {
			sum.Cells = append(sum.Cells, htmlCell{seconds(d.Excess.CPU), ""})
		}
		grow.Rows = append(grow.Rows, sum)
	}
	var groups []profileGroup
	for _, g := range []profileGroup{grow, stay} {
		if len(g.Rows) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// bySize sorts classes, the largest first.
func bySize(classes []report.ProfileClass) []report.ProfileClass {
	sorted := slices.Clone(classes)
	slices.SortStableFunc(sorted, func(a, b report.ProfileClass) int { return cmp.Compare(b.CPU, a.CPU) })
	return sorted
}

func shareCell(share *float64) htmlCell {
	if share == nil {
		return htmlCell{"–", ""}
	}
	return htmlCell{percent(*share), ""}
}

func unitCell(c report.ProfileClass) htmlCell {
	if c.PerUnit == nil {
		return htmlCell{"–", ""}
	}
	cell := htmlCell{Text: "×" + factor(*c.PerUnit)}
	if c.Costly() {
		cell.Class = "worse"
	}
	return cell
}

// topShown is how many functions of a class are shown.
const topShown = 3

func profileTop(c report.ProfileClass) string {
	var parts []string
	for _, f := range c.Top[:min(topShown, len(c.Top))] {
		parts = append(parts, f.Name+" "+seconds(f.CPU))
	}
	return strings.Join(parts, ", ")
}

// profileWhy says that this is no verdict, and why.
func profileWhy(d *report.Profile) []string {
	if len(d.Why) == 0 {
		return nil
	}
	return append([]string{"No verdict: " + lowerFirst(d.Why[0])}, d.Why[1:]...)
}

func lowerFirst(text string) string {
	if strings.HasPrefix(text, "A ") {
		return "a" + text[1:]
	}
	return text
}

// excessFunctions is a regular expression for go tool pprof of where excess begins.
const excessFunctions = `runtime\.(stealWork|stopm|startm|wakep|gcDrainMarkWorkerIdle|stopTheWorld|forEachP)`

// profileNext are commands that lead on.
func profileNext(d *report.Profile) (next []htmlCommand) {
	file := d.Source
	if d.Saved != "" {
		file = d.Saved
	}
	if file == "-" {
		file = "FILE"
	}
	next = append(next, htmlCommand{
		"All of it, and the callers of what grows:",
		"go tool pprof -http=: " + report.ShellWord(file) + "\n  go tool pprof -peek '" + excessFunctions + "' " + report.ShellWord(file),
	})
	if d.Base != nil {
		return next
	}
	source := "unthrottle profile " + report.ShellWord(d.Source)
	const other = "Beside the same program at GOMAXPROCS = its limit, or at another time:"
	switch {
	case d.Saved != "":
		next = append(next, htmlCommand{"This one as the base of another:", source + " --base " + report.ShellWord(d.Saved)})
	case strings.Contains(d.Source, "://"):
		next = append(next, htmlCommand{other, source + " --save base.pb.gz\n  " + source + " --base base.pb.gz"})
	default:
		next = append(next, htmlCommand{other, source + " --base BASE"})
	}
	return next
}
