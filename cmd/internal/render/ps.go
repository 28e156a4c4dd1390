package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// PsText writes the document of ps for people: a line a process, and below what is wrong and how to mend it.
func PsText(w io.Writer, d *report.Ps, style Style) error {
	var b strings.Builder
	psTable(&b, d, style)
	psFindings(&b, d, style)
	psFoot(&b, d, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// PsTable writes the table alone, for a screen that is drawn again and again. It is cut to the lines that there are.
func PsTable(w io.Writer, d *report.Ps, style Style, lines int) error {
	var b strings.Builder
	psTable(&b, d, style)
	rows := strings.SplitAfter(b.String(), "\n")
	rows = slices.DeleteFunc(rows, func(s string) bool { return s == "" })
	if room := lines - 1; lines > 1 && len(rows) > room {
		more := plural(int64(len(rows)-room+1), "more process")
		rows = append(rows[:room-1], style.dim("… "+more)+"\n")
	}
	b.Reset()
	b.WriteString(strings.Join(rows, ""))
	psFoot(&b, d, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// A column of a table.
type psColumn struct {
	title string
	right bool
	text  func(report.PsProcess) string
}

var psColumns = []psColumn{
	{"PID", true, func(p report.PsProcess) string { return strconv.Itoa(p.PID) }},
	{"NAME", false, func(p report.PsProcess) string { return printable(p.Name) }},
	{"GO", false, func(p report.PsProcess) string { return orDash(printable(strings.TrimPrefix(p.GoVersion, "go"))) }},
	{"GOMAXPROCS", false, psProcs},
	{"LIMIT", true, psLimit},
	{"CPUS", true, func(p report.PsProcess) string { return orDash(positiveInt(p.CPUs)) }},
	{"THROTTLED", true, func(p report.PsProcess) string { return shareOrDash(p.Share) }},
	{"FROZEN", true, func(p report.PsProcess) string {
		switch {
		case p.Frozen == nil:
			return "–"
		case !p.Frozen.Exact:
			return "≥" + wholePercent(p.Frozen.Share)
		}
		return wholePercent(p.Frozen.Share)
	}},
	{"CPU", true, func(p report.PsProcess) string {
		if p.CPU == nil {
			return "–"
		}
		return strconv.FormatFloat(*p.CPU, 'f', 2, 64)
	}},
	{"VERDICT", false, func(p report.PsProcess) string { return p.Verdict }},
}

// psNarrow are the columns that a narrow screen can do without, in the order in which they go.
var psNarrow = []string{"CPUS", "GO", "THROTTLED"}

func psTable(b *strings.Builder, d *report.Ps, style Style) {
	if len(d.Processes) == 0 {
		return
	}
	columns := slices.Clone(psColumns)
	rows, widths := psRows(columns, d)
	const shortest = 8 // of a name that is cut
	name := func() int { return slices.IndexFunc(columns, func(c psColumn) bool { return c.title == "NAME" }) }
	tooWide := func() int { return sum(widths) + 2*(len(widths)-1) - style.Width }
	for _, title := range psNarrow {
		if style.Width == 0 || tooWide() <= max(0, widths[name()]-shortest) {
			break
		}
		columns = slices.DeleteFunc(columns, func(c psColumn) bool { return c.title == title })
		rows, widths = psRows(columns, d)
	}
	if over := tooWide(); style.Width > 0 && over > 0 {
		widths[name()] = max(min(shortest, widths[name()]), widths[name()]-over)
	}
	for i, row := range rows {
		for j, c := range columns {
			text := cut(row[j], widths[j])
			last := j == len(columns)-1
			switch {
			case last:
			case c.right:
				text = padLeft(text, widths[j]) + "  "
			default:
				text = pad(text, widths[j]) + "  "
			}
			switch {
			case i == 0:
				text = style.bold(text)
			case last:
				text = severe(style, d.Processes[i-1].Severity, text)
			}
			b.WriteString(text)
		}
		b.WriteByte('\n')
	}
}

// psRows are the texts of the columns, the titles first, and how wide they are.
func psRows(columns []psColumn, d *report.Ps) (rows [][]string, widths []int) {
	rows, widths = make([][]string, 1, len(d.Processes)+1), make([]int, len(columns))
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
	}
	for _, p := range d.Processes {
		var row []string
		for _, c := range columns {
			row = append(row, c.text(p))
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	return rows, widths
}

// severe paints a verdict.
func severe(style Style, severity *finding.Severity, text string) string {
	switch {
	case severity == nil:
		return style.good(text)
	case *severity == finding.Info:
		return text
	case *severity == finding.Warning:
		return style.paint("33", text)
	}
	return style.bad(text)
}

func psProcs(p report.PsProcess) string {
	g := p.GOMAXPROCS
	if g.Value == nil {
		return "–"
	}
	text := strconv.Itoa(*g.Value)
	if g.Proof != report.ProofLive {
		text += "?"
	}
	if g.Source != "" {
		text += " " + psSources[g.Source]
	}
	return text
}

// psSources are short words for where a GOMAXPROCS comes from.
var psSources = map[string]string{
	"environment": "env", "limit": "limit", "cpus": "cpus", "automaxprocs": "automaxprocs", "unthrottle": "unthrottle", "call": "call",
}

func psLimit(p report.PsProcess) string {
	switch {
	case p.Limit.CPUs != nil:
		return strconv.FormatFloat(hundredths(*p.Limit.CPUs), 'f', -1, 64)
	case p.Limit.State == "none":
		return "none"
	}
	return p.Limit.State
}

func psFindings(b *strings.Builder, d *report.Ps, style Style) {
	for _, p := range d.Processes {
		if len(p.Findings) > 0 {
			fmt.Fprintf(b, "\n%s\n", style.bold(printable(p.Name)+", pid "+strconv.Itoa(p.PID)))
			writeFindings(b, p.Findings, style)
		}
	}
}

// writeFindings tells findings with their evidence and their fix.
func writeFindings(b *strings.Builder, findings []finding.Finding, style Style) {
	for _, f := range findings {
		b.WriteString("  " + style.wrap(severe(style, &f.Severity, f.Verdict)+": "+printable(f.Summary), 4) + "\n")
		for _, e := range f.Evidence {
			b.WriteString("    " + style.wrap(printable(e), 4) + "\n")
		}
		b.WriteString("    fix: " + style.wrap(printable(f.Fix), 9) + "\n")
		b.WriteString("    " + style.dim("more: docs/rules/"+f.Rule+".md") + "\n")
	}
}

func psFoot(b *strings.Builder, d *report.Ps, style Style) {
	var text string
	switch {
	case len(d.Processes) == 0:
		text = "no Go programs among " + plural(int64(d.Looked), "process")
	default:
		text = plural(int64(len(d.Processes)), "Go program") + " among " + plural(int64(d.Looked), "process")
	}
	if d.Seconds > 0 {
		text += ", looked at for " + seconds(hundredths(d.Seconds))
	}
	if d.System.Busy != nil {
		text += fmt.Sprintf("; %s of %s busy", number(hundredths(*d.System.Busy)), cpus(float64(d.System.CPUs)))
	}
	if d.Refused > 0 {
		text += "; " + plural(int64(d.Refused), "process") + " may not be looked into by this user"
	}
	if slices.ContainsFunc(d.Processes, func(p report.PsProcess) bool {
		return p.GOMAXPROCS.Value != nil && p.GOMAXPROCS.Proof != report.ProofLive
	}) {
		text += "; a GOMAXPROCS with ? is predicted, as the process's memory can't be read"
	}
	if len(d.Processes) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(style.dim(style.wrap(text, 0)) + "\n")
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

func positiveInt(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func shareOrDash(s *float64) string {
	if s == nil {
		return "–"
	}
	return wholePercent(*s)
}

// wholePercent prints a share without digits after the point, unless it is small.
func wholePercent(s float64) string {
	if s > 0 && s < 0.0095 {
		return "<1 %"
	}
	return strconv.FormatFloat(s*100, 'f', 0, 64) + " %"
}

// cut shortens text to a width.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}
