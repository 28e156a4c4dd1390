// Package report answers: what did a verb find? Each verb makes one document, a plain value with JSON tags, which can be saved and rendered
// again later. The JSON is a contract: fields are added and never change their meaning. It is described in docs/report-format.md. The
// package computes what a document needs from facts, and writes its sentences, which are shown unchanged. It reads and prints nothing.
package report

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// Version is the number of the document format. It changes only if a field changes its meaning.
const Version = lab.Version

// A Header begins every document.
type Header struct {
	Version int    `json:"version"`
	Verb    string `json:"verb"`
	MadeBy  string `json:"made_by"`
	Time    string `json:"time"` // RFC 3339
}

// Head is the header of whichever document.
func (h Header) Head() Header { return h }

// WriteJSON writes a document.
func WriteJSON(w io.Writer, document any) error {
	return writeJSON(w, document, "  ")
}

// WriteJSONLine writes a document on one line, for a stream of them.
func WriteJSONLine(w io.Writer, document any) error {
	return writeJSON(w, document, "")
}

// writeJSON writes what a terminal may show, regardless of the texts in the document.
func writeJSON(w io.Writer, document any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(document); err != nil {
		return err
	}
	_, err := w.Write(plain.JSON(b.Bytes()))
	return err
}

// PeriodCount is what the kernel counted of a quota's periods.
type PeriodCount struct {
	Periods          int64    `json:"periods"`
	ThrottledPeriods int64    `json:"throttled_periods"`
	PeriodsShare     *float64 `json:"throttled_periods_share"` // null: no periods
	ThrottledSeconds float64  `json:"throttled_seconds"`       // summed over CPUs
}

func newPeriodCount(c cgroup.Counters) PeriodCount {
	return PeriodCount{c.Periods, c.Throttled, share(c.Throttled, c.Periods), c.ThrottledTime.Seconds()}
}

// known is a value, or null if it is not known.
func known[T any](ok bool, v T) *T {
	if !ok {
		return nil
	}
	return &v
}

// positive is a number, or null for 0, which means none.
func positive[N int | float64](v N) *N { return known(v > 0, v) }

// share is a part of a whole; null without a whole.
func share(part, whole int64) *float64 { return known(whole != 0, float64(part)/float64(whole)) }

// errorText is the text of an error, "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// errorTexts are the texts of errors; without errors the list is empty, not null.
func errorTexts(errs []error) []string {
	texts := []string{}
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}
