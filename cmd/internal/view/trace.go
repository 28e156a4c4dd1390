package view

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Trace shows when a program stood still and why: the answer, what it rests on, a drawing of the freezes, the longest of
// them, and where to go from here.
func Trace(d *report.Trace) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "trace", Subject: d.Subject(), Warnings: d.Warnings, Document: d, Command: report.ShellWords(d.Command),
		Claims: []sheet.Claim{{Word: d.Claim(), Tone: causeTone(d.Cause), Text: d.Answer()}},
	}
	s.Add(rests(traceFacts(d)))
	s.Add(sheet.Section{Title: "What is wrong", Blocks: []sheet.Block{sheet.Findings(d.Findings)}})
	_, was := d.Still()
	f := d.Folding()
	var spans []sheet.Span
	for _, f := range d.Freezes {
		spans = append(spans, sheet.Span{From: f.Start, To: max(f.Start, f.End)})
	}
	s.Add(sheet.Section{
		Title: "Every period", About: folded(d.Wall, f, was), Quiet: true, Detail: d.Calm(),
		Blocks: []sheet.Block{fold(d.Wall, f, was, spans)},
	})
	stretches, _ := d.Still()
	s.Add(sheet.Section{Title: "The longest " + stretches, Blocks: []sheet.Block{traceLongest(d)}})
	s.Add(next(d.Next()))
	s.Add(traceAsked(d))
	return s
}

func traceFacts(d *report.Trace) (f sheet.Facts) {
	f.Add("why", d.Why)
	f.Add("confidence", d.Sure())
	if d.FreezeCount > 0 {
		name, _ := d.Still()
		f.Add(name, traceFreezes(d)...)
	}
	f.Add("quota", traceImplied(d))
	if d.Limit != nil {
		f.Add("limit", d.Limit.Text(""))
	}
	f.Add("kernel", traceKernel(d)...)
	f.Add("GOMAXPROCS", traceProcs(d))
	if h := d.Handlers; h != nil {
		f = append(f, traceRequests(h))
	}
	f.Add("collector", traceGC(d))
	f.Add("samples", traceSamples(d))
	f.Add("trace", fmt.Sprintf("%s, %s, %s (%s a second), format of Go %s", quantity.Lasting(d.Wall), quantity.Bytes(max(0, d.Bytes)),
		quantity.Plural(d.Events, "event"), quantity.Count(int64(min(d.Density.PerSecond, 1e12)+0.5)), d.Format))
	return f
}

func traceFreezes(d *report.Trace) []string {
	text := quantity.Count(d.FreezeCount) + " of " + quantity.Seconds(d.Shortest) + " and more"
	if len(d.Freezes) > 0 {
		half, longest := d.Lengths()
		text += ", half of them above " + quantity.Seconds(half) + ", the longest " + quantity.Seconds(longest)
	}
	texts := []string{text}
	if hidden := d.HiddenShare(); hidden > 0 {
		texts = append(texts, quantity.Share(hidden)+" of the time nothing was to do as far as the trace knows, until a refill: frozen too")
	}
	return texts
}

func traceImplied(d *report.Trace) string {
	if d.ImpliedCPUs == nil || d.Period == nil {
		return ""
	}
	got := quantity.UsedCPUs(*d.ImpliedCPUs) + ", " + quota(*d.ImpliedCPUs**d.Period, *d.Period)
	if d.ImpliedBy == "samples" {
		return "by its CPU samples it got " + got
	}
	return "its Ps ran for " + got + ", which is about the quota if each had a CPU then"
}

func traceKernel(d *report.Trace) []string {
	k := d.Kernel
	switch {
	case k == nil:
		return nil
	case k.Periods == 0:
		return []string{"counted no period"}
	case k.ThrottledPeriods == 0:
		return []string{"throttled in none of " + quantity.Plural(k.Periods, "period")}
	}
	text := "throttled in " + watchPeriods(k.ThrottledPeriods, k.Periods) + ", " + quantity.Seconds(k.ThrottledSeconds) + " summed over CPUs"
	still := "that is " + quantity.Share(k.ThrottledShare) + " of the time"
	if k.CPUs > 1 {
		still += fmt.Sprintf(" if all %d stood still together", k.CPUs)
	}
	return []string{text, still + "; by the trace " + quantity.Share(d.Throttled)}
}

func traceProcs(d *report.Trace) string {
	if d.Procs == nil {
		return ""
	}
	text := fmt.Sprint(*d.Procs)
	if n := len(d.ProcsChanges); n > 1 {
		text += " at the end, changed " + times(n-1) + fmt.Sprintf(" from %d", d.ProcsChanges[0].Procs)
	}
	return text + "; " + quantity.Hundredths(d.BusyPs) + " Ps busy on the mean, outside freezes"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// traceRequests is what requests paid.
func traceRequests(h *report.TraceHandlers) sheet.Fact {
	what := quantity.Plural(h.Count, "request") + " of net/http"
	if h.What != "net/http" {
		what = quantity.Plural(h.Count, "answer") + " to the network"
	}
	t := &sheet.Table{Name: "requests", Columns: []sheet.Column{{Left: true}, {Title: "p50"}, {Title: "p99"}, {Title: "longest"}}}
	for _, row := range []struct {
		name string
		l    report.TraceLatency
	}{{"took", h.Took}, {"freezes added", h.Added}, {"without", h.Without}} {
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{{Text: row.name}, {Text: traceTime(row.l.P50)}, {Text: traceTime(row.l.P99)}, {Text: traceTime(row.l.Max)}}})
	}
	text := what + ", " + quantity.Count(h.Frozen) + " with a freeze in them; what they waited before the program woke is not in it"
	return sheet.Fact{Name: "requests", Texts: []string{text}, Table: t}
}

