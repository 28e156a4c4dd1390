package result

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
)

// Audit is what is wrong in a whole cluster, what it costs, and what would help.
type Audit struct {
	report.Header
	Verdict    string            `json:"verdict"` // one sentence
	Cluster    *Cluster          `json:"cluster"`
	Agents     AuditAgents       `json:"agents"`
	Prometheus *AuditPrometheus  `json:"prometheus"` // null: it was not asked
	Registry   *AuditRegistry    `json:"registry"`   // null: none was asked
	Totals     audit.Totals      `json:"totals"`
	Workloads  []*audit.Workload `json:"workloads"` // what matters most first
	Problems   []Problem         `json:"problems"`
	Clusters   []AuditCluster    `json:"clusters,omitempty"` // where several were asked for: each

	Top    int  `json:"-"` // how many workloads a screen shows; 0: all
	WhatIf bool `json:"-"` // a screen shows what would be, too: the document always has it

	nothing string // what had no workload in it
}

// AuditAgents are those that were asked.
type AuditAgents struct {
	Asked    bool           `json:"asked"`
	Once     bool           `json:"once,omitempty"` // nodes were looked at once, by a Job on each, as no agent is installed
	Found    int            `json:"found"`
	Answered int            `json:"answered"`
	Programs int            `json:"programs"` // that they reported, in any namespace
	Failed   []AuditFailure `json:"failed"`
}

// An AuditFailure is an agent that was not heard, or not believed.
type AuditFailure struct {
	Context string `json:"context,omitempty"` // where several clusters were asked for
	Agent   string `json:"agent"`
	Node    string `json:"node"`
	Why     string `json:"why"`
}

// AuditPrometheus is what was asked.
type AuditPrometheus struct {
	URL    string   `json:"url"`
	Since  float64  `json:"since_seconds"`
	Series int      `json:"series"`
	Joined int      `json:"containers_joined"` // that belong to a workload
	Empty  []string `json:"without_series"`    // metrics that nothing exports
}

// AuditRegistry is what registries were asked for: images whose programs had not been seen.
type AuditRegistry struct {
	Images int `json:"images"`
	Read   int `json:"read"`
}

// NewAudit makes the document of what was found. What else could not be read comes after what could not be read of the cluster.
func NewAudit(found *cluster.Found, r *audit.Result, agents AuditAgents, prometheus *AuditPrometheus, more []Problem) *Audit {
	if agents.Failed == nil {
		agents.Failed = []AuditFailure{}
	}
	d := &Audit{
		Cluster: &Cluster{
			Context: found.Context, Server: found.Server, Namespace: found.Namespace, Objects: found.Objects,
			Differ: slices.Concat([]string{}, found.Differ), About: found.String(),
		},
		Agents: agents, Prometheus: prometheus, Totals: r.Totals, Workloads: r.Workloads,
		Problems: append(problems(&manifest.Set{Problems: found.Problems}), more...),
	}
	d.nothing = nothingIn(found, d.Totals.Workloads)
	d.Verdict = d.verdict()
	return d
}

// Nothing is what no workload was found in; "": there is one.
func (d *Audit) Nothing() string { return d.nothing }

// verdict is the answer, in twelve words at most: what is wrong now comes first.
func (d *Audit) verdict() string {
	t := d.Totals
	now, written, elsewhere, open := t.Verdicts[audit.Wrong], t.Verdicts[audit.AsWritten], t.Verdicts[audit.NotHere], t.Verdicts[audit.Open]
	all := quantity.Plural(t.Workloads, "workload")
	is := func(n int) string { return map[bool]string{true: "is", false: "are"}[n == 1] }
	of := func(n int) string { return quantity.Count(n) + " of " + all }
	switch {
	case d.nothing != "":
		return "N" + d.nothing[1:] + "."
	case now > 0 && written == 0 && elsewhere == 0:
		return of(now) + " " + d.wrongNow(now == 1) + "."
	case now > 0:
		text := of(now) + " " + is(now) + " wrong now"
		if written > 0 {
			text += ", " + quantity.Count(written) + " as written"
		}
		if elsewhere > 0 {
			text += ", " + quantity.Count(elsewhere) + " " + d.where(written == 0)
		}
		return text + "."
	case written > 0 && t.Measured == 0:
		return of(written) + " " + is(written) + " wrong as written; no GOMAXPROCS was measured."
	case written > 0 && elsewhere > 0:
		return fmt.Sprintf("%s %s wrong as written, %s elsewhere; none as measured.", quantity.Plural(written, "workload"), is(written), quantity.Count(elsewhere))
	case written > 0:
		return of(written) + " " + is(written) + " wrong as written, none as measured."
	case elsewhere > 0:
		return of(elsewhere) + " would be wrong " + d.where(true) + "; none now."
	case open > 0:
		return "Nothing is known to be wrong; " + of(open) + map[bool]string{true: " stays", false: " stay"}[open == 1] + " open."
	case t.Verdicts[audit.Nobody] > 0:
		return "Nothing wrong was found; " + of(t.Verdicts[audit.Nobody]) + " can't be judged."
	}
	return "Nothing wrong was found in " + all + "."
}

