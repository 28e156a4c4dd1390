// Package report answers: what did a verb find? Each verb makes one document, a plain value with JSON tags, which can be
// saved and rendered again later. The JSON is a contract: fields are added and never change their meaning. It is
// described in docs/report-format.md. The package computes what a document needs from facts; it reads and prints nothing.
package report

import (
	"encoding/json"
	"io"
)

// Version is the number of the document format. It changes only if a field changes its meaning.
const Version = 1

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
