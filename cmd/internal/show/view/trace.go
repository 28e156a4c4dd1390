package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Trace shows when a program stood still and why: the answer, what it rests on, a drawing of the freezes, the longest of
// them, and where to go from here.
func Trace(d *report.Trace) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "trace", Subject: d.Subject(), Warnings: d.Warnings, Document: d, Command: report.Typed(d.Command),
		Claims: []sheet.Claim{{Word: d.Claim(), Tone: cmp.Or(tones[d.Cause], sheet.Unsure), Text: d.Answer(), More: d.Also()}},
	}
	s.Add(quiet("What it rests on", traceFacts(d)))
	s.Add(wrong(d.Findings))
	var spans []sheet.Span
	for _, f := range d.Freezes {
		spans = append(spans, sheet.Span{From: f.Start, To: max(f.Start, f.End)})
	}
	stretches, was := d.Still()
	drawing := everyPeriod(d.Wall, d.Folding(), was, spans)
	drawing.Detail = d.Calm()
	s.Add(drawing)
	first := min(traceShown, len(d.Longest))
	s.Add(sheet.Section{Title: "The longest " + stretches, Blocks: []sheet.Block{traceLongest(d, d.Longest[:first])}})
	s.Add(sheet.Section{
		Title: "More of the longest " + stretches, Detail: true, Folded: true, Blocks: []sheet.Block{traceLongest(d, d.Longest[first:])},
	})
	s.Add(next(d.Next()))
	s.Add(detail("What was read", traceRead(d)))
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
	f.Add("limit", known(d.Limit, func(l report.WatchLimit) string { return l.Text("") }))
	f.Add("kernel", traceKernel(d)...)
	f.Add("GOMAXPROCS", known(d.Procs, func(procs int) string {
		changed := ""
		if n := len(d.ProcsChanges) - 1 + d.ProcsLeft; n > 0 && len(d.ProcsChanges) > 0 {
			times := cmp.Or(when(n == 1, "once"), fmt.Sprintf("%d times", n))
			changed = fmt.Sprintf(" at the end, changed %s from %d", times, d.ProcsChanges[0].Procs)
		}
		return strconv.Itoa(procs) + changed + "; " + quantity.Hundredths(d.BusyPs) + " Ps busy on average, outside freezes"
	}))
	if d.Handlers != nil {
		f = append(f, traceRequests(d.Handlers))
	}
	collected := quantity.Plural(d.GC.Cycles, "cycle") + ", marking " + quantity.Share(d.GC.Marking) + " of the time" +
		when(d.FreezeCount > 0, " and in "+quantity.Share(d.GC.Frozen)+" of the frozen time")
	f.Add("collector", cmp.Or(when(d.GC.Cycles != 0, collected), "no cycle ended"))
	f.Add("samples", traceSamples(d))
	f.Add("trace", fmt.Sprintf("%s, %s, %s (%s a second), format of Go %s", quantity.Lasting(d.Wall), quantity.Bytes(max(0, d.Bytes)),
		quantity.Plural(d.Events, "event"), quantity.Count(int64(min(d.Density.PerSecond, 1e12)+0.5)), d.Format))
	return f
}

func traceFreezes(d *report.Trace) []string {
	text := quantity.Count(d.FreezeCount) + " of " + quantity.Seconds(d.Shortest) + " or longer"
	if len(d.Freezes) > 0 {
		half, longest := d.Lengths()
		text += ", half of them over " + quantity.Seconds(half) + ", the longest " + quantity.Seconds(longest)
	}
	share := d.HiddenShare()
	hidden := quantity.Share(share) + " of the time there was nothing to do as far as the trace knows, until a refill: frozen too"
	return []string{text, when(share > 0, hidden)}
}

func traceImplied(d *report.Trace) string {
	if d.ImpliedCPUs == nil || d.Period == nil {
		return ""
	}
	got := quantity.UsedCPUs(*d.ImpliedCPUs) + ", " + quota(*d.ImpliedCPUs**d.Period, *d.Period)
	if d.ImpliedBy == "samples" {
		return "by its CPU samples it got " + got
	}
	return "its Ps ran for " + got + ", which is about the quota if each had a CPU meanwhile"
}

func traceKernel(d *report.Trace) []string {
	k := d.Kernel
	switch {
	case k == nil:
		return nil
	case k.Periods == 0:
		return []string{"counted no periods"}
	case k.ThrottledPeriods == 0:
		return []string{"throttled in none of " + quantity.Plural(k.Periods, "period")}
	}
	one, both := "", ""
	if d.Rhythm.Offset > 0 && k.Local == nil { // the count is that of one level
		one, both = ", for one of two quotas", ", for both of them"
	}
	return []string{
		"throttled in " + periods(k.ThrottledPeriods, k.Periods) + ", " + quantity.Seconds(k.ThrottledSeconds) + " summed over CPUs" + withAbove(k.ThrottledSeconds, k.Local),
		"that is " + quantity.Share(k.ThrottledShare) + " of the time" + when(k.CPUs > 1, " if "+bothOrAll(k.CPUs)+" stood still together") + one +
			"; by the trace " + cmp.Or(when(freeze.Cause(d.Cause) == freeze.Unsure, "it is not known"), quantity.Share(d.Throttled)+both),
	}
}

