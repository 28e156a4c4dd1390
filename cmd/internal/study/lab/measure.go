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

// A Kind is what kind of thing a metric is, where that matters.
type Kind string

// The kinds.
const (
	Other        Kind = ""
	ResponseTime Kind = "response time" // a percentile
	Duration     Kind = "duration"      // of a run or an operation
	CPU          Kind = "CPU time"      // of a run, or of a unit of work
	Runtime      Kind = "runtime"       // what Go's runtime reports about itself
)

// The directions in which a metric gets better.
const (
	Lower  = "lower"
	Higher = "higher"
)

// An Entry is what is known of a measure.
type Entry struct {
	Measure
	Kind   Kind
	Better string  // Lower, Higher or "": neither
	Per    float64 // how many of its unit are 1 s, the whole of a share, 1 byte or 1 of what is counted

	Display
}

// A Display is where a measure is shown, and how. What a plan names itself is described by the plan.
type Display struct {
	Bench string // what it is, in a document of bench; "": that says nothing of it
	Tune  string // the same in one of tune; "": the same words

	Title               string // of the column that explains the figures; of a percentile what it is called
	BenchRank, TuneRank int    // of this column, see sheet.Column; 0: the verb's tables have none
}

// Measures has an entry for each measure, in the order of documents and columns.
var Measures = []Entry{
	{P50, ResponseTime, Lower, 1e9, Display{Tune: "from when requests were ready to be sent to their answers, median", Title: "p50"}},
	{P90, ResponseTime, Lower, 1e9, Display{Tune: "the same, 90th percentile", Title: "p90"}},
	{P99, ResponseTime, Lower, 1e9, Display{Tune: "the same, 99th percentile", Title: "p99"}},
	{P999, ResponseTime, Lower, 1e9, Display{Tune: "the same, 99.9th percentile", Title: "p99.9"}},
	{ReadyTail, ResponseTime, Lower, 1e9, Display{Tune: "the same, 99th percentile of typical seconds: the geometric mean of theirs", Title: "p99"}},

	{WallTime, Duration, Lower, 1, Display{Bench: "wall time of the whole process", Tune: "time of the whole job"}},
	{OpTime, Duration, Lower, 1e9, Display{Tune: "time of an operation; of several benchmarks their geometric mean"}},

	{CPUPerRequest, CPU, Lower, 1e9, Display{Tune: "CPU time of the server's group for a request"}},
	{CPUTime, CPU, Lower, 1, Display{
		Bench: "CPU time of the whole process and its children", Tune: "CPU time of the job and its children", Title: "CPU time", BenchRank: 2,
	}},
	{CPUPerOp, CPU, Lower, 1e9, Display{Tune: "CPU time of an operation"}},

	{RequestRate, Other, Higher, 1, Display{Tune: "goodput: successes, within the SLO's time if there is one"}},
	{ErrorShare, Other, Lower, 100, Display{Tune: "requests that failed"}},

	{ThrottledShare, Other, Lower, 100, Display{Bench: "periods in which the limit was used up", Title: "throttled", BenchRank: 3, TuneRank: 5}},
	{ThrottledTime, Other, Lower, 1, Display{Tune: "time throttled, summed over CPUs"}},
	{Standstill, Other, Lower, 1, Display{Bench: "longest standstill seen"}},

	{GCRate, Runtime, "", 1, Display{Tune: "garbage collections a second"}},
	{GCShare, Runtime, Lower, 100, Display{
		Bench: "share of the CPU time that garbage collection used", Tune: "share of the CPU time that the collector says it used",
		Title: "GC", BenchRank: 5, TuneRank: 8,
	}},
	{WaitP50, Runtime, Lower, 1e9, Display{
		Bench: "time that a goroutine waited to run, median", Tune: "time that a goroutine waited to run, median, as the server tells it",
	}},
	{WaitP99, Runtime, Lower, 1e9, Display{
		Bench: "time that a goroutine waited to run, 99th percentile", Tune: "time that a goroutine waited to run, 99th percentile, as the server tells it",
		Title: "wait p99", BenchRank: 6,
	}},

	{PeakMemory, Other, Lower, 1, Display{Bench: "memory at its peak", Title: "memory", BenchRank: 7, TuneRank: 10}},
	{ProgramFile, Other, Lower, 1, Display{}},
}

// entry is that of a measure; any other name has an empty one.
func (m Measure) entry() *Entry {
	for i := range Measures {
		if Measures[i].Measure == m {
			return &Measures[i]
		}
	}
	return &Entry{}
}

// Kind is what kind of thing it is; Other for a name that is not a Measure.
func (m Measure) Kind() Kind { return m.entry().Kind }

// Name is what a percentile is called.
func (m Measure) Name() string { return m.entry().Title }

// Metric describes it in a document.
func (m Measure) Metric(about string) Metric {
	return Metric{Unit: string(m), Better: m.entry().Better, About: about}
}

// Of looks it up among a run's figures, in seconds, as a share, or in its own unit.
func (m Measure) Of(figures map[string]float64) (v float64, known bool) {
	v, known = figures[string(m)]
	if per := m.entry().Per; per > 0 {
		v /= per
	}
	return v, known
}

// In is the same, and 0 where it isn't known.
func (m Measure) In(figures map[string]float64) float64 {
	v, _ := m.Of(figures)
	return v
}

// Set files a value that is in seconds, a share, or in its own unit, without the digits that a float64 can't hold: 0.07 is 7 %, and not
// 7.000000000000001.
func (m Measure) Set(figures map[string]float64, v float64) {
	v *= m.entry().Per
	if short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 15, 64), 64); err == nil {
		v = short
	}
	figures[string(m)] = v
}
