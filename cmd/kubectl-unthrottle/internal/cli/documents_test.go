package cli

import (
	"slices"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// TestDocuments holds each verb with --json to a document whose schema is there.
func TestDocuments(t *testing.T) {
	for _, cmd := range newRoot(verb.IO{}).Commands() {
		if !cmd.Hidden && cmd.LocalFlags().Lookup("json") != nil && !slices.Contains(result.Verbs(), cmd.Name()) {
			t.Errorf("%s has --json, and result/schema.go has no document of it", cmd.Name())
		}
	}
}
