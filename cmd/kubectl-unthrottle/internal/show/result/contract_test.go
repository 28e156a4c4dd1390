package result

import (
	"flag"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/contracttest"
)

var update = flag.Bool("update", false, "write the outline in docs/report-format.md")

// documents are all that the verbs write.
var documents = []any{Lint{}, Fix{}, Forecast{}, Agent{}, Audit{}}

const format = "../" + contracttest.Format // this package is one folder deeper

// TestNames holds every field of every document to one meaning: that in the table of this command's names, or else in the table of
// all.
func TestNames(t *testing.T) {
	own, all := contracttest.Meanings(t, format, "Names in documents of kubectl unthrottle"), contracttest.Meanings(t, format, "Names")
	found := contracttest.Names(documents)
	for name, where := range found {
		if own[name] != 1 && (own[name] > 1 || all[name] != 1) {
			t.Errorf("%s (%s) has %d meanings in docs/report-format.md", name, where, own[name])
		}
	}
	for name := range own {
		if found[name] == "" {
			t.Errorf("%s is in docs/report-format.md and in no document", name)
		}
	}
}

// TestOutline holds the outline of the documents in docs/report-format.md to their types.
func TestOutline(t *testing.T) {
	contracttest.Outline(t, documents, format, "Documents of kubectl unthrottle", *update)
}
