package rule

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
)

// tightest is the share of the time that collections take from which on it is critical, in a program that uses half of what it may.
const tightest = 0.5

// memoryTooTight finds the spiral in which a program does little but collect, or collects as often as where the sweeper spins.
func memoryTooTight(f *Facts) (finding.Finding, bool) {
	m := f.Memory
	if m == nil || !f.busy() || m.Room() >= choice.TightRoom {
		return finding.Finding{}, false
	}
	summary, critical := "", false
	switch {
	case m.Collecting != nil && *m.Collecting >= choice.TightShare:
		summary = "the garbage collector takes " + quantity.Share(*m.Collecting) + " of the time"
		critical = *m.Collecting >= tightest && *f.CPU >= f.allowed()/2
	case f.Heap != nil && f.Heap.Collected >= spinCollections:
		summary = fmt.Sprintf("the heap is collected %.0f times a second", f.Heap.Collected)
	default:
		return finding.Finding{}, false
	}
	limit, by := m.held()
	wanted, wantedLimit := choice.Roomy(float64(m.Live), float64(m.Other))
	if by == "" || wanted <= limit { // there is room enough: someone has set a low GOGC
		return finding.Finding{}, false
	}
	fix := "raise GOMEMLIMIT to " + choice.Mebibytes(wanted)
	if m.limited() {
		if bytes, text := choice.GOMEMLIMIT(m.Limit.Bytes); wanted <= float64(bytes) {
			fix = "raise GOMEMLIMIT to " + text + ", which fits the memory limit"
		} else {
			fix = "raise the memory limit to " + choice.Mebibytes(wantedLimit)
		}
	}
	severity := finding.Warning
	if critical {
		severity = finding.Critical
	}
	return finding.Finding{
		Severity: severity,
		Summary:  summary,
		Evidence: []string{
			strings.Join(append(m.alive(), by), "; "),
			fmt.Sprintf("it collects again when the heap has grown by %.0f %%; without a limit Go waits for 100 %%", m.Room()),
			"it used " + quantity.UsedCPUs(*f.CPU),
		},
		Fix: fix + ": another GOGC does not help",
	}, true
}
