package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// Signs of a collector that has too little memory: it takes a quarter of the time and more, and the heap may grow by less than a
// third of what is alive before it begins again. With 97 MiB alive under GOMEMLIMIT=115MiB it took 56 %, and a request cost four times
// as much CPU.
const (
	tightRoom  = 33 // percent, what GOGC comes to
	tightShare = 0.25
	tightest   = 0.5 // critical, in a program that uses half of what it may
)

// memoryTooTight finds the spiral in which a program does little but collect.
func memoryTooTight(f *Facts) (finding.Finding, bool) {
	m := f.Memory
	if m == nil || m.Collecting == nil || *m.Collecting < tightShare || !f.busy() || m.Room() >= tightRoom {
		return finding.Finding{}, false
	}
	limit, by := m.held()
	if limit == 0 || m.wanted() <= limit { // there is room enough: somebody has set a low GOGC
		return finding.Finding{}, false
	}
	fix := "raise GOMEMLIMIT to " + mebibytes(m.wanted()) + ": another GOGC does not help"
	if m.killed() && m.wanted() > fitting*float64(m.Limit.Bytes) {
		fix = "raise the memory limit to " + mebibytes(m.wanted()/fitting) + ": another GOGC does not help"
	}
	severity := finding.Warning
	if *m.Collecting >= tightest && *f.CPU >= f.allowed()/2 {
		severity = finding.Critical
	}
	return finding.Finding{
		Severity: severity,
		Summary:  "the garbage collector takes " + quantity.Share(*m.Collecting) + " of the time",
		Evidence: []string{
			m.alive() + "; " + by,
			fmt.Sprintf("it collects again when the heap has grown by %.0f %%; without a limit Go waits for 100 %%", m.Room()),
			"it used " + quantity.UsedCPUs(*f.CPU),
		},
		Fix: fix,
	}, true
}
