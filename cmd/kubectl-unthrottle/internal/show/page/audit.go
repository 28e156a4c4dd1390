package page

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// AuditAll shows all workloads that are wrong or open.
func AuditAll(d *result.Audit) *sheet.Sheet {
	all := *d
	all.Top = 0
	return Audit(&all)
}

// Audit shows the answer, the totals, the workloads that matter most and their patches, and what could not be read.
func Audit(d *result.Audit) *sheet.Sheet {
	s := &sheet.Sheet{Program: program, Verb: "audit", Subject: d.Cluster.About, Document: d}
	s.Claims = []sheet.Claim{{Word: "audit", Whole: true, Tone: auditTone(d), Text: d.Verdict}}
	var facts sheet.Facts
	facts.Add("clusters", d.Each()...)
	facts.Add("workloads", d.Affected()...)
	facts.Add("Go programs", d.Known())
	facts.Add("CPUs to be saved", d.Save())
	facts.Add("standing still", d.Still())
	s.Add(sheet.Section{Title: "In all", Quiet: true, Blocks: []sheet.Block{facts}})
	var told, rest []*audit.Workload
	for _, w := range d.Workloads {
		if matters(w.Verdict) && (d.Top <= 0 || len(told) < d.Top) {
			told = append(told, w)
		} else {
			rest = append(rest, w)
		}
	}
	s.Add(sheet.Section{Title: "What matters most", Quiet: true, Blocks: []sheet.Block{auditTable(told)}})
	s.Add(sheet.Section{Quiet: true, Blocks: []sheet.Block{sheet.Lines{Tone: sheet.Soft, Texts: leftOut(rest)}}})
	s.Add(sheet.Section{Title: "Patches", Blocks: []sheet.Block{patches(told)}})
	if d.WhatIf {
		s.Add(sheet.Section{Title: "What if", Blocks: []sheet.Block{whatIf(d)}})
	}
	if len(rest) > mostOnPage {
		rest = rest[:mostOnPage]
	}
	s.Add(sheet.Section{
		Title: "The others", Detail: true, Folded: true, About: fmt.Sprintf("The first %s of them; all stand in the JSON and CSV documents.", quantity.Count(len(rest))),
		Blocks: []sheet.Block{auditTable(rest), patches(rest)},
	})
	s.Add(unread(d.Problems))
	s.Add(sheet.Section{Title: "Pods that are not as their template says", Detail: true, Blocks: []sheet.Block{sheet.Listed(d.Cluster.Differ)}})
	s.Add(sheet.Section{Title: "What was read", Quiet: true, Blocks: []sheet.Block{sheet.Lines{Tone: sheet.Soft, Texts: d.Sources()}}})
	return s
}

// whatIf says what would be under something that is not so now.
func whatIf(d *result.Audit) (facts sheet.Facts) {
	facts.Add("under Go 1.26", d.Go126())
	facts.Add("under CRI-O", d.CRIO())
	facts.Add("under our policy", d.Policy())
	facts.Add("OpenShift asks", d.OpenShift())
	return facts
}

// mostOnPage is how many workloads a page has below those that matter most: more than some thousand make a browser slow.
const mostOnPage = 2000

func auditTone(d *result.Audit) sheet.Tone {
	switch v := d.Totals.Verdicts; {
	case v[audit.Wrong] > 0 || v[audit.AsWritten] > 0:
		return sheet.Warn
	case d.Nothing() != "":
		return sheet.Warn
	case v[audit.NotHere] > 0 || v[audit.Open] > 0 || v[audit.Nobody] > 0 || len(d.Unknown()) > 0:
		return sheet.Unsure
	}
	return sheet.Good
}

// matters reports whether a workload is one to look at.
func matters(v audit.Verdict) bool { return v.Wrong() || v == audit.Open }

// leftOut says how many workloads are not in the table.
func leftOut(rest []*audit.Workload) (texts []string) {
	n := 0
	for _, w := range rest {
		if matters(w.Verdict) {
			n++
		}
	}
	if n > 0 {
		texts = append(texts, fmt.Sprintf("%s more, wrong or open: --top 0 shows all, and so do -o audit.csv and -o audit.json", quantity.Plural(n, "workload")))
	}
	return texts
}

