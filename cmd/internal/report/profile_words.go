package report

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// starved is a demand from which on Ps wait for CPUs; costly, how many times the base's CPU time a unit of work must take for
// a class that grows with GOMAXPROCS to be pointed out.
const (
	starved = 1.3
	costly  = 2
)

// Text says whether its Ps had CPUs.
func (m *ProfileDemand) Text() string {
	text := quantity.Hundredths(m.Ratio) + " Ps wanted a CPU for each that they got"
	if m.Ratio >= starved {
		return text + " (1 is all that is needed)"
	}
	return text + ": each had its own"
}

// Hint says what the amount of excess supports, and what it does not.
func (d *Profile) Hint() string {
	known := d.Procs != nil && d.Limit.CPUs != nil
	above := known && float64(*d.Procs) > *d.Limit.CPUs+1
	switch {
	case d.Excess.Amount == "little":
		return "under 3 % is what programs have at GOMAXPROCS 1 too"
	case d.Excess.Amount == "some":
		return "between 3 and 8 % says little by itself"
	case above:
		return fmt.Sprintf("with GOMAXPROCS %d at a limit of %s that supports that too many Ps cost CPU time; unthrottle tune measures what", *d.Procs, quantity.CPUs(*d.Limit.CPUs))
	case known:
		return "GOMAXPROCS is not above the limit: it is the program's way of working, or a burst of short wakes"
	}
	return "above 8 % supports that too many Ps cost CPU time, if GOMAXPROCS is above the limit: see --pid and --limit"
}

// Costly reports whether a class that grows with GOMAXPROCS takes far more CPU time for a unit of work than in the base.
func (c ProfileClass) Costly() bool { return c.Excess && c.PerUnit != nil && *c.PerUnit >= costly }
