package loadtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// HopelessWords say why a load says nothing about the server; "": it does.
func (d *Summary) HopelessWords() string {
	switch load.Hopeless(d.Hopeless) {
	case load.Refused:
		return "nothing listens there"
	case load.NoHost:
		return "there is no such host"
	case load.NotFound:
		return "every answer was a 404: there is no such page"
	}
	return ""
}

// HopelessCause is what the requests failed with; "": nothing more is known.
func (d *Summary) HopelessCause() string {
	if load.Hopeless(d.Hopeless) == load.NotFound || len(d.Causes) == 0 {
		return ""
	}
	return d.Causes[0].Cause
}

// HopelessError is that as an error; nil: it says something.
func (d *Summary) HopelessError() error {
	if text := d.HopelessWords(); text != "" {
		if cause := d.HopelessCause(); cause != "" {
			text += ": " + cause
		}
		return hint.With(errors.New(text), "is the server running, and is the URL right?")
	}
	return nil
}

// Words say what an SLO asks: p99 ≤ 50 ms, errors ≤ 1 %.
func (s *SLO) Words() string { return objectiveWords(s.Text) }

// HeldWords say what was asked for, without the objectives that were missed: those are listed with what they were. "" if all were.
func (s *SLO) HeldWords() string {
	if len(s.Missed) == 0 {
		return "Asked: " + s.Words()
	}
	missed := map[string]bool{}
	for _, m := range s.Missed {
		missed[objectiveWords(m.Objective)] = true
	}
	parts := slices.DeleteFunc(objectives(s.Text), func(part string) bool { return missed[part] })
	if len(parts) == 0 {
		return ""
	}
	return "Held: " + strings.Join(parts, ", ")
}

// Words say what was asked and what it was: p99 ≤ 50 ms: it was 89.2 ms.
func (m Missed) Words() string {
	objective, was := m.words()
	if was == barely || was != "" && was[0] >= '0' && was[0] <= '9' {
		was = "it was " + was
	}
	return objective + ": " + was
}

// barely is what is beyond an objective and has the same digits.
const barely = "a little more"

// words are an objective and what it was: a time, a share, or why it has no value.
func (m Missed) words() (objective, was string) {
	objective, was = objectiveWords(m.Objective), m.Was
	asked := strings.TrimPrefix(objective, "errors ≤ ")
	if d, err := time.ParseDuration(m.Was); err == nil {
		was = quantity.Latency(d.Seconds())
		if slo, err := load.ParseSLO(m.Objective); err == nil && len(slo.Latencies) == 1 {
			asked = quantity.Latency(slo.Latencies[0].Limit.Seconds())
		}
	}
	if was == asked {
		was = barely
	}
	return objective, was
}

// objectiveWords reads an SLO, or a part of it, and says what it asks.
func objectiveWords(text string) string { return strings.Join(objectives(text), ", ") }

// objectives are the parts of an SLO.
func objectives(text string) (parts []string) {
	slo, err := load.ParseSLO(text)
	if err != nil {
		return []string{text}
	}
	for _, l := range slo.Latencies {
		parts = append(parts, load.PercentileName(l.Percentile)+" ≤ "+quantity.Duration(l.Limit))
	}
	if len(parts) != 1 || text != slo.Latencies[0].String() { // a percentile alone says nothing of errors
		parts = append(parts, "errors ≤ "+quantity.Number(100*slo.Errors)+" %")
	}
	return parts
}

// LiveWords say how a load goes on.
func LiveWords(at load.Live, plan load.Plan) string {
	text := "warming up"
	if at.Elapsed >= 0 {
		text = quantity.Countdown(at.Elapsed)
		if plan.Duration > 0 {
			text += " of " + quantity.Countdown(plan.Duration)
		}
	}
	text += fmt.Sprintf("  %.0f/s", at.Rate)
	if plan.Rate > 0 {
		text += fmt.Sprintf(" of %.0f/s", plan.Rate)
	}
	if at.Last.Sent > 0 {
		text += fmt.Sprintf("  p50 %s  p99 %s", quantity.Brief(at.Last.P50.Seconds()), quantity.Brief(at.Last.P99.Seconds()))
	}
	text += fmt.Sprintf("  open %d", at.Open)
	if at.Failed > 0 {
		text += fmt.Sprintf("  failed %d", at.Failed)
	}
	return text
}

// Words say what came of a rate that was tried.
func (w Window) Words() string {
	verdict := "held"
	switch {
	case !w.Valid:
		verdict = "not valid: the generator could not keep up"
	case !w.Held:
		verdict = "failed: " + w.Missed
	}
	return fmt.Sprintf("%-7s %6s/s  p99 %-8s %s", w.Phase, strconv.FormatFloat(w.Rate, 'f', -1, 64), quantity.Brief(w.P99), verdict)
}
