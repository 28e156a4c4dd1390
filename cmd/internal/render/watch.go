package render

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// WatchText writes the document of watch for people: the strip of the last seconds, and the summary.
func WatchText(w io.Writer, d *report.Watch, style Style) error {
	var b strings.Builder
	b.WriteString(WatchHead(d, style))
	strip := NewWatchStrip(d, style)
	elapsed := min(d.Elapsed, 1e9) // nobody watches for longer
	first := max(0, int(math.Ceil(elapsed-watchRest))-watchRows)
	if first > 0 {
		fmt.Fprintf(&b, "%s\n", style.dim(fmt.Sprintf("(the last %d s)", watchRows)))
	}
	for second := first; float64(second) < elapsed-watchRest || second == 0; second++ {
		b.WriteString(strip.Row(second, d.Freezes, elapsed) + "\n")
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return WatchSummary(w, d, style)
}

// watchRows is how many seconds the text of a saved document shows; watchRest, how much of one is not worth a row.
const (
	watchRows = 20
	watchRest = 0.2
)

// WatchHead says what is watched, and how to read the strip.
func WatchHead(d *report.Watch, style Style) string {
	var b strings.Builder
	text := "Watching " + watchSubject(d)
	if limit := watchLimit(d); limit != "" {
		text += "; limit: " + limit
	}
	b.WriteString(style.wrap(text+".", 0) + "\n")
	strip := NewWatchStrip(d, style)
	b.WriteString(style.dim(style.wrap(fmt.Sprintf("Each row is a second, each column %s: %s ran, %s frozen.", seconds(1/float64(strip.groups*strip.slots)),
		string(watchRan), string(watchLevels[len(watchLevels)-1])), 0)) + "\n")
	return b.String()
}

// watchSubject names what is watched.
func watchSubject(d *report.Watch) string {
	text := "the own cgroup"
	if d.PID != 0 {
		text = fmt.Sprintf("the cgroup of process %d", d.PID)
		if d.Name != "" {
			text += " (" + printable(d.Name) + ")"
		}
	}
	if d.Group != "" {
		text += ", " + printable(d.Group)
	}
	return text
}

// watchLimit says what its limit is.
func watchLimit(d *report.Watch) string {
	l := d.Limit
	switch {
	case l.CPUs != nil:
		text := fmt.Sprintf("%s, %s of each %s", cpus(*l.CPUs), seconds(l.Quota), seconds(l.Period))
		if l.From != d.Group {
			text += ", from " + printable(l.From)
		}
		return text
	case l.State == "none":
		return "none is to be seen"
	case l.State == "hidden":
		return "one that can’t be seen from here"
	case l.Reason != "":
		return "unknown: " + printable(l.Reason)
	}
	return ""
}

// A WatchStrip draws seconds as rows, in groups of a period each.
type WatchStrip struct {
	style         Style
	groups, slots int // of a second, and of a group
}

var (
	watchLevels = []rune("▁▂▃▄▅▆▇█")
	watchRan    = '·'
)

// NewWatchStrip makes a strip that is as wide as the screen.
func NewWatchStrip(d *report.Watch, style Style) WatchStrip {
	width := style.Width
	if width == 0 {
		width = 100
	}
	s := WatchStrip{style: style, groups: 10}
	if d.PeriodSeconds != nil {
		// Longer periods would not fill a row, shorter ones would have no room.
		if n := math.Round(1 / *d.PeriodSeconds); n >= 4 && n <= 20 && math.Abs(n**d.PeriodSeconds-1) < 1e-6 {
			s.groups = int(n)
		}
	}
	const beside = 7 + 7 // the time before it and the share after
	s.slots = max(1, min(20, (width-beside)/s.groups-1))
	return s
}

// Row draws a second as far as the data reach: how much of each slot was frozen, and the frozen share of it all. Freezes
// are in the order of time.
func (s WatchStrip) Row(second int, freezes []report.WatchFreeze, until float64) string {
	var b strings.Builder
	b.WriteString(padLeft(lasting(float64(second)), 6) + " ")
	n := s.groups * s.slots
	var frozen float64
	var run []rune // of slots that are painted alike
	runFrozen := false
	flush := func() {
		if runFrozen {
			b.WriteString(s.style.bad(string(run)))
		} else {
			b.WriteString(s.style.dim(string(run)))
		}
		run = run[:0]
	}
	for i := range n {
		if i > 0 && i%s.slots == 0 {
			run = append(run, ' ')
		}
		start, end := float64(second)+float64(i)/float64(n), float64(second)+float64(i+1)/float64(n)
		if start >= until {
			run = append(run, ' ')
			continue
		}
		part := frozenWithin(freezes, start, end)
		frozen += part
		level := int(math.Round(part / (end - start) * float64(len(watchLevels))))
		if (level > 0) != runFrozen {
			flush()
			runFrozen = level > 0
		}
		if level > 0 {
			run = append(run, watchLevels[min(level, len(watchLevels))-1])
		} else {
			run = append(run, watchRan)
		}
	}
	flush()
	if seen := min(1, until-float64(second)); seen > 0 {
		b.WriteString(" " + padLeft(percent(math.Round(frozen/seen*100)/100), 5))
	}
	return b.String()
}

// frozenWithin is how much of a time was frozen.
func frozenWithin(freezes []report.WatchFreeze, start, end float64) (sum float64) {
	first := sort.Search(len(freezes), func(i int) bool { return freezes[i].End > start })
	for _, f := range freezes[first:] {
		if f.Start >= end {
			break
		}
		sum += max(0, min(f.End, end)-max(f.Start, start))
	}
	return sum
}

// WatchStatus is what is known so far, in a line.
func WatchStatus(d *report.Watch, style Style) string {
	parts := []string{watchClaim(d, style)}
	parts = append(parts, "frozen "+percent(d.FrozenShare))
	if d.PeriodSeconds != nil {
		parts = append(parts, "period "+seconds(*d.PeriodSeconds))
	}
	if d.FreezeCount > 0 {
		parts = append(parts, "longest "+seconds(d.Longest))
	}
	if k := d.Kernel; k != nil && k.Periods > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s throttled", k.ThrottledPeriods, plural(k.Periods, "period")))
	}
	return strings.Join(parts, "  ")
}

