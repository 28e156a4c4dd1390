package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Watch shows what was watched: the answer, the time in which nothing ran, and what the answer rests on.
func Watch(d *report.Watch) *sheet.Sheet {
	s := WatchSummary(d)
	if d.Heartbeat != nil {
		drawing := everyPeriod(d.Elapsed, d.Folding(), "nothing ran", WatchSpans(d.Freezes))
		c := drawing.Blocks[0].(*sheet.Fold)
		c.Was, c.Seconds = "frozen", true
		s.Sections = append([]sheet.Section{drawing}, s.Sections...)
	}
	s.Add(detail("The longest freezes", watchLongest(d)))
	var f sheet.Facts
	f.Add("subject", d.Subject())
	f.Add("heartbeat", when(d.Moved, "a separate process, moved into that group meanwhile"))
	f.Add("began", d.Began)
	f.Add("watched", quantity.Lasting(d.Elapsed))
	f.Add("made by", d.MadeBy)
	s.Add(detail("What was watched", f))
	return s
}

// WatchSummary shows the answer and what it rests on, to someone who has watched it live.
func WatchSummary(d *report.Watch) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "watch", Subject: d.Subject() + ", " + quantity.Lasting(d.Elapsed), Warnings: d.Warnings, Document: d, Command: report.Typed(d.Command),
		Claims: []sheet.Claim{{Word: d.Claim(), Tone: cmp.Or(tones[d.Cause], sheet.Unsure), Text: d.Answer(), More: d.Also()}},
	}
	var f sheet.Facts
	f.Add("why", d.Why...)
	f.Add("limit", d.Limit.Text(d.Group))
	f.Add("freezes", watchFreezes(d))
	f.Add("kernel", watchKernel(d.Kernel)...)
	f.Add("contention", watchContention(d.Contention)...)
	f.Add("heartbeat", known(d.Heartbeat, func(h report.WatchHeartbeat) string {
		return fmt.Sprintf("%s, each after %s or more; a freeze is %s or more; used %s of a CPU, %s with everything else",
			quantity.Plural(h.Beats, "beat"), quantity.Seconds(h.Interval), quantity.Seconds(h.Late), quantity.Share(h.CPUShare), quantity.Share(h.AllShare))
	}))
	f.Add("ended", d.Ended)
	s.Add(quiet("What it rests on", f))
	s.Add(wrong(d.Findings))
	return s
}

// watchFreezes says how many freezes there were.
func watchFreezes(d *report.Watch) string {
	switch {
	case d.FreezeCount == nil || d.Median == nil || d.Longest == nil:
		return "not measured: that takes a heartbeat in its cgroup, and only the kernel's counts were read"
	case *d.FreezeCount == 0:
		return "none in " + quantity.Lasting(d.Elapsed)
	}
	return fmt.Sprintf("%s in %s, half of them %s or longer, the longest %s",
		quantity.Count(*d.FreezeCount), quantity.Lasting(d.Elapsed), quantity.Seconds(*d.Median), quantity.Seconds(*d.Longest))
}

// WatchSpans are freezes as a drawing has them.
func WatchSpans(freezes []report.Freeze) []sheet.Span {
	var spans []sheet.Span
	for _, f := range freezes {
		spans = append(spans, sheet.Span{From: f.Start, To: f.End})
	}
	return spans
}

// WatchHead says what is watched, before there is anything to show.
func WatchHead(d *report.Watch) string {
	return "Watching " + d.Subject() + around("; limit: ", d.Limit.Text(d.Group), "") + "."
}

// WatchStatus is what is known so far, in a line.
func WatchStatus(d *report.Watch) string {
	counted := known(d.Kernel, func(k report.WatchKernel) string {
		return when(k.Periods > 0, periods(k.ThrottledPeriods, k.Periods)+" throttled")
	})
	return joined("  ", d.Claim(), around("frozen ", known(d.FrozenShare, quantity.Share), ""), around("period ", known(d.PeriodSeconds, quantity.Seconds), ""),
		when(len(d.Freezes) > 0, around("longest ", known(d.Longest, quantity.Seconds), "")), counted)
}

