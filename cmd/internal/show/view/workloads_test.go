package view

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"
)

func TestWorkloads(t *testing.T) {
	s := Workloads(workload.List())
	text := shown(t, s)
	screen(t, "workloads", s)
	for _, w := range workload.List() {
		if !strings.Contains(text, "\n  "+w.Name+" ") && !strings.HasPrefix(text, "  "+w.Name+" ") {
			t.Errorf("%s is not shown", w.Name)
		}
	}
	if got := strings.Count(text, " from: "); got != len(workload.List()) {
		t.Errorf("of %d it is said where they are from", got)
	}
}
