package render

import (
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// LoadText writes the document of load for people: what was done and whether it held, the latencies and their curve, what
// else is to be known, and how it went over time.
func LoadText(w io.Writer, d *report.Load, style Style) error {
	d = printableLoad(d)
	t := &loadText{style: style, width: style.Width}
	if t.width == 0 {
		t.width = 80
	}
	t.verdict(d)
	if d.Search != nil {
		t.windows(d.Search.Windows)
	}
	if d.Response.Count > 0 {
		t.latencies(d)
		t.curve(d)
	}
	t.facts(d)
	t.overTime(d)
	if len(d.Warnings) > 0 {
		t.WriteByte('\n')
		warnings(&t.Builder, d.Warnings, style)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// loadText is the text as far as it is written.
type loadText struct {
	strings.Builder
	style Style
	width int // of what is drawn; lines of words may be of any length if the style says so
}

// line writes words, broken where the screen ends.
func (t *loadText) line(mark, text string) {
	t.WriteString(mark + t.style.wrap(text, visible(mark)) + "\n")
}

// verdict says what was done, and what came of it.
func (t *loadText) verdict(d *report.Load) {
	t.line("", t.style.bold(loadTitle(d)))
	if len(d.Targets) > 1 {
		for _, target := range targetTexts(d.Targets) {
			t.line("  ", target)
		}
	}
	v, remarks := loadVerdict(d), loadRemarks(d)
	if !d.Valid || v.Text != "" || len(remarks) > 0 {
		t.WriteByte('\n')
	}
	mark := "INVALID: "
	for _, why := range d.Invalid {
		t.line(t.style.bad(mark), why)
		mark = strings.Repeat(" ", len(mark))
	}
	if !d.Valid {
		if len(d.Invalid) == 0 {
			t.WriteString(t.style.bad(mark))
		}
		t.line("", invalidText(d))
	}
	if v.Text != "" {
		t.line(t.claim(v)+": ", v.Text)
	}
	for _, m := range v.Missed {
		t.line("  ", m)
	}
	for _, text := range remarks {
		t.line("", text)
	}
}

// claim is the word that the verdict is in.
func (t *loadText) claim(v loadVerdictText) string {
	switch v.Class {
	case "sure":
		return t.style.good(v.Claim)
	case "failed":
		return t.style.bad(v.Claim)
	}
	return t.style.bold(v.Claim)
}

// windows is the table of what was tried to find the highest rate.
func (t *loadText) windows(windows []report.LoadWindow) {
	if len(windows) == 0 {
		return
	}
	head, rows := windowTable(windows)
	rows = append([][]htmlCell{head}, rows...)
	paint := func(c htmlCell, text string) string {
		switch {
		case strings.Contains(c.Class, "better"):
			return t.style.good(text)
		case strings.Contains(c.Class, "worse"):
			return t.style.bad(text)
		}
		return text
	}
	lines := tableLines(rows, t.style, paint)
	if widest(lines) > t.width-2 { // why a window missed is in the last column: the first to go
		for i, row := range rows {
			rows[i] = row[:len(row)-1]
		}
		lines = tableLines(rows, t.style, paint)
	}
	t.WriteByte('\n')
	for _, line := range lines {
		t.WriteString("  " + line + "\n")
	}
}

func widest(lines []string) (width int) {
	for _, line := range lines {
		width = max(width, visible(line))
	}
	return width
}

// tableLines lays rows of cells out in columns.
func tableLines(rows [][]htmlCell, style Style, paint func(c htmlCell, text string) string) (lines []string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for j, c := range row {
			width[j] = max(width[j], visible(c.Text))
		}
	}
	for i, row := range rows {
		line := ""
		for j, c := range row {
			cell := padLeft(c.Text, width[j])
			if strings.HasPrefix(c.Class, "left") {
				cell = pad(c.Text, width[j])
			}
			if j == len(row)-1 {
				cell = strings.TrimRight(cell, " ")
			}
			if j > 0 {
				line += "  "
			}
			if i == 0 {
				line += style.dim(cell)
			} else {
				line += paint(c, cell)
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// latencies is the table of latencies, with what its columns mean beside it, or below it where the screen is narrow.
func (t *loadText) latencies(d *report.Load) {
	head, rows := latencyTable(d)
	lines := tableLines(append([][]htmlCell{head}, rows...), t.style, func(c htmlCell, text string) string {
		if strings.HasPrefix(c.Class, "left") {
			return t.style.dim(text)
		}
		return text
	})
	left := widest(lines) + 6 // two before, four behind
	room := t.width - left
	beside := room >= 30
	if !beside {
		room = t.width - 2
	}
	legend := t.legend(d, room)
	t.WriteByte('\n')
	for i, line := range lines {
		line = "  " + line
		if j := i - 1; beside && j >= 0 && j < len(legend) {
			line += strings.Repeat(" ", left-visible(line)) + legend[j]
		}
		t.WriteString(line + "\n")
	}
	if beside {
		legend = legend[min(len(legend), len(lines)-1):]
	}
	for _, line := range legend {
		t.WriteString("  " + line + "\n")
	}
	if notes := latencyNotes(d); len(notes) > 0 {
		t.line("  ", strings.Join(notes, " "))
	}
}

// legend explains the columns, in lines of a width.
func (t *loadText) legend(d *report.Load, width int) (lines []string) {
	s := Style{Color: t.style.Color, Width: width}
	for _, e := range latencyLegend(d) {
		name := pad(e.Name, 9)
		text := s.wrap(strings.Join(e.Texts, " "), visible(name))
		lines = append(lines, strings.Split(s.bold(name)+text, "\n")...)
	}
	return lines
}

// facts are lines of a name and what is to be said of it.
func (t *loadText) facts(d *report.Load) {
	groups := [][]htmlFact{answerFacts(d, 5), generatorFacts(d), serverFacts(d)}
	first := true
	for _, group := range groups {
		for _, f := range group {
			if first {
				t.WriteByte('\n')
				first = false
			}
			mark := t.style.bold(pad(f.Name, 12))
			for _, text := range f.Texts {
				t.line("  "+mark, text)
				mark = strings.Repeat(" ", 12)
			}
		}
	}
}
