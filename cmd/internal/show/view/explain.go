package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Explain shows the limit of a process and what follows from it, the answer first.
func Explain(d *report.Explain) *sheet.Sheet {
	s := &sheet.Sheet{Verb: "explain", Subject: explainSubject(d), Warnings: d.Warnings, Document: d}
	v := d.Verdict()
	tone := cmp.Or(explainTones[v.Word], sheet.Strong)
	if len(d.Findings) > 0 {
		tone = sheet.ToneOf(d.Findings[0].Severity)
	}
	s.Claims = []sheet.Claim{{Word: v.Word, Tone: tone, Whole: v.Whole, Text: v.Text, More: v.Also}}
	f := sheet.Facts{explainLimit(d.Limit)}
	if u := d.Unmeasured; u != nil {
		f.Add("CPUs", cmp.Or(when(u.NodeCPUs != 0, quantity.CPUs(float64(u.NodeCPUs))+" of its node"), "not known"))
		f.Add("throttled", "not measured: "+u.Why)
	} else {
		f.Add("CPUs", cmp.Or(when(d.Affinity.CPUs != 0, quantity.CPUs(float64(d.Affinity.CPUs))+" by the affinity mask"), "not known"))
		f = append(f, explainThrottled(d.Throttling))
	}
	f.Add("memory", explainMemory(d.Memory, d.Collector)...)
	program := s.Subject + when(d.Subject.Self, "; as an example, this command itself")
	if d.Unmeasured != nil || !d.Subject.Self && d.Subject.Name == "" {
		program = "not looked at"
	}
	f.Add("program", append([]string{program}, explainBuild(d.Go)...)...)
	g := d.GOMAXPROCS
	proof := when(g.Proof == report.ProofPredicted || g.Proof == report.ProofLive, " ("+g.Proof+")")
	procs := around("", known(g.Value, strconv.Itoa), proof)
	f = append(f, sheet.Fact{Name: "GOMAXPROCS", Key: cmp.Or(procs, "not known"), Tone: sheet.Strong, Texts: []string{": " + g.Why}})
	s.Add(sheet.Section{Title: "What is in force", Quiet: true, Blocks: []sheet.Block{f}})
	s.Add(sheet.Section{Title: "What each rule chooses here", Blocks: []sheet.Block{explainChoices(d.Choices)}})
	s.Add(wrong(d.Findings))
	return s
}

// explainTones are those of answers that are good or bad.
var explainTones = map[string]sheet.Tone{"fine": sheet.Good, "right": sheet.Good, "wrong": sheet.Bad, "hidden": sheet.Warn, "not known": sheet.Warn}

func explainSubject(d *report.Explain) string {
	p := d.Subject
	switch {
	case p.Self:
		return "what is started from this shell"
	case d.Unmeasured != nil:
		return p.Name
	}
	return around("", p.Name, ", ") + "pid " + strconv.Itoa(p.PID)
}

func explainLimit(l report.Limit) sheet.Fact {
	f := sheet.Fact{Name: "limit", Tone: sheet.Strong, Key: l.State, Table: explainLevels(l)}
	switch l.State {
	case "limited":
		f.Key, f.Texts = quantity.CPUs(*l.CPUs), []string{", set by " + limitOwner(l)}
	case "none":
		f.Texts = []string{""}
	default:
		f.Texts = []string{": " + l.Reason}
		if l.AtMost > 0 {
			f.Texts = append(f.Texts, "it is at most "+quantity.CPUs(l.AtMost)+", the smallest quota that could be read")
		}
	}
	if in := l.Inside; in != nil {
		f.Texts = append(f.Texts, "seen from inside the container: "+cmp.Or(known(in.CPUs, quantity.CPUs), in.State))
	}
	return f
}

// limitOwner says which level sets the limit, seen from the process.
func limitOwner(l report.Limit) string {
	switch i := slices.IndexFunc(l.Levels, func(level report.Level) bool { return level.InForce }); i {
	case -1:
		return l.From
	case 0:
		return "its own cgroup"
	case 1:
		return "the parent of its cgroup"
	default:
		return "the cgroup " + strconv.Itoa(i) + " levels above its own"
	}
}

// explainLevels are the cgroups from the root of the mount down to the process's own.
func explainLevels(l report.Limit) *sheet.Table {
	last := len(l.Levels) - 1
	if last < 0 {
		return nil
	}
	t := &sheet.Table{Name: "cgroups", Columns: []sheet.Column{{Left: true, Cut: true}, {Left: true, Wrap: true}}}
	t.Notes = []sheet.Note{{Text: "(cgroup " + l.Cgroup + when(l.Hybrid, ", hybrid") + ")"}}
	for i, level := range slices.Backward(l.Levels) {
		name := level.Dir
		if i < last {
			name = strings.Repeat("  ", last-i-1) + "└ " + level.Dir[strings.LastIndexByte(level.Dir, '/')+1:]
		}
		row := t.Add(shorten(name, 60), levelText(level, l.Cgroup)+when(level.InForce, "  ← in force"))
		if level.InForce {
			row.Cells[0].Tone, row.Cells[1].Tone = sheet.Good, sheet.Good
		}
	}
	return t
}

// shorten cuts the middle out of a long name, such as a container's id.
func shorten(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:width/2]) + "…" + string(r[len(r)-(width-width/2-1):])
}