// WatchLine is a second in words, where there is no terminal to draw on: what the kernel counted in it, if it does.
func WatchLine(second int, d *report.Watch, periods, throttled int64) string {
	from, to := float64(second), float64(second+1)
	count, longest := 0, 0.0
	for _, f := range d.Freezes {
		if f.End > from && f.End <= to {
			count++
			longest = max(longest, f.End-f.Start)
		}
	}
	text := padLeft(lasting(to), 6) + "  frozen " + padLeft(percent(frozenWithin(d.Freezes, from, to)), 7)
	if count > 0 {
		text += fmt.Sprintf("  %s, longest %s", plural(int64(count), "freeze"), seconds(longest))
	}
	if periods > 0 {
		text += fmt.Sprintf("  throttled in %d of %s", throttled, plural(periods, "period"))
	}
	return text
}

func watchClaim(d *report.Watch, style Style) string {
	switch d.Cause {
	case "throttled":
		return style.bad("throttled")
	case "contended":
		return style.bad("contended")
	case "none":
		return style.good("not throttled")
	}
	return style.bold("unsure")
}

// watchVerdict says it in a sentence.
func watchVerdict(d *report.Watch) string {
	frozen := "frozen for " + percent(d.FrozenShare) + " of the time"
	switch d.Cause {
	case "throttled":
		quota := "by a CPU quota"
		if d.PeriodSeconds != nil {
			quota += " with a period of " + seconds(*d.PeriodSeconds)
		}
		text := frozen + ", " + quota
		if d.Contended > 0 {
			text = fmt.Sprintf("%s: %s %s, %s without its rhythm, as on a busy host", frozen, percent(d.Throttled), quota, percent(d.Contended))
		}
		if d.FreezeCount > 0 {
			text += "; the longest freeze took " + seconds(d.Longest)
		}
		return text
	case "contended":
		if w := d.Contention.WaitShare; w != nil && *w > 0 {
			return fmt.Sprintf("no quota, but the CPUs are busy: its threads waited for %s of the time in which they could have run", percent(*w))
		}
		return "no quota, but something else takes the CPU: " + frozen
	case "none":
		return frozen
	}
	return frozen + ", for a reason that is not clear"
}

