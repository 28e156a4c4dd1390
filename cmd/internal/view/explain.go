package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Explain shows the limit of a process and what follows from it, the answer first.
func Explain(d *report.Explain) *sheet.Sheet {
	s := &sheet.Sheet{Verb: "explain", Subject: explainSubject(d.Subject), Warnings: d.Warnings, Document: d}
	f := sheet.Facts{explainLimit(d.Limit)}
	f.Add("CPUs", explainAffinity(d.Affinity))
	f = append(f, explainThrottled(d.Throttling))
	f.Add("memory", explainMemory(d.Memory))
	f.Add("program", append([]string{explainProgram(d.Subject)}, explainBuild(d.Go)...)...)
	f = append(f, explainProcs(d.GOMAXPROCS))
	s.Add(sheet.Section{Title: "What is in force", Quiet: true, Blocks: []sheet.Block{f}})
	s.Add(sheet.Section{Title: "What each rule chooses here", Blocks: []sheet.Block{explainChoices(d.Choices)}})
	s.Add(sheet.Section{Title: "What is wrong", Blocks: []sheet.Block{sheet.Findings(d.Findings)}})
	return s
}

func explainSubject(p report.Subject) string {
	switch {
	case p.Self:
		return "what is started from this shell"
	case p.Name == "":
		return "pid " + strconv.Itoa(p.PID)
	}
	return p.Name + ", pid " + strconv.Itoa(p.PID)
}

func explainProgram(p report.Subject) string {
	switch {
	case p.Self:
		return "what is started from this shell; as an example, this command itself"
	case p.Name == "":
		return "not looked at"
	}
	return explainSubject(p)
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
		seen := in.State
		if in.CPUs != nil {
			seen = quantity.CPUs(*in.CPUs)
		}
		f.Texts = append(f.Texts, "seen from inside the container: "+seen)
	}
	return f
}

// limitOwner says which level sets the limit, seen from the process.
func limitOwner(l report.Limit) string {
	for i, level := range l.Levels {
		if !level.InForce {
			continue
		}
		switch i {
		case 0:
			return "its own cgroup"
		case 1:
			return "the parent of its cgroup"
		}
		return "the cgroup " + strconv.Itoa(i) + " levels above its own"
	}
	return l.From
}

// explainLevels are the cgroups from the root of the mount down to the process's own.
func explainLevels(l report.Limit) *sheet.Table {
	n := len(l.Levels)
	if n == 0 {
		return nil
	}
	t := &sheet.Table{Name: "cgroups", Columns: []sheet.Column{{Left: true, Cut: true}, {Left: true, Wrap: true}}}
	for i := n - 1; i >= 0; i-- {
		level := l.Levels[i]
		name := level.Dir
		if depth := n - 1 - i; depth > 0 {
			name = strings.Repeat("  ", depth-1) + "└ " + level.Dir[strings.LastIndexByte(level.Dir, '/')+1:]
		}
		text, tone := levelText(level, l.Cgroup), sheet.Plain
		if level.InForce {
			text, tone = text+"  ← in force", sheet.Good
		}
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{{Text: shorten(name, 60), Tone: tone}, {Text: text, Tone: tone}}})
	}
	kind := "cgroup " + l.Cgroup
	if l.Hybrid {
		kind += ", hybrid"
	}
	t.Notes = []sheet.Note{{Text: "(" + kind + ")"}}
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
		text = quantity.CPUs(l.CPUs) + " (" + quota(l.Quota, l.Period)
		if l.Burst > 0 {
			text += ", burst " + quantity.Seconds(l.Burst)
		}
		text += ")"
	}
	name, usual := "weight", int64(100)
	if version == "v1" {
		name, usual = "shares", 1024
	}
	if l.Weight > 0 && l.Weight != usual {
		text += ", " + name + " " + strconv.FormatInt(l.Weight, 10)
	}
	if l.Cpuset != "" {
		text += ", cpuset " + l.Cpuset
	}
	return text
}

func explainAffinity(a report.Affinity) string {
	if a.CPUs == 0 {
		return "not known"
	}
	return quantity.CPUs(float64(a.CPUs)) + " by the affinity mask"
}

