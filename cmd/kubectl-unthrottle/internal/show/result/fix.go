package result

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// Fix is what is done about the findings in manifests.
type Fix struct {
	report.Header
	Project
	Verdict   string     `json:"verdict"` // one sentence
	Files     int        `json:"files"`
	Workloads int        `json:"workloads"`
	Decisions []Decision `json:"decisions"`
	Changed   []Changed  `json:"changed"` // files
	Written   bool       `json:"written"`
	As        string     `json:"as,omitempty"`     // what Output is: strategic, json6902, kustomize or values
	Output    string     `json:"output,omitempty"` // in place of changes in the files
	Problems  []Problem  `json:"problems"`

	nothing string // what had no workload in it
}

// A Decision is what is done about one finding, and why.
type Decision struct {
	Finding lint.Finding    `json:"finding"`
	Remedy  remedy.Remedy   `json:"remedy"`
	Changes bool            `json:"changes"` // a manifest
	Told    []remedy.Remedy `json:"told,omitempty"`
}

// A Changed is a file that changes.
type Changed struct {
	Name string `json:"name"`
	Diff string `json:"diff"`
}

// NewFix makes the document of what was decided.
func NewFix(set *manifest.Set, p *fix.Plan) *Fix {
	d := &Fix{Files: set.Named(), Workloads: len(set.Workloads), Decisions: []Decision{}, Changed: []Changed{}, Problems: problems(set), nothing: nothing(set)}
	for _, x := range p.Decisions {
		d.Decisions = append(d.Decisions, Decision{x.Finding, x.Remedy, x.Changes(), x.Told})
	}
	for _, f := range p.Files {
		d.Changed = append(d.Changed, Changed{f.Name, f.Diff()})
	}
	d.Verdict = d.verdict()
	return d
}

// Wrote says that the files are written.
func (d *Fix) Wrote() {
	d.Written = true
	d.Verdict = d.verdict()
}

func (d *Fix) verdict() string {
	changes, left := 0, 0
	for _, x := range d.Decisions {
		if x.Changes {
			changes++
		} else {
			left++
		}
	}
	also := ""
	if left > 0 {
		also = "; " + quantity.Plural(left, "finding") + " left alone"
	}
	switch {
	case d.Workloads == 0:
		return "No workload was found" + butUnread(d.Problems) + "."
	case changes == 0:
		return "Nothing to change in " + quantity.Plural(d.Workloads, "workload") + also + butUnread(d.Problems) + "."
	case d.Written:
		return quantity.Plural(changes, "change") + " written into " + quantity.Plural(len(d.Changed), "file") + also + "."
	}
	if len(d.Changed) == 0 { // what was rendered isn't a file: patches can change it
		return quantity.Plural(changes, "change") + " to what was rendered" + also + "."
	}
	return quantity.Plural(changes, "change") + " in " + quantity.Plural(len(d.Changed), "file") + also + "."
}

// Nothing says where no workload was found; "" if there is one.
func (d *Fix) Nothing() string { return d.nothing }

// Unread is how many problems took something away.
func (d *Fix) Unread() int { return unread(d.Problems) }

// Outcome is what is done, and why, in a sentence.
func (d Decision) Outcome() string {
	if d.Remedy.Action == remedy.Leave {
		return "left alone: " + d.Remedy.Why
	}
	return d.Remedy.String() + ": " + d.Remedy.Why
}

