package report

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A moved is what a setting does to a metric, compared with the base. tune and bench report it in the same words.
type moved struct {
	name          string
	ratio, lo, hi float64 // hi is 0: no interval
	values        string  // what it was and is: "5.6 ms → 14 ms"; "": these say nothing
}

// fit reports whether two figures, as they are written, give the change that is written next to them: no reader should find another one
// with a calculator.
func fit(from, to, ratio float64) bool {
	is := to / from
	return quantity.Change(is) == quantity.Change(ratio) && (ratio < manyTimes || quantity.Three(is) == quantity.Three(ratio))
}

// manyTimes is the ratio from which on a loss is reported as a number of times.
const manyTimes = 2

func (m moved) interval() string {
	if m.hi <= 0 {
		return ""
	}
	return quantity.Changes(m.lo, m.hi)
}

// text is such as: CPU per request −12 % (−13 to −11 %).
func (m moved) text() string {
	if m.ratio == 0 {
		return m.name + " is not known"
	}
	return m.name + " " + withInterval(quantity.Change(m.ratio), m.interval())
}

// brief is such as: CPU per request −12 %.
func (m moved) brief() string {
	if m.ratio == 0 {
		return m.text()
	}
	return m.name + " " + quantity.Change(m.ratio)
}

// loss is a trade's bad side, after a comma. One that is not shown is one that is not shown not to be there.
func (m moved) loss(shown bool) string {
	by := quantity.Change(m.ratio)
	if m.ratio >= manyTimes {
		by = quantity.Three(m.ratio) + " times as high"
	}
	if !shown {
		return fmt.Sprintf("but %s may be worse: %s", m.name, withInterval(by, m.interval()))
	}
	return fmt.Sprintf("but %s %s", m.name, withInterval(by, joined(m.values, m.interval())))
}
