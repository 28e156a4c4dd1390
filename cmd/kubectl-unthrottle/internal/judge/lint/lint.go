// Package lint answers: what is wrong with a workload's GOMAXPROCS and GOMEMLIMIT, as its manifest stands? In go the facts of a workload, and
// what is known about its programs and nodes; out come findings with their place, their evidence and their fix. Each rule has a file, and a
// page in docs/rules.
//
// A finding is true for the manifest as is: what the manifest leaves open gives none, and what holds for some programs only
// says for which. Nothing is read, measured or printed here.
package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Finding is what a rule found.
type Finding struct {
	finding.Finding
	Workload  string            `json:"workload"`
	Container string            `json:"container,omitempty"` // "" for the pod as a whole
	Variable  string            `json:"variable,omitempty"`  // that it is about, if it is about one
	At        workload.Position `json:"position"`

	// Remedies are what Fix says, for what edits manifests and pods. At most one of them changes something and is right for
	// any program that runs there.
	Remedies []remedy.Remedy `json:"remedies,omitempty"`
}

// Known is what is known besides the workload.
type Known struct {
	Binaries *binary.Set // nil: nothing
	Nodes    []int       // CPUs of the nodes that it may run on; none: not known

	// Go is what unidentified Go programs are built with: those of containers with a variable that only Go reads. nil: not known.
	Go *procs.Program

	Levels Levels
}

// Levels are how severe the findings of a rule are to a project. A rule that is not there has its own severities; one of nil is off.
type Levels map[string]*finding.Severity

// off says whether a rule is.
func (l Levels) off(rule string) bool {
	severity, ok := l[rule]
	return ok && severity == nil
}

// A Rule looks at a container, or at a pod as a whole.
type Rule struct {
	ID      string // K001; its page is docs/rules/k001.md
	Verdict string // in a few words
	Means   string // in a sentence, for docs/rules/README.md

	container func(*facts) []Finding
	pod       func([]*facts) []Finding
}

// Rules are all rules. Where several have something to say about one variable, the most severe does, and of equals the first
// here: what makes the value wrong comes before what makes it needless.
func Rules() []Rule {
	return []Rule{
		{ID: "K001", Verdict: "counted in thousandths", container: divisor, Means: "a divisor turns a limit of 250m into GOMAXPROCS=250"},
		{ID: "K006", Verdict: "ignored by Go", container: ignored, Means: "GOMAXPROCS is not a whole number"},
		{ID: "K003", Verdict: "the node's CPUs", container: nodeCPUs, Means: "GOMAXPROCS comes from a limit that is not set"},
		{ID: "K005", Verdict: "above the limit", container: aboveLimit, Means: "GOMAXPROCS is at least twice the limit"},
		{ID: "K007", Verdict: "below the limit", container: belowLimit, Means: "at least one CPU can't be used"},
		{ID: "K011", Verdict: "set elsewhere", container: elsewhere, Means: "by a shell, a ConfigMap or another container's limit"},
		{ID: "K012", Verdict: "CPUs of its own", container: exclusive, Means: "GOMAXPROCS repeats the affinity mask"},
		{ID: "K002", Verdict: "perpetual drift", container: drift, Means: "a divisor is missing"},
		{ID: "K004", Verdict: "pinned", container: pinned, Means: "GOMAXPROCS does not follow the limit"},
		{ID: "K008", Verdict: "limit switched off", container: switchedOff, Means: "by GODEBUG"},
		{ID: "K013", Verdict: "limit not read", container: notRead, Means: "as the program's file shows"},
		{ID: "K014", Verdict: "heap without a limit", container: heapBet, Means: "GOGC is above 100, without GOMEMLIMIT"},
		{ID: "K015", Verdict: "no headroom", container: noHeadroom, Means: "GOMEMLIMIT leaves none of the memory limit free"},
		{ID: "K009", Verdict: "one limit for several", pod: shared, Means: "each container treats the pod's limit as its own"},
		{ID: "K010", Verdict: "no limit", pod: noLimit, Means: "a Go program has only a CPU request"},
		{ID: "K016", Verdict: "no GOMEMLIMIT", pod: noMemoryLimit, Means: "a Go program does not know its memory limit"},
		{ID: "K017", Verdict: "recommended limit", container: advised, Means: "VPA or KRR recommends another limit"},
		{ID: unused, Verdict: "ignore without effect", Means: "the comment suppresses nothing"},
	}
}

// unused is the rule about comments that take nothing back.
const unused = "K000"

// facts are what the rules know of a container.
type facts struct {
	w     *workload.Workload
	c     *workload.Container
	b     binary.Binary
	nodes []int
	pod   *forecast.Pod

	guaranteed bool // as all containers of the pod are
	reading
}

// MostFindings is how many findings are reported together. No one reads more, and each takes some KB.
const MostFindings = 100_000

// ErrTooMany says that there are more.
var ErrTooMany = hint.With(fmt.Errorf("more than %d findings", MostFindings), "name fewer files, or one namespace")

// rules are Rules, made once.
var rules = Rules()

// Check asks all rules about a workload: its containers in their order, then the pod as a whole, then comments without effect. The
// error is the context's, and nothing is found then.
func Check(ctx context.Context, w *workload.Workload, known Known) ([]Finding, error) {
	var all []candidate
	view := forecast.For(w)
	exclusive := guaranteed(w)
	pod := make([]*facts, len(w.Pod.Containers))
	for i := range w.Pod.Containers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := &w.Pod.Containers[i]
		f := &facts{w: w, c: c, b: known.Of(w, c), nodes: known.Nodes, pod: view, guaranteed: exclusive}
		f.read()
		pod[i] = f
		for order, r := range rules {
			if r.container != nil {
				all = r.take(all, r.container(f), i, order)
			}
		}
	}
	for order, r := range rules {
		if r.pod != nil {
			all = r.take(all, r.pod(pod), len(pod), order)
		}
	}
	name := w.String()
	for i := range all {
		found := &all[i]
		found.Workload = name
		if severity := known.Levels[found.Rule]; severity != nil {
			found.Severity = *severity
		}
		if found.place < len(pod) {
			c := pod[found.place].c
			found.Container = c.Name
			found.Remedies = pod[found.place].hold(found.Remedies)
			if c.Role == workload.Init { // it is over before the others start
				found.Severity = finding.Info
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, useless := takeBack(w, all) // a comment about a rule that is off here has its effect elsewhere
	all = slices.DeleteFunc(all, func(c candidate) bool { return known.Levels.off(c.Rule) })
	return append(most(all), known.Levels.ofComments(useless)...), nil
}

// ofComments are the findings about comments, which are made last.
func (l Levels) ofComments(useless []Finding) []Finding {
	if l.off(unused) {
		return nil
	}
	for i := range useless {
		if severity := l[unused]; severity != nil {
			useless[i].Severity = *severity
		}
	}
	return useless
}

// A candidate is a finding with its place among the others.
type candidate struct {
	Finding
	place, order int
}

func (r Rule) take(all []candidate, found []Finding, place, order int) []candidate {
	for _, f := range found {
		f.Rule, f.Verdict = r.ID, r.Verdict
		all = append(all, candidate{f, place, order})
	}
	return all
}

// most keeps the finding that matters most about each variable, in the order in which they are reported.
func most(all []candidate) (kept []Finding) {
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.order, b.order))
	})
	type subject struct {
		place    int
		variable string
	}
	told := map[subject]bool{}
	for _, c := range all {
		about := subject{c.place, c.Variable}
		if c.Variable == "" || !told[about] {
			told[about] = true
			kept = append(kept, c.Finding)
		}
	}
	return kept
}