var tones = map[audit.Verdict]sheet.Tone{
	audit.Wrong: sheet.Bad, audit.AsWritten: sheet.Bad, audit.Open: sheet.Unsure, audit.NotHere: sheet.Unsure, audit.Fine: sheet.Good, audit.NoGo: sheet.Soft,
	audit.Nobody: sheet.Soft,
}

func auditTable(all []*audit.Workload) *sheet.Table {
	t := &sheet.Table{Name: "Workloads", Columns: []sheet.Column{
		{Title: "workload", Left: true, Wrap: true},
		{Title: "pods"},
		{Title: "verdict", Left: true},
		{Title: "Go", Left: true, Rank: 4},
		{Title: "GOMAXPROCS", Short: "Ps", Left: true},
		{Title: "limit", Rank: 1},
		{Title: "CPUs to save", Short: "save", Rank: 3},
		{Title: "stood still", Short: "still", Rank: 2},
		{Title: "throttled periods", Short: "throttled", Rank: 5},
		{Left: true, Wrap: true, Under: true},
		{Title: "fix", Left: true, Wrap: true, Under: true},
	}}
	for _, w := range all {
		limit, fix := "", ""
		if w.Limit > 0 {
			limit = ofContainer(w) + quantity.Hundredths(w.Limit)
		}
		if w.Fix != nil {
			fix = w.Advice()
		}
		save := ""
		switch r := w.Cost.Save; {
		case r.Measured > 0:
			save = strings.TrimSuffix(strings.TrimSuffix(result.Span(r), "s"), " CPU")
		case r.NotMeasured > 0:
			save = "not measured"
		}
		row := t.Add(w.String(), quantity.Count(w.Pods), string(w.Verdict), versions(w), numbers(w), limit, save, share(w.Cost.Frozen), share(throttledMost(w)), w.Summary, fix)
		row.Cells[2].Tone = tones[w.Verdict]
		if w.Verdict == audit.Wrong || w.Verdict == audit.AsWritten {
			row.Cells[9].Tone = sheet.ToneOf(*w.Severity)
		}
	}
	return t
}

func throttledMost(w *audit.Workload) *float64 {
	a, b := w.Cost.Throttled, w.Cost.PodThrottled
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func share(v *float64) string {
	if v == nil {
		return ""
	}
	return quantity.WholeShare(*v)
}

// versions are those of Go, as people call them: "1.24.3", or what is known instead.
func versions(w *audit.Workload) string {
	var all []string
	for _, v := range w.Versions {
		all = append(all, strings.TrimPrefix(v, "go"))
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, ", ")
	case w.Go == audit.GoLikely:
		return "likely"
	case w.Go == audit.GoOpen:
		return "?"
	}
	return ""
}

// numbers are the GOMAXPROCS that were seen, and what Go's own rule would choose, where they are wrong.
func numbers(w *audit.Workload) string {
	if len(w.GOMAXPROCS) != 2 {
		return ""
	}
	text := ofContainer(w) + strconv.Itoa(w.GOMAXPROCS[0])
	if w.GOMAXPROCS[0] != w.GOMAXPROCS[1] {
		text += "–" + strconv.Itoa(w.GOMAXPROCS[1])
	}
	if right := w.Right != nil && *w.Right; w.Verdict.Wrong() && !right && w.Expected > 0 && (w.Expected != w.GOMAXPROCS[0] || w.Expected != w.GOMAXPROCS[1]) {
		text += ", not " + strconv.Itoa(w.Expected)
	}
	return text
}

// ofContainer names the container that numbers are of, where the sentence next to them is about another one.
func ofContainer(w *audit.Workload) string {
	if w.NumbersOf == "" || strings.HasPrefix(w.Summary, "container "+w.NumbersOf+": ") {
		return ""
	}
	return w.NumbersOf + ": "
}

