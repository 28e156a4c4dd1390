package render

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// TraceText writes the document of trace for people: the answer, what it rests on, a drawing of the freezes, the longest of
// them, and what to do next.
func TraceText(w io.Writer, d *report.Trace, style Style) error {
	d = printableTrace(d)
	t := &loadText{style: style, width: style.Width}
	if t.width == 0 {
		t.width = 80
	}
	t.line("", traceHeadline(d, style))
	t.WriteByte('\n')
	for _, f := range traceFacts(d) {
		mark := t.style.bold(pad(f.Name, 12))
		for _, text := range f.Texts {
			t.line("  "+mark, text)
			mark = strings.Repeat(" ", 12)
		}
	}
	t.WriteString(traceStrip(d, style, t.width))
	t.traceLongest(d)
	for _, next := range traceNext(d) {
		t.WriteByte('\n')
		t.line("", next.Text)
		t.WriteString("  " + next.Lines + "\n")
	}
	if len(d.Warnings) > 0 {
		t.WriteByte('\n')
		warnings(&t.Builder, d.Warnings, style)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// TraceMarkdown writes the answer and what it rests on, to be put into an issue.
func TraceMarkdown(w io.Writer, d *report.Trace) error {
	d = printableTrace(d)
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n%s\n\n", markdown(traceHeadline(d, Style{})), markdown(upperFirst(traceSubject(d))))
	for _, f := range traceFacts(d) {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, markdown(strings.Join(f.Texts, "; ")))
	}
	if len(d.Longest) > 0 {
		b.WriteString("\n| began at | lasted | ended | ran | waited |\n|---:|---:|:---|:---|:---|\n")
		for _, m := range d.Longest {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", traceAt(m.Start), seconds(m.End-m.Start), traceEnd(d, m.TraceFreeze), markdown(traceRan(m)), markdown(traceWaited(m)))
		}
		b.WriteByte('\n')
	}
	for _, text := range d.Warnings {
		fmt.Fprintf(&b, "- warning: %s\n", markdown(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printableTrace is a copy that is safe to show.
func printableTrace(d *report.Trace) *report.Trace {
	c := clean(reflect.ValueOf(*d)).Interface().(report.Trace)
	c.Command, c.Source, c.Saved, c.Recorded = d.Command, d.Source, d.Saved, d.Recorded // report.ShellWords takes care of them
	return &c
}

// traceClaim is the answer in a word.
func traceClaim(d *report.Trace, style Style) string {
	switch d.Cause {
	case "throttled":
		return style.bad("throttled")
	case "contended":
		return style.bad("contended")
	case "none":
		return style.good("not frozen")
	}
	return style.bold("unsure")
}

// traceHeadline is the answer in a line.
func traceHeadline(d *report.Trace, style Style) string {
	frozen := style.bold("frozen "+percent(d.FrozenShare)+" of the time:") + " "
	claim := traceClaim(d, style)
	switch d.Cause {
	case "throttled":
		text := frozen + claim + " by a CPU quota" + traceQuota(d)
		if d.Contended > 0 {
			text += fmt.Sprintf("; %s of the time it was other programs on a busy host", percent(d.Contended))
		}
		return text + traceDoubtful(d)
	case "contended":
		return frozen + claim + " by other programs or machines; it has not the rhythm of a quota" + traceDoubtful(d)
	case "none":
		if d.Confidence == "low" {
			return claim + ", as far as this trace can tell" + traceDoubtful(d)
		}
		return claim + ": no freeze of any weight in " + lasting(d.Wall)
	}
	text := claim + ": this trace does not tell whether it was frozen"
	if k := d.Kernel; k != nil && k.ThrottledPeriods > 0 {
		text += fmt.Sprintf("; the kernel throttled it in %d of %s meanwhile", k.ThrottledPeriods, plural(k.Periods, "period"))
	}
	return text
}

// traceDoubtful marks an answer that is not sure. The doubt itself is among the facts.
func traceDoubtful(d *report.Trace) string {
	if d.Confidence == "low" && d.Cause != "unsure" {
		return " (low confidence)"
	}
	return ""
}

// traceQuota is how much CPU time the quota gives, as far as that is known: best from the cgroup, else what it got.
func traceQuota(d *report.Trace) string {
	switch {
	case d.Limit != nil && d.Limit.CPUs != nil && d.Limit.Quota > 0:
		return fmt.Sprintf(", %s of each %s", seconds(d.Limit.Quota), seconds(d.Limit.Period))
	case d.Period == nil:
		return ""
	case d.ImpliedCPUs == nil:
		return ", with a period of " + seconds(*d.Period)
	}
	return fmt.Sprintf(", about %s of each %s", seconds(*d.ImpliedCPUs**d.Period), seconds(*d.Period))
}

// traceSubject says what was read.
func traceSubject(d *report.Trace) string {
	name := report.ShellWord(d.Source)
	if len(d.Recorded) > 0 {
		name = report.ShellWords(d.Recorded)
	}
	if d.Process != nil && d.Process.Name != "" {
		name += fmt.Sprintf(" (%s, pid %d)", d.Process.Name, d.Process.PID)
	}
	return fmt.Sprintf("execution trace of %s, %s", name, lasting(d.Wall))
}

// traceFacts are what the answer rests on.
func traceFacts(d *report.Trace) []htmlFact {
	f := htmlFacts{}
	f.add("why", d.Why)
	if d.Confidence == "low" {
		doubt := "low"
		if d.Doubt != "" && d.Doubt != d.Why {
			doubt += ": " + d.Doubt
		}
		f.add("confidence", doubt)
	} else {
		f.add("confidence", "high")
	}
	if d.FreezeCount > 0 {
		name, _ := traceStill(d)
		f.add(name, traceFreezes(d)...)
	}
	f.add("quota", traceImplied(d)...)
	f.add("limit", traceLimit(d))
	f.add("kernel", traceKernel(d)...)
	f.add("GOMAXPROCS", traceProcs(d))
	f.add("requests", traceHandlers(d.Handlers)...)
	f.add("collector", traceGC(d))
	f.add("samples", traceSamples(d))
	f.add("trace", fmt.Sprintf("%s, %s, %s events (%s a second), format of Go %s", lasting(d.Wall), bytes(max(0, d.Bytes)),
		thousands(d.Events), thousands(int64(min(d.Density.PerSecond, 1e12)+0.5)), d.Format))
	return f.Facts
}

// traceStill is what a stretch without events is called, and what the program was then: whether it was frozen is not
// always known.
func traceStill(d *report.Trace) (stretches, was string) {
	if d.Cause == "throttled" || d.Cause == "contended" {
		return "freezes", "frozen"
	}
	return "silences", "silent"
}

func traceFreezes(d *report.Trace) []string {
	text := fmt.Sprintf("%s of %s and more", thousands(d.FreezeCount), seconds(d.Shortest))
	if len(d.Freezes) > 0 {
		half, longest := d.Lengths()
		text += fmt.Sprintf(", half of them above %s, the longest %s", seconds(half), seconds(longest))
	}
	texts := []string{text}
	if d.Cause == "throttled" && d.Hidden >= 0.005 {
		texts = append(texts, fmt.Sprintf("%s of the time nothing was to do as far as the trace knows, until a refill: frozen too", percent(d.Hidden)))
	}
	return texts
}

func traceImplied(d *report.Trace) (texts []string) {
	if d.ImpliedCPUs == nil || d.Period == nil {
		return nil
	}
	got := fmt.Sprintf("%s, %s of each %s", cpus(hundredths(*d.ImpliedCPUs)), seconds(*d.ImpliedCPUs**d.Period), seconds(*d.Period))
	if d.ImpliedBy == "samples" {
		texts = append(texts, "by its CPU samples it got "+got)
	} else {
		texts = append(texts, "its Ps ran for "+got+", which is about the quota if each had a CPU then")
	}
	return texts
}

func traceLimit(d *report.Trace) string {
	l := d.Limit
	switch {
	case l == nil:
		return ""
	case l.CPUs != nil:
		return fmt.Sprintf("%s, %s of each %s, set by %s", cpus(*l.CPUs), seconds(l.Quota), seconds(l.Period), l.From)
	case l.State == "none":
		return "none is to be seen"
	case l.State == "hidden":
		return "one that can’t be seen from here"
	}
	return "unknown: " + l.Reason
}

func traceKernel(d *report.Trace) []string {
	k := d.Kernel
	switch {
	case k == nil:
		return nil
	case k.Periods == 0:
		return []string{"counted no period"}
	case k.ThrottledPeriods == 0:
		return []string{"throttled in none of " + plural(k.Periods, "period")}
	}
	text := fmt.Sprintf("throttled in %d of %s, %s summed over CPUs", k.ThrottledPeriods, plural(k.Periods, "period"), seconds(k.ThrottledSeconds))
	if k.CPUs > 1 {
		return []string{text, fmt.Sprintf("that is %s of the time if all %d stood still together; by the trace %s", percent(k.ThrottledShare), k.CPUs, percent(d.Throttled))}
	}
	return []string{text, fmt.Sprintf("that is %s of the time; by the trace %s", percent(k.ThrottledShare), percent(d.Throttled))}
}

func traceProcs(d *report.Trace) string {
	if d.Procs == nil {
		return ""
	}
	text := fmt.Sprint(*d.Procs)
	if n := len(d.ProcsChanges); n > 1 {
		text = fmt.Sprintf("%d at the end, changed %s from %d", *d.Procs, times(n-1), d.ProcsChanges[0].Procs)
	}
	return fmt.Sprintf("%s; %s Ps busy on the mean, outside freezes", text, number(hundredths(d.BusyPs)))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func traceHandlers(h *report.TraceHandlers) []string {
	if h == nil {
		return nil
	}
	latency := func(l report.TraceLatency) string {
		return fmt.Sprintf("p50 %s, p99 %s, longest %s", traceTime(l.P50), traceTime(l.P99), traceTime(l.Max))
	}
	what := plainPlural(h.Count, "request") + " of net/http"
	if h.What != "net/http" {
		what = plainPlural(h.Count, "answer") + " to the network"
	}
	return []string{
		fmt.Sprintf("%s %s, %s with a freeze in them; what they waited before the program woke is not in it", thousands(h.Count), what, thousands(h.Frozen)),
		"took           " + latency(h.Took),
		"freezes added  " + latency(h.Added),
		"without        " + latency(h.Without),
	}
}

// traceTime prints a latency with three digits.
func traceTime(s float64) string {
	if s <= 0 {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(s))-2)
	return seconds(math.Round(s/unit) * unit)
}

func traceGC(d *report.Trace) string {
	if d.GC.Cycles == 0 {
		return "no cycle ended"
	}
	text := fmt.Sprintf("%s, marking %s of the time", plural(int64(d.GC.Cycles), "cycle"), percent(d.GC.Marking))
	if d.FreezeCount > 0 {
		text += fmt.Sprintf(" and in %s of the frozen time", percent(d.GC.Frozen))
	}
	return text
}

func traceSamples(d *report.Trace) string {
	s := d.Samples
	if s == nil {
		if d.Density.Sparse {
			return "none: in so sparse a trace they would tell freezes from computing"
		}
		return ""
	}
	return fmt.Sprintf("%s of the CPU profiler, %s of CPU time while goroutines ran for %s: they had no CPU for %s of it",
		thousands(s.Count), seconds(s.CPU), seconds(s.Running), percent(s.Starved))
}

// traceAt is a time in the trace, to the millisecond.
func traceAt(s float64) string { return fmt.Sprintf("%.3f s", s) }

// traceEnd is what ended a freeze.
func traceEnd(d *report.Trace, f report.TraceFreeze) string {
	switch {
	case d.Cause == "throttled" && f.Refill:
		return "refill"
	case d.Cause == "throttled":
		return "at another time"
	}
	return ""
}

// traceRan says who was running in a freeze.
func traceRan(m report.TraceMoment) string {
	text := traceWho(m.Running)
	if text == "" {
		text = plural(int64(m.Ps), "P") + " of the runtime, without a goroutine"
		if m.Ps == 0 {
			text = "nobody"
		}
	}
	if m.Serving {
		text += "; serving requests"
	}
	if m.GC {
		text += "; garbage collection"
	}
	return text
}

// traceWaited says who could have run.
func traceWaited(m report.TraceMoment) string {
	if m.Waited == 0 {
		return ""
	}
	text := plural(int64(m.Waited), "goroutine")
	if who := traceWho(m.Waiting); who != "" {
		text += ": " + who
		if m.Waited > len(m.Waiting) {
			text += ", …"
		}
	}
	return text
}

// traceWho names goroutines by where they were, those at the same place together.
func traceWho(list []report.TraceGoroutine) string {
	var names []string
	counts := map[string]int{}
	for _, g := range list {
		name := traceGoroutine(g)
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
	}
	for i, name := range names {
		if n := counts[name]; n > 1 {
			names[i] = fmt.Sprintf("%d× %s", n, name)
		}
	}
	return strings.Join(names, ", ")
}

func traceGoroutine(g report.TraceGoroutine) string {
	function, started := shortFunction(g.Function), shortFunction(g.Started)
	switch {
	case g.Label != "":
		return g.Label
	case function == "" && started == "":
		return fmt.Sprintf("goroutine %d", g.ID)
	case function == "" || function == started:
		return started
	case started == "":
		return function
	}
	return function + " in " + started
}

// traceLongest is the table of the longest freezes, with who was there in lines that end where the screen does.
func (t *loadText) traceLongest(d *report.Trace) {
	if len(d.Longest) == 0 {
		return
	}
	rows := [][]htmlCell{{{"at", ""}, {"lasted", ""}}}
	for _, m := range d.Longest {
		rows = append(rows, []htmlCell{{traceAt(m.Start), ""}, {seconds(m.End - m.Start), ""}})
	}
	lines := tableLines(rows, t.style, func(_ htmlCell, text string) string { return text })
	left := widest(lines) + 4
	s := Style{Color: t.style.Color, Width: t.width}
	name, _ := traceStill(d)
	t.WriteString("\n" + t.style.bold("The longest "+name) + "\n")
	t.WriteString("  " + lines[0] + "  " + t.style.dim("who ran, and who could have") + "\n")
	for i, m := range d.Longest {
		t.WriteString("  " + lines[i+1] + "  " + s.wrap(traceRan(m), left) + "\n")
		if text := traceWaited(m); text != "" {
			t.WriteString(strings.Repeat(" ", left) + t.style.dim(s.wrap("waited: "+text, left)) + "\n")
		}
	}
}

// traceNext are commands that lead on.
func traceNext(d *report.Trace) (next []htmlCommand) {
	pid := "PID"
	if d.Process != nil && len(d.Recorded) == 0 {
		pid = fmt.Sprint(d.Process.PID)
	}
	file := d.Source
	switch {
	case d.Saved != "":
		file = d.Saved
	case strings.Contains(d.Source, "://") || d.Source == "-" || len(d.Recorded) > 0:
		file = "" // it is gone
	}
	switch d.Cause {
	case "throttled":
		limit := "CPUS"
		if d.Limit != nil && d.Limit.CPUs != nil {
			limit = number(hundredths(*d.Limit.CPUs))
		} else if d.ImpliedCPUs != nil && d.ImpliedBy == "samples" {
			limit = number(hundredths(*d.ImpliedCPUs))
		}
		program := "PROGRAM"
		if len(d.Recorded) > 0 {
			program = report.ShellWords(d.Recorded)
		}
		if len(d.Recorded) == 0 {
			next = append(next, htmlCommand{"Its limit and its GOMAXPROCS, and whether they fit:", "unthrottle explain " + pid})
		}
		next = append(next, htmlCommand{"Which GOMAXPROCS serves it best under that limit, measured:", "unthrottle tune --cpus " + limit + " -- " + program})
	case "contended":
		who := "unthrottle ps"
		if len(d.Recorded) == 0 {
			who += "\n  unthrottle watch " + pid
		}
		next = append(next, htmlCommand{"A limit is not the cause. Who else uses the CPUs:", who})
	case "unsure":
		next = append(next, htmlCommand{
			"With CPU samples in it a trace tells more, and a heartbeat in the cgroup tells for sure:",
			"unthrottle trace HOST:PORT\n  unthrottle watch " + pid,
		})
	}
	if file != "" {
		next = append(next, htmlCommand{"All events of it:", "go tool trace " + report.ShellWord(file)})
	}
	return next
}
