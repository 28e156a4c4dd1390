package result

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
)

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0.4, 1.6, "0.4 to 1.6 CPUs"},
		{0.501, 0.502, "0.5 CPUs"},
		{0, 99.5, "0 to 99.5 CPUs"},
		{452.67, 6790.1, "453 to 6790 CPUs"},
		{120.2, 120.3, "120 CPUs"},
	} {
		if got := Span(audit.Range{Low: c.low, High: c.high, Measured: 1}); got != c.want {
			t.Errorf("%v to %v: %q, want %q", c.low, c.high, got, c.want)
		}
	}
}
