package cli

import (
	"strings"
	"testing"
)

func TestWithoutToken(t *testing.T) {
	for line, want := range map[string]string{
		"kubectl-unthrottle tune --token abc deployment/api --as eve": "kubectl-unthrottle tune deployment/api --as eve",
		"kubectl-unthrottle tune deployment/api --token=abc":          "kubectl-unthrottle tune deployment/api",
		"kubectl-unthrottle tune deployment/api --token":              "kubectl-unthrottle tune deployment/api",
		"kubectl-unthrottle tune deployment/api --tokens 1":           "kubectl-unthrottle tune deployment/api --tokens 1",
	} {
		if got := strings.Join(withoutToken(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: got %s", line, got)
		}
	}
}
