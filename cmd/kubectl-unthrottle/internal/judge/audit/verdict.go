package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/gitops"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// A Verdict says in a word or two how a workload fares.
type Verdict string

const (
	Wrong     Verdict = "wrong"            // now: it was seen or counted
	AsWritten Verdict = "wrong as written" // the objects say so for any program, and it was not measured in all pods
	Open      Verdict = "open"             // wrong for some Go programs, and which one runs there is unknown
	NotHere   Verdict = "wrong elsewhere"  // the objects say so, and what was measured here is right
	Fine      Verdict = "fine"             // nothing was found, of what is known
	NoGo      Verdict = "no Go"            // agents looked at all its pods and saw no Go program, or its image is known to be none
	Nobody    Verdict = "not known"        // whether it is a Go program, and what limits it
)

// Verdicts are in the order in which they are shown.
var Verdicts = []Verdict{Wrong, AsWritten, Open, NotHere, Fine, NoGo, Nobody}

// Wrong reports whether there is something to change, if not here, then for elsewhere.
func (v Verdict) Wrong() bool { return v == Wrong || v == AsWritten || v == NotHere }

// A Go says whether a workload runs a Go program.
type Go string

const (
	GoSeen   Go = "seen"   // it was looked at: by an agent, by Prometheus, or its file
	GoLikely Go = "likely" // a variable is set that only Go programs read
	GoNone   Go = "none"
	GoOpen   Go = "not known"
)

// A Workload is what is known about one, and what follows.
type Workload struct {
	Context    string `json:"context,omitempty"` // of the kubeconfig, that leads to its cluster, where there are several
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Owner      string `json:"owner,omitempty"` // of an object that another one made
	Pods       int    `json:"pods"`
	Unseen     int    `json:"pods_not_seen"` // of them: on nodes, and not looked at

	Verdict  Verdict           `json:"verdict"`
	Severity *finding.Severity `json:"severity"` // of the worst finding; null: nothing was found
	Summary  string            `json:"summary"`  // one sentence
	openIn   string            // "container app: " of one whose program is not known, where there are several

	Go         Go       `json:"go"`
	Versions   []string `json:"go_versions"`
	GOMAXPROCS []int    `json:"gomaxprocs"` // least and greatest that were seen; empty: none was
	Expected   int      `json:"gomaxprocs_expected,omitempty"`
	Right      *bool    `json:"gomaxprocs_right"` // whether those that were seen suit the limit; null: that is not known
	SetBy      string   `json:"gomaxprocs_from,omitempty"`
	NumbersOf  string   `json:"numbers_of,omitempty"` // the container that these and the limit are of, where there are several
	Limit      float64  `json:"limit_cpus,omitempty"` // the one that is in force where it was seen, else the spec's

	Findings []*Finding `json:"findings"`
	Muted    int        `json:"muted"` // findings that are muted
	Cost     Cost       `json:"cost"`
	Fix      *Fix       `json:"fix"` // null: there is nothing to be done

	Git *gitops.Owner `json:"git"` // what makes it from Git, by its labels; null: they name nothing

	Go126  Change `json:"under_go_1_26"`
	CRIO   Change `json:"under_crio_injection"`
	Policy Change `json:"under_policy"`

	Burstable *bool `json:"burstable_unlimited_unset"` // OpenShift's question; null: unknown
}

// String is how it is called.
func (w *Workload) String() string {
	text := (&workload.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}).String()
	if w.Context != "" {
		text += " of " + w.Context
	}
	return text
}

// A Result is an audit's.
type Result struct {
	Workloads []*Workload
	Totals    Totals
}

// FromGit are the workloads that something makes from Git and in which there is something to change.
func (r *Result) FromGit() (all []gitops.Made) {
	for _, w := range r.Workloads {
		if w.Git != nil && w.Fix != nil {
			all = append(all, gitops.Made{Owner: w.Git, APIVersion: w.APIVersion, Kind: w.Kind, In: w.Namespace, Called: w.Name})
		}
	}
	return all
}

