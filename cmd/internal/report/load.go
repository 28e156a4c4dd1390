package report

import "github.com/unthrottle/unthrottle/cmd/internal/loadtest"

// Load is the document of the verb load.
type Load struct {
	Header
	Command []string `json:"command"` // that repeats it
	loadtest.Summary
	Search *LoadSearch `json:"find_max,omitempty"`
}

// LoadSearch is what looking for the highest rate found.
type LoadSearch struct {
	Text     string       `json:"text"`
	Sustains float64      `json:"sustains"` // requests a second; 0: none found
	Fails    float64      `json:"fails"`    // 0: none found
	Windows  []LoadWindow `json:"windows"`
}

// The parts of a load's document.
type (
	LoadTarget    = loadtest.Target
	LoadStep      = loadtest.Step
	LoadSLO       = loadtest.SLO
	LoadObjective = loadtest.Objective
	LoadMissed    = loadtest.Missed
	LoadServer    = loadtest.Server
	LoadWindow    = loadtest.Window
	StatusCount   = loadtest.StatusCount
	CauseCount    = loadtest.CauseCount
	Latencies     = loadtest.Latencies
	CurvePoint    = loadtest.CurvePoint
)

// LoadWorst is what is worst in some steps of the axis; -1: not known.
type LoadWorst struct {
	P99       float64 // the highest
	Throttled float64 // share of the periods
	Failed    float64 // share of the requests
}

// Worst looks through steps of the axis.
func Worst(steps []LoadStep) LoadWorst {
	w := LoadWorst{-1, -1, -1}
	var periods, throttled, sent, failed int64
	for _, s := range steps {
		if s.P99 > 0 {
			w.P99 = max(w.P99, s.P99)
		}
		if s.Periods != nil && s.Throttled != nil {
			periods, throttled = periods+*s.Periods, throttled+*s.Throttled
		}
		sent, failed = sent+s.Sent, failed+s.Failed
	}
	if periods > 0 {
		w.Throttled = float64(throttled) / float64(periods)
	}
	if sent > 0 {
		w.Failed = float64(failed) / float64(sent)
	}
	return w
}
