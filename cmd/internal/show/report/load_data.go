package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
)

// LoadHGRM writes the percentiles of the response, in milliseconds, in the text format that HdrHistogram and wrk2 print
// and that their plotters read.
func LoadHGRM(w io.Writer, d *Load) error {
	var t strings.Builder
	fmt.Fprintf(&t, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
	for _, p := range d.Response.Curve {
		fmt.Fprintf(&t, "%12.3f %2.12f %10d", p.Seconds*1e3, p.Percentile/100, p.Count)
		if p.Percentile < 100 { // at 100 it is left empty, as HdrHistogram for Java does, since infinity is written in many ways
			fmt.Fprintf(&t, " %14.2f", 1/(1-p.Percentile/100))
		}
		t.WriteByte('\n')
	}
	t.WriteString(hgrmFooter(&d.Response))
	_, err := io.WriteString(w, t.String())
	return err
}

// hgrmFooter is the end of HdrHistogram's text. Only the histogram itself knows the deviation and the buckets.
func hgrmFooter(l *loadtest.Latencies) string {
	if h, err := hdrhistogram.Decode([]byte(l.Hist)); err == nil && h != nil {
		var all strings.Builder
		h.PercentilesPrint(&all, 5, 1e6) // nanoseconds
		if i := strings.Index(all.String(), "#["); i >= 0 {
			return all.String()[i:]
		}
	}
	return fmt.Sprintf("#[Mean    = %12.3f]\n#[Max     = %12.3f, Total count    = %12d]\n", l.Mean*1e3, l.Max*1e3, l.Count)
}
