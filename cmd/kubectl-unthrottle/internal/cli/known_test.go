package cli

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/config"
)

// TestReadLive: only those parts of a baseline that were looked at can be gone.
func TestReadLive(t *testing.T) {
	here, there, usual := config.BaselineFinding{Workload: "Deployment/api in shop"}, config.BaselineFinding{Workload: "Pod of Deployment/api in far"}, config.BaselineFinding{Workload: "Pod/a"}
	file := config.BaselineFinding{Workload: "Deployment/api in shop", File: "a.yaml"}
	for _, c := range []struct {
		namespace string
		part      bool
		f         config.BaselineFinding
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
