package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/internal/fixture"
)

// TestDocs holds the documentation's table to the metrics.
func TestDocs(t *testing.T) {
	var want strings.Builder
	for _, m := range Metrics() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", m.Name, strings.Join(m.Labels, ", "), m.Help)
		if m.Counter() != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a counter: %v", m.Name, m.Counter())
		}
	}
	fixture.Section(t, *update, "../../../../../docs/agent-answers.md", "| metric | labels | what |\n|---|---|---|\n", want.String())
}