// Others are what is only reported, a sentence each.
func (d Decision) Others() (texts []string) {
	for _, r := range d.Told {
		text := r.String() + ": " + r.Why
		if r.Only != "" {
			text = "for " + r.Only + ": " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// Checks are one for each decision, or a single one that found nothing, and what is not known.
func (d *Fix) Checks() []report.Check {
	var findings []report.Check
	for _, x := range d.Decisions {
		findings = append(findings, check(x.Finding, nil))
	}
	return checksOf(findings, d.Workloads, d.nothing, d.Problems, nil)
}

// Text is the changes as a diff, or what is asked for instead, with each decision in comments: patch and git apply pass over
// them, and so does YAML.
func (d *Fix) Text() string {
	var b strings.Builder
	comment := func(lines ...string) {
		for _, line := range lines {
			b.WriteString("# " + strings.Join(strings.Fields(line), " ") + "\n")
		}
	}
	comment(d.Verdict)
	if at := d.looked(""); at != "" {
		comment(at)
	}
	decision := func(x Decision) {
		comment("", x.Finding.Rule+" "+x.Finding.Verdict+", "+x.Finding.At.String()+" "+Place(x.Finding))
		for _, text := range append([]string{x.Outcome()}, x.Others()...) {
			b.WriteString("#   " + strings.Join(strings.Fields(text), " ") + "\n")
		}
	}
	if d.As != "" {
		for _, x := range d.Decisions {
			decision(x)
		}
		d.unread(comment)
		b.WriteString(d.Output)
		return trimmed(b.String())
	}
	told := map[string]bool{}
	for _, f := range d.Changed {
		for _, x := range d.Decisions {
			if x.Finding.At.File == f.Name {
				decision(x)
			}
		}
		told[f.Name] = true
		b.WriteString(f.Diff)
	}
	for _, x := range d.Decisions {
		if !told[x.Finding.At.File] {
			decision(x)
		}
	}
	d.unread(comment)
	return trimmed(b.String())
}

// Brief is the decisions alone, for reading in passing.
func (d *Fix) Brief() string {
	brief := *d
	brief.As, brief.Output = "text", ""
	return brief.Text()
}

func (d *Fix) unread(comment func(...string)) {
	for _, p := range d.Problems {
		if p.Severity != string(manifest.Note) {
			comment("", "not read, or not whole: "+p.At+": "+p.Text)
		}
	}
}

// trimmed has no blanks at the end of a comment that is empty.
func trimmed(text string) string { return strings.ReplaceAll(text, "\n# \n", "\n#\n") }

// Patches is what changes as patches of a kind.
func (d *Fix) Patches(p *fix.Plan, as string) {
	d.As = as
	var b strings.Builder
	write := func(patches []fix.Patch) {
		for _, x := range patches {
			b.WriteString("---\n# " + x.Workload.String() + ": " + x.Command("FILE") + "\n" + x.YAML)
		}
	}
	var left []fix.Left
	switch as {
	case "strategic":
		var patches []fix.Patch
		patches, left = p.Strategic()
		write(patches)
	case "json6902":
		write(p.JSON6902())
	case "kustomize":
		b.WriteString("# Save it as gomaxprocs/kustomization.yaml, and name the directory under components: in yours.\n")
		text, more := p.Kustomize()
		b.WriteString(text)
		left = more
	case "values":
		b.WriteString(values(p))
	}
	for _, l := range left {
		b.WriteString("# " + l.Workload.String() + " is left out: " + l.Why + "\n")
	}
	d.Output = b.String()
}

// values says where in a chart's values a change may belong. It is a hint: how a chart names things is for the chart to say.
func values(p *fix.Plan) string {
	var b strings.Builder
	charts := map[string]bool{}
	for _, x := range p.Decisions {
		t, ok := p.TemplateOf(x)
		if !x.Changes() {
			continue
		}
		f := x.Finding
		b.WriteString(f.Workload + ", container " + f.Container + ": " + x.Remedy.String() + "\n")
		if !ok {
			b.WriteString("  nothing says that a Helm chart made it: change the manifest itself\n")
			continue
		}
		charts[t.Chart] = true
		b.WriteString("  it comes from " + t.String() + "\n")
		b.WriteString("  where that takes variables from is not known here. Most charts have env, extraEnv, extraEnvVars or " + f.Container + ".env in their values,\n")
		b.WriteString("  and some write " + f.Variable + " into the template, where no value reaches it: then use --as kustomize as a post-renderer\n")
	}
	if len(charts) > 0 {
		b.WriteString("helm show values CHART | grep -n -i env   shows what there is\n")
	}
	return b.String()
}
