package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// LoadHGRM writes the percentiles of the response, in milliseconds, in the text format that HdrHistogram and wrk2 print
// and that their plotters read.
func LoadHGRM(w io.Writer, d *report.Load) error {
	var t strings.Builder
	fmt.Fprintf(&t, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
	for _, p := range d.Response.Curve {
		fmt.Fprintf(&t, "%12.3f %2.12f %10d", p.Seconds*1e3, p.Percentile/100, p.Count)
		if p.Percentile < 100 { // at 100 the column is empty, as HdrHistogram for Java has it: infinity is written in many ways
			fmt.Fprintf(&t, " %14.2f", 1/(1-p.Percentile/100))
		}
		t.WriteByte('\n')
	}
	t.WriteString(hgrmFooter(&d.Response))
	_, err := io.WriteString(w, t.String())
	return err
}

// hgrmFooter is the end of HdrHistogram's text. The deviation and the buckets are known to the histogram itself only.
func hgrmFooter(l *report.Latencies) string {
	if h, err := hdrhistogram.Decode([]byte(l.Hist)); err == nil && h != nil {
		var all strings.Builder
		h.PercentilesPrint(&all, 5, 1e6) // nanoseconds
		if i := strings.Index(all.String(), "#["); i >= 0 {
			return all.String()[i:]
		}
	}
	return fmt.Sprintf("#[Mean    = %12.3f]\n#[Max     = %12.3f, Total count    = %12d]\n", l.Mean*1e3, l.Max*1e3, l.Count)
}

// LoadMarkdown writes the verdict and a short table, to be put into a pull request.
func LoadMarkdown(w io.Writer, d *report.Load) error {
	d = printableLoad(d)
	var t strings.Builder
	for _, why := range d.Invalid {
		fmt.Fprintf(&t, "**INVALID: %s**\n\n", markdown(why))
	}
	if !d.Valid {
		t.WriteString(invalidText(d) + "\n\n")
	}
	if v := loadVerdict(d); v.Text != "" {
		fmt.Fprintf(&t, "**%s: %s**\n\n", v.Claim, markdown(v.Text))
		for _, m := range v.Missed {
			fmt.Fprintf(&t, "- %s\n", markdown(m))
		}
		if len(v.Missed) > 0 {
			t.WriteByte('\n')
		}
	}
	t.WriteString(markdown(loadTitle(d)) + "\n\n")
	for _, text := range loadRemarks(d) {
		t.WriteString(markdown(text) + "\n\n")
	}
	if d.Response.Count > 0 {
		markdownLatencies(&t, d)
	}
	var list []string
	for _, group := range [][]htmlFact{answerFacts(d, 3), serverFacts(d)} {
		for _, f := range group {
			list = append(list, f.Name+": "+strings.Join(f.Texts, "; "))
		}
	}
	for _, warning := range d.Warnings {
		list = append(list, "warning: "+warning)
	}
	for _, text := range list {
		fmt.Fprintf(&t, "- %s\n", markdown(text))
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// markdownLatencies writes the table of latencies on its side: it is short then.
func markdownLatencies(t *strings.Builder, d *report.Load) {
	head, rows := latencyTable(d)
	line, rule := "| |", "|:---|"
	for _, row := range rows {
		line, rule = line+" "+row[0].Text+" |", rule+"---:|"
	}
	t.WriteString(line + "\n" + rule + "\n")
	for i, column := range head[1:] {
		t.WriteString("| " + column.Text + " |")
		for _, row := range rows {
			t.WriteString(" " + row[i+1].Text + " |")
		}
		t.WriteByte('\n')
	}
	t.WriteByte('\n')
}
