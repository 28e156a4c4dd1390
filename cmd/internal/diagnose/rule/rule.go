// Package rule answers: what is wrong with a Go program and its limits, and how is it fixed? In go facts, out come
// findings with their evidence and their fix. One file a rule, and a page in docs/rules for each. The rules measure
// nothing and print nothing; what a program's standstills come from is judged by package freeze and by the packages that saw them.
package rule

import "github.com/unthrottle/unthrottle/cmd/internal/ground/finding"

// A Rule looks at the facts of a program and says whether it found something.
type Rule struct {
	Name    string // of its page
	Verdict string // in a word or two
	About   Topic
	check   func(*Facts) (finding.Finding, bool)
}

// A Topic is what a rule is about.
type Topic int

const (
	AboutProcs Topic = iota // GOMAXPROCS
	AboutCPU                // the CPU time that the program gets or uses
	AboutMemory
)

// Rules are all rules about a program. Causes come before what they lead to: of two findings that matter equally, the first is
// the program's verdict.
func Rules() []Rule {
	return []Rule{
		{"stale", "stale", AboutProcs, stale},
		{"too-many-ps", "too many Ps", AboutProcs, tooManyPs},
		{"limit-not-seen", "limit not seen", AboutProcs, limitNotSeen},
		{"memory-too-tight", "memory too tight", AboutMemory, memoryTooTight},
		{"sweeper-spin", "sweeper spin", AboutCPU, sweeperSpin},
		{"too-few-ps", "too few Ps", AboutProcs, tooFewPs},
		{"throttled", "throttled", AboutCPU, throttled},
		{"contended", "contended", AboutCPU, contended},
		{"gomemlimit-too-high", "GOMEMLIMIT too high", AboutMemory, gomemlimitTooHigh},
		{"no-gomemlimit", "no GOMEMLIMIT", AboutMemory, noGOMEMLIMIT},
		{"not-following", "not following", AboutProcs, notFollowing},
	}
}

// OfNumber are the rules about GOMAXPROCS itself: what they find is wrong even where it costs nothing yet.
var OfNumber = []string{"stale", "too-many-ps", "too-few-ps", "limit-not-seen"}

// About is what the rule of a name is about; a rule that is not of this package is about GOMAXPROCS.
func About(name string) Topic {
	for _, r := range Rules() {
		if r.Name == name {
			return r.About
		}
	}
	return AboutProcs
}

// Fine is the verdict on a program that no rule has a finding for.
const Fine = "fine"

// Check asks all rules about a program. What matters most comes first.
func Check(f *Facts) []finding.Finding {
	found := []finding.Finding{}
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
