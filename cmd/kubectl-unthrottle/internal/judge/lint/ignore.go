package lint

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A topic is what findings and comments are held against each other by: there may be thousands of both, too many for every pair.
type topic struct{ rule, file string } // "" for all rules

// takeBack leaves out what the workload's comments take back, and reports the comments that take nothing back.
func takeBack(w *workload.Workload, all []candidate) (left []candidate, useless []Finding) {
	if len(w.Ignore) == 0 {
		return all, nil
	}
	lines := map[topic][]int{} // of findings
	for _, c := range all {
		for _, rule := range []string{c.Rule, ""} {
			a := topic{rule, c.At.File}
			lines[a] = append(lines[a], c.At.Line)
		}
	}
	for _, l := range lines {
		slices.Sort(l)
	}
	ranges := map[topic]spans{}
	name := w.String()
	for _, ignore := range w.Ignore {
		for _, id := range rulesOf(ignore) {
			a := topic{canonical(id), ignore.At.File}
			ranges[a] = append(ranges[a], span{ignore.From, ignore.To})
			found := lines[a]
			if i, _ := slices.BinarySearch(found, ignore.From); i == len(found) || found[i] > ignore.To {
				useless = append(useless, withoutEffect(name, ignore, id))
			}
		}
	}
	for _, r := range ranges {
		r.sort()
	}
	for _, c := range all {
		if !ranges[topic{c.Rule, c.At.File}].has(c.At.Line) && !ranges[topic{"", c.At.File}].has(c.At.Line) {
			left = append(left, c)
		}
	}
	return left, useless
}

// spans are the lines that comments hold for.
type spans []span

type span struct{ from, to int }

// sort makes each span reach as far as any that begins before it: has looks at one only.
func (s spans) sort() {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(s); i++ {
		s[i].to = max(s[i].to, s[i-1].to)
	}
}

func (s spans) has(line int) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].from > line })
	return i > 0 && line <= s[i-1].to
}

// canonical is a rule as it is called here, however a comment writes it.
func canonical(id string) string {
	for _, r := range rules {
		if strings.EqualFold(r.ID, id) {
			return r.ID
		}
	}
	return id
}

// rulesOf are the rules that a comment suppresses, "" for all.
func rulesOf(i workload.Ignore) []string {
	if len(i.Rules) == 0 {
		return []string{""}
	}
	return i.Rules
}

func withoutEffect(workload string, i workload.Ignore, id string) Finding {
	f := Finding{Workload: workload, At: i.At}
	f.Rule = unused
	for _, r := range rules {
		if r.ID == unused {
			f.Verdict = r.Verdict
		}
	}
	f.Severity = finding.Info
	f.Fix = "take the comment out"
	switch {
	case id == "":
		f.Summary = "this ignore comment has no effect: no rule reports anything here"
	case !slices.ContainsFunc(rules, func(r Rule) bool { return strings.EqualFold(r.ID, id) }):
		f.Summary = "this ignore comment has no effect: there is no rule " + id
	default:
		f.Summary = "this ignore comment has no effect: " + strings.ToUpper(id) + " reports nothing here"
	}
	return f
}
