package render

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// TuneText writes the document of tune for people: what to do, the settings side by side, how that was measured, and how
// to set it.
func TuneText(w io.Writer, d *report.Tune, style Style) error {
	t := &loadText{style: style, width: style.Width}
	if t.width == 0 {
		t.width = 80
	}
	c := newTuneDoc(d)
	t.tuneVerdict(c)
	t.tuneLimits(c)
	for _, p := range c.parts() {
		t.tuneSettings(p)
	}
	t.tuneMeasured(c)
	t.tuneDoubts(c)
	for _, how := range c.Verdict.How {
		t.WriteString("\n" + style.bold(how.Where+":") + "\n")
		for _, line := range strings.Split(how.Text, "\n") {
			t.WriteString(strings.TrimRight("  "+line, " ") + "\n")
		}
	}
	t.tuneAgain(c)
	_, err := io.WriteString(w, strings.TrimLeft(t.String(), "\n"))
	return err
}

func (t *loadText) tuneVerdict(d *tuneDoc) {
	if d.Verdict.Text != "" {
		for _, line := range strings.Split(t.style.wrap(d.Verdict.Text, 0), "\n") {
			t.WriteString(t.style.bold(line) + "\n")
		}
	}
	for _, text := range d.Verdict.Also {
		t.line("", text)
	}
}

// tuneTable writes a table indented by two; the best setting's row is bold.
func (t *loadText) tuneTable(rows [][]htmlCell) {
	best := func(i int) bool { return i > 0 && strings.HasPrefix(rows[i][0].Text, "→") }
	for i, line := range tableLines(rows, t.style, func(c htmlCell, text string) string {
		switch {
		case strings.Contains(c.Class, "better"):
			return t.style.good(text)
		case strings.Contains(c.Class, "worse"):
			return t.style.bad(text)
		}
		return text
	}) {
		if best(i) && t.style.Color { // the first cell only: codes don't nest
			mark := pad(rows[i][0].Text, 0)
			line = t.style.bold(mark) + strings.TrimPrefix(line, mark)
		}
		t.WriteString("  " + line + "\n")
	}
}

func (t *loadText) tuneSettings(p *tunePart) {
	if len(p.settings) == 0 {
		return
	}
	t.WriteByte('\n')
	if heading := p.heading(); heading != "" {
		t.line("", t.style.bold(upperFirst(heading)))
	}
	columns := p.columns()
	columns[0].head.Text = "  GOMAXPROCS" // above the numbers, not above the marks
	t.tuneTable(fit(columns, t.width-2))
	for _, note := range p.notes() {
		t.line("  ", t.style.dim(note))
	}
}

func (t *loadText) tuneLimits(d *tuneDoc) {
	rows, tail := d.limitTable()
	if rows == nil {
		return
	}
	t.WriteByte('\n')
	width := func() int {
		return widest(tableLines(rows, t.style, func(_ htmlCell, text string) string { return text }))
	}
	beside := []string{tail, "CPU"}
	for n := 0; width() > t.width-2 && n < 3; n++ { // first shorter heads, then without CPU, then without the percentile
		if n == 0 {
			for j, c := range rows[0] {
				rows[0][j].Text = strings.Replace(c.Text, "GOMAXPROCS=", "with ", 1)
			}
			continue
		}
		for i, row := range rows {
			rows[i] = slices.Delete(row, len(row)-2, len(row)-1)
		}
		beside = beside[:len(beside)-1]
	}
	t.tuneTable(rows)
	for _, note := range d.limitNotes(beside...) {
		t.line("  ", t.style.dim(note))
	}
}

// tuneMeasured says how it was measured, in short.
func (t *loadText) tuneMeasured(d *tuneDoc) {
	what := []string{}
	add := func(name, text string) {
		if text != "" {
			what = append(what, name+text)
		}
	}
	add("", d.subject())
	if limit := d.limitWords(); limit == "none" {
		add("", "no limit")
	} else {
		add("limit ", limit)
	}
	var done, noise string
	if parts := d.parts(); len(parts) > 0 {
		add("", parts[0].loadWords())
		done, noise = parts[0].searchText(), parts[0].noiseText()
	}
	var how []string
	for _, text := range []string{done, d.tookWords(), noise} {
		if text != "" {
			how = append(how, text)
		}
	}
	if len(what)+len(how) > 0 {
		t.WriteByte('\n')
	}
	mark := "Measured: "
	for _, parts := range [][]string{what, how} {
		if len(parts) > 0 {
			t.line(t.style.dim(mark), strings.Join(parts, "; "))
			mark = strings.Repeat(" ", len(mark))
		}
	}
}

// tuneDoubts are the warnings, and what failed.
func (t *loadText) tuneDoubts(d *tuneDoc) {
	failures := d.failures(5)
	if len(d.Warnings)+len(failures) > 0 {
		t.WriteByte('\n')
	}
	warnings(&t.Builder, d.Warnings, t.style)
	for _, text := range failures {
		t.line(t.style.bad("run: "), text)
	}
}

// tuneAgain says how to repeat it, or to go on.
func (t *loadText) tuneAgain(d *tuneDoc) {
	t.WriteByte('\n')
	if !d.Finished && d.Resume != "" {
		t.WriteString("To go on: " + d.Resume + "\n")
	}
	seed := "Seed " + strconv.FormatUint(d.Seed, 10)
	if len(d.Command) > 0 {
		seed += "; to repeat: " + report.ShellWords(d.Command)
	}
	t.WriteString(t.style.dim(seed) + "\n")
}
