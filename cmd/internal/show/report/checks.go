package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// A Check is one thing that a document answers with yes or no, for consumers that count such answers: an exit code, and the systems that
// run builds.
type Check struct {
	About   string           // what was looked at: a process, a server
	Name    string           // what it was held against
	Found   *finding.Finding // what is wrong, or worth knowing; nil: nothing
	Unknown string           // why it is neither right nor wrong; "": it is known
	Place   Place            // where it is, if it is in a file
	Key     string           // what makes it the same finding tomorrow, with other lines around it; "": nothing but its words
}

// A Place is a part of a file. Its zero value is none.
type Place struct {
	File                  string // with slashes: below Root, or without a Root as it was named
	Root                  string // absolute directory of the repository, with slashes; "": the file is in none
	Line, Column, EndLine int    // from 1; 0: not known
}

// Found are what is wrong by some checks.
func Found(checks []Check) (findings []finding.Finding) {
	for _, c := range checks {
		if c.Found != nil {
			findings = append(findings, *c.Found)
		}
	}
	return findings
}

// byRules are the checks of a process by the rules of ps: one for each finding, or a single one that found nothing, if the rules had enough
// to judge it. unknown says what they lacked; "": nothing.
func byRules(about string, findings []finding.Finding, unknown string) (checks []Check) {
	for _, f := range findings {
		checks = append(checks, Check{About: about, Name: f.Verdict, Found: &f})
	}
	if len(findings) == 0 {
		checks = []Check{{About: about, Name: "no rule finds anything wrong", Unknown: unknown}}
	}
	return checks
}

// lacking is what the rules had not enough of, for a process; "": nothing.
func lacking(procs *int, l Limit, watched bool) string {
	switch {
	case procs == nil:
		return "its GOMAXPROCS is not known"
	case l.State == "unknown":
		return "its CPU limit is not known"
	case !watched:
		return "whether it is throttled shows only while it is looked at"
	}
	return ""
}

func process(name string, pid int) string {
	if pid == 0 {
		return name
	}
	return fmt.Sprintf("%s, pid %d", name, pid)
}

// Checks are one for each process and finding.
func (d *Ps) Checks() (checks []Check) {
	for _, p := range d.Processes {
		checks = append(checks, byRules(process(p.Name, p.PID), p.Findings, p.lacking())...)
	}
	return checks
}

// Checks are those of the process.
func (d *Explain) Checks() []Check {
	unknown := d.Unread
	if d.Unmeasured != nil {
		unknown = "nothing was measured: " + d.Unmeasured.Why
	}
	unknown = cmp.Or(unknown, lacking(d.GOMAXPROCS.Value, d.Limit, d.Throttling.Now != nil))
	return byRules(process(d.Subject.Name, d.Subject.PID), d.Findings, unknown)
}

// Checks are those of the group.
func (d *Watch) Checks() []Check {
	return byRules(d.Subject(), d.Findings, whyUnsure(d.Cause, strings.Join(d.Why, "; ")))
}

// Checks are those of the traced program.
func (d *Trace) Checks() []Check {
	return byRules(d.Subject(), d.Findings, cmp.Or(d.Doubt, whyUnsure(d.Cause, d.Why)))
}

// whyUnsure is why the cause of freezes is not known; "": it is known, or there are no freezes.
func whyUnsure(cause, why string) string {
	if freeze.Cause(cause) == freeze.Unsure {
		return cmp.Or(why, "it can't be told")
	}
	return ""
}

// Checks are those of the program in the profile.
func (d *Profile) Checks() []Check {
	unknown := ""
	switch {
	case d.Samples == 0:
		unknown = "it has no samples"
	case d.Limit.State != "limited" && d.Limit.State != "none":
		unknown = "the CPU limit is not known"
	}
	return byRules(d.name(), d.Findings, unknown)
}

// Checks are the program's exit code.
func (d *Run) Checks() []Check {
	c := Check{About: ShellWords(d.Command), Name: "exit code 0"}
	if d.ExitCode != 0 {
		c.Found = &finding.Finding{Rule: "exit-code", Verdict: "exit code " + strconv.Itoa(d.ExitCode), Severity: finding.Critical, Summary: "the program ended with exit code " + strconv.Itoa(d.ExitCode)}
	}
	return []Check{c}
}