func traceTime(s float64) string {
	if s <= 0 {
		return "0"
	}
	return quantity.Latency(s)
}

func traceGC(d *report.Trace) string {
	if d.GC.Cycles == 0 {
		return "no cycle ended"
	}
	text := quantity.Plural(d.GC.Cycles, "cycle") + ", marking " + quantity.Share(d.GC.Marking) + " of the time"
	if d.FreezeCount > 0 {
		text += " and in " + quantity.Share(d.GC.Frozen) + " of the frozen time"
	}
	return text
}

func traceSamples(d *report.Trace) string {
	s := d.Samples
	switch {
	case s == nil && d.Density.Sparse:
		return "none: in so sparse a trace they would tell freezes from computing"
	case s == nil:
		return ""
	}
	return fmt.Sprintf("%s of the CPU profiler, %s of CPU time while goroutines ran for %s: they had no CPU for %s of it",
		quantity.Count(s.Count), quantity.Seconds(s.CPU), quantity.Seconds(s.Running), quantity.Share(s.Starved))
}

// traceLongest is the table of the longest freezes, with who was there.
func traceLongest(d *report.Trace) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{
		{Title: "at"}, {Title: "lasted"}, {Title: "ended", Left: true, Rank: 1}, {Title: "who ran", Left: true, Wrap: true}, {Title: "waited", Left: true, Under: true},
	}}
	for _, m := range d.Longest {
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{
			{Text: moment(m.Start)},
			{Text: quantity.Seconds(m.End - m.Start)},
			{Text: traceEnd(d, m.TraceFreeze)},
			{Text: traceRan(m), More: traceEach(m.Running)},
			{Text: traceWaited(m), More: traceEach(m.Waiting)},
		}})
	}
	return t
}

// traceEnd is what ended a freeze, where a quota is refilled.
func traceEnd(d *report.Trace, f report.TraceFreeze) string {
	switch {
	case !d.Folding().Refill:
		return ""
	case f.Refill:
		return "refill"
	}
	return "at another time"
}

// traceRan says who was running in a freeze.
func traceRan(m report.TraceMoment) string {
	parts := traceWho(m.Running)
	text := strings.Join(parts, ", ")
	switch {
	case text == "" && m.Ps == 0:
		text = "nobody"
	case text == "":
		text = quantity.Plural(m.Ps, "P") + " of the runtime, without a goroutine"
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
	text := quantity.Plural(m.Waited, "goroutine")
	if who := strings.Join(traceWho(m.Waiting), ", "); who != "" {
		text += ": " + who
		if m.Waited > len(m.Waiting) {
			text += ", …"
		}
	}
	return text
}

// traceWho names goroutines by where they were, those at the same place together.
func traceWho(list []report.TraceGoroutine) (names []string) {
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
	return names
}

// traceEach tells goroutines apart, for pages: by their numbers, and by how long they had been there, where that is known.
func traceEach(list []report.TraceGoroutine) (lines []string) {
	for _, g := range list {
		if g.For <= 0 {
			continue
		}
		line := fmt.Sprintf("goroutine %d", g.ID)
		if name := traceGoroutine(g); name != line {
			line += ": " + name
		}
		lines = append(lines, line+", for "+quantity.Seconds(g.For))
	}
	return lines
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

// traceAsked says what was read.
func traceAsked(d *report.Trace) sheet.Section {
	var f sheet.Facts
	f.Add("source", report.ShellWord(d.Source))
	if len(d.Recorded) > 0 {
		f.Add("program", report.ShellWords(d.Recorded))
	}
	if d.Process != nil {
		text := fmt.Sprintf("%d %s", d.Process.PID, d.Process.Name)
		if d.Process.Live != nil {
			text += fmt.Sprintf(", GOMAXPROCS %d by its memory", *d.Process.Live)
		}
		f.Add("process", text)
	}
	f.Add("began", d.Began)
	f.Add("lasted", quantity.Lasting(d.Wall))
	if d.Period != nil {
		f.Add("period", quantity.Seconds(*d.Period)+map[string]string{"given": ", as --period says", "limit": ", that of the limit", "rhythm": ", by the rhythm of the freezes"}[d.PeriodFrom])
	}
	if r := d.Rhythm; r.Period > 0 {
		f.Add("rhythm", fmt.Sprintf("R %.2f at %s; %s of the frozen time ends within %s of one phase", r.R, quantity.Seconds(r.Period), quantity.Share(r.Locked), quantity.Seconds(r.Window)))
	}
	f.Add("silences", "1 of 100 is above "+quantity.Seconds(d.Density.P99))
	f.Add("made by", d.MadeBy)
	return sheet.Section{Title: "What was read", Detail: true, Blocks: []sheet.Block{f}}
}
