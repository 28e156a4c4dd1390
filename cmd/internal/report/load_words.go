package report

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/search"
)

// NewLoadSearch says what a search for the highest rate has found, and in which windows.
func NewLoadSearch(a search.Answer, windows []LoadWindow) *LoadSearch {
	return &LoadSearch{Text: answerText(a), Sustains: a.Sustained.Rate, Fails: a.Failing.Rate, Windows: windows}
}

// answerText is the answer in a line: sustains 840/s (5 of 5 windows), fails 924/s (4 of 5).
func answerText(a search.Answer) string {
	switch a.Verdict {
	case search.Sustains:
		if a.FellBack {
			return fmt.Sprintf("sustains %s; the search had found %s, which fails (%d of %d)",
				holds(a.Sustained), rateText(a.Failing.Rate), a.Failing.Failed(), a.Failing.Of)
		}
		return fmt.Sprintf("sustains %s, fails %s", holds(a.Sustained), fails(a.Failing))
	case search.AtLeast:
		text := "sustains at least " + holds(a.Sustained)
		if a.Failing.Of > 0 {
			text += fmt.Sprintf(", and %s at times (%d of %d)", rateText(a.Failing.Rate), a.Failing.Held, a.Failing.Of)
		}
		return text
	case search.None:
		return fmt.Sprintf("fails even %s (%d of %d windows)", rateText(a.Failing.Rate), a.Failing.Failed(), a.Failing.Of)
	case search.Undecided:
		return undecidedText(a)
	case search.Unconfirmed:
		return soFar(a) + "; this was not confirmed"
	case search.Generator:
		return fmt.Sprintf("the generator's limit is reached at %s; %s", rateText(a.Beyond), soFar(a))
	default:
		return fmt.Sprintf("interrupted after %s; %s, unconfirmed", counted(a.Windows, "window"), soFar(a))
	}
}

func undecidedText(a search.Answer) string {
	high := fmt.Sprintf("%s (held %d of %d windows)", rateText(a.Failing.Rate), a.Failing.Held, a.Failing.Of)
	if a.Sustained.Of == 0 {
		return "undecided at " + high
	}
	return fmt.Sprintf("undecided between %s (held %d of %d windows) and %s",
		rateText(a.Sustained.Rate), a.Sustained.Held, a.Sustained.Of, high)
}

// soFar tells how far the search has come.
func soFar(a search.Answer) string {
	text := "no rate has held"
	if a.Sustained.Rate > 0 {
		text = "the server holds at least " + holds(a.Sustained)
	}
	if a.Failing.Rate > 0 {
		text += ", fails " + fails(a.Failing)
	}
	return text
}

// holds writes 840/s (5 of 5 windows).
func holds(t search.Tally) string {
	return fmt.Sprintf("%s (%d of %s)", rateText(t.Rate), t.Held, counted(t.Of, "window"))
}

// fails writes 924/s (4 of 5): so many failed.
func fails(t search.Tally) string {
	return fmt.Sprintf("%s (%d of %d)", rateText(t.Rate), t.Failed(), t.Of)
}

// rateText writes a rate as it was asked for: 840/s.
func rateText(rate float64) string { return short(rate) + "/s" }