// wrongNow says what is wrong with those for which that was measured.
func (d *Audit) wrongNow(one bool) string {
	has, is, lack := "have", "are", "lack"
	if one {
		has, is, lack = "has", "is", "lacks"
	}
	number, cpu, memory := false, false, false
	for _, c := range d.Totals.Causes {
		switch {
		case c.Holds != audit.HoldsNow:
		case rule.About(c.Rule) == rule.AboutCPU:
			cpu = true
		case rule.About(c.Rule) == rule.AboutMemory:
			memory = true
		default:
			number = true
		}
	}
	switch {
	case memory && (cpu || number):
		return has + " trouble with CPU or memory now"
	case memory:
		return has + " trouble with memory now"
	case cpu && number:
		return has + " a wrong GOMAXPROCS or " + lack + " CPU now"
	case cpu:
		return is + " short of CPU now: throttled, or waiting"
	}
	return has + " a wrong GOMAXPROCS now"
}

// where says where those are wrong that are right here.
func (d *Audit) where(room bool) string {
	for _, c := range d.Totals.Causes {
		if c.Holds == audit.HoldsElsewhere && !audit.LargerNode(c.Rule) {
			room = false
		}
	}
	if room {
		return "on larger nodes"
	}
	return "elsewhere"
}

// Unread is how many problems took something away.
func (d *Audit) Unread() int { return unread(d.Problems) }

// Findings are all that were found, for counting.
func (d *Audit) Findings() []finding.Finding { return report.Found(d.Checks()) }

// Checks are one for each finding, and one for each thing that is not known, which passes nowhere. Where all is known and nothing was found
// there is one that passes.
func (d *Audit) Checks() (checks []report.Check) {
	for _, w := range d.Workloads {
		if w.Verdict == audit.NoGo {
			continue
		}
		for i, f := range w.Findings {
			about := w.String()
			if f.Container != "" {
				about += ", container " + f.Container
			}
			found := f.Finding
			if i == 0 && w.Fix != nil {
				found.Fix = w.Fix.Text
				switch {
				case w.Git != nil:
					found.Fix = w.Advice()
				case w.Fix.Command != "":
					found.Fix += ": " + w.Fix.Command
				}
			}
			checks = append(checks, report.Check{
				About: about, Name: f.Rule + ": " + f.Verdict, Found: &found,
				Key: strings.TrimSuffix(strings.Join([]string{f.Rule, w.Namespace, w.Kind, w.Name, f.Container, w.Context}, "\n"), "\n"),
			})
		}
	}
	checks = append(checks, d.Unknown()...)
	if len(checks) == 0 {
		checks = []report.Check{{About: quantity.Plural(d.Totals.Workloads, "workload"), Name: "nothing wrong is known"}}
	}
	return checks
}

// Unknown are what could not be known, each with the reason.
func (d *Audit) Unknown() (checks []report.Check) {
	add := func(about, name, why string) {
		checks = append(checks, report.Check{About: about, Name: name, Unknown: why})
	}
	for _, w := range d.Workloads {
		if why := w.Unknown(); why != "" {
			add(w.String(), "GOMAXPROCS is right", why)
		}
	}
	if d.nothing != "" {
		add(d.Cluster.About, "there is a workload", d.nothing)
	}
	if why := d.Agents.none(); why != "" && len(d.Clusters) == 0 {
		add("agents", "what runs was measured", why)
	}
	for _, c := range d.Clusters {
		if c.Agents != nil && c.Agents.none() != "" {
			add("agents of "+c.Context, "what runs was measured", c.Agents.none())
		}
	}
	for _, p := range d.Problems {
		if p.Severity != string(manifest.Note) {
			add(p.At, "it was read, and whole", p.Text)
		}
	}
	return checks
}

