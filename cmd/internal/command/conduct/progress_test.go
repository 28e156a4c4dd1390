package conduct

import (
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

func TestLabWithoutTerminal(t *testing.T) {
	tests := []struct {
		name   string
		block  time.Duration // how long one takes
		blocks int           // that are planned, 0: not known
		want   []string
	}{
		{"long blocks", 3 * time.Second, 3, []string{"warming up", "block 1 of 3", "block 2 of 3", "block 3 of 3"}},
		{"short ones", 400 * time.Millisecond, 8, []string{"warming up", "block 1 of 8", "block 4 of 8", "block 7 of 8", "block 8 of 8"}},
		{"short ones, until it is decided", 400 * time.Millisecond, 0, []string{"warming up", "block 1", "block 4", "block 7"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			p := NewProgress(verb.IO{Err: &out, Env: func(string) string { return "" }}, false)
			p.Lab("a", lab.Progress{Warmup: true})
			p.Lab("b", lab.Progress{Warmup: true, Elapsed: test.block})
			for block := range 8 {
				if test.blocks > 0 && block >= test.blocks {
					break
				}
				for range 2 { // runs
					p.Lab("a", lab.Progress{Block: block + 1, Blocks: test.blocks, Elapsed: time.Duration(block) * test.block})
				}
			}
			got := strings.Split(strings.TrimSpace(out.String()), "\n")
			for i, line := range got {
				got[i] = strings.TrimPrefix(line, "unthrottle: ")
			}
			if strings.Join(got, "; ") != strings.Join(test.want, "; ") {
				t.Errorf("said %q, want %q", got, test.want)
			}
		})
	}
}