// Result joins what was read. The error is the context's.
func (a *Audit) Result(ctx context.Context) (*Result, error) {
	r := &Result{Workloads: []*Workload{}}
	for _, x := range a.order {
		w, err := a.judge(ctx, x)
		if err != nil {
			return nil, err
		}
		r.Workloads = append(r.Workloads, w)
	}
	slices.SortStableFunc(r.Workloads, worth)
	r.Totals = totals(r.Workloads, a.o)
	return r, nil
}

// worth puts what matters most first: by what was found, then by what was measured, then by the number of pods.
func worth(a, b *Workload) int {
	severity := func(w *Workload) int {
		if w.Severity == nil {
			return -1
		}
		return int(*w.Severity)
	}
	return cmp.Or(
		cmp.Compare(slices.Index(Verdicts, a.Verdict), slices.Index(Verdicts, b.Verdict)),
		cmp.Compare(severity(b), severity(a)),
		cmp.Compare(b.Cost.Save.High, a.Cost.Save.High),
		cmp.Compare(b.Cost.FrozenPods, a.Cost.FrozenPods),
		cmp.Compare(value(b.Cost.Throttled)*float64(b.Pods), value(a.Cost.Throttled)*float64(a.Pods)),
		cmp.Compare(b.Pods, a.Pods),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Context, b.Context),
	)
}

// judge makes the row of a workload.
func (a *Audit) judge(ctx context.Context, r *row) (*Workload, error) {
	first := r.first
	w := &Workload{
		APIVersion: first.APIVersion, Kind: first.Kind, Namespace: first.Namespace, Name: first.Name, Owner: first.Owner,
		Pods: len(r.pods), Versions: []string{}, GOMAXPROCS: []int{}, Findings: []*Finding{}, Muted: r.muted, Cost: r.costs(),
	}
	if first.Kind == "Pod" && first.Owner != "" { // its owner was not read
		w.Kind, w.Name, _ = strings.Cut(first.Owner, "/")
		w.APIVersion, w.Owner = "", ""
	}
	if w.Pods == 0 && len(a.found.Pods) == 0 {
		for _, v := range r.variants {
			w.Pods += v.Copies
		}
	}
	r.counted()
	known := a.programs(r)
	byRule, err := a.spec(ctx, r, known)
	if err != nil {
		return nil, err
	}
	w.Go = a.isGo(r, known)
	slices.SortStableFunc(r.findings, foremost)
	w.Findings = append(w.Findings, r.findings...)
	r.numbers(w)
	for _, f := range w.Findings {
		if w.Severity == nil || f.Severity > *w.Severity {
			w.Severity = &f.Severity
		}
	}
	for _, p := range r.pods {
		if p.Node != "" && !p.seen && !a.looked(p) {
			w.Unseen++
		}
	}
	w.Verdict = a.verdict(r, w, known)
	w.Fix = r.fix(w, byRule)
	if w.Kind == first.Kind {
		w.Git = gitops.Of(first)
	}
	return w, a.simulate(ctx, r, w, known)
}

// foremost puts what decides the verdict before the rest: first what costs something and holds now, then what costs something and is
// written; then what holds elsewhere, and what is only worth knowing.
func foremost(a, b *Finding) int {
	rank := func(f *Finding) int {
		if !f.matters() && f.Holds != HoldsElsewhere {
			return len(holding)
		}
		return slices.Index(holding, f.Holds)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Severity, a.Severity))
}

// programs is what is known about a row's programs: what the user names, and what was seen while it ran.
func (a *Audit) programs(r *row) lint.Known {
	known := lint.Known{Nodes: a.known.Nodes, Go: a.known.Go, Binaries: &binary.Set{}}
	of := map[string]binary.Binary{}
	doubt := map[string]bool{}
	for _, v := range r.variants {
		for i := range v.Pod.Containers {
			spec := &v.Pod.Containers[i]
			b := a.known.Binaries.Of(v, spec)
			if c := r.named(spec.Name); !b.Known && c != nil {
				b = c.binary()
			}
			name := binary.Normal(spec.Image)
			if old, told := of[name]; told && old.String() != b.String() {
				doubt[name] = true // one image, several programs
			}
			of[name] = b
		}
	}
	for name, b := range of {
		if b.Known && !doubt[name] {
			known.Binaries.AddFile(name, b)
		}
	}
	return known
}

