package render

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// The strip is a drawing of characters: all periods of a trace, some of them together in a row, one below the other. What
// has the rhythm of the period stands in a column, and what has none is spread.
const (
	stripRows  = 16 // at most
	stripSlots = 50 // of a row, at most
	stripLeft  = 9  // two blanks, the time, and a blank
	stripRight = 8  // the share after it
)

var (
	stripLevels = []rune("░▒▓█")
	stripRan    = '·'
)

// traceStrip draws the freezes; nothing if there are none that matter, or the document's numbers are beyond measure.
func traceStrip(d *report.Trace, style Style, width int) string {
	period, phase, named := traceFold(d)
	if len(d.Freezes) == 0 || d.Cause == "none" && d.Confidence == "high" || !(d.Wall > 0) || d.Wall/period > 1e5 {
		return ""
	}
	slots := max(10, min(stripSlots, width-stripLeft-stripRight))
	slots -= slots % 2
	first := math.Mod(phase, period) - period // where the first row begins
	if first <= -period {
		first = 0
	}
	periods := int(math.Ceil((d.Wall-first)/period - 1e-9))
	each := (periods + stripRows - 1) / stripRows
	var b strings.Builder
	_, was := traceStill(d)
	text := fmt.Sprintf("Folded at %s: %s a row, %s a column. %c it ran, %c %s in all of them.",
		seconds(period), plural(int64(each), "period"), seconds(period/float64(slots)), stripRan, stripLevels[len(stripLevels)-1], was)
	if named {
		text += " At the right edge the quota is refilled."
	} else {
		text += " A quota of that period would stand as a column."
	}
	b.WriteString("\n" + style.dim(style.wrap(text, 0)) + "\n")
	for row := 0; row*each < periods; row++ {
		start := first + float64(row*each)*period
		b.WriteString(stripRow(d, style, start, period, each, slots) + "\n")
	}
	axis := "0"
	middle, end := seconds(period/2), seconds(period)
	axis += padLeft(middle, slots/2+len(middle)/2-1)
	axis += padLeft(end, slots-visible(axis))
	b.WriteString(strings.Repeat(" ", stripLeft) + style.dim(axis) + "\n")
	return b.String()
}

// traceFold is the period at which a trace is drawn: that of the quota, or the usual one.
func traceFold(d *report.Trace) (period, phase float64, quota bool) {
	if d.Period != nil && *d.Period >= 1e-4 {
		period = *d.Period
	} else {
		period = usualPeriod
	}
	if d.Cause == "throttled" && d.Rhythm.Period > 0 && math.Abs(d.Rhythm.Period-period) < 1e-6 {
		return period, max(0, d.Rhythm.Phase), true
	}
	return period, 0, false
}

// stripRow draws some periods on top of each other.
func stripRow(d *report.Trace, style Style, start, period float64, each, slots int) string {
	frozen, seen := make([]float64, slots), make([]float64, slots)
	var all, of float64
	for p := range each {
		for i := range slots {
			from := start + period*(float64(p)+float64(i)/float64(slots))
			to := from + period/float64(slots)
			if from, to = max(from, 0), min(to, d.Wall); from >= to {
				continue
			}
			in := traceFrozen(d.Freezes, from, to)
			frozen[i], seen[i] = frozen[i]+in, seen[i]+to-from
			all, of = all+in, of+to-from
		}
	}
	var b strings.Builder
	b.WriteString("  " + padLeft(seconds(math.Round(max(0, start)*100)/100), stripLeft-3) + " ")
	var run []rune // of slots that are painted alike
	runFrozen := false
	flush := func() {
		if runFrozen {
			b.WriteString(style.bad(string(run)))
		} else {
			b.WriteString(style.dim(string(run)))
		}
		run = run[:0]
	}
	for i := range slots {
		mark, isFrozen := ' ', false
		if seen[i] > 0 {
			level := int(math.Ceil(frozen[i]/seen[i]*float64(len(stripLevels)) - 0.2))
			if mark = stripRan; level > 0 {
				mark, isFrozen = stripLevels[min(level, len(stripLevels))-1], true
			}
		}
		if isFrozen != runFrozen {
			flush()
			runFrozen = isFrozen
		}
		run = append(run, mark)
	}
	flush()
	if of > 0 {
		b.WriteString(" " + padLeft(percent(math.Round(all/of*100)/100), stripRight-2))
	}
	return b.String()
}

// traceFrozen is how much of a time was frozen.
func traceFrozen(freezes []report.TraceFreeze, start, end float64) (sum float64) {
	first := sort.Search(len(freezes), func(i int) bool { return freezes[i].End > start })
	for _, f := range freezes[first:] {
		if f.Start >= end {
			break
		}
		sum += max(0, min(f.End, end)-max(f.Start, start))
	}
	return min(sum, end-start)
}
