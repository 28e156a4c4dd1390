package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// TestFit: if there are more programs than fit into a log, those that used the most CPU are kept, and the rest are counted.
func TestFit(t *testing.T) {
	scan := func(n int) *Scan {
		s := &Scan{Doc: &result.Agent{Problems: []string{}}}
		for i := range n {
			var p result.AgentProcess
			p.PID, p.Name = i+1, strings.Repeat("x", 1000)
			if i%2 == 1 {
				p.CPU = new(float64(i))
			}
			s.Doc.Processes = append(s.Doc.Processes, p)
		}
		return s
	}
	small := scan(10)
	if err := small.Fit(1 << 20); err != nil || len(small.Doc.Processes) != 10 || len(small.Doc.Problems) > 0 {
		t.Errorf("%v, %d programs, %q", err, len(small.Doc.Processes), small.Doc.Problems)
	}
	large := scan(2000)
	if err := large.Fit(1 << 20); err != nil {
		t.Fatal(err)
	}
	kept := large.Doc.Processes
	data, err := json.Marshal(large.Doc)
	if err != nil || len(data) > 1<<20 || len(kept) < 300 {
		t.Errorf("%v, %d bytes, %d programs", err, len(data), len(kept))
	}
	for i := range kept { // all have used some, the last the most, and they are in their order
		if kept[i].CPU == nil || i > 0 && kept[i].PID != kept[i-1].PID+2 || kept[len(kept)-1].PID != 2000 {
			t.Fatalf("%d: %d", i, kept[i].PID)
		}
	}
	if len(large.Doc.Problems) != 1 || !strings.HasSuffix(large.Doc.Problems[0], " Go programs, as a log holds no more than 1 MB") {
		t.Errorf("%q", large.Doc.Problems)
	}
}
