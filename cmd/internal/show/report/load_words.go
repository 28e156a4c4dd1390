package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// LoadVerdict is the answer that is shown first.
type LoadVerdict struct {
	Word   string   // such as "SLO held"
	Held   *bool    // nil: not known
	Text   string   // what was found, or how it fared
	Also   []string // more of that, and what was asked
	Missed []string // the objectives that were not held, and what was measured
}

// Verdict says whether the SLO held, or what a search found.
func (d *Load) Verdict() LoadVerdict {
	yes, no := true, false
	switch {
	case d.Search != nil:
		v := LoadVerdict{Word: "highest rate", Text: d.Search.Text, Also: d.Search.Also}
		if d.Valid && d.Search.Sustains > 0 {
			v.Held = &yes
		}
		return v
	case d.SLO == nil:
		text, also := d.headline()
		return LoadVerdict{Word: "no SLO was given", Text: text, Also: also}
	}
	v := LoadVerdict{Word: "SLO missed", Held: &no, Text: d.tail(), Also: d.median()}
	switch behind := d.overload(); {
	case behind == "":
	case d.SLO.Held: // which asked for little
		v.Also = append([]string{behind}, v.Also...)
	default:
		v.Text, v.Also = behind, append([]string{v.Text}, v.Also...)
	}
	if held := d.SLO.HeldWords(); held != "" {
		v.Also = append(v.Also, held+".")
	}
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

// Void says why a result is invalid, in few words.
func (d *Load) Void() string {
	if d.OurFault {
		return "the generator did not send as planned"
	}
	return "the server did not take the load that was planned"
}

// Doubt says what an invalid result means.
func (d *Load) Doubt() string {
	switch {
	case !d.OurFault:
		return "These are not its latencies under that load."
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

// headline is the result in a sentence, and more of it. If nothing failed, that can wait.
func (d *Load) headline() (text string, also []string) {
	if behind := d.overload(); behind != "" {
		return behind, append([]string{d.tail()}, d.median()...)
	}
	if d.noLatencies() != "" || d.Failed > 0 {
		return d.tail(), d.median()
	}
	tail := d.Response.Tail()
	text = fmt.Sprintf("Half of the responses within %s, %s %s.", quantity.Latency(d.Response.P50), tail.Name, quantity.Latency(tail.Seconds))
	return text, []string{fmt.Sprintf("None of %s failed.", quantity.Plural(d.Requests, "request"))}
}

// overload says that the server could not keep up with the rate, which is why its latencies are what they are; "": it could, or that is not
// known.
func (d *Load) overload() string {
	if d.RateAsked == nil || d.Search != nil || d.Stopped || d.OurFault || d.noLatencies() != "" {
		return ""
	}
	if d.Done() > 0.95**d.RateAsked || !d.queueGrew() {
		return ""
	}
	text := fmt.Sprintf("It can't keep up: %s of %s", quantity.PerSecond(d.Done()), quantity.PerSecond(*d.RateAsked))
	if s := d.Server; s != nil && s.ThrottledShare != nil && *s.ThrottledShare > 0.1 {
		text += fmt.Sprintf("; %s of periods throttled", quantity.Share(*s.ThrottledShare))
	}
	return text + "."
}

// Done is how many requests a second came to an end before the client stopped waiting.
func (d *Load) Done() float64 {
	if d.Requests == 0 {
		return d.Rate
	}
	return d.Rate * float64(d.Requests-d.Timeouts-d.Unfinished) / float64(d.Requests)
}

// queueGrew reports whether requests that came late had to wait for much longer than those that came early, or until they timed out. A
// server that is merely slow finishes late as well, but it is as slow in the beginning.
func (d *Load) queueGrew() bool {
	quarter := len(d.Axis) / 4
	if quarter == 0 {
		return false
	}
	median := func(steps []loadtest.Step) float64 {
		var waits []float64
		for _, s := range steps {
			waits = append(waits, s.P50)
		}
		slices.Sort(waits)
		return waits[len(waits)/2]
	}
	first, last := median(d.Axis[:quarter]), median(d.Axis[len(d.Axis)-quarter:])
	return last > 2*first || d.Timeout > 0 && last > 0.9*d.Timeout
}

// noLatencies says why no latencies say anything; "": some do.
func (d *Load) noLatencies() string {
	switch {
	case d.Requests == 0:
		return "No request was counted."
	case d.Response.Count == 0:
		return "No request was answered, so there are no latencies."
	case d.Failed == d.Requests && len(d.Statuses) == 0:
		return "No request was answered: the latencies are how long each waited."
	}
	return ""
}

// tail is what the slowest had, and how many failed.
func (d *Load) tail() string {
	if text := d.noLatencies(); text != "" {
		return text
	}
	tail, failed := d.Response.Tail(), "none"
	if d.Failed > 0 {
		failed = quantity.Count(d.Failed)
	}
	return fmt.Sprintf("%s %s, %s of %s failed.", tail.Name, quantity.Latency(tail.Seconds), failed, quantity.Plural(d.Requests, "request"))
}

// median is what half of them had, if it is known.
func (d *Load) median() []string {
	if d.noLatencies() != "" {
		return nil
	}
	return []string{fmt.Sprintf("Half of the responses within %s.", quantity.Latency(d.Response.P50))}
}

// notEmpty is a list of a text, or an empty one.
func notEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
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
		texts = append(texts, "Without the generator's own lateness the SLO would have been held.")
	}
	if d.Search == nil && d.paused() {
		texts = append(texts, d.disturbed()+d.without()+".")
	}
	if d.Loop == "closed" && d.Search == nil {
		texts = append(texts, "A closed loop slows down with the server, so it hides the server's standstills: few requests are sent during them. --rate shows them.")
	}
	return texts
}

// MachineText says when the machine itself stood still; "": that is not known. What the tail is without that is a remark, where it matters.
func (d *Load) MachineText() string {
	m := d.Machine
	switch {
	case m == nil:
		return ""
	case d.paused():
		return d.stood() + d.busy(", ")
	}
	return d.stood() + d.busy(", ") + d.without()
}

// disturbed says what was not the server's doing.
func (d *Load) disturbed() string {
	if busy := d.busy("Beside it "); busy != "" && d.Machine.Pauses == 0 {
		return busy
	}
	return "The machine itself " + d.stood() + d.busy(", and ")
}

// stood says how often the machine stood still.
func (d *Load) stood() string {
	if d.Machine.Pauses == 0 {
		return "never stood still"
	}
	return fmt.Sprintf("stood still %s, %s at most", times(d.Machine.Pauses), quantity.Latency(d.Machine.Longest))
}

// busy says for how long other programs used the CPUs; "": they did not, or that is not known.
func (d *Load) busy(joined string) string {
	o := d.Machine.Others
	if o == nil || o.Busy == 0 {
		return ""
	}
	return joined + "other programs were busy for " + quantity.Latency(o.Busy)
}

// without says what the tail is without that.
func (d *Load) without() string {
	m := d.Machine
	if m.LeftOut() == 0 || m.Calm.Count == 0 || d.Failed > 0 { // of those that failed it has the timeout
		return ""
	}
	tail := m.Calm.Tail()
	return fmt.Sprintf("; without the %s (%s) that were due then, and what the generator was late by, %s is %s",
		quantity.Plural(m.LeftOut(), "request"), quantity.Part(m.LeftOut(), d.Requests), tail.Name, quantity.Latency(tail.Seconds))
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// notable is how much smaller a tail must be without what was left out for the answer to say so.
const notable = 0.1

// paused says that the machine's pauses, or other programs, are a part of the tail.
func (d *Load) paused() bool {
	m := d.Machine
	if m == nil || m.LeftOut() == 0 || m.Calm.Count == 0 || d.Failed > 0 {
		return false
	}
	calm, all := m.Calm.Tail(), d.FromReady.Tail()
	return calm.Name == all.Name && calm.Seconds < (1-notable)*all.Seconds
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

// TooFew says which percentile has too few requests; "": none.
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
	return &LoadSearch{Text: answerText(a), Also: tallies(a), Sustains: a.Sustained.Rate, Fails: a.Failing.Rate, Windows: windows}
}

// answerText is the answer of a search in a line: sustains 840/s, fails 924/s.
func answerText(a search.Answer) string {
	tried := a.Sustained.Rate > 0 || a.Failing.Rate > 0
	switch {
	case tried:
	case a.Verdict == search.Unconfirmed:
		return "not found: the time was too short to try a rate"
	case a.Verdict == search.Unknown:
		return "not found: interrupted after " + quantity.Plural(a.Windows, "window")
	}
	switch a.Verdict {
	case search.Sustains:
		return fmt.Sprintf("sustains %s, fails %s", rateText(a.Sustained.Rate), rateText(a.Failing.Rate))
	case search.AtLeast:
		return "sustains at least " + rateText(a.Sustained.Rate)
	case search.None:
		return "fails even " + rateText(a.Failing.Rate)
	case search.Unconfirmed:
		return soFar(a) + "; this was not confirmed"
	case search.Generator:
		return fmt.Sprintf("%s; the generator's limit is %s", soFar(a), rateText(a.Beyond))
	default:
		return fmt.Sprintf("%s; interrupted after %s", soFar(a), quantity.Plural(a.Windows, "window"))
	}
}

// soFar says how far the search has come.
func soFar(a search.Answer) string {
	text := "no rate has held"
	if a.Sustained.Rate > 0 {
		text = "at least " + rateText(a.Sustained.Rate)
	}
	if a.Failing.Rate > 0 {
		text += ", fails " + rateText(a.Failing.Rate)
	}
	return text
}

// tallies say what an answer rests on.
func tallies(a search.Answer) []string {
	var parts []string
	if t := a.Sustained; t.Of > 0 {
		parts = append(parts, fmt.Sprintf("at %s %d of %s held", rateText(t.Rate), t.Held, quantity.Plural(t.Of, "window")))
	}
	if t := a.Failing; t.Of > 0 {
		parts = append(parts, fmt.Sprintf("at %s %d of %s failed", rateText(t.Rate), t.Failed(), quantity.Plural(t.Of, "window")))
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{capital(strings.Join(parts, ", ")) + "."}
}

// rateText writes a rate as it was asked for: 840/s.
func rateText(rate float64) string { return short(rate) + "/s" }