// levelText says what a level sets. A weight is shown where it is not the kernel's own.
func levelText(l report.Level, version string) string {
	if l.Error != "" {
		return "not known: " + l.Error
	}
	text := "no limit"
	if l.CPUs > 0 {
		text = quantity.CPUs(l.CPUs) + " (" + quota(l.Quota, l.Period) + when(l.Burst > 0, ", burst "+quantity.Seconds(l.Burst)) + ")"
	}
	name, usual := "weight", int64(100)
	if version == "v1" {
		name, usual = "shares", 1024
	}
	return text + when(l.Weight > 0 && l.Weight != usual, ", "+name+" "+strconv.FormatInt(l.Weight, 10)) + around(", cpuset ", l.Cpuset, "")
}

func explainThrottled(t report.Throttling) sheet.Fact {
	f := sheet.Fact{Name: "throttled", Texts: []string{counted(t.Owner)}}
	if now := t.Now; now != nil && now.Active != nil && (*now.Active || t.Owner.Periods > 0) {
		text := "not within " + quantity.Seconds(now.Seconds)
		if *now.Active {
			f.Key, f.Tone = "now", sheet.Bad
			text = ": " + joined(", and ", when(now.Periods > 0, periods(now.Throttled, now.Periods)), stoodStill(now)) +
				" (within " + quantity.Seconds(now.Seconds) + ")"
		}
		f.Texts = []string{text, "in all: " + f.Texts[0]}
	}
	if own := spent(t.LocalSeconds); own != "" && (t.Owner.Dir != t.Own.Dir || t.Owner.ThrottledPeriods == 0) {
		f.Texts = append(f.Texts, "its own cgroup stood still for "+own+" in all, summed over CPUs, at any level")
	}
	return f
}

// stoodStill says for how long. Where only the sum over CPUs is known, that.
func stoodStill(now *report.Interval) string {
	if f := now.Frozen; f != nil {
		return "it stood still for " + f.Words() + " of the time"
	}
	return around("its own cgroup stood still for ", spent(now.LocalSeconds), ", summed over CPUs")
}

// counted says what the counters hold since the group was made.
func counted(c report.Counters) string {
	count := throttled(c.ThrottledPeriods, c.Periods, c.ThrottledSeconds)
	return cmp.Or(when(!c.Known, "not counted at this level"), when(c.Periods == 0, "no periods counted"), count)
}

func explainMemory(m report.Memory, c *report.Collector) []string {
	limit := cmp.Or(when(m.State == "limited", "limit "+quantity.Bytes(m.Bytes)+when(m.High, " (memory.high)")), when(m.State == "none", "no limit"), "limit not known")
	if c == nil { // as its environment has them
		return []string{limit + "; GOMEMLIMIT" + cmp.Or(around("=", m.GOMEMLIMIT, ""), " not set") + around("; GOGC=", m.GOGC, "")}
	}
	gogc := known(c.GOGC, strconv.Itoa)
	return []string{
		limit + "; GOMEMLIMIT" + cmp.Or(around("=", known(c.GOMEMLIMIT, quantity.Bytes), ""), " not set") + "; GOGC=" + cmp.Or(gogc, "off"),
		quantity.Bytes(c.Live) + " of the heap are alive" + around("; the next collection is due ", due(c), "") +
			around("; collections take ", known(c.Collecting, quantity.Share), " of the time"),
	}
}

// due says when the next collection is.
func due(c *report.Collector) string {
	if c.Goal != nil && *c.Goal <= c.Live {
		return "at once"
	}
	return around("before ", known(c.Goal, quantity.Bytes), "")
}

// explainBuild says how a Go program was built, and what of its environment matters.
func explainBuild(g *report.Go) []string {
	if g == nil {
		return nil
	}
	set := func(name string) func(string) string { return func(value string) string { return name + "=" + value } }
	return []string{
		"Go " + strings.TrimPrefix(g.Version, "go") + around(", go line ", g.GoLine, "") +
			explainSwitch("containermaxprocs", g.Containermaxprocs) + explainSwitch("updatemaxprocs", g.Updatemaxprocs),
		joined(", ", when(g.Automaxprocs != "no", "automaxprocs: "+g.Automaxprocs), when(g.Unthrottle != "no", "unthrottle: "+g.Unthrottle)),
		joined(" ", known(g.GOMAXPROCS, set("GOMAXPROCS")), known(g.GODEBUG, set("GODEBUG"))),
	}
}

// explainSwitch says how one of the runtime's two switches is set, and by what, unless it has its default. Before Go 1.25 there were none.
func explainSwitch(name string, s report.Setting) string {
	by := cmp.Or(around(" (GODEBUG says ", s.Env, ")"), around(" (", s.Built, " is built in)"))
	return when(by != "", ", "+name+map[bool]string{true: " on", false: " off"}[s.On]+by)
}

// explainChoices is what each rule would choose.
func explainChoices(choices []report.Choice) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{
		{Title: "rule", Left: true, Cut: true},
		{Title: "GOMAXPROCS"},
		{Title: "limit it sees", Short: "sees", Left: true},
		{Left: true, Wrap: true, Under: true},
		{Title: "fix", Left: true, Under: true},
	}}
	for i, c := range choices {
		why, fix, tone := around("no difference here: ", c.Why, ""), "", sheet.Plain
		if c.Wrong {
			why, fix, tone = "wrong: "+c.Why, c.Fix, sheet.Bad
			if next := i + 1; next < len(choices) && choices[next].Fix == fix { // one fix may serve several rows
				fix = ""
			}
		}
		row := t.Add(c.Rule, cmp.Or(when(c.Procs > 0, strconv.Itoa(c.Procs)), when(c.All, "the node's"), "?"), cmp.Or(known(c.Limit, quantity.CPUs), "none"), why, fix)
		row.Best, row.Cells[3].Tone = c.Applies, tone
	}
	return t
}
