package auto

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
)

// TestMain prints what the import did, when a test below has started this binary again in another environment.
func TestMain(m *testing.M) {
	if os.Getenv("AUTO_TEST") == "" {
		os.Exit(m.Run())
	}
	d, ok := unthrottle.Last()
	fmt.Println(ok, d.Policy.Name, d.By, d.Procs, d.Warnings)
}

func TestEnvironment(t *testing.T) {
	tests := []struct{ env, want string }{
		{"", "true go "},
		{"UNTHROTTLE=floor", "true floor "},
		{"UNTHROTTLE=off", "true off  0 []"},
		{"UNTHROTTLE_MAX=1", "true go maximum 1 []"},
		{"UNTHROTTLE=ceil UNTHROTTLE_REQUEST=500m", "true ceil request 1 []"},
		{"UNTHROTTLE=off UNTHROTTLE_MIN=none", "true off  0 [UNTHROTTLE_MIN=none: want a whole number above zero]"},
		{"UNTHROTTLE=of UNTHROTTLE_MAX=1", "true go maximum 1 [UNTHROTTLE=of: want off, go, floor, ceil or exact]"},
		{"GOMAXPROCS=3", "true go environment 3 []"},
		{"GOMAXPROCS=2500m UNTHROTTLE_MAX=1", "true go maximum 1 []"},
	}
	for _, tt := range tests {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), "AUTO_TEST=1", "GOMAXPROCS="), strings.Fields(tt.env)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", tt.env, err)
		}
		if got := strings.TrimSuffix(string(out), "\n"); got != tt.want && !(strings.HasSuffix(tt.want, " ") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: got %q, want %q", tt.env, got, tt.want)
		}
	}
}