// binary is the program of a container as it was seen. What its go line is, Prometheus does not know: where that decides, the
// program is not known.
func (c *container) binary() binary.Binary {
	p := c.main
	from := "the program that an agent saw"
	if c.programs == 0 {
		if len(c.versions) != 1 {
			return binary.Binary{}
		}
		p, from = Program{GoVersion: c.versions[0]}, "the program, by its own metrics,"
	}
	built := procs.Built(p.GoVersion, p.GoLine)
	if minor := built.Minor(); minor == 0 || minor >= 25 && p.GoLine == "" {
		return binary.Binary{}
	}
	switch p.SetBy {
	case "automaxprocs":
		built.Automaxprocs = procs.Imported
	case "unthrottle":
		built.Unthrottle = procs.Imported
	}
	return binary.Binary{Known: true, Program: built, From: from, Called: p.SetBy == "code"}
}

// spec asks the rules about the objects, and returns what they found, for the search for a remedy.
func (a *Audit) spec(ctx context.Context, r *row, known lint.Known) (all []specFinding, err error) {
	told := map[string]bool{}
	for _, v := range r.variants {
		findings, err := lint.Check(ctx, v, known)
		if err != nil {
			return nil, err
		}
		for _, f := range findings {
			same := strings.Join([]string{f.Rule, f.Container, f.Variable, f.Summary}, "\n")
			if told[same] {
				continue
			}
			told[same] = true
			all = append(all, specFinding{v, f})
			r.found(a.written(r, v, f))
		}
	}
	return all, nil
}

// A specFinding is one of package lint, with the variant of the workload that it is about.
type specFinding struct {
	w *workload.Workload
	lint.Finding
}

// numbers are the GOMAXPROCS that were seen and the limit, of the container that the worst finding is about, or else of the one that fares
// worst, and the versions.
func (r *row) numbers(w *Workload) {
	var of *container
	var in *Program
	if len(w.Findings) > 0 {
		of, in = r.named(w.Findings[0].Container), w.Findings[0].in
	}
	if of == nil || of.high == 0 {
		for _, c := range r.containers {
			if c.high > 0 && (of == nil || of.high == 0 || c.worst.misfit() > of.worst.misfit()) {
				of, in = c, nil
			}
		}
	}
	for _, c := range r.containers {
		for _, v := range c.versions {
			if !slices.Contains(w.Versions, v) {
				w.Versions = append(w.Versions, v)
			}
		}
	}
	slices.Sort(w.Versions)
	if of != nil {
		if in == nil || in.Expected == 0 && in.Limit == of.worst.Limit { // Prometheus does not know a node's CPUs
			in = &of.worst
		}
		w.Limit = cmp.Or(in.Limit, of.limit)
		if of.high > 0 {
			w.GOMAXPROCS = []int{of.low, of.high}
			w.Expected, w.SetBy, w.Right = in.Expected, cmp.Or(in.SetBy, of.worst.SetBy), of.right()
		}
		if len(r.containers) > 1 {
			w.NumbersOf = of.name
		}
	}
	for _, c := range r.containers {
		if w.Limit == 0 && c.spec != nil && (of == nil || of == c) {
			w.Limit = forecast.LimitOf(r.asRun(c)).CPUs
		}
	}
}

// asRun is a container as a pod has it, which may have been resized, or as its template has it if no pod does.
func (r *row) asRun(c *container) (*workload.Workload, *workload.Container) {
	for _, p := range r.pods {
		if i := slices.IndexFunc(p.Of.Pod.Containers, func(of workload.Container) bool { return of.Name == c.name }); i >= 0 {
			return p.Of, &p.Of.Pod.Containers[i]
		}
	}
	return c.in, c.spec
}

