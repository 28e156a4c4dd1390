package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// Signs of a collector that has too little memory: it takes a quarter of the time and more, or runs as often as where the sweeper spins,
// and the heap may grow by less than a third of what is alive before it begins again. With 97 MiB alive under GOMEMLIMIT=115MiB it took 56 %, and a request cost four times
// as much CPU.
const (
	tightRoom  = 33 // percent, what GOGC comes to
	tightShare = 0.25
	tightest   = 0.5 // critical, in a program that uses half of what it may
)

// memoryTooTight finds the spiral in which a program does little but collect.
func memoryTooTight(f *Facts) (finding.Finding, bool) {
	m := f.Memory
	if m == nil || !f.busy() || m.Room() >= tightRoom {
		return finding.Finding{}, false
	}
	summary, critical := "", false
	switch {
	case m.Collecting != nil && *m.Collecting >= tightShare:
		summary = "the garbage collector takes " + quantity.Share(*m.Collecting) + " of the time"
		critical = *m.Collecting >= tightest && *f.CPU >= f.allowed()/2
	case f.Heap != nil && f.Heap.Collected >= spinCollections:
		summary = fmt.Sprintf("the heap is collected %.0f times a second", f.Heap.Collected)
	default:
		return finding.Finding{}, false
	}
	limit, by := m.held()
	if by == "" || m.wanted() <= limit { // there is room enough: somebody has set a low GOGC
		return finding.Finding{}, false
	}
	fix := "raise GOMEMLIMIT to " + mebibytes(m.wanted())
	if m.limited() {
		if bytes, text := choice.GOMEMLIMIT(m.Limit.Bytes); m.wanted() <= float64(bytes) {
			fix = "raise GOMEMLIMIT to " + text + ", which fits the memory limit"
		} else {
			fix = "raise the memory limit to " + mebibytes(m.wantedLimit())
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
			m.alive() + "; " + by,
			fmt.Sprintf("it collects again when the heap has grown by %.0f %%; without a limit Go waits for 100 %%", m.Room()),
			"it used " + quantity.UsedCPUs(*f.CPU),
		},
		Fix: fix + ": another GOGC does not help",
	}, true
}
