package heapfloor

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/heapfloor"
)

// TestMain prints what the import did, when a test below has started this binary again in another environment.
func TestMain(m *testing.M) {
	if os.Getenv("HEAPFLOOR_TEST") == "" {
		os.Exit(m.Run())
	}
	if d, ok := heapfloor.Last(); ok {
		fmt.Println(d)
	}
}

func TestEnvironment(t *testing.T) {
	tests := []struct{ env, want string }{
		{"", ""},
		{"UNTHROTTLE_HEAP_FLOOR=8MiB", "heap floor 8 MiB: 8 MiB asked for; "},
		{"UNTHROTTLE_HEAP_FLOOR=8388608", "heap floor 8 MiB: 8 MiB asked for; "},
		{"UNTHROTTLE_HEAP_FLOOR=8MiB GOGC=200", "no heap floor: GOGC=200 is set in the environment"},
		{"UNTHROTTLE_HEAP_FLOOR=8MiB GOGC=off", "no heap floor: GOGC=off is set in the environment"},
		{"UNTHROTTLE_HEAP_FLOOR=8MiB GOMEMLIMIT=24MiB", "heap floor 6 MiB: 8 MiB asked for; cut to 6 MiB by the memory limit of 24 MiB (GOMEMLIMIT); "},
		{"UNTHROTTLE_HEAP_FLOOR=8M", "no heap floor: UNTHROTTLE_HEAP_FLOOR=8M: want a size such as 32MiB"},
	}
	for _, tt := range tests {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HEAPFLOOR_TEST=1", "GOGC=", "GOMEMLIMIT=")
		cmd.Env = append(cmd.Env, strings.Fields(tt.env)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", tt.env, err)
		}
		if got := string(out); tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q", tt.env, got)
		}
	}
}
