// Package search answers: what should be measured next, and what do the measurements say? In goes one observation after the
// other, out comes the next step, and at any time the answer so far. It measures nothing itself: no clock, no network,
// no goroutine. That is why thousands of searches can be tried in a test. Nor does it make sentences: an answer is data, and
// package report has the words.
package search

import (
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// round makes a rate one that a search asks for.
func round(rate float64) float64 { return quantity.Significant(rate, 3) }

// perSecond writes a rate: 840/s.
func perSecond(rate float64) string {
	return strconv.FormatFloat(rate, 'f', -1, 64) + "/s"
}
