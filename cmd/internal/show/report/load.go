package report

import "github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"

// Load is the document of the verb load.
type Load struct {
	Header
	Command []string `json:"command"` // that was run
	loadtest.Summary
	Search *LoadSearch `json:"find_max,omitempty"`
}

// LoadSearch is what the search for the highest rate found.
type LoadSearch struct {
	Text     string            `json:"text"`
	Also     []string          `json:"also,omitempty"` // the windows that it rests on
	Sustains float64           `json:"sustains"`       // requests a second; 0: none found
	Fails    float64           `json:"fails"`          // 0: none found
	Windows  []loadtest.Window `json:"windows"`
}

// Names for the parts of a load's document, whose types are loadtest's.
type (
	LoadTarget    = loadtest.Target
	LoadSLO       = loadtest.SLO
	LoadObjective = loadtest.Objective
	LoadMissed    = loadtest.Missed
	LoadServer    = loadtest.Server
	LoadWindow    = loadtest.Window
	CauseCount    = loadtest.CauseCount
	Latencies     = loadtest.Latencies
	LatencyValue  = loadtest.LatencyValue
	CurvePoint    = loadtest.CurvePoint
)
