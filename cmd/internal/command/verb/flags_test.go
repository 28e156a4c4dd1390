package verb

import (
	"context"
	"testing"
)

// TestTwice: the second of two flags of one name would do nothing, so no verb may have them, in any sections.
func TestTwice(t *testing.T) {
	build := func(names ...string) (said any) {
		defer func() { said = recover() }()
		New("x", FlagsHere, func(l *Flags) func(context.Context, []string) error {
			for _, name := range names {
				l.Section("Some:").Bool(name, false, "what")
			}
			return func(context.Context, []string) error { return nil }
		})
		return nil
	}
	if said := build("a", "b"); said != nil {
		t.Errorf("two names: %v", said)
	}
	if said := build("a", "b", "a"); said != "two flags are called --a" {
		t.Errorf("one name twice: %v", said)
	}
}
