package cli

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agents"
)

// TestTroubleOf: what an agent says that it misses is reported once.
func TestTroubleOf(t *testing.T) {
	for name, c := range map[string]struct {
		told  agents.Answer
		texts string
	}{
		"names are missing":                {agents.Answer{Unnamed: 2, Problems: 1}, "it can't name the containers of some programs yet; they were left out"},
		"names and something else":         {agents.Answer{Unnamed: 2, Problems: 2}, "it can't name the containers of some programs yet; they were left out; it could not see everything"},
		"a liar, and something is missing": {agents.Answer{Strange: 1, Problems: 1}, "it reports programs in containers that their pods do not have; they were left out; it could not see everything"},
		"rights":                           {agents.Answer{Refused: 3, Problems: 1}, "it may not look into all processes"},
	} {
		var texts []string
		for _, trouble := range troubleOf(t.Context(), &c.told, false) {
			texts = append(texts, trouble.text)
		}
		if got := strings.Join(texts, "; "); got != c.texts {
			t.Errorf("%s: %q", name, got)
		}
	}
}
