// Package rule answers: what is wrong with a Go program and its limits, and how is it fixed? In go facts, out come
// findings with their evidence and their fix. One file a rule, and a page in docs/rules for each. The rules measure
// nothing and print nothing; what a program's standstills come from is judged by package freeze and by the packages that saw them.
package rule

import "github.com/unthrottle/unthrottle/cmd/internal/ground/finding"

// A Rule looks at the facts of a program and says whether it found something.
type Rule struct {
	Name    string // of its page
	Verdict string // in a word or two
	check   func(*Facts) (finding.Finding, bool)
}

// Rules are all rules about a program. Causes come before what they lead to: of two findings that matter equally, the first is
// the program's verdict.
func Rules() []Rule {
	return []Rule{
		{"stale", "stale", stale},
		{"too-many-ps", "too many Ps", tooManyPs},
		{"limit-not-seen", "limit not seen", limitNotSeen},
		{"memory-too-tight", "memory too tight", memoryTooTight},
		{"sweeper-spin", "sweeper spin", sweeperSpin},
		{"too-few-ps", "too few Ps", tooFewPs},
		{"throttled", "throttled", throttled},
		{"contended", "contended", contended},
		{"gomemlimit-too-high", "GOMEMLIMIT too high", gomemlimitTooHigh},
		{"no-gomemlimit", "no GOMEMLIMIT", noGOMEMLIMIT},
		{"not-following", "not following", notFollowing},
	}
}

// OfNumber are the rules about GOMAXPROCS itself: what they find is wrong even where it costs nothing yet.
var OfNumber = []string{"stale", "too-many-ps", "too-few-ps", "limit-not-seen"}

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
