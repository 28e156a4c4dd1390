package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Signs of a sweeper that spins: a heap of a few megabytes is collected a hundred or more times a second. After each collection the sweeper
// yields in a loop while another one is at work, for about a millisecond of CPU time; with one P there is no one to wait for. How often
// goroutines begin to run is not a sign on its own: those of many programs do so as often.
const (
	spinCollections = 100      // a second
	spinMemory      = 64 << 20 // bytes
)

// sweeperSpin finds the tiny-heap trap.
func sweeperSpin(f *Facts) (finding.Finding, bool) {
	h := f.Heap
	if h == nil || f.Procs < 2 || !f.busy() || h.Collected < spinCollections || h.Memory == 0 || h.Memory > spinMemory {
		return finding.Finding{}, false
	}
	if _, tight := memoryTooTight(f); tight { // neither GOGC nor a floor changes how often it is collected
		return finding.Finding{}, false
	}
	return finding.Finding{
		Severity: finding.Warning,
		Summary:  fmt.Sprintf("a tiny heap is collected %.0f times a second", h.Collected),
		Evidence: []string{
			"with more than one P the sweeper spins after each collection",
			fmt.Sprintf("goroutines began to run %.0f times for each collection", h.Switched/h.Collected),
			fmt.Sprintf("its memory other than files is %d MB, so the heap is smaller", h.Memory>>20),
			"it used " + quantity.UsedCPUs(*f.CPU),
		},
		Fix: `import _ "github.com/unthrottle/unthrottle/auto/heapfloor", or set GOGC=400`,
	}, true
}