// none says why no agent has measured anything; "": some did, or are listed with their troubles.
func (a AuditAgents) none() string {
	switch {
	case !a.Asked:
		return "agents were not asked"
	case a.Found == 0 && a.Once:
		return "no pod was on a node, so none was looked at"
	case a.Found == 0:
		return "no agent was found, so nothing was measured by one"
	}
	return ""
}

// Sources say what was read, a sentence each.
func (d *Audit) Sources() []string {
	if len(d.Clusters) > 0 {
		var texts []string
		for _, c := range d.Clusters {
			for _, text := range c.sources {
				texts = append(texts, c.Context+": "+text)
			}
		}
		return texts
	}
	texts := []string{d.Cluster.About + ", " + quantity.Plural(d.Totals.Pods, "pod")}
	if a := d.Agents; a.none() != "" {
		texts = append(texts, a.none())
	} else if a.Once {
		texts = append(texts, fmt.Sprintf("%s of %s looked at once, with %s", quantity.Count(a.Answered), plural(a.Found, "node was", "nodes were"), quantity.Plural(a.Programs, "Go program")))
	} else {
		texts = append(texts, fmt.Sprintf("%s of %s answered and reported %s", quantity.Count(a.Answered), quantity.Plural(a.Found, "agent"),
			quantity.Plural(a.Programs, "Go program")))
	}
	if r := d.Registry; r != nil {
		texts = append(texts, fmt.Sprintf("registries: the programs of %s of %s", quantity.Count(r.Read), quantity.Plural(r.Images, "image")))
	}
	if p := d.Prometheus; p != nil {
		texts = append(texts, fmt.Sprintf("Prometheus, the last %s: %s, %s joined", lasting(p.Since), quantity.Plural(p.Series, "value"),
			quantity.Plural(p.Joined, "container")))
	}
	return texts
}

func lasting(seconds float64) string {
	return strings.TrimSuffix(strings.TrimSuffix((time.Duration(seconds)*time.Second).String(), "0s"), "0m")
}

// Known says what is known about the programs.
func (d *Audit) Known() string {
	g := d.Totals.Go
	parts := []string{plural(g[audit.GoSeen], "workload runs", "workloads run") + " a Go program that was seen"}
	if n := g[audit.GoLikely]; n > 0 {
		parts = append(parts, quantity.Count(n)+" likely, by a variable that only Go programs read")
	}
	if n := g[audit.GoNone]; n > 0 {
		parts = append(parts, quantity.Count(n)+" none")
	}
	if n := g[audit.GoOpen]; n > 0 {
		parts = append(parts, "of "+quantity.Count(n)+" it is not known")
	}
	return strings.Join(parts, "; ")
}

// inWords are verdicts after a number.
var inWords = map[audit.Verdict]string{
	audit.Wrong: "wrong now", audit.AsWritten: "wrong as written", audit.NotHere: "right here and wrong elsewhere", audit.Open: "open",
}

// Affected says how many are affected, and by what.
func (d *Audit) Affected() (texts []string) {
	v := d.Totals.Verdicts
	var parts []string
	for _, one := range []struct {
		verdict audit.Verdict
		words   string
	}{
		{audit.Wrong, inWords[audit.Wrong]},
		{audit.AsWritten, inWords[audit.AsWritten]},
		{audit.NotHere, inWords[audit.NotHere]},
		{audit.Open, "open: wrong for some Go programs, and which runs there is not known"},
		{audit.Fine, "fine"},
		{audit.NoGo, "no Go"},
		{audit.Nobody, "not known"},
	} {
		if n := v[one.verdict]; n > 0 {
			parts = append(parts, quantity.Count(n)+" "+one.words)
		}
	}
	texts = append(texts, strings.Join(parts, "; "))
	for _, c := range d.Totals.Causes {
		name := c.Verdict
		if strings.HasPrefix(c.Rule, "K") {
			name = c.Rule + " " + name
		}
		if c.Holds != audit.HoldsNow {
			name += ", " + string(c.Holds)
		}
		texts = append(texts, fmt.Sprintf("%s: %s, %s", name, quantity.Plural(c.Workloads, "workload"), quantity.Plural(c.Pods, "pod")))
	}
	if n := d.Totals.Muted; n > 0 {
		texts = append(texts, plural(n, "finding is muted", "findings are muted"))
	}
	return texts
}

