package report

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/contracttest"
)

// documents are all that the verbs write.
var documents = []any{Explain{}, Ps{}, Run{}, Bench{}, Load{}, Tune{}, Profile{}, Trace{}, Watch{}}

// TestNames holds every field of every document to one meaning: that in docs/report-format.md.
func TestNames(t *testing.T) {
	documented := contracttest.Meanings(t, contracttest.Format, "Names")
	found := contracttest.Names(documents)
	for name, where := range found {
		if documented[name] != 1 {
			t.Errorf("%s (%s) has %d meanings in docs/report-format.md", name, where, documented[name])
		}
	}
	for name := range documented {
		if found[name] == "" {
			t.Errorf("%s is in docs/report-format.md and in no document", name)
		}
	}
}

// TestUnits holds that no time is in another unit than seconds, and no share of another whole than 1.
func TestUnits(t *testing.T) {
	for name, where := range contracttest.Names(documents) {
		for _, unit := range []string{"_ns", "_us", "_ms", "_millis", "_micros", "_percent", "_pct", "_kib", "_mib"} {
			if strings.HasSuffix(name, unit) {
				t.Errorf("%s: times are in seconds, shares of 1, sizes in bytes", where)
			}
		}
	}
}

// TestOutline holds the outline of the documents in docs/report-format.md to their types.
func TestOutline(t *testing.T) {
	contracttest.Outline(t, documents, contracttest.Format, "Documents", *update)
}
