package rule

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Starved is how many Ps with work for each CPU that a program got mean that they wait for CPUs; muchStarved, that they do
// little else.
const (
	Starved     = 1.3
	muchStarved = 4
)

// tooManyPs finds a GOMAXPROCS far above the CPUs that the program may use. A few more do no harm, and help a program whose
// requests come in bursts: see throttled. Four times as many must be another machine's number.
func tooManyPs(f *Facts) (finding.Finding, bool) {
	least := f.least()
	if least == 0 || (f.Procs < 4*least || f.Procs-least < 4) && !f.doubled() {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Summary:  fmt.Sprintf("GOMAXPROCS is %d under %s", f.Procs, f.limitText()),
		Evidence: f.setByText(),
		Fix:      f.getRight(),
	}
	if f.idle() {
		found.Evidence = append(found.Evidence, "it is idle now, so this costs nothing yet")
		return found, true
	}
	if f.busy() || f.doubled() {
		found.Severity = finding.Warning
	}
	if wanting, ok := f.wanting(); ok && *f.CPU > 0 && wanting >= max(0.1, Starved**f.CPU) {
		ratio := wanting / *f.CPU
		found.Evidence = append(found.Evidence, fmt.Sprintf("on average %s had work at a time and got %s: they had to wait %s of the time",
			ps(wanting), quantity.UsedCPUs(*f.CPU), quantity.WholeShare(1-1/ratio)))
		if ratio >= muchStarved {
			found.Severity = finding.Critical
		}
	}
	if f.Spinning >= 0.05 {
		found.Evidence = append(found.Evidence, fmt.Sprintf("%.1f threads were looking for work at a time, on average", f.Spinning))
	}
	found.Evidence = append(append(found.Evidence, f.throttledText()...), f.pressureText()...)
	return found, true
}

// doubled reports whether twice as many Ps as CPUs are too many: the limit stops the program, and has done so for long.
func (f *Facts) doubled() bool {
	return f.Lasting && f.limited() && float64(f.Procs) >= 2*f.allowed() && !Suits(f.Procs, f.Limits) && f.stopped() >= 0.1
}

// ps writes a number of Ps.
func ps(n float64) string {
	tenths := math.Round(n*10) / 10
	if n >= 10 || tenths == math.Round(n) {
		return quantity.Plural(int64(math.Round(n)), "P")
	}
	return quantity.Number(tenths) + " Ps"
}
