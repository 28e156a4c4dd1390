package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// restOf is what a document may take besides its processes, in bytes.
const restOf = 64 << 10

// Fit leaves programs out of a scan's document until it takes no more than most bytes: those that used the least CPU, and says how many.
func (s *Scan) Fit(most int) error {
	all := s.Doc.Processes
	byCPU := make([]int, len(all))
	for i := range all {
		byCPU[i] = i
	}
	slices.SortStableFunc(byCPU, func(a, b int) int { return cmp.Compare(used(&all[b]), used(&all[a])) })
	left, kept := most-restOf, make([]bool, len(all))
	n := 0
	for _, i := range byCPU {
		data, err := json.Marshal(&all[i])
		if err != nil {
			return err
		}
		if left -= len(data) + 1; left < 0 {
			break
		}
		kept[i] = true
		n++
	}
	if n == len(all) {
		return nil
	}
	some := make([]result.AgentProcess, 0, n)
	for i := range all {
		if kept[i] {
			some = append(some, all[i])
		}
	}
	s.Doc.Processes = some
	s.Doc.Problems = append(s.Doc.Problems, fmt.Sprintf("left out: %s, as a log holds no more than %d MB", quantity.Plural(len(all)-n, "Go program"), most>>20))
	return nil
}

func used(p *result.AgentProcess) float64 {
	if p.CPU == nil {
		return 0
	}
	return *p.CPU
}
