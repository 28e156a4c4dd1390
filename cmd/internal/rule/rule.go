// Package rule answers: what is wrong with a Go program and its CPU limit, and what mends it? In go facts, out come
// findings with their evidence and their fix. One file a rule, and a page in docs/rules for each. The rules measure
// nothing and print nothing.
package rule

import (
	"fmt"
	"math"
	"strconv"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
)

// A Rule looks at a process and says whether it found something.
type Rule struct {
	Name    string // of its page
	Verdict string // in a word or two
	check   func(*facts) (finding.Finding, bool)
}

// Rules are all rules about a process. Causes come before what they lead to: of two findings that matter as much, the
// first one is the process's verdict.
func Rules() []Rule {
	return []Rule{
		{"too-many-ps", "too many Ps", tooManyPs},
		{"limit-not-seen", "limit not seen", limitNotSeen},
		{"sweeper-spin", "sweeper spin", sweeperSpin},
		{"too-few-ps", "too few Ps", tooFewPs},
		{"throttled", "throttled", throttled},
		{"contended", "contended", contended},
		{"not-following", "not following", notFollowing},
	}
}

// Fine is the verdict on a process that no rule has found anything with.
const Fine = "fine"

// Check asks all rules about a process. The findings come in the order of what they matter.
func Check(p *host.Process, s host.System) []finding.Finding {
	f := newFacts(p, s)
	var found []finding.Finding
	for severity := int(finding.Critical); severity >= int(finding.Info); severity-- {
		for _, r := range Rules() {
			if got, ok := r.check(f); ok && int(got.Severity) == severity {
				got.Rule, got.Verdict = r.Name, r.Verdict
				found = append(found, got)
			}
		}
	}
	return found
}

// facts are what the rules ask of a process.
type facts struct {
	*host.Process
	system host.System

	limited bool
	allowed float64 // CPUs that it may use: its limit or its affinity mask; 0: not known
	right   int     // GOMAXPROCS by Go's own rule, if it knew all; 0: not known
	procs   int     // 0: not known
	cpu     float64 // CPUs that it used
	share   float64 // of its periods that were throttled; 0 when nothing is counted
	frozen  float64 // share of the time in which its group stood still
	exact   bool    // frozen was measured, and is not the least that it can be
}

func newFacts(p *host.Process, s host.System) *facts {
	l := p.System.Limits
	f := &facts{Process: p, system: s, limited: l.State == cgroup.Limited, procs: p.Procs()}
	f.allowed = float64(l.Affinity)
	if f.limited && (f.allowed == 0 || l.CPUs < f.allowed) {
		f.allowed = l.CPUs
	}
	f.right = unthrottle.Decide(l, unthrottle.Policy{}).Procs
	u := p.Usage
	if u.Wall > 0 {
		f.cpu = u.CPU.Seconds() / u.Wall.Seconds()
	}
	f.share, _ = u.ThrottledShare()
	f.frozen, f.exact = u.FrozenShare(l.Affinity)
	return f
}

// busy reports whether the process does anything worth a rule's while.
func (f *facts) busy() bool { return f.cpu >= 0.01 }

// wanting is how many CPUs its threads would use if they got them: what they used and what they waited for. Its Ps tell,
// else its threads' run queues do.
func (f *facts) wanting() (cpus float64, ok bool) {
	u := f.Usage
	switch {
	case u.Samples > 0 && u.Running >= f.cpu:
		return u.Running, true
	case u.DelayWall > 0:
		return (u.Delay + u.DelayCPU).Seconds() / u.DelayWall.Seconds(), true
	}
	return f.cpu, false
}

// setBy says what gave the process its GOMAXPROCS.
func (f *facts) setBy() string {
	switch f.Source() {
	case choice.FromEnvironment:
		return "GOMAXPROCS in its environment"
	case host.FromCall:
		return "a call in the program"
	case choice.FromAutomaxprocs:
		return "automaxprocs"
	case choice.FromUnthrottle:
		return "unthrottle"
	case choice.FromLimit:
		return "the Go runtime, from its limit"
	case choice.FromCPUs:
		return "the Go runtime, from the number of CPUs"
	}
	return "what can't be told"
}

// getRight says how the process gets the right number, in one line.
func (f *facts) getRight() string {
	n := strconv.Itoa(f.right)
	switch f.Source() {
	case choice.FromEnvironment:
		return "take GOMAXPROCS out of its environment, or set it to " + n
	case host.FromCall:
		return "take the call of runtime.GOMAXPROCS out, or set GOMAXPROCS=" + n + " where the call respects it"
	case choice.FromAutomaxprocs:
		return `import "github.com/unthrottle/unthrottle/maxprocs" in the place of automaxprocs, or set GOMAXPROCS=` + n
	}
	if p := f.Program; p != nil && p.Minor() < 25 {
		return `import _ "github.com/unthrottle/unthrottle/auto", build with Go 1.25 or later, or set GOMAXPROCS=` + n
	}
	return `import _ "github.com/unthrottle/unthrottle/auto", or set GOMAXPROCS=` + n
}

// limitText names the limit, or the CPUs where there is none.
func (f *facts) limitText() string {
	if f.limited && f.System.Limits.CPUs <= f.allowed {
		return "a limit of " + CPUs(f.System.Limits.CPUs)
	}
	return CPUs(f.allowed)
}

// CPUs writes a number of CPUs.
func CPUs(n float64) string {
	text := strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
	if text == "1" {
		return "1 CPU"
	}
	return text + " CPUs"
}

// percent writes a share.
func percent(share float64) string {
	if share < 0.0995 {
		return fmt.Sprintf("%.1f %%", share*100)
	}
	return fmt.Sprintf("%.0f %%", share*100)
}

// throttledText is the evidence of throttling.
func (f *facts) throttledText() string {
	text := fmt.Sprintf("%d of %d periods were throttled", f.Usage.Owner.Throttled, f.Usage.Owner.Periods)
	if f.frozen > 0 {
		word := ""
		if !f.exact {
			word = "at least "
		}
		text += ", and it stood still for " + word + percent(f.frozen) + " of the time"
	}
	return text
}
