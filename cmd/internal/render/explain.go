package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// ExplainText writes the document of explain for people: one screen, the answer first.
func ExplainText(w io.Writer, e *report.Explain, style Style) error {
	t := &explainText{style: style}
	e = printableExplain(e)
	t.limit(e)
	t.line("CPUs", affinity(e))
	t.throttling(e)
	t.line("memory", memory(e.Memory))
	t.program(e)
	t.choices(e)
	if len(e.Findings) > 0 {
		t.b.WriteString("\n" + style.bold("What is wrong") + "\n")
		writeFindings(&t.b, e.Findings, style)
	}
	for i, w := range e.Warnings {
		if i == 0 {
			t.b.WriteByte('\n')
		}
		t.b.WriteString(style.bad("warning: ") + style.wrap(w, len("warning: ")) + "\n")
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// printableExplain returns a copy of e whose texts are printable.
func printableExplain(e *report.Explain) *report.Explain {
	c := *e
	c.Limit.Levels = slices.Clone(e.Limit.Levels)
	c.Warnings = slices.Clone(e.Warnings)
	c.Choices = slices.Clone(e.Choices)
	texts := []*string{
		&c.Subject.Name, &c.Limit.From, &c.Limit.Reason, &c.Memory.GOMEMLIMIT, &c.Memory.GOGC, &c.GOMAXPROCS.Why,
	}
	for i := range c.Limit.Levels {
		texts = append(texts, &c.Limit.Levels[i].Dir, &c.Limit.Levels[i].Error, &c.Limit.Levels[i].Cpuset)
	}
	for i := range c.Warnings {
		texts = append(texts, &c.Warnings[i])
	}
	for i := range c.Choices {
		texts = append(texts, &c.Choices[i].Why)
	}
	if e.Go != nil {
		g := *e.Go
		c.Go = &g
		texts = append(texts, &g.Version)
		for _, env := range []**string{&g.GOMAXPROCS, &g.GODEBUG} {
			if *env != nil {
				value := **env
				*env = &value
				texts = append(texts, &value)
			}
		}
	}
	for _, text := range texts {
		*text = printable(*text)
	}
	return &c
}

type explainText struct {
	b     strings.Builder
	style Style
}

const labelWidth = 12

// line writes a labelled line; without a label it goes on with the one before.
func (t *explainText) line(label, text string) {
	if text == "" {
		return
	}
	t.b.WriteString(t.style.bold(label) + pad("", labelWidth-len(label)))
	t.b.WriteString(t.style.wrap(text, labelWidth))
	t.b.WriteByte('\n')
}

func (t *explainText) limit(e *report.Explain) {
	l := e.Limit
	switch l.State {
	case "limited":
		t.line("limit", t.style.bold(cpus(*l.CPUs))+", set by "+owner(l))
	case "none":
		t.line("limit", t.style.bold("none"))
	default:
		t.line("limit", t.style.bold(l.State)+": "+l.Reason)
		if l.AtMost > 0 {
			t.line("", "it is at most "+cpus(l.AtMost)+", the smallest quota that could be read")
		}
	}
	if in := l.Inside; in != nil {
		seen := in.State
		if in.CPUs != nil {
			seen = cpus(*in.CPUs)
		}
		t.line("", "seen from inside of the container: "+seen)
	}
	t.tree(l)
}

// owner says which level sets the limit, seen from the process.
func owner(l report.Limit) string {
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

// tree draws the levels, the root of the mount first.
func (t *explainText) tree(l report.Limit) {
	n := len(l.Levels)
	if n == 0 {
		return
	}
	names := make([]string, n)
	width := 0
	for i, level := range l.Levels {
		depth := n - 1 - i
		names[i] = level.Dir
		if depth > 0 {
			names[i] = strings.Repeat("  ", depth-1) + "└ " + level.Dir[strings.LastIndexByte(level.Dir, '/')+1:]
		}
		names[i] = shorten(names[i], 60)
		width = max(width, utf8.RuneCountInString(names[i]))
	}
	for i := n - 1; i >= 0; i-- {
		text := pad(names[i], width) + "  " + levelText(l.Levels[i], l.Cgroup)
		if l.Levels[i].InForce {
			text = t.style.good(text + "  ← in force")
		}
		t.b.WriteString(pad("", labelWidth) + text + "\n")
	}
	kind := "cgroup " + l.Cgroup
	if l.Hybrid {
		kind += ", hybrid"
	}
	t.line("", t.style.dim("("+kind+")"))
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
	text := "no limit"
	if l.Error != "" {
		return "not known: " + l.Error
	}
	if l.CPUs > 0 {
		text = cpus(l.CPUs) + " (" + millis(l.Quota) + " of each " + millis(l.Period)
		if l.Burst > 0 {
			text += ", burst " + millis(l.Burst)
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

func affinity(e *report.Explain) string {
	if e.Affinity.CPUs == 0 {
		return "not known"
	}
	return plural(int64(e.Affinity.CPUs), "CPU") + " by the affinity mask"
}

func (t *explainText) throttling(e *report.Explain) {
	th := e.Throttling
	if now := th.Now; now != nil {
		text := "not now"
		switch {
		case now.Active == nil:
			text = "not known"
		case *now.Active:
			text = t.style.bad("now")
			if now.Periods > 0 {
				text += fmt.Sprintf(": %d of %s", now.Throttled, plural(now.Periods, "period"))
			}
		}
		if now.LocalSeconds != nil && *now.LocalSeconds > 0 {
			text += fmt.Sprintf("; its own cgroup stood still for %s, summed over CPUs", seconds(*now.LocalSeconds))
		}
		t.line("throttled", text+" (within "+seconds(now.Seconds)+")")
		t.line("", "in all: "+counts(th))
	} else {
		t.line("throttled", counts(th))
	}
	c := th.Owner
	if local := th.LocalSeconds; local != nil && *local > 0 && (c.Dir != th.Own.Dir || c.Throttled == 0) {
		t.line("", "its own cgroup stood still for "+seconds(*local)+" in all, summed over CPUs, by whatever level")
	}
}

// counts says what the counters hold since the group was made.
func counts(th report.Throttling) string {
	c := th.Owner
	switch {
	case !c.Known:
		return "not counted at this level"
	case c.Share == nil:
		return "no periods counted"
	}
	return fmt.Sprintf("%d of %s (%s), %s summed over CPUs",
		c.Throttled, plural(c.Periods, "period"), percent(*c.Share), seconds(c.ThrottledSeconds))
}

func memory(m report.Memory) string {
	text := ""
	switch m.State {
	case "limited":
		text = "limit " + bytes(m.Bytes)
	case "none":
		text = "no limit"
	default:
		text = "limit not known"
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

func (t *explainText) program(e *report.Explain) {
	name := fmt.Sprintf("%s, pid %d", e.Subject.Name, e.Subject.PID)
	switch {
	case e.Subject.Self:
		name = "what is started from this shell; as an example, this command itself"
	case e.Subject.Name == "":
		name = "not looked at"
	}
	t.line("program", name)
	if g := e.Go; g != nil {
		build := strings.TrimPrefix(g.Version, "go")
		text := "Go " + build
		if g.GoLine != "" {
			text += ", go line " + g.GoLine
		}
		text += settings(g)
		t.line("", text)
		t.line("", libraries(g))
		t.line("", environment(g))
	}
	value := "not known"
	if v := e.GOMAXPROCS.Value; v != nil {
		value = strconv.Itoa(*v)
		switch e.GOMAXPROCS.Proof {
		case report.ProofPredicted, report.ProofLive:
			value += " (" + e.GOMAXPROCS.Proof + ")"
		}
	}
	t.line("GOMAXPROCS", t.style.bold(value)+": "+e.GOMAXPROCS.Why)
}

// settings says how the runtime's two switches stand, and who set them. Before Go 1.25 there were none.
func settings(g *report.Go) string {
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

func libraries(g *report.Go) string {
	var parts []string
	if g.Automaxprocs != "no" {
		parts = append(parts, "automaxprocs: "+g.Automaxprocs)
	}
	if g.Unthrottle != "no" {
		parts = append(parts, "unthrottle: "+g.Unthrottle)
	}
	return strings.Join(parts, ", ")
}

func environment(g *report.Go) string {
	var parts []string
	if g.GOMAXPROCS != nil {
		parts = append(parts, "GOMAXPROCS="+*g.GOMAXPROCS)
	}
	if g.GODEBUG != nil {
		parts = append(parts, "GODEBUG="+*g.GODEBUG)
	}
	return strings.Join(parts, " ")
}

// choices draws the table of rules.
func (t *explainText) choices(e *report.Explain) {
	t.b.WriteString("\n" + t.style.bold("What each rule chooses here") + "\n")
	t.b.WriteString(t.style.dim("  "+pad("rule", 21)+padLeft("GOMAXPROCS", 10)+"  limit it sees") + "\n")
	for i, c := range e.Choices {
		mark := "  "
		if c.Applies {
			mark = "→ "
		}
		procs, sees := "?", "none"
		if c.Procs > 0 {
			procs = strconv.Itoa(c.Procs)
		}
		if c.Limit != nil {
			sees = cpus(*c.Limit)
		}
		row := mark + pad(c.Rule, 21) + padLeft(procs, 10) + "  "
		const indent = 50 // where the last column begins
		switch {
		case c.Wrong:
			row += pad(sees, 15) + t.style.bad(t.style.wrap("wrong: "+c.Why, indent))
			if next := i + 1; next == len(e.Choices) || e.Choices[next].Fix != c.Fix { // one fix may serve several rows
				row += "\n" + pad("", indent) + t.style.wrap("fix: "+c.Fix, indent)
			}
		case c.Why != "":
			row += pad(sees, 15) + t.style.wrap("no difference here: "+c.Why, indent)
		default:
			row += sees
		}
		t.b.WriteString(row + "\n")
	}
}