func explainThrottled(t report.Throttling) sheet.Fact {
	f := sheet.Fact{Name: "throttled"}
	if now := t.Now; now != nil {
		text := ""
		switch {
		case now.Active == nil:
			text = "not known"
		case !*now.Active:
			text = "not now"
		default:
			f.Key, f.Tone = "now", sheet.Bad
			if now.Periods > 0 {
				text = fmt.Sprintf(": %d of %s", now.Throttled, quantity.Plural(now.Periods, "period"))
			}
		}
		if now.LocalSeconds != nil && *now.LocalSeconds > 0 {
			text += "; its own cgroup stood still for " + quantity.Seconds(*now.LocalSeconds) + ", summed over CPUs"
		}
		f.Texts = []string{text + " (within " + quantity.Seconds(now.Seconds) + ")", "in all: " + counted(t.Owner)}
	} else {
		f.Texts = []string{counted(t.Owner)}
	}
	if local := t.LocalSeconds; local != nil && *local > 0 && (t.Owner.Dir != t.Own.Dir || t.Owner.Throttled == 0) {
		f.Texts = append(f.Texts, "its own cgroup stood still for "+quantity.Seconds(*local)+" in all, summed over CPUs, by whatever level")
	}
	return f
}

// counted says what the counters hold since the group was made.
func counted(c report.Counters) string {
	switch {
	case !c.Known:
		return "not counted at this level"
	case c.Periods == 0:
		return "no periods counted"
	}
	return throttled(c.Throttled, c.Periods, c.ThrottledSeconds)
}

func explainMemory(m report.Memory) string {
	text := "limit not known"
	switch m.State {
	case "limited":
		text = "limit " + quantity.Bytes(m.Bytes)
	case "none":
		text = "no limit"
	}
	if m.GOMEMLIMIT != "" {
		text += "; GOMEMLIMIT=" + m.GOMEMLIMIT
	} else {
		text += "; GOMEMLIMIT not set"
	}
	if m.GOGC != "" {
		text += "; GOGC=" + m.GOGC
	}
	return text
}

// explainBuild says how a Go program was built, and what of its environment matters.
func explainBuild(g *report.Go) []string {
	if g == nil {
		return nil
	}
	text := "Go " + strings.TrimPrefix(g.Version, "go")
	if g.GoLine != "" {
		text += ", go line " + g.GoLine
	}
	var libraries, environment []string
	if g.Automaxprocs != "no" {
		libraries = append(libraries, "automaxprocs: "+g.Automaxprocs)
	}
	if g.Unthrottle != "no" {
		libraries = append(libraries, "unthrottle: "+g.Unthrottle)
	}
	if g.GOMAXPROCS != nil {
		environment = append(environment, "GOMAXPROCS="+*g.GOMAXPROCS)
	}
	if g.GODEBUG != nil {
		environment = append(environment, "GODEBUG="+*g.GODEBUG)
	}
	return []string{text + explainSettings(g), strings.Join(libraries, ", "), strings.Join(environment, " ")}
}

// explainSettings says how the runtime's two switches stand, and who set them. Before Go 1.25 there were none.
func explainSettings(g *report.Go) string {
	text := ""
	for _, s := range []struct {
		name string
		s    report.Setting
	}{{"containermaxprocs", g.Containermaxprocs}, {"updatemaxprocs", g.Updatemaxprocs}} {
		state, by := "off", ""
		if s.s.On {
			state = "on"
		}
		switch {
		case s.s.Env != "":
			by = " (GODEBUG says " + s.s.Env + ")"
		case s.s.Built != "":
			by = " (" + s.s.Built + " is built in)"
		case !s.s.On:
			continue
		}
		text += ", " + s.name + " " + state + by
	}
	return text
}

func explainProcs(g report.GOMAXPROCS) sheet.Fact {
	f := sheet.Fact{Name: "GOMAXPROCS", Key: "not known", Tone: sheet.Strong, Texts: []string{": " + g.Why}}
	if g.Value != nil {
		f.Key = strconv.Itoa(*g.Value)
		if g.Proof == report.ProofPredicted || g.Proof == report.ProofLive {
			f.Key += " (" + g.Proof + ")"
		}
	}
	return f
}

// explainChoices is what each rule would choose.
func explainChoices(choices []report.Choice) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{
		{Title: "rule", Left: true, Cut: true}, {Title: "GOMAXPROCS"}, {Title: "limit it sees", Short: "sees", Left: true}, {Left: true, Wrap: true}, {Title: "fix", Left: true, Under: true},
	}}
	for i, c := range choices {
		procs, sees := "?", "none"
		if c.Procs > 0 {
			procs = strconv.Itoa(c.Procs)
		}
		if c.Limit != nil {
			sees = quantity.CPUs(*c.Limit)
		}
		row := sheet.Row{Best: c.Applies, Cells: []sheet.Cell{{Text: c.Rule}, {Text: procs}, {Text: sees}, {}, {}}}
		switch {
		case c.Wrong:
			row.Cells[3] = sheet.Cell{Text: "wrong: " + c.Why, Tone: sheet.Bad}
			if next := i + 1; next == len(choices) || choices[next].Fix != c.Fix { // one fix may serve several rows
				row.Cells[4].Text = c.Fix
			}
		case c.Why != "":
			row.Cells[3].Text = "no difference here: " + c.Why
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
