package loadtest

import (
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// Words say what an SLO asks: p99 ≤ 50 ms, errors ≤ 1 %.
func (s *SLO) Words() string { return objectiveWords(s.Text) }

// Words say what was asked and what it was: p99 ≤ 50 ms: it was 89.2 ms.
func (m Missed) Words() string {
	objective, was := m.words()
	if was != "" && was[0] >= '0' && was[0] <= '9' {
		was = "it was " + was
	}
	return objective + ": " + was
}

// words are an objective and what it was: a time, a share, or why there is none.
func (m Missed) words() (objective, was string) {
	if d, err := time.ParseDuration(m.Was); err == nil {
		return objectiveWords(m.Objective), quantity.Latency(d.Seconds())
	}
	return objectiveWords(m.Objective), m.Was
}

// objectiveWords reads an SLO, or a part of it, and says what it asks.
func objectiveWords(text string) string {
	slo, err := load.ParseSLO(text)
	if err != nil {
		return text
	}
	var parts []string
	for _, l := range slo.Latencies {
		parts = append(parts, load.PercentileName(l.Percentile)+" ≤ "+quantity.Duration(l.Limit))
	}
	if len(parts) != 1 || text != slo.Latencies[0].String() { // a percentile alone says nothing of errors
		parts = append(parts, "errors ≤ "+quantity.Number(100*slo.Errors)+" %")
	}
	return strings.Join(parts, ", ")
}
