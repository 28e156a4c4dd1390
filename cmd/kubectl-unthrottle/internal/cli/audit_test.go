package cli

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

// TestOwnEnd: verbs that take something away from a cluster are given their time.
func TestOwnEnd(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "lint x": false, "tune deployment/api": true, "agent": true,
		"audit -A": false, "audit --once": true, "audit -A --once=true": true, "audit --once=1": true, "audit --once=false": false, "audit --once-image x": false,
		"lint --once": false,
	} {
		if got := ownEnd(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// TestOnceImage: the image of the Jobs is the one that is named, the one next to UNTHROTTLE_IMAGE, or the release's.
func TestOnceImage(t *testing.T) {
	for _, c := range []struct {
		given, env, agents string
		once               bool
		want, err          string
	}{
		{"", "", "auto", true, "ghcr.io/unthrottle/kubectl-unthrottle:latest", ""},
		{"", "registry.example.com/tools/unthrottle:1", "auto", true, "registry.example.com/tools/kubectl-unthrottle:1", ""},
		{"mine:1", "registry.example.com/tools/unthrottle:1", "auto", true, "mine:1", ""},
		{"", "registry.example.com/tools:1", "auto", true, "", "UNTHROTTLE_IMAGE is registry.example.com/tools:1, which does not say"},
		{"a b", "", "auto", true, "a b", "is not the name of an image"},
		{"mine:1", "", "auto", false, "mine:1", "--once-image is for --once"},
		{"", "", "none", true, "", "exclude each other"},
		{"", "registry.example.com/tools:1", "none", false, "", ""},
	} {
		o := &auditor{stdio: verb.IO{Env: func(name string) string {
			if name != imageVariable {
				t.Errorf("%s is asked for", name)
			}
			return c.env
		}}, image: c.given, agents: c.agents, once: c.once}
		err := o.checkOnce()
		if o.image != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %s, %v", c, o.image, err)
		}
	}
}
