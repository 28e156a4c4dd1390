package loadtest

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Rows are the requests of a load as CSV, a row each.
type Rows struct{ csv *csv.Writer }

// NewRows begins them.
func NewRows(w io.Writer) *Rows {
	r := &Rows{csv.NewWriter(w)}
	r.csv.Write(rowNames) // an error stays with the writer
	return r
}

// Add adds a request that is done.
func (r *Rows) Add(s *load.Sample) { r.csv.Write(row(s)) }

// Flush writes what is left, and returns what went wrong.
func (r *Rows) Flush() error {
	r.csv.Flush()
	return r.csv.Error()
}

var rowNames = []string{"target", "due", "sent", "done", "response", "service", "lag", "pacer_late", "status", "bytes", "error"}

// row is a request, with its times in seconds.
func row(s *load.Sample) []string {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 9, 64) }
	sent, service, lag, text := "", "", s.Done-s.Intended, ""
	if s.Sent >= 0 {
		sent, service, lag = seconds(s.Sent), seconds(s.Service()), s.Sent-s.Intended
	}
	if s.Err != nil {
		text = plain.Cell(s.Err.Error())
	}
	return []string{
		strconv.Itoa(s.Target), seconds(s.Intended), sent, seconds(s.Done), seconds(s.Response()), service, seconds(lag),
		seconds(s.Ready - s.Intended), strconv.Itoa(s.Status), strconv.FormatInt(s.Bytes, 10), text,
	}
}
