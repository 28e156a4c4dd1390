package lab

import "strconv"

// A Measure is a metric that we take ourselves, by the name that it has among a run's figures. Anything else there was
// reported by the program itself, such as a Go benchmark with a unit of its own: only its unit is known.
type Measure string

// The measures. Their names are as Go benchmarks, and the Go project's own, have them.
const (
	P50  Measure = "p50-latency-ns" // of the response time
	P90  Measure = "p90-latency-ns"
	P99  Measure = "p99-latency-ns"
	P999 Measure = "p999-latency-ns"

	// ReadyTail is of a window: the geometric mean of its seconds' p99s, from when requests were ready to be sent.
	ReadyTail Measure = "tail-latency-ns"

	WallTime Measure = "wall-sec" // of the whole process
	OpTime   Measure = "ns/op"

	CPUTime       Measure = "cpu-sec" // of the whole process
	CPUPerOp      Measure = "cpu-ns/op"
	CPUPerRequest Measure = "cpu-ns/req"

	RequestRate Measure = "req/s"
	ErrorShare  Measure = "errors-%"

	ThrottledShare Measure = "throttled-%"
	ThrottledTime  Measure = "throttled-sec"
	Standstill     Measure = "standstill-sec"

	GCRate  Measure = "gc/s"
	GCShare Measure = "gc-cpu-%"
	WaitP50 Measure = "sched-p50-ns"
	WaitP99 Measure = "sched-p99-ns"

	PeakMemory  Measure = "peak-RSS-bytes"
	ProgramFile Measure = "program-file-bytes" // how much of it is in memory
)

// A Kind is what kind of thing a metric is.
type Kind string

// The kinds.
const (
	Unknown      Kind = ""              // anything but a Measure
	ResponseTime Kind = "response time" // a percentile, in seconds
	Duration     Kind = "duration"      // of a run or an operation, in seconds
	TotalCPU     Kind = "CPU time"      // of a run, in seconds
	UnitCPU      Kind = "CPU of a unit" // of work: CPU seconds
	Rate         Kind = "rate"          // of work, a second
	Errors       Kind = "errors"        // a share of the requests
	Throttled    Kind = "throttled"     // a share of the periods
	Stall        Kind = "stall"         // seconds in which nothing ran
	Collections  Kind = "collections"   // garbage collections a second
	Collecting   Kind = "collecting"    // a share of the CPU time
	Waiting      Kind = "waiting"       // of goroutines for a P, in seconds
	Memory       Kind = "memory"        // bytes
)

// The directions in which a metric gets better.
const (
	Lower  = "lower"
	Higher = "higher"
)

// measures holds what is known of each: its kind, which direction is better, and how many of its unit are 1 of the
// kind's.
var measures = map[Measure]struct {
	kind   Kind
	better string
	per    float64
}{
	P50:            {ResponseTime, Lower, 1e9},
	P90:            {ResponseTime, Lower, 1e9},
	P99:            {ResponseTime, Lower, 1e9},
	P999:           {ResponseTime, Lower, 1e9},
	ReadyTail:      {ResponseTime, Lower, 1e9},
	WallTime:       {Duration, Lower, 1},
	OpTime:         {Duration, Lower, 1e9},
	CPUTime:        {TotalCPU, Lower, 1},
	CPUPerOp:       {UnitCPU, Lower, 1e9},
	CPUPerRequest:  {UnitCPU, Lower, 1e9},
	RequestRate:    {Rate, Higher, 1},
	ErrorShare:     {Errors, Lower, 100},
	ThrottledShare: {Throttled, Lower, 100},
	ThrottledTime:  {Stall, Lower, 1},
	Standstill:     {Stall, Lower, 1},
	GCRate:         {Collections, "", 1},
	GCShare:        {Collecting, Lower, 100},
	WaitP50:        {Waiting, Lower, 1e9},
	WaitP99:        {Waiting, Lower, 1e9},
	PeakMemory:     {Memory, Lower, 1},
	ProgramFile:    {Memory, Lower, 1},
}

// Kind is what kind of thing it is; Unknown for a name that is not a Measure.
func (m Measure) Kind() Kind { return measures[m].kind }

// Metric describes it in a document.
func (m Measure) Metric(about string) Metric {
	return Metric{Unit: string(m), Better: measures[m].better, About: about}
}

// Of looks it up among a run's figures, in its kind's unit: seconds, a share, bytes, or a number a second.
func (m Measure) Of(figures map[string]float64) (v float64, known bool) {
	v, known = figures[string(m)]
	if per := measures[m].per; per > 0 {
		v /= per
	}
	return v, known
}

// In is the same, and 0 where it isn't known.
func (m Measure) In(figures map[string]float64) float64 {
	v, _ := m.Of(figures)
	return v
}

// Set files a value that is in its kind's unit, without the digits that a float64 can't hold: 0.07 is 7 %, and not
// 7.000000000000001.
func (m Measure) Set(figures map[string]float64, v float64) {
	v *= measures[m].per
	if short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 15, 64), 64); err == nil {
		v = short
	}
	figures[string(m)] = v
}