// patches are the commands that change objects. For one that is made from Git it is the patch itself: a command would be reverted.
func patches(all []*audit.Workload) (list sheet.Commands) {
	for _, w := range all {
		if w.Fix == nil || w.Fix.Command == "" {
			continue
		}
		one := sheet.Command{About: w.String() + ": " + w.Fix.Text, Lines: []string{w.Fix.Command}}
		if w.Git != nil {
			one = sheet.Command{About: w.String() + ": " + w.Advice(), Lines: strings.Split(strings.TrimSpace(w.Fix.Patch), "\n")}
		}
		list = append(list, one)
	}
	return list
}

// AuditCSV writes a line for each workload.
func AuditCSV(w io.Writer, d *result.Audit) error {
	c := csv.NewWriter(w)
	several := len(d.Clusters) > 0
	header := []string{
		"namespace", "kind", "name", "pods", "verdict", "severity", "rule", "source", "summary", "go", "go_versions", "gomaxprocs_least", "gomaxprocs_most",
		"gomaxprocs_expected", "gomaxprocs_from", "limit_cpus", "go_programs_seen", "cpus_used", "cpus_to_save_low", "cpus_to_save_high", "programs_not_measured",
		"frozen_share", "throttled_periods_share", "pod_throttled_periods_share", "throttled_seconds_per_second", "under_go_1_26", "under_crio_injection", "under_policy",
		"burstable_unlimited_unset", "fix", "command", "holds", "gomaxprocs_right", "numbers_of",
	}
	if several {
		header = append(header, "context")
	}
	if err := c.Write(header); err != nil {
		return err
	}
	for _, x := range d.Workloads {
		line := csvLine(x)
		if several {
			line = append(line, plain.Cell(x.Context))
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func csvLine(w *audit.Workload) []string {
	severity, rule, source, holds, least, most, fix, command := "", "", "", "", "", "", "", ""
	if len(w.Findings) > 0 {
		f := w.Findings[0]
		severity, rule, source, holds = f.Severity.String(), f.Rule, string(f.Source), string(f.Holds)
	}
	if len(w.GOMAXPROCS) == 2 {
		least, most = strconv.Itoa(w.GOMAXPROCS[0]), strconv.Itoa(w.GOMAXPROCS[1])
	}
	if w.Fix != nil {
		fix, command = w.Fix.Text, w.Fix.Command
	}
	low, high := "", ""
	if w.Cost.Save.Measured > 0 {
		low, high = decimal(&w.Cost.Save.Low), decimal(&w.Cost.Save.High)
	}
	line := []string{
		w.Namespace, w.Kind, w.Name, strconv.Itoa(w.Pods), string(w.Verdict), severity, rule, source, w.Summary, string(w.Go), strings.Join(w.Versions, " "),
		least, most, positive(float64(w.Expected)), w.SetBy, positive(w.Limit), strconv.Itoa(w.Cost.Programs), decimal(w.Cost.CPU), low, high,
		strconv.Itoa(w.Cost.Save.NotMeasured), decimal(w.Cost.Frozen), decimal(w.Cost.Throttled), decimal(w.Cost.PodThrottled), decimal(w.Cost.ThrottledSeconds), changed(w.Go126), changed(w.CRIO),
		string(w.Policy.State), answer(w.Burstable), fix, command, holds, answer(w.Right), w.NumbersOf,
	}
	for i, text := range line {
		line[i] = plain.Cell(text)
	}
	return line
}

// changed says what a number of Ps would become: "8 to 2".
func changed(c audit.Change) string {
	if c.State != audit.Changed || c.To == 0 {
		return string(c.State)
	}
	if c.From == 0 {
		return "to " + strconv.Itoa(c.To)
	}
	return fmt.Sprintf("%d to %d", c.From, c.To)
}

// answer is true, false, or "" where that is not known.
func answer(v *bool) string {
	if v == nil {
		return ""
	}
	return strconv.FormatBool(*v)
}

func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

func positive(v float64) string {
	if v <= 0 {
		return ""
	}
	return decimal(&v)
}
