package agent

import (
	"log/slog"
	"strings"
	"testing"
)

// TestTell: what is missing is logged when it begins to be, and not with each scan.
func TestTell(t *testing.T) {
	var log strings.Builder
	a := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	told := map[string]bool{}
	for i, c := range []struct {
		problems []string
		lines    int
	}{
		{nil, 0},
		{[]string{"the containers of 2 Go programs are not known yet"}, 1},
		{[]string{"the containers of 13 Go programs are not known yet"}, 1},
		{[]string{"the containers of 3 Go programs are not known yet", "3 processes may not be looked into"}, 2},
		{nil, 2},
		{[]string{"5 processes may not be looked into"}, 3},
	} {
		if told = a.tell(c.problems, told); strings.Count(log.String(), "\n") != c.lines {
			t.Fatalf("step %d: %q", i, log.String())
		}
	}
	if !strings.Contains(log.String(), `level=WARN msg=scan missing="the containers of 2 Go programs are not known yet"`) {
		t.Errorf("%q", log.String())
	}
}
