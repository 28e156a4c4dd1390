package report

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
)

// LoadVerdict is the answer that is shown first.
type LoadVerdict struct {
	Word   string   // such as "SLO held"
	Held   *bool    // nil: not known
	Text   string   // what was asked of the server, what was found, or how it fared
	Missed []string // the objectives that were not held, and what was measured
}

// Verdict says whether the SLO held, or what a search found.
func (d *Load) Verdict() LoadVerdict {
	yes, no := true, false
	switch {
	case d.Search != nil:
		v := LoadVerdict{Word: "highest rate", Text: d.Search.Text}
		if d.Valid && d.Search.Sustains > 0 {
			v.Held = &yes
		}
		return v
	case d.SLO == nil:
		return LoadVerdict{Word: "no SLO was given", Text: d.Headline()}
	}
	v := LoadVerdict{Word: "SLO missed", Held: &no, Text: d.SLO.Words()}
	switch {
	case d.SLO.Held:
		v.Word, v.Held = "SLO held", &yes
	case d.Requests == 0 || d.OurFault || d.SLO.HeldFromReady:
		v.Word, v.Held = "SLO not judged", nil
	}
	for _, m := range d.SLO.Missed {
		v.Missed = append(v.Missed, m.Words())
	}
	return v
}

// Doubt says what an invalid result means.
func (d *Load) Doubt() string {
	switch {
	case !d.OurFault:
		return "The server did not take the load that was planned: these are not its latencies under it."
	case d.SLO != nil && d.SLO.Held:
		return "These figures include the generator's own lateness: without it they would be better, not worse."
	}
	return "What was measured may be the generator and not the server: don't rely on these figures."
}

// Target names the target, or how many there are.
func (d *Load) Target() string {
	switch len(d.Targets) {
	case 0:
		return "no target"
	case 1:
		return d.Targets[0].Method + " " + d.Targets[0].URL
	}
	return quantity.Plural(len(d.Targets), "target")
}

// Headline is the result in a sentence.
func (d *Load) Headline() string {
	switch {
	case d.Requests == 0:
		return "No request was counted."
	case d.Response.Count == 0:
		return "No request was answered, so there are no latencies."
	case d.Failed == d.Requests && len(d.Statuses) == 0:
		return "No request was answered: the latencies are how long each was waited for."
	}
	tail, failed := d.Response.Tail(), "none"
	if d.Failed > 0 {
		failed = quantity.Count(d.Failed)
	}
	return fmt.Sprintf("Half of the responses within %s, %s %s, %s of %s failed.",
		quantity.Latency(d.Response.P50), tail.Name, quantity.Latency(tail.Seconds), failed, quantity.Plural(d.Requests, "request"))
}

// Remarks are what readers need to know to understand the figures.
func (d *Load) Remarks() (texts []string) {
	if d.Stopped {
		text := "Stopped after " + quantity.Lasting(d.Elapsed)
		if d.Planned > 0 {
			text += " of " + quantity.Lasting(d.Planned)
		}
		texts = append(texts, text+": the figures are of the time until then.")
	}
	if d.Search != nil && d.Requests > 0 {
		text := "The latencies are those of one window"
		if d.RateAsked != nil {
			text += " at " + quantity.PerSecond(*d.RateAsked)
		}
		texts = append(texts, text+".")
	}
	if d.SLO != nil && d.SLO.HeldFromReady && !d.SLO.Held && d.Search == nil {
		texts = append(texts, "Without what the generator was late by itself the SLO would have been held.")
	}
	if d.Loop == "closed" && d.Search == nil {
		texts = append(texts, "A closed loop slows down with the server, so it hides the server's standstills: few requests are sent during them. --rate shows them.")
	}
	return texts
}

// LatencyNotes say which requests are in the latencies.
func (d *Load) LatencyNotes() (notes []string) {
	if without := d.Requests - d.Response.Count; without > 0 {
		notes = append(notes, fmt.Sprintf("The latencies are of %s: the other %s failed at once, which does not count as fast.",
			quantity.Plural(d.Response.Count, "request"), quantity.Count(without)))
	}
	if waited := d.Timeouts + d.Unfinished; waited > 0 {
		are := "are"
		if waited == 1 {
			are = "is"
		}
		notes = append(notes, fmt.Sprintf("Among them %s %s without an answer, with the time that was waited.", are, quantity.Count(waited)))
	}
	return notes
}

// TooFew says which percentile there are too few requests for; "": none.
func TooFew(l loadtest.Latencies) string {
	for _, v := range l.Values() {
		if v.Percentile > 0 && !l.Tell(v.Percentile) {
			return fmt.Sprintf("fewer than %d requests are beyond it: %s needs %s", loadtest.BeyondLeast, v.Name, quantity.Count(loadtest.Needs(v.Percentile)))
		}
	}
	return ""
}

// NewLoadSearch makes the part of a document about a search for the highest rate.
func NewLoadSearch(a search.Answer, windows []loadtest.Window) *LoadSearch {
	return &LoadSearch{Text: answerText(a), Sustains: a.Sustained.Rate, Fails: a.Failing.Rate, Windows: windows}
}

// answerText is the answer of a search in a line: sustains 840/s (5 of 5 windows), fails 924/s (4 of 5).
func answerText(a search.Answer) string {
	switch a.Verdict {
	case search.Sustains:
		return fmt.Sprintf("sustains %s, fails %s", holds(a.Sustained), fails(a.Failing))
	case search.AtLeast:
		return "sustains at least " + holds(a.Sustained)
	case search.None:
		return fmt.Sprintf("fails even %s (%d of %d windows)", rateText(a.Failing.Rate), a.Failing.Failed(), a.Failing.Of)
	case search.Unconfirmed:
		return soFar(a) + "; this was not confirmed"
	case search.Generator:
		return fmt.Sprintf("the generator's limit is reached at %s; %s", rateText(a.Beyond), soFar(a))
	default:
		return fmt.Sprintf("interrupted after %s; %s, unconfirmed", quantity.Plural(a.Windows, "window"), soFar(a))
	}
}

// soFar says how far the search has come.
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
	return fmt.Sprintf("%s (%d of %s)", rateText(t.Rate), t.Held, quantity.Plural(t.Of, "window"))
}

// fails writes 924/s (4 of 5): so many failed.
func fails(t search.Tally) string {
	return fmt.Sprintf("%s (%d of %d)", rateText(t.Rate), t.Failed(), t.Of)
}

// rateText writes a rate as it was asked for: 840/s.
func rateText(rate float64) string { return short(rate) + "/s" }
