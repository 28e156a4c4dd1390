package report

// LoadTime is a load over time.
type LoadTime struct {
	End     float64 // seconds
	Moments []LoadMoment

	// The highest of what the moments say. Throttled and Failed are -1 where nothing is known of them.
	LowestRate, Rate, P99, Throttled, Failed float64
}

// LoadMoment is what a step of the axis says; -1: it says nothing.
type LoadMoment struct {
	From, To         float64
	Rate             float64 // requests that were due, a second
	P99, ServiceP99  float64
	Throttled        float64 // share of the server's periods
	Failed           float64 // share of the requests
	ThrottledPeriods int64
	Periods          int64
}

// momentsLeast is how many steps are worth a look.
const momentsLeast = 3

// OverTime tells how it went; nil if there is not enough of it.
func (d *Load) OverTime() *LoadTime {
	if len(d.Axis) < momentsLeast {
		return nil
	}
	last := d.Axis[len(d.Axis)-1]
	t := &LoadTime{End: last.At + last.Length, Throttled: -1, Failed: -1}
	if !(t.End > 0) {
		return nil
	}
	covered := d.covered()
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

// covered is until when there was load: it may have ended within the last step.
func (d *Load) covered() float64 {
	last := d.Axis[len(d.Axis)-1]
	end := last.At + last.Length
	switch {
	case d.Stopped && d.Elapsed > last.At:
		return min(end, d.Elapsed)
	case d.Planned > last.At:
		return min(end, d.Planned)
	}
	return end
}

func momentOf(s LoadStep, covered float64) LoadMoment {
	m := LoadMoment{From: s.At, To: s.At + s.Length, Rate: -1, P99: -1, ServiceP99: -1, Throttled: -1, Failed: -1}
	if length := min(s.Length, covered-s.At); length > s.Length/10 && length > 0 { // of less the rate would be chance
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

// part is a part of a whole, from 0 to 1 also if the counts were read at different times.
func part(n, of int64) float64 { return max(0, min(float64(n)/float64(of), 1)) }
