package rule

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// Memory is a program's memory limit, what its collector goes by, and what that takes.
type Memory struct {
	Limit cgroup.Memory
	golive.Collector
	Collecting *float64 // share of the time of busy Ps; nil: not known
}

// Of a memory limit GOMEMLIMIT is to leave a tenth free, for what the kernel counts and the runtime does not: files in memory, C's own.
const (
	fitting  = 0.9
	tooClose = 0.97 // leaves nothing
	nearEnd  = 1.25 // a heap that grows by so much is the last
)

// unlimited reports whether there is no GOMEMLIMIT.
func (m *Memory) unlimited() bool { return m.Collector.Limit == math.MaxInt64 }

// killed reports whether there is a limit beyond which the kernel kills the program, or takes its memory back.
func (m *Memory) killed() bool { return m.Limit.State == cgroup.Limited && m.Limit.Bytes > 0 }

// held is what the program may fill with objects and all else, and by what; 0: there is no limit.
func (m *Memory) held() (bytes float64, by string) {
	switch {
	case !m.unlimited():
		return float64(m.Collector.Limit), "GOMEMLIMIT is " + quantity.Bytes(m.Collector.Limit)
	case m.killed():
		return fitting * float64(m.Limit.Bytes), "the memory limit is " + quantity.Bytes(m.Limit.Bytes)
	}
	return 0, ""
}

// leastGoal is a heap below which Go does not collect by itself.
const leastGoal = 4 << 20

// wanted is a GOMEMLIMIT that leaves the collector room for half as much as is alive.
func (m *Memory) wanted() float64 { return max(1.5*float64(m.Live), leastGoal) + float64(m.Other) }

// share is the GOMEMLIMIT that fits the memory limit.
func (m *Memory) share() string {
	return fmt.Sprintf("%dMiB", max(1, int64(fitting*float64(m.Limit.Bytes))>>20))
}

// mebibytes writes a size as a setting has it.
func mebibytes(n float64) string { return fmt.Sprintf("%.0fMiB", max(1, math.Ceil(n/(1<<20)))) }

// most is how much may be alive so that the heap fits the memory limit before it is collected.
func (m *Memory) most() float64 {
	if m.Percent < 0 {
		return 0
	}
	return max(0, float64(m.Limit.Bytes)-float64(m.Other)) / (1 + float64(m.Percent)/100)
}

// aGOMEMLIMIT is the fix.
func (m *Memory) aGOMEMLIMIT() string {
	return "set GOMEMLIMIT=" + m.share() + `, or import _ "github.com/unthrottle/unthrottle/auto/memory", which follows the limit`
}

// gomemlimitTooHigh finds one that leaves nothing for what is not the runtime's, or is above the memory limit.
func gomemlimitTooHigh(f *Facts) (finding.Finding, bool) {
	m := f.Memory
	if m == nil || m.unlimited() || !m.killed() || float64(m.Collector.Limit) <= tooClose*float64(m.Limit.Bytes) {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Severity: finding.Info,
		Summary:  "GOMEMLIMIT is " + quantity.Bytes(m.Collector.Limit) + " under a memory limit of " + quantity.Bytes(m.Limit.Bytes),
		Evidence: []string{"the kernel counts memory that the runtime does not, such as files in memory and what C has: " + m.first()},
		Fix:      m.aGOMEMLIMIT(),
	}
	if m.Collector.Limit > m.Limit.Bytes {
		found.Evidence = []string{"it is above the limit, and so does nothing; perhaps the limit was another one when it was set"}
	}
	if float64(m.Live) > m.most()/nearEnd {
		found.Severity = finding.Warning
	}
	found.Evidence = append(found.Evidence, m.alive())
	return found, true
}

// noGOMEMLIMIT finds a heap that GOGC alone lets grow beyond the memory limit.
func noGOMEMLIMIT(f *Facts) (finding.Finding, bool) {
	m := f.Memory
	if m == nil || !m.unlimited() || !m.killed() || m.Percent >= 0 && m.Percent <= 100 && 2*float64(m.Live) <= m.most() ||
		m.Percent >= 0 && m.Percent < tightRoom { // there is little that another limit would do, see memoryTooTight
		return finding.Finding{}, false
	}
	found := finding.Finding{Severity: finding.Info, Evidence: []string{m.alive()}, Fix: m.aGOMEMLIMIT()}
	if m.Percent < 0 {
		found.Severity = finding.Warning
		found.Summary = "with GOGC=off the heap grows up to the memory limit"
		found.Evidence = append(found.Evidence, "nothing is collected before the kernel's limit of "+quantity.Bytes(m.Limit.Bytes)+" is reached")
		return found, true
	}
	if nearEnd*float64(m.Live) > m.most() {
		found.Severity = finding.Warning
	}
	found.Summary = fmt.Sprintf("with GOGC=%d no more than %s may be alive", m.Percent, quantity.Bytes(int64(m.most())))
	found.Evidence = append(found.Evidence, "with more the heap outgrows the memory limit of "+quantity.Bytes(m.Limit.Bytes)+" before it is collected")
	return found, true
}

// first is what comes before the collector acts.
func (m *Memory) first() string {
	if m.Limit.High {
		return "it slows the program down first"
	}
	return "it kills first"
}

// alive is the evidence of what its memory holds.
func (m *Memory) alive() string {
	return quantity.Bytes(int64(m.Live)) + " of the heap are alive, and " + quantity.Bytes(int64(m.Other)) + " hold no objects"
}
