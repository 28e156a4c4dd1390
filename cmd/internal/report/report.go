// Package report answers: what did a verb find? Each verb makes one document, a plain value with JSON tags, which can be
// saved and rendered again later. The JSON is a contract: fields are added and never change their meaning. It is
// described in docs/report-format.md. The package computes what a document needs from facts, and makes its sentences: whoever
// shows them takes none apart. It reads and prints nothing.
package report

import (
	"encoding/json"
	"io"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
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

// WriteJSON writes a document.
func WriteJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// WriteJSONLine writes a document on one line, for a stream of them.
func WriteJSONLine(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

// errorTexts is the texts of errors, an empty list rather than none.
func errorTexts(errs []error) []string {
	texts := []string{}
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}

// share is a part of a whole; null where there is no whole.
func share(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	s := float64(part) / float64(whole)
	return &s
}
