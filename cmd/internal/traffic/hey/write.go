package hey

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
)

const csv = "csv"

// Write writes the report as -o wants it: "" is hey's text, with three lines of ours below it, csv a line for each result,
// and anything else is a template.
func (r *Report) Write(w io.Writer, output string) error {
	buffered := bufio.NewWriter(w)
	switch output {
	case "":
		r.writeText(buffered)
	case csv:
		if len(r.StatusCodes) != len(r.Lats) {
			return errors.New("writing csv: the rows were not kept")
		}
		r.writeCSV(buffered)
	default:
		if err := r.writeTemplate(buffered, output); err != nil {
			return fmt.Errorf("writing the template of -o: %w", err)
		}
	}
	return buffered.Flush()
}

// writeText keeps hey's layout to the byte, empty lines and their blanks included.
func (r *Report) writeText(w *bufio.Writer) {
	fmt.Fprintf(w, "\nSummary:\n")
	fmt.Fprintf(w, "  Total:\t%4.4f secs\n", r.Total.Seconds())
	fmt.Fprintf(w, "  Slowest:\t%4.4f secs\n", r.Slowest)
	fmt.Fprintf(w, "  Fastest:\t%4.4f secs\n", r.Fastest)
	fmt.Fprintf(w, "  Average:\t%4.4f secs\n", r.Average)
	fmt.Fprintf(w, "  Requests/sec:\t%4.4f\n  ", r.Rps)
	if r.SizeTotal > 0 {
		fmt.Fprintf(w, "\n  Total data:\t%d bytes\n  Size/request:\t%d bytes", r.SizeTotal, r.SizeReq)
	}
	fmt.Fprintf(w, "\n\nResponse time histogram:\n%s", histogram(r.Histogram))
	fmt.Fprintf(w, "\n\nLatency distribution:")
	for _, d := range r.LatencyDistribution {
		fmt.Fprintf(w, "\n  %d%% in %4.4f secs", d.Percentage, d.Latency)
	}
	fmt.Fprintf(w, "\n\nDetails (average, fastest, slowest):")
	for _, row := range []struct {
		name                      string
		average, fastest, slowest float64
	}{
		{"DNS+dialup", r.AvgConn, r.ConnMax, r.ConnMin},
		{"DNS-lookup", r.AvgDNS, r.DnsMax, r.DnsMin},
		{"req write", r.AvgReq, r.ReqMax, r.ReqMin},
		{"resp wait", r.AvgDelay, r.DelayMax, r.DelayMin},
		{"resp read", r.AvgRes, r.ResMax, r.ResMin},
	} {
		fmt.Fprintf(w, "\n  %s:\t%4.4f secs, %4.4f secs, %4.4f secs", row.name, row.average, row.fastest, row.slowest)
	}
	fmt.Fprintf(w, "\n\nStatus code distribution:")
	for _, status := range slices.Sorted(maps.Keys(r.StatusCodeDist)) {
		fmt.Fprintf(w, "\n  [%d]\t%d responses", status, r.StatusCodeDist[status])
	}
	fmt.Fprintf(w, "\n\n")
	r.writeErrors(w)
	fmt.Fprintf(w, "\n\n")
	for _, line := range r.below {
		fmt.Fprintf(w, "%s\n", line)
	}
}

// writeErrors puts the most frequent first. hey sorts them by text.
func (r *Report) writeErrors(w *bufio.Writer) {
	if len(r.ErrorDist) == 0 {
		return
	}
	fmt.Fprintf(w, "Error distribution:")
	for _, text := range slices.SortedFunc(maps.Keys(r.ErrorDist), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.ErrorDist[b], r.ErrorDist[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(w, "\n  [%d]\t%s", r.ErrorDist[text], plain.Line(strings.ReplaceAll(text, "\n", " ")))
	}
}

func (r *Report) writeCSV(w *bufio.Writer) {
	fmt.Fprintf(w, "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n")
	for i, v := range r.Lats {
		fmt.Fprintf(w, "%4.4f,%4.4f,%4.4f,%4.4f,%4.4f,%4.4f,%d,%4.4f\n",
			v, r.ConnLats[i], r.DnsLats[i], r.ReqLats[i], r.DelayLats[i], r.ResLats[i], r.StatusCodes[i], r.Offsets[i])
	}
}

// writeTemplate writes nothing where the template fails half-way.
func (r *Report) writeTemplate(w *bufio.Writer, text string) error {
	t, err := parseTemplate(text)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, *r); err != nil { // fields only, no methods
		return err
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// parseTemplate knows the functions that hey knows.
func parseTemplate(text string) (*template.Template, error) {
	return template.New("-o").Funcs(template.FuncMap{
		"formatNumber":    func(x float64) string { return fmt.Sprintf("%4.4f", x) },
		"formatNumberInt": func(n int) string { return fmt.Sprint(n) },
		"histogram":       histogram,
		"jsonify":         jsonify,
	}).Parse(text)
}

// tryTemplate finds mistakes before there is anything to lose. Among those that only show when the template is executed, it minds unknown
// fields: others, such as an index out of range, may be fine with the real report.
func tryTemplate(text string) error {
	t, err := parseTemplate(text)
	if err != nil {
		return err
	}
	r := Report{
		Lats: []float64{1}, ConnLats: []float64{1}, DnsLats: []float64{1}, ReqLats: []float64{1}, ResLats: []float64{1},
		DelayLats: []float64{1}, Offsets: []float64{1}, StatusCodes: []int{200},
		ErrorDist: map[string]int{"": 1}, StatusCodeDist: map[int]int{200: 1},
		LatencyDistribution: []LatencyDistribution{{50, 1}}, Histogram: []Bucket{{1, 1, 1}},
	}
	if err := t.Execute(io.Discard, r); err != nil && strings.Contains(err.Error(), "can't evaluate field") {
		return err
	}
	return nil
}

func jsonify(v any) (string, error) {
	d, err := json.Marshal(v)
	return string(d), err
}

// histogram draws the rows: 0.002 [13]	|■■■
func histogram(rows []Bucket) string {
	const width = 40
	most := 0
	for _, b := range rows {
		most = max(most, b.Count)
	}
	var s strings.Builder
	for _, b := range rows {
		bar := 0
		if most > 0 {
			bar = int((int64(b.Count)*width + int64(most)/2) / int64(most))
		}
		fmt.Fprintf(&s, "  %4.3f [%d]\t|%s\n", b.Mark, b.Count, strings.Repeat("■", bar))
	}
	return s.String()
}
