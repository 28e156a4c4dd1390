package report

import "github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"

// LoadTime is a load over time.
type LoadTime struct {
	End     float64 // seconds
	Moments []LoadMoment

	// The highest values of the moments. Throttled and Failed are -1 if they are not known.
	LowestRate, Rate, P99, Throttled, Failed float64
}

// LoadMoment is a step of the axis; -1 is a value that is not known.
type LoadMoment struct {
	From, To         float64
	Rate             float64 // requests that were due, a second
	P99, ServiceP99  float64
	Throttled        float64 // share of the server's periods
	Failed           float64 // share of the requests
	ThrottledPeriods int64
	Periods          int64
}

// momentsLeast is how many steps are worth drawing.
const momentsLeast = 3

// OverTime is the load over time; nil if it was too short.
func (d *Load) OverTime() *LoadTime {
	if len(d.Axis) < momentsLeast {
		return nil
	}
	last := d.Axis[len(d.Axis)-1]
	t := &LoadTime{End: last.At + last.Length, Throttled: -1, Failed: -1}
	if !(t.End > 0) {
		return nil
	}
	covered, until := t.End, d.Planned // the load may have ended within the last step
	if d.Stopped {
		until = d.Elapsed
	}
	if until > last.At {
		covered = min(covered, until)
	}
	for _, s := range d.Axis {
		m := momentOf(s, covered)
		t.Moments = append(t.Moments, m)
		if m.Rate > 0 && (t.LowestRate == 0 || m.Rate < t.LowestRate) {
			t.LowestRate = m.Rate
		}
		t.Rate, t.P99 = max(t.Rate, m.Rate), max(t.P99, m.P99)
		t.Throttled, t.Failed = max(t.Throttled, m.Throttled), max(t.Failed, m.Failed)
	}
	return t
}

func momentOf(s loadtest.Step, covered float64) LoadMoment {
	m := LoadMoment{From: s.At, To: s.At + s.Length, Rate: -1, P99: -1, ServiceP99: -1, Throttled: -1, Failed: -1}
	if length := min(s.Length, covered-s.At); length > s.Length/10 && length > 0 { // the rate of less would be chance
		m.Rate = float64(s.Sent) / length
	}
	if s.P99 > 0 {
		m.P99 = s.P99
	}
	if s.ServiceP99 > 0 {
		m.ServiceP99 = s.ServiceP99
	}
	if s.Periods != nil && s.Throttled != nil && *s.Periods > 0 {
		m.Periods, m.ThrottledPeriods = *s.Periods, *s.Throttled
		m.Throttled = part(m.ThrottledPeriods, m.Periods)
	}
	if s.Sent > 0 {
		m.Failed = part(s.Failed, s.Sent)
	}
	return m
}

// part is a part of a whole, between 0 and 1 even if the two counts were read at different times.
func part(n, of int64) float64 { return max(0, min(float64(n)/float64(of), 1)) }
