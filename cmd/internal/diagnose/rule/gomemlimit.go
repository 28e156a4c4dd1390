package rule

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
)

// Memory is a program's memory limit, what its collector uses, and what collecting costs.
type Memory struct {
	Limit cgroup.Memory
	golive.Collector
	Collecting *float64 // share of the time of busy Ps; nil: not known

	// Reckoned says that only GOGC and the collector's goal are known of the heap: what is alive follows from these, and what holds no
	// objects is not known.
	Reckoned bool
}

// nearEnd is how much the live heap may grow before a finding is a warning.
const nearEnd = 1.25

// told reports whether the program has a GOMEMLIMIT.
func (m *Memory) told() bool { return m.Collector.Limit < math.MaxInt64 }

func (m *Memory) limited() bool { return m.Limit.State == cgroup.Limited && m.Limit.Bytes > 0 }

// held is what the program may fill with objects and everything else, and what limits it; "": there is no limit.
func (m *Memory) held() (bytes float64, by string) {
	switch {
	case m.told():
		return float64(m.Collector.Limit), "GOMEMLIMIT is " + quantity.Bytes(m.Collector.Limit)
	case m.limited():
		fits, _ := choice.GOMEMLIMIT(m.Limit.Bytes)
		return float64(fits), "the memory limit is " + quantity.Bytes(m.Limit.Bytes)
	}
	return 0, ""
}

// most is how much may be alive so that the heap fits the memory limit before it is collected.
func (m *Memory) most() float64 {
	if m.Percent < 0 {
		return 0
	}
	return max(0, float64(m.Limit.Bytes)-float64(m.Other)) / (1 + float64(m.Percent)/100)
}

// setGOMEMLIMIT is the fix.
func (m *Memory) setGOMEMLIMIT() string {
	_, fits := choice.GOMEMLIMIT(m.Limit.Bytes)
	if fits == "" {
		return "give it more memory: a Go program needs some 32 MiB before GOMEMLIMIT helps"
	}
	return "set GOMEMLIMIT=" + fits + `, or import _ "github.com/unthrottle/unthrottle/auto/memory", which follows the limit`
}

// gomemlimitTooHigh finds one that leaves nothing for what is not the runtime's, or is above the memory limit.
func gomemlimitTooHigh(f *Facts) (finding.Finding, bool) {
	m := f.Memory
	if m == nil || !m.told() || !m.limited() || !choice.NoHeadroom(m.Collector.Limit, m.Limit.Bytes) {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Severity: finding.Info,
		Summary:  "GOMEMLIMIT is " + quantity.Bytes(m.Collector.Limit) + " under a memory limit of " + quantity.Bytes(m.Limit.Bytes),
		Evidence: []string{choice.CountedBesides + ": " + m.first()},
		Fix:      m.setGOMEMLIMIT(),
	}
	if m.Collector.Limit > m.Limit.Bytes {
		found.Evidence = []string{"it is above the limit, and so does nothing; perhaps the limit was another one when it was set"}
	}
	if float64(m.Live) > m.most()/nearEnd {
		found.Severity = finding.Warning
	}
	found.Evidence = append(found.Evidence, m.alive()...)
	if _, tight := memoryTooTight(f); tight { // a lower one alone would make that worse
		_, larger := choice.Roomy(float64(m.Live), float64(m.Other))
		_, fits := choice.GOMEMLIMIT(int64(larger))
		found.Fix = "under that memory limit set GOMEMLIMIT=" + fits + `, or import _ "github.com/unthrottle/unthrottle/auto/memory", which follows it`
	}
	return found, true
}

// noGOMEMLIMIT finds a heap that GOGC alone lets grow beyond the memory limit.
func noGOMEMLIMIT(f *Facts) (finding.Finding, bool) {
	m := f.Memory
	if m == nil || m.told() || !m.limited() || m.Percent >= 0 && m.Percent <= 100 && 2*float64(m.Live) <= m.most() {
		return finding.Finding{}, false
	}
	if _, tight := memoryTooTight(f); tight { // which has the better advice: a GOMEMLIMIT would make it worse
		return finding.Finding{}, false
	}
	found := finding.Finding{Severity: finding.Info, Evidence: m.alive(), Fix: m.setGOMEMLIMIT()}
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
func (m *Memory) alive() []string {
	switch {
	case m.Reckoned && m.Live == 0:
		return nil
	case m.Reckoned:
		return []string{"some " + quantity.Bytes(int64(m.Live)) + " of the heap are alive, by the size at which it is collected"}
	}
	return []string{quantity.Bytes(int64(m.Live)) + " of the heap are alive, and " + quantity.Bytes(int64(m.Other)) + " hold no objects"}
}
