package view

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Watch shows what was watched: the answer, the time in which nothing ran, and what the answer rests on.
func Watch(d *report.Watch) *sheet.Sheet {
	s := WatchSummary(d)
	f := d.Folding()
	c := fold(d.Elapsed, f, "frozen", WatchSpans(d.Freezes))
	c.Seconds = true
	drawing := sheet.Section{Title: "Every period", About: folded(d.Elapsed, f, "nothing ran"), Quiet: true, Blocks: []sheet.Block{c}}
	s.Sections = append([]sheet.Section{drawing}, s.Sections...)
	s.Add(sheet.Section{Title: "The longest freezes", Detail: true, Blocks: []sheet.Block{watchLongest(d)}})
	s.Add(watchAsked(d))
	return s
}

// WatchSummary shows the answer and what it rests on, to somebody who has seen the time pass.
func WatchSummary(d *report.Watch) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "watch", Subject: d.Subject() + ", " + quantity.Lasting(d.Elapsed), Warnings: d.Warnings, Document: d, Command: report.ShellWords(d.Command),
		Claims: []sheet.Claim{{Word: d.Claim(), Tone: causeTone(d.Cause), Text: d.Answer()}},
	}
	var f sheet.Facts
	f.Add("why", d.Why...)
	f.Add("limit", d.Limit.Text(d.Group))
	f.Add("freezes", watchFreezes(d))
	f.Add("kernel", watchKernel(d.Kernel)...)
	f.Add("contention", watchContention(d.Contention)...)
	h := d.Heartbeat
	f.Add("heartbeat", fmt.Sprintf("%s, each after %s or more; a freeze is %s and more; used %s of a CPU, with all else %s",
		quantity.Plural(h.Beats, "beat"), quantity.Seconds(h.Interval), quantity.Seconds(h.Late), quantity.Share(h.CPUShare), quantity.Share(h.AllShare)))
	f.Add("ended", d.Ended)
	s.Add(rests(f))
	s.Add(sheet.Section{Title: "What is wrong", Blocks: []sheet.Block{sheet.Findings(d.Findings)}})
	return s
}

// WatchSpans are freezes as a drawing has them.
func WatchSpans(freezes []report.WatchFreeze) []sheet.Span {
	var spans []sheet.Span
	for _, f := range freezes {
		spans = append(spans, sheet.Span{From: f.Start, To: f.End})
	}
	return spans
}

// WatchHead says what is watched, before there is anything to show.
func WatchHead(d *report.Watch) string {
	text := "Watching " + d.Subject()
	if limit := d.Limit.Text(d.Group); limit != "" {
		text += "; limit: " + limit
	}
	return text + "."
}

// WatchStatus is what is known so far, in a line.
func WatchStatus(d *report.Watch) string {
	parts := []string{d.Claim(), "frozen " + quantity.Share(d.FrozenShare)}
	if d.PeriodSeconds != nil {
		parts = append(parts, "period "+quantity.Seconds(*d.PeriodSeconds))
	}
	if d.FreezeCount > 0 {
		parts = append(parts, "longest "+quantity.Seconds(d.Longest))
	}
	if k := d.Kernel; k != nil && k.Periods > 0 {
		parts = append(parts, watchPeriods(k.ThrottledPeriods, k.Periods)+" throttled")
	}
	return strings.Join(parts, "  ")
}

// WatchLine is a second in words, where there is no terminal to draw on: what the kernel counted in it, if it does.
func WatchLine(second int, d *report.Watch, periods, throttled int64) string {
	s := d.Second(second)
	text := fmt.Sprintf("%6s  frozen %7s", quantity.Lasting(float64(second+1)), quantity.Share(s.Frozen))
	if s.Freezes > 0 {
		text += fmt.Sprintf("  %s, longest %s", quantity.Plural(s.Freezes, "freeze"), quantity.Seconds(s.Longest))
	}
	if periods > 0 {
		text += "  throttled in " + watchPeriods(throttled, periods)
	}
	return text
}

func watchPeriods(n, of int64) string {
	return quantity.Count(n) + " of " + quantity.Plural(of, "period")
}

func watchFreezes(d *report.Watch) string {
	if d.FreezeCount == 0 {
		return "none in " + quantity.Lasting(d.Elapsed)
	}
	return fmt.Sprintf("%s in %s, half of them %s and more, the longest %s",
		quantity.Count(d.FreezeCount), quantity.Lasting(d.Elapsed), quantity.Seconds(d.Median), quantity.Seconds(d.Longest))
}

func watchKernel(k *report.WatchKernel) (texts []string) {
	switch {
	case k == nil:
		return []string{"counts nothing that can be seen here"}
	case k.Periods > 0 && k.ThrottledPeriods > 0:
		texts = append(texts, fmt.Sprintf("throttled in %s, %s summed over CPUs: %s of the time if all %d stood still together, %s if one did",
			watchPeriods(k.ThrottledPeriods, k.Periods), quantity.Seconds(k.ThrottledSeconds), quantity.Share(k.AtLeast), k.CPUs, quantity.Share(k.AtMost)))
	case k.Periods > 0:
		texts = append(texts, "throttled in none of "+quantity.Plural(k.Periods, "period"))
	}
	if k.Local != nil && *k.Local > 0 && k.ThrottledPeriods == 0 {
		texts = append(texts, quantity.Seconds(*k.Local)+" summed over CPUs, by a level whose periods can't be seen")
	}
	if k.PSIFull != nil && k.PSISome != nil {
		texts = append(texts, fmt.Sprintf("by its PSI all tasks waited for %s of the time, some for %s", quantity.Share(*k.PSIFull), quantity.Share(*k.PSISome)))
	}
	return texts
}

func watchContention(c report.WatchContention) (texts []string) {
	if c.WaitShare != nil {
		texts = append(texts, fmt.Sprintf("the group's %s used %s and waited for %s of the time in which they could have run",
			quantity.Plural(c.Threads, "thread"), quantity.UsedCPUs(c.RunCPUs), quantity.Share(*c.WaitShare)))
	}
	if c.HostCPUs > 0 {
		text := fmt.Sprintf("of the host's %s %s were in use, %s by others", quantity.CPUs(float64(c.HostCPUs)), quantity.Hundredths(c.HostBusy), quantity.Hundredths(c.Others))
		if stolen := quantity.Hundredths(c.Steal); stolen != "0" {
			text += "; the hypervisor took " + stolen
		}
		texts = append(texts, text)
	}
	return texts
}

// watchListed is how many freezes a page lists.
const watchListed = 10

func watchLongest(d *report.Watch) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{{Title: "began at", Left: true}, {Title: "lasted"}, {Title: "ended", Left: true}}}
	for _, f := range d.LongestFreezes(watchListed) {
		end := "at another time"
		if f.AtPhase && d.Folding().Refill {
			end = "with the refill of the quota"
		}
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{{Text: moment(f.Start)}, {Text: quantity.Seconds(f.End - f.Start)}, {Text: end}}})
	}
	return t
}

// watchAsked says what was done.
func watchAsked(d *report.Watch) sheet.Section {
	var f sheet.Facts
	f.Add("subject", d.Subject())
	if d.Moved {
		f.Add("heartbeat", "a process of its own, moved into that group for the time")
	}
	f.Add("began", d.Began)
	f.Add("watched", quantity.Lasting(d.Elapsed))
	f.Add("made by", d.MadeBy)
	return sheet.Section{Title: "What was watched", Detail: true, Blocks: []sheet.Block{f}}
}