// Checks are whether the SLO held; without one, whether there is a result.
func (d *Load) Checks() []Check {
	v := d.Verdict()
	c := Check{About: d.Target(), Name: "a result"}
	if d.SLO != nil {
		c.Name = d.SLO.Words()
	}
	switch {
	case d.Hopeless != "":
		c.Found = &finding.Finding{Rule: "no-result", Verdict: "no result", Severity: finding.Critical, Summary: d.HopelessWords(), Evidence: notEmpty(d.HopelessCause())}
	case v.Held != nil && !*v.Held:
		c.Found = &finding.Finding{Rule: "slo", Verdict: v.Word, Severity: finding.Critical, Summary: v.Word + ": " + v.Text, Evidence: v.Missed}
	case !d.Valid:
		c.Found = &finding.Finding{Rule: "invalid", Verdict: "INVALID", Severity: finding.Warning, Summary: "the generator did not do what was asked of it", Evidence: d.Invalid}
	case v.Held == nil && (d.SLO != nil || d.Search != nil):
		c.Unknown = v.Word + ": " + v.Text
	case d.Requests == 0:
		c.Unknown = v.Text
	}
	return []Check{c}
}

// Checks are whether a change is advised: of each load, or of the limit that is enough. A trade is good to know.
func (d *Tune) Checks() []Check {
	c := Check{About: d.Subject.Name, Name: "the current setting is right"}
	worst, found := finding.Info, false
	if len(d.Limits) > 0 { // setting the limit alone is what was asked about
		worst, found = finding.Warning, d.Verdict.Procs != d.Current.Procs
	} else {
		for _, l := range d.Loads {
			switch l.Kind {
			case string(search.Change):
				worst, found = finding.Warning, true
			case string(search.Trade):
				found = true
			}
		}
	}
	if d.Verdict.Kind == string(search.Undecided) && !(found && worst >= finding.Warning) { // a change that is advised of another load is known
		c.Unknown = d.Verdict.Text
	}
	if found {
		c.Found = &finding.Finding{Rule: "better-setting", Verdict: d.Verdict.Kind, Severity: worst, Summary: d.Verdict.Text, Evidence: d.Verdict.Also}
		if len(d.Verdict.How) > 0 {
			c.Found.Fix = d.Verdict.How[0].Text
		}
	}
	return []Check{c}
}

// Checks are whether a setting is worse than its base; where that is not known it is good to know.
func (d *Bench) Checks() (checks []Check) {
	for _, name := range d.Plan.Same {
		checks = append(checks, Check{About: name, Name: "all builds are the same"})
	}
	for i := range d.Groups {
		g := &d.Groups[i]
		for j, row := range g.Settings {
			if j == 0 {
				continue
			}
			c := Check{About: g.Name, Name: row.Name + " is not worse than the base"}
			if c.Found = d.worse(g, j); c.Found != nil && c.Found.Severity == finding.Info {
				c.Unknown = c.Found.Summary
			}
			checks = append(checks, c)
		}
	}
	return checks
}

// worse says that a setting of a group is worse than the base, or that it is not known; nil: it is not worse.
func (d *Bench) worse(g *BenchGroup, i int) (found *finding.Finding) {
	row := g.Settings[i]
	if row.Versus == nil {
		return &finding.Finding{Rule: "worse-than-base", Verdict: "not known", Severity: finding.Info, Summary: row.Name + ": no figures"}
	}
	if g.Claim == lab.Worse && g.Best != nil && *g.Best == i { // perhaps in what fails
		found = &finding.Finding{Rule: "worse-than-base", Verdict: "worse", Severity: finding.Warning, Summary: g.Advice}
	}
	for _, v := range []*BenchComparison{row.Versus, row.CostVersus} {
		switch {
		case v == nil:
		case v.Worse():
			return &finding.Finding{Rule: "worse-than-base", Verdict: "worse", Severity: finding.Warning, Summary: row.Name + ": " + v.Text}
		case found == nil && d.unknown(v):
			found = &finding.Finding{Rule: "worse-than-base", Verdict: "not known", Severity: finding.Info, Summary: row.Name + ": " + v.Text}
		}
	}
	return found
}

// unknown reports whether a comparison fails to show that a setting is not worse. For a build it must be shown.
func (d *Bench) unknown(v *BenchComparison) bool {
	if d.Plan.Compare == lab.ByBuild {
		return v.Beside != lab.NoWorse && v.Beside != lab.Better
	}
	return !v.Better() && v.Verdict != sample.VerdictSame
}
