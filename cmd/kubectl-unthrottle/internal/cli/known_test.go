package cli

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/baseline"
)

// TestReadLive: of a baseline, only what was looked at can be gone.
func TestReadLive(t *testing.T) {
	here, there, usual := baseline.Finding{Workload: "Deployment/api in shop"}, baseline.Finding{Workload: "Pod of Deployment/api in far"}, baseline.Finding{Workload: "Pod/a"}
	file := baseline.Finding{Workload: "Deployment/api in shop", File: "a.yaml"}
	for _, c := range []struct {
		namespace string
		part      bool
		f         baseline.Finding
		want      bool
	}{
		{"shop", false, here, true},
		{"shop", false, there, false},
		{"shop", false, usual, false},
		{"default", false, usual, true},
		{"", false, there, true},
		{"", false, usual, true},
		{"", true, here, false},
		{"", false, file, false},
	} {
		if got := readLive(c.namespace, c.part)(c.f); got != c.want {
			t.Errorf("%q, %v, %+v: %v", c.namespace, c.part, c.f, got)
		}
	}
}