// Save says what CPUs can be saved, as far as that was measured.
func (d *Audit) Save() string { return saveText(d.Totals.Save) }

func saveText(r audit.Range) string {
	if r.Measured == 0 && r.NotMeasured == 0 {
		return ""
	}
	if r.Measured == 0 {
		return "not measured, in " + quantity.Plural(r.NotMeasured, "program") + " with too many Ps"
	}
	text := fmt.Sprintf("%s: what threads that looked for work used in %s with too many Ps", Span(r), quantity.Plural(r.Measured, "program"))
	if r.NotMeasured > 0 {
		text += "; not measured in " + quantity.Count(r.NotMeasured) + " more"
	}
	return text
}

// Span is a range of CPUs. With hundreds of CPUs the hundredths are unknown.
func Span(r audit.Range) string {
	if r.High >= 100 {
		r.Low, r.High = math.Round(r.Low), math.Round(r.High)
	}
	low, high := quantity.Hundredths(r.Low), quantity.Hundredths(r.High)
	if low == high {
		return quantity.UsedCPUs(r.High)
	}
	return low + " to " + quantity.UsedCPUs(r.High)
}

// Still says how much time was spent standing still.
func (d *Audit) Still() string {
	if d.Totals.FrozenPods < 0.005 {
		return ""
	}
	return "limits stopped all pods together for " + quantity.Hundredths(d.Totals.FrozenPods) + " s in each second"
}

// Go126 says what a build with Go 1.26 would change.
func (d *Audit) Go126() string {
	return simulated(d.Totals.Go126, "another GOMAXPROCS, built with Go 1.26 and a go line of 1.25 or later", "the right one")
}

// CRIO says what CRI-O's injection would change.
func (d *Audit) CRIO() string {
	text := simulated(d.Totals.CRIO, fmt.Sprintf("a GOMAXPROCS injected (simulated, with a floor of %d)", d.Totals.Floor), "")
	if n := d.Totals.CRIO.Scarce; n > 0 {
		text += "; in " + quantity.Count(n) + " a program used more CPU than it would have Ps"
	}
	return text
}

// Policy says what our admission policies would change.
func (d *Audit) Policy() string {
	s := d.Totals.Policy
	return fmt.Sprintf("pods of %s would be changed as they are made; those of %s would not", quantity.Plural(s.Changed, "workload"), quantity.Count(s.Same))
}

func simulated(s audit.Simulation, what, right string) string {
	text := fmt.Sprintf("%s would have %s", quantity.Plural(s.Changed, "workload"), what)
	if right != "" && s.Right > 0 {
		text += fmt.Sprintf(", %s of them %s", quantity.Count(s.Right), right)
	}
	text += "; " + quantity.Count(s.Same) + " would not"
	if s.NotKnown > 0 {
		text += "; of " + quantity.Count(s.NotKnown) + " it is not known"
	}
	return text
}

// OpenShift answers the question of OpenShift's criterion in one line.
func (d *Audit) OpenShift() string {
	s, all := d.Totals.Burstable, d.Totals.Workloads
	text := fmt.Sprintf("%s of %s", quantity.Count(s.Changed), quantity.Plural(all, "workload"))
	if all > 0 {
		text += " (" + quantity.Share(float64(s.Changed)/float64(all)) + ")"
	}
	text += map[bool]string{true: " is", false: " are"}[s.Changed == 1] + " burstable, without a CPU limit and without an explicit GOMAXPROCS"
	if s.NotKnown > 0 {
		text += "; of " + quantity.Count(s.NotKnown) + " it can't be told"
	}
	return text
}

// Names are the workloads that are wrong, now or as written, as kubectl names objects: deployment.apps/api.
func (d *Audit) Names() (names []string) {
	for _, w := range d.Workloads {
		if w.Verdict == audit.Wrong || w.Verdict == audit.AsWritten {
			names = append(names, named(w.APIVersion, w.Kind, w.Name))
		}
	}
	return names
}