// WatchSummary writes the verdict and what it rests on.
func WatchSummary(w io.Writer, d *report.Watch, style Style) error {
	var b strings.Builder
	b.WriteString(watchClaim(d, style) + ": " + style.wrap(watchVerdict(d), visible(watchClaim(d, Style{}))+2) + "\n")
	for _, f := range watchFacts(d) {
		for i, text := range f.Texts {
			name := f.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "  %s %s\n", pad(name, 11), style.wrap(printable(text), 14))
		}
	}
	warnings(&b, d.Warnings, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// watchFacts are what the verdict rests on.
func watchFacts(d *report.Watch) (facts []htmlFact) {
	add := func(name string, texts ...string) {
		texts = slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return t == "" })
		if len(texts) > 0 {
			facts = append(facts, htmlFact{name, texts})
		}
	}
	add("why", d.Why...)
	add("limit", watchLimit(d))
	if d.FreezeCount > 0 {
		add("freezes", fmt.Sprintf("%d in %s, half of them %s and more, the longest %s", d.FreezeCount, lasting(d.Elapsed), seconds(d.Median), seconds(d.Longest)))
	} else {
		add("freezes", "none in "+lasting(d.Elapsed))
	}
	add("kernel", watchKernel(d.Kernel)...)
	add("contention", watchContention(d.Contention)...)
	h := d.Heartbeat
	add("heartbeat", fmt.Sprintf("%s, each after %s or more; a freeze is %s and more; used %s of a CPU, with all else %s",
		plural(h.Beats, "beat"), seconds(h.Interval), seconds(h.Late), percent(h.CPUShare), percent(h.AllShare)))
	if d.Ended != "" {
		add("ended", d.Ended)
	}
	return facts
}

func watchKernel(k *report.WatchKernel) (texts []string) {
	switch {
	case k == nil:
		return []string{"counts nothing that can be seen here"}
	case k.Periods > 0 && k.ThrottledPeriods > 0:
		texts = append(texts, fmt.Sprintf("throttled in %d of %s, %s summed over CPUs: %s of the time if all %d stood still together, %s if one did",
			k.ThrottledPeriods, plural(k.Periods, "period"), seconds(k.ThrottledSeconds), percent(k.AtLeast), k.CPUs, percent(k.AtMost)))
	case k.Periods > 0:
		texts = append(texts, "throttled in none of "+plural(k.Periods, "period"))
	}
	if k.Local != nil && *k.Local > 0 && k.ThrottledPeriods == 0 {
		texts = append(texts, seconds(*k.Local)+" summed over CPUs, by a level whose periods can’t be seen")
	}
	if k.PSIFull != nil && k.PSISome != nil {
		texts = append(texts, fmt.Sprintf("by its PSI all tasks waited for %s of the time, some for %s", percent(*k.PSIFull), percent(*k.PSISome)))
	}
	return texts
}

func watchContention(c report.WatchContention) (texts []string) {
	if c.WaitShare != nil {
		texts = append(texts, fmt.Sprintf("the group’s %s used %s and waited for %s of the time in which they could have run",
			plural(int64(c.Threads), "thread"), cpus(hundredths(c.RunCPUs)), percent(*c.WaitShare)))
	}
	if c.HostCPUs > 0 {
		text := fmt.Sprintf("of the host’s %s %s were in use, %s by others", cpus(float64(c.HostCPUs)), number(hundredths(c.HostBusy)), number(hundredths(c.Others)))
		if c.Steal >= 0.005 {
			text += fmt.Sprintf("; the hypervisor took %s", number(hundredths(c.Steal)))
		}
		texts = append(texts, text)
	}
	return texts
}
