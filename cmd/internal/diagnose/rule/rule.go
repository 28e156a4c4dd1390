// Package rule answers: what is wrong with a Go program and its limits, and how is it fixed? In go facts, out come
// findings with their evidence and their fix. One file a rule, and a page in docs/rules for each. The rules measure
// nothing and print nothing; what a program's standstills come from is judged by package freeze and by the packages that saw them.
package rule

import "github.com/unthrottle/unthrottle/cmd/internal/ground/finding"

// A Rule looks at the facts of a program and says whether it found something.
type Rule struct {
	Name    string // of its page
	Verdict string // in a word or two
	Means   string // in a sentence, for docs/rules/README.md
	NoAlert string // why no alert of kubectl unthrottle is for it; "": one is
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
		{Name: "stale", Verdict: "stale", About: AboutProcs, check: stale, Means: "the limit changed while the program ran, and GOMAXPROCS still has the old value"},
		{Name: "too-many-ps", Verdict: "too many Ps", About: AboutProcs, check: tooManyPs, Means: "GOMAXPROCS suits another machine, not this limit"},
		{Name: "limit-not-seen", Verdict: "limit not seen", About: AboutProcs, check: limitNotSeen, Means: "a limit is in force, but GOMAXPROCS was chosen without it"},
		{Name: "memory-too-tight", Verdict: "memory too tight", About: AboutMemory, check: memoryTooTight, Means: "garbage collection takes much of the time: the live heap nearly fills the memory"},
		{Name: "sweeper-spin", Verdict: "sweeper spin", About: AboutCPU, check: sweeperSpin, Means: "a tiny heap is collected hundreds of times a second on several Ps"},
		{Name: "too-few-ps", Verdict: "too few Ps", About: AboutProcs, check: tooFewPs, Means: "all Ps are busy, and the limit allows more"},
		{Name: "throttled", Verdict: "throttled", About: AboutCPU, check: throttled, Means: "the limit stops the program"},
		{
			Name: "contended", Verdict: "contended", About: AboutCPU, check: contended,
			Means: "the program waits for CPUs that other programs use", NoAlert: "others use the node's CPUs: a matter of requests and of the node, and no limit is in it",
		},
		{
			Name: "gomemlimit-too-high", Verdict: "GOMEMLIMIT too high", About: AboutMemory, check: gomemlimitTooHigh,
			Means: "it leaves none of the memory limit free", NoAlert: "nothing is wrong yet: lint, audit and explain tell it",
		},
		{
			Name: "no-gomemlimit", Verdict: "no GOMEMLIMIT", About: AboutMemory, check: noGOMEMLIMIT,
			Means: "with this GOGC the heap may outgrow the memory limit", NoAlert: "nothing is wrong yet: lint, audit and explain tell it",
		},
		{Name: "not-following", Verdict: "not following", About: AboutProcs, check: notFollowing, Means: "GOMAXPROCS is fixed, although the limit can change"},
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
