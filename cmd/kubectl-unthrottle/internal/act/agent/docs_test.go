package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocs holds the documentation's table to the metrics.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/agent-answers.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, m := range Metrics() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", m.Name, strings.Join(m.Labels, ", "), m.Help)
		if m.Counter() != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a counter: %v", m.Name, m.Counter())
		}
	}
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("docs/agent-answers.md does not have this table:\n%s", &want)
	}
}