// traceRequests says what the freezes cost requests.
func traceRequests(h *report.TraceHandlers) sheet.Fact {
	what := cmp.Or(when(h.What == "net/http", quantity.Plural(h.Count, "request")+" of net/http"), quantity.Plural(h.Count, "answer")+" to the network")
	t := &sheet.Table{Name: "requests", Columns: []sheet.Column{{Left: true}, {Title: "p50"}, {Title: "p99"}, {Title: "longest"}}}
	text := func(s float64) string { return cmp.Or(when(s > 0, quantity.Latency(s)), "0") }
	add := func(name string, l report.TraceLatency) { t.Add(name, text(l.P50), text(l.P99), text(l.Max)) }
	add("took", h.Took)
	add("freezes added", h.Added)
	add("without", h.Without)
	what += ", " + quantity.Count(h.Frozen) + " with a freeze in them; waiting before the program woke is not counted"
	return sheet.Fact{Name: "requests", Texts: []string{what}, Table: t}
}

func traceSamples(d *report.Trace) string {
	s := d.Samples
	if s == nil {
		return when(d.Density.Sparse && d.Confidence == "low", "none: in a trace this sparse they would tell freezes from computing")
	}
	return fmt.Sprintf("%s of the CPU profiler, %s of CPU time while goroutines ran for %s: they had no CPU for %s of it",
		quantity.Count(s.Count), quantity.Seconds(s.CPU), quantity.Seconds(s.Running), quantity.Share(s.Starved))
}

// traceShown is how many of the longest freezes are seen at once.
const traceShown = 3

// traceLongest is the table of some of the longest freezes, with what was there.
func traceLongest(d *report.Trace, longest []report.TraceMoment) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{
		{Title: "at"},
		{Title: "lasted"},
		{Title: "ended", Left: true, Rank: 1},
		{Title: "who ran", Left: true, Wrap: true},
		{Title: "waited", Left: true, Under: true},
	}}
	for _, m := range longest {
		end := when(d.Folding().Refill, cmp.Or(when(m.Refill, "at a refill"), "at another time"))
		row := t.Add(moment(m.Start), quantity.Seconds(m.End-m.Start), end, traceRan(m), traceWaited(m))
		row.Cells[3].More, row.Cells[4].More = traceEach(m.Running), traceEach(m.Waiting)
	}
	return t
}

// traceRan says what was running in a freeze.
func traceRan(m report.TraceMoment) string {
	none := cmp.Or(when(m.Ps > 0, quantity.Plural(m.Ps, "P")+" of the runtime, without a goroutine"), "nobody")
	return cmp.Or(traceWho(m.Running), none) + when(m.Serving, "; serving requests") + when(m.GC, "; garbage collection")
}

// traceWaited says what could have run.
func traceWaited(m report.TraceMoment) string {
	who := around(": ", traceWho(m.Waiting), when(m.Waited > len(m.Waiting), ", …"))
	return when(m.Waited > 0, quantity.Plural(m.Waited, "goroutine")+who)
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
		names[i] = when(counts[name] > 1, fmt.Sprintf("%d× ", counts[name])) + name
	}
	return strings.Join(names, ", ")
}

// traceEach distinguishes goroutines, for pages: by their numbers, and by how long they had been there, if that is known.
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
	return cmp.Or(g.Label, joined(" in ", function, when(started != function, started)), fmt.Sprintf("goroutine %d", g.ID))
}

func traceRead(d *report.Trace) (f sheet.Facts) {
	f.Add("source", report.ShellWord(d.Source))
	f.Add("program", report.ShellWords(d.Recorded))
	if p := d.Process; p != nil {
		live := known(p.Live, func(procs int) string { return fmt.Sprintf(", GOMAXPROCS %d by its memory", procs) })
		f.Add("process", strconv.Itoa(p.PID)+" "+p.Name+live)
	}
	f.Add("began", d.Began)
	f.Add("lasted", quantity.Lasting(d.Wall))
	by := map[string]string{"given": ", as --period says", "limit": ", that of the limit", "rhythm": ", by the rhythm of the freezes"}[d.PeriodFrom]
	f.Add("period", around("", known(d.Period, quantity.Seconds), by))
	r := d.Rhythm
	phases := "one phase"
	if r.Offset > 0 {
		phases = "two phases, " + quantity.Seconds(r.Offset) + " apart"
	}
	f.Add("rhythm", when(r.Period > 0, fmt.Sprintf("R %.2f at %s; %s of the frozen time ends within %s of %s",
		r.R, quantity.Seconds(r.Period), quantity.Share(r.Locked), quantity.Seconds(r.Window), phases)))
	f.Add("silences", "1 of 100 is above "+quantity.Seconds(d.Density.P99))
	f.Add("made by", d.MadeBy)
	return f
}
