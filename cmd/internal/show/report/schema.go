package report

import (
	_ "embed"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/schema"
)

// Names says what each name in a document means.
//
//go:embed names.txt
var Names string

// Schema is that of a verb's document; nil: it writes none.
func Schema(verb string) *schema.Schema {
	doc := Empty(verb)
	if doc == nil {
		return nil
	}
	return schema.Of(doc, "unthrottle "+verb+" --json", schema.Meanings(Names))
}
