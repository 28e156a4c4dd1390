package docs

import (
	"slices"
	"strings"
	"testing"
)

func TestPages(t *testing.T) {
	names := Names()
	for _, name := range append(names, "docs/run.md", "docs/rules/throttled.md", "rules/throttled.md", "K004") {
		text, ok := Page(name)
		if !ok || !strings.HasPrefix(text, "# ") || strings.Contains(text, "<!--") {
			t.Errorf("%s: %.40q, %v", name, text, ok)
		}
	}
	if i := slices.Index(names, "too-many-ps"); i < 0 || names[0] != "contended" {
		t.Errorf("the rules come first, got %q", names)
	}
	if text, _ := Page("too-many-ps"); !strings.HasPrefix(text, "# too many Ps") {
		t.Errorf("the rule's page comes before another of its name, got %.40q", text)
	}
	for _, name := range []string{"nosuch", "", "..", "../README", "rules"} {
		if text, ok := Page(name); ok {
			t.Errorf("%q: %.40q", name, text)
		}
	}
}