// isGo reports whether a Go program was seen in a container.
func (c *container) isGo() bool { return c.programs > 0 || len(c.versions) > 0 || c.high > 0 }

// isGo says whether a row runs a Go program, from any source that says so.
func (a *Audit) isGo(r *row, known lint.Known) Go {
	likely, none := false, true
	for _, c := range r.containers {
		if c.isGo() {
			return GoSeen
		}
		if c.spec == nil {
			continue
		}
		b := known.Of(c.in, c.spec)
		is, told := known.IsGo(c.in, c.spec)
		switch {
		case b.Go() && b.Program != a.known.Go:
			return GoSeen
		case is:
			likely = true
		case !told:
			none = false
		}
	}
	switch {
	case a.watched(r):
		return GoNone
	case likely:
		return GoLikely
	case none:
		return GoNone
	}
	return GoOpen
}

// watched reports whether agents looked at every pod of a row.
func (a *Audit) watched(r *row) bool {
	return len(r.pods) > 0 && !slices.ContainsFunc(r.pods, func(p *pod) bool { return !a.looked(p) })
}

// looked reports whether an agent looked at all programs of a pod.
func (a *Audit) looked(p *pod) bool { return a.nodes[p.Node] && !p.unnamed }

// verdict says how a row fares. It says no more than the data.
func (a *Audit) verdict(r *row, w *Workload, known lint.Known) Verdict {
	if w.Go == GoNone {
		return NoGo
	}
	elsewhere := false
	if len(w.Findings) > 0 {
		switch f := w.Findings[0]; { // what matters most
		case f.Holds == HoldsElsewhere:
			elsewhere = true
		case !f.matters():
		case f.Holds == HoldsNow:
			return Wrong
		default:
			return AsWritten
		}
	}
	open, all := false, true
	for _, c := range r.containers {
		if c.spec == nil {
			continue
		}
		b := known.Of(c.in, c.spec)
		if _, told := known.IsGo(c.in, c.spec); b.Known || c.programs > 0 || c.high > 0 || told && w.Go != GoLikely {
			continue // it was asked about by name
		}
		f := forecast.Of(c.in, c.spec, b, a.known.Nodes)
		for _, line := range f.Lines {
			if line.Wrong && !open && len(r.containers) > 1 {
				w.openIn = "container " + c.spec.Name + ": "
			}
			open = open || line.Wrong
			all = all && line.Procs > 0 // all CPUs of a node is right for it, and may be far more than it should have
		}
	}
	switch {
	case open:
		return Open
	case elsewhere:
		return NotHere
	case w.Go == GoSeen:
		return Fine
	case all:
		return Fine // for any Go program that runs there
	}
	return Nobody
}

// Unknown says why it is neither right nor wrong; "": it is known to be one of these.
func (w *Workload) Unknown() string {
	switch {
	case w.Verdict == Open || w.Verdict == Nobody:
		return w.Summary
	case w.Verdict == Fine && len(w.GOMAXPROCS) > 0 && w.Unseen > 0:
		return fmt.Sprintf("nothing is wrong with what was seen, and %d of %d pods were not looked at", w.Unseen, w.Pods)
	}
	return ""
}

// sentence says why, in one sentence.
func (w *Workload) sentence() string {
	if len(w.Findings) > 0 && w.Verdict != Open && w.Verdict != NoGo {
		f := w.Findings[0]
		if f.Container != "" {
			return fmt.Sprintf("container %s: %s", f.Container, f.Summary)
		}
		return f.Summary
	}
	switch w.Verdict {
	case Open:
		return w.openIn + "which Go program runs there is not known, and the limit is not read by those with a go line of 1.24 or earlier"
	case NoGo:
		return "no Go program is known to run there"
	case Nobody:
		return "the program is not known, and neither is its GOMAXPROCS"
	}
	if w.Go == GoSeen {
		return "nothing is wrong with what was seen"
	}
	return "GOMAXPROCS will be right for whatever Go program runs there"
}