// WatchLine says what happened in a second, where there is no terminal to draw on. The kernel counted of periods, 0 if none.
func WatchLine(second int, d *report.Watch, of, throttled int64) string {
	s := d.Second(second)
	return fmt.Sprintf("%6s  frozen %7s", quantity.Lasting(float64(second+1)), quantity.Share(s.Frozen)) +
		when(s.Freezes > 0, "  "+quantity.Plural(s.Freezes, "freeze")+", longest "+quantity.Seconds(s.Longest)) +
		when(of > 0, "  throttled in "+periods(throttled, of))
}

// withAbove adds what quotas of all levels took, if that is counted and more than the one in force did.
func withAbove(own float64, all *float64) string {
	if all == nil || *all <= own || quantity.Seconds(*all) == quantity.Seconds(own) {
		return ""
	}
	return ", " + quantity.Seconds(*all) + " with the levels above"
}

func watchKernel(k *report.WatchKernel) (texts []string) {
	if k == nil {
		return []string{"counts nothing that can be seen here"}
	}
	switch {
	case k.Periods > 0 && k.ThrottledPeriods > 0:
		texts = append(texts, fmt.Sprintf("throttled in %s, %s summed over CPUs%s: %s of the time", periods(k.ThrottledPeriods, k.Periods),
			quantity.Seconds(k.ThrottledSeconds), withAbove(k.ThrottledSeconds, k.Local), quantity.Share(k.AtLeast))+
			when(k.AtLeast < k.AtMost, " if "+bothOrAll(k.CPUs)+" stood still together, "+quantity.Share(k.AtMost)+" if one did"))
	case k.Periods > 0:
		texts = append(texts, "throttled in none of "+quantity.Plural(k.Periods, "period"))
	}
	hidden := around("", spent(k.Local), " summed over CPUs, by a level whose periods can't be seen")
	texts = append(texts, when(k.ThrottledPeriods == 0, hidden))
	if k.PSIFull != nil && k.PSISome != nil {
		texts = append(texts, fmt.Sprintf("by its PSI all tasks waited at once for %s of the time, some for %s",
			quantity.Share(*k.PSIFull), quantity.Share(*k.PSISome)))
	}
	return texts
}

// bothOrAll names all of some CPUs.
func bothOrAll(cpus int) string {
	if cpus == 2 {
		return "both"
	}
	return "all " + strconv.Itoa(cpus)
}

func watchContention(c report.WatchContention) []string {
	waited := known(c.WaitShare, func(share float64) string {
		return fmt.Sprintf("the group's %s used %s and waited for %s of the time in which they could have run",
			quantity.Plural(c.Threads, "thread"), quantity.UsedCPUs(c.RunCPUs), quantity.Share(share))
	})
	stolen := quantity.Hundredths(c.Steal)
	host := fmt.Sprintf("%s of the host's %s in use, %s by others",
		quantity.Hundredths(c.HostBusy), quantity.CPUs(float64(c.HostCPUs)), quantity.Hundredths(c.Others)) + when(stolen != "0", "; the hypervisor took "+stolen)
	return []string{waited, when(c.HostCPUs > 0, host)}
}

// watchListed is how many freezes a page lists.
const watchListed = 10

func watchLongest(d *report.Watch) *sheet.Table {
	longest := d.LongestFreezes(watchListed)
	atRefill := func(f report.Freeze) bool { return f.Refill && d.Folding().Refill }
	if !slices.ContainsFunc(longest, atRefill) {
		return nil // the drawing says as much
	}
	t := &sheet.Table{Columns: []sheet.Column{{Title: "began at", Left: true}, {Title: "lasted"}, {Title: "ended", Left: true}}}
	for _, f := range longest {
		end := cmp.Or(when(atRefill(f), "at a refill"), "at another time")
		t.Add(moment(f.Start), quantity.Seconds(f.End-f.Start), end)
	}
	return t
}
