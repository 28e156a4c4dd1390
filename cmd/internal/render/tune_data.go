package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// TuneCSV writes a line for each run.
func TuneCSV(w io.Writer, d *report.Tune) error {
	t := newTuneDoc(d)
	c := csv.NewWriter(w)
	head := []string{
		"load", "rate", "phase", "block", "gomaxprocs", "gogc", "seed", "start", "seconds", "valid", "slo_held", "invalid", "marks", "error",
	}
	for _, m := range t.Metrics {
		head = append(head, m.Unit)
	}
	c.Write(head)
	for _, r := range t.Runs {
		row := []string{
			strconv.Itoa(r.Load), t.rate(r), r.Phase, strconv.Itoa(r.Block), strconv.Itoa(r.Procs), "", strconv.FormatUint(r.Seed, 10), r.Start,
			float(r.Seconds), strconv.FormatBool(r.Valid), strconv.FormatBool(r.SLOHeld), strings.Join(r.Invalid, "; "), strings.Join(r.Marks, "; "), r.Error,
		}
		if r.GOGC != 0 {
			row[5] = strconv.Itoa(r.GOGC)
		}
		for _, m := range t.Metrics {
			text := ""
			if v, ok := r.Metrics[m.Unit]; ok {
				text = float(v)
			}
			row = append(row, text)
		}
		c.Write(row)
	}
	c.Flush()
	return c.Error()
}

func float(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// rate is that of a run's load, "" if it has none.
func (d *tuneDoc) rate(r report.TuneRun) string {
	if r.Load < 0 || r.Load >= len(d.Loads) || d.Loads[r.Load].Rate <= 0 {
		return ""
	}
	return float(d.Loads[r.Load].Rate)
}

// TuneMarkdown writes the verdict, the settings, and how it was measured, to be put into a pull request.
func TuneMarkdown(w io.Writer, d *report.Tune) error {
	c := newTuneDoc(d)
	var t strings.Builder
	if c.Verdict.Text != "" {
		fmt.Fprintf(&t, "**%s**\n\n", markdown(c.Verdict.Text))
	}
	for _, text := range c.Verdict.Also {
		t.WriteString(markdown(text) + "\n\n")
	}
	if rows, tail := c.limitTable(); rows != nil {
		markdownTable(&t, rows)
		t.WriteString(markdown(strings.Join(c.limitNotes(tail, "CPU"), " ")) + "\n\n")
	}
	for _, p := range c.parts() {
		if len(p.settings) == 0 {
			continue
		}
		if heading := p.heading(); heading != "" {
			t.WriteString(markdown(upperFirst(heading)) + ":\n\n")
		}
		markdownTable(&t, p.table())
		for _, note := range p.notes() {
			fmt.Fprintf(&t, "- %s\n", markdown(note))
		}
		if len(p.notes()) > 0 {
			t.WriteByte('\n')
		}
	}
	for _, f := range c.measured().Facts {
		fmt.Fprintf(&t, "- %s: %s\n", markdown(f.Name), markdown(strings.Join(f.Texts, "; ")))
	}
	fmt.Fprintf(&t, "- seed: %d\n", c.Seed)
	for _, warning := range c.Warnings {
		fmt.Fprintf(&t, "- warning: %s\n", markdown(warning))
	}
	for _, text := range c.failures(5) {
		fmt.Fprintf(&t, "- run: %s\n", markdown(text))
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// table is that of the settings with all columns.
func (p *tunePart) table() [][]htmlCell {
	rows := fit(p.columns(), 1<<20)
	for _, row := range rows[1:] {
		row[0].Text = strings.TrimSpace(row[0].Text)
	}
	return rows
}

func markdownTable(t *strings.Builder, rows [][]htmlCell) {
	for i, row := range rows {
		for _, c := range row {
			t.WriteString("| " + markdown(c.Text) + " ")
		}
		t.WriteString("|\n")
		if i > 0 {
			continue
		}
		for _, c := range row {
			if strings.HasPrefix(c.Class, "left") {
				t.WriteString("|:---")
			} else {
				t.WriteString("|---:")
			}
		}
		t.WriteString("|\n")
	}
	t.WriteByte('\n')
}

// TuneGo writes the runs that are valid in the format of Go benchmarks, a line each, for benchstat:
//
//	benchstat -col /gomaxprocs -filter /phase:confirm -ignore /block tune.txt
//
// GOMAXPROCS is the suffix, written also when it is 1.
func TuneGo(w io.Writer, d *report.Tune) error {
	c := newTuneDoc(d)
	var t strings.Builder
	e := c.Environment
	fmt.Fprintf(&t, "goos: %s\ngoarch: %s\n", e.OS, e.Arch)
	if e.CPU != "" {
		fmt.Fprintf(&t, "cpu: %s\n", e.CPU)
	}
	fmt.Fprintf(&t, "pkg: unthrottle/tune\nkernel: %s\nlimit-kind: %s\ntune-seed: %d\n", e.Kernel, c.LimitKind, c.Seed)
	for _, m := range c.Metrics {
		better := ""
		if m.Better == lab.Lower || m.Better == lab.Higher {
			better = " better=" + m.Better
		}
		fmt.Fprintf(&t, "Unit %s%s assume=nothing\n", goUnit(m.Unit), better)
	}
	for _, r := range c.Runs {
		if r.Error != "" || !r.Valid {
			continue
		}
		var values strings.Builder
		for _, m := range c.Metrics {
			if v, ok := r.Metrics[m.Unit]; ok {
				fmt.Fprintf(&values, " %s %s", float(v), goUnit(m.Unit))
			}
		}
		if values.Len() > 0 { // a line without a value is none
			t.WriteString(c.goName(r) + " 1" + values.String() + "\n")
		}
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// goName is a benchmark's name: BenchmarkShop/limit=1/load=120/phase=confirm/block=3-2.
func (d *tuneDoc) goName(r report.TuneRun) string {
	text := d.Subject.Name
	if !strings.HasPrefix(text, "Benchmark") || strings.ContainsFunc(text, unicode.IsSpace) {
		text = "Benchmark" + camel(text)
	}
	if text == "Benchmark" {
		text = "BenchmarkTune"
	}
	if d.LimitCPUs > 0 {
		text += "/limit=" + float(d.LimitCPUs)
	}
	if rate := d.rate(r); rate != "" {
		text += "/load=" + rate
	} else {
		text += "/load=none"
	}
	if r.GOGC != 0 {
		text += "/gogc=" + strconv.Itoa(r.GOGC)
	}
	return fmt.Sprintf("%s/phase=%s/block=%d-%d", text, goUnit(r.Phase), r.Block, max(r.Procs, 1))
}

// goUnit is a word without spaces.
func goUnit(text string) string {
	word := strings.Join(strings.FieldsFunc(text, unicode.IsSpace), "-")
	if word == "" {
		return "none"
	}
	return word
}
