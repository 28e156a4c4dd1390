package result

import (
	_ "embed"
	"maps"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/schema"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

//go:embed names.txt
var names string

// documents are those of the verbs that only kubectl unthrottle has.
var documents = map[string]any{"lint": Lint{}, "fix": Fix{}, "forecast": Forecast{}, "agent": Agent{}, "audit": Audit{}}

// shared are verbs whose documents are those of unthrottle's verbs.
var shared = []string{"explain", "profile", "trace", "tune", "watch"}

// Verbs are those that have documents.
func Verbs() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(documents)), shared...)))
}

// Schema is that of a verb's document; nil: it writes none.
func Schema(verb string) *schema.Schema {
	if slices.Contains(shared, verb) {
		return report.Schema(verb)
	}
	doc, ok := documents[verb]
	if !ok {
		return nil
	}
	return schema.Of(doc, "kubectl unthrottle "+verb+" -o json", schema.Meanings(report.Names, names))
}
