package report

import (
	"cmp"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
)

// Tune is the document of the verb tune.
type Tune struct {
	Header
	Verdict     TuneVerdict     `json:"verdict"`
	Current     TuneCurrent     `json:"current"`
	Subject     TuneSubject     `json:"subject"`
	LimitCPUs   float64         `json:"limit_cpus"` // 0: none, or several; see limits
	LimitKind   string          `json:"limit_kind"` // cgroup-v1, cgroup-v2, systemd, emulated, none
	Loads       []TuneLoad      `json:"loads"`      // by rate, the lowest first; of a job there is one, without a rate
	Settings    []TuneSetting   `json:"settings"`   // of all loads, the best of each first
	Runs        []TuneRun       `json:"runs"`       // of all loads, in the order in which they were done
	Limits      []TuneLimit     `json:"limits,omitempty"`
	Metrics     []lab.Metric    `json:"metrics"` // that any run has, in the order in which to show them
	Environment lab.Environment `json:"environment"`
	Margin      float64         `json:"margin"`
	Objective   string          `json:"objective"` // p99, cpu, throughput, time; "": the first that tells settings apart
	Command     []string        `json:"command"`   // that repeats it
	Seed        uint64          `json:"seed"`
	Seconds     float64         `json:"seconds"`
	Finished    bool            `json:"finished"`
	Resume      string          `json:"resume,omitempty"` // the command that goes on
	Warnings    []string        `json:"warnings"`
}

// TuneVerdict is what to do.
type TuneVerdict struct {
	Kind      string    `json:"kind"`       // change, keep, undecided
	Procs     int       `json:"gomaxprocs"` // to run with
	GOGC      int       `json:"gogc,omitempty"`
	LimitCPUs float64   `json:"limit_cpus,omitempty"` // where several were tried: the smallest that will do; 0: none will
	Text      string    `json:"text"`                 // in plain words
	Also      []string  `json:"also,omitempty"`       // sentences beside it: other loads, where the cost comes from
	Load      int       `json:"load"`                 // that it rests on, a number in loads
	How       []TuneHow `json:"how,omitempty"`        // how to set it
}

// TuneHow is a way to set what the verdict advises.
type TuneHow struct {
	Where string `json:"where"` // "environment", "Kubernetes", "systemd", "Go"
	Text  string `json:"text"`  // may have several lines
}

// Lines are its lines, to be copied.
func (h TuneHow) Lines() []string { return strings.Split(strings.TrimRight(h.Text, "\n"), "\n") }

// TuneCurrent is what the program runs with by itself.
type TuneCurrent struct {
	Procs     int    `json:"gomaxprocs"`
	Why       string `json:"why"`
	GoDefault int    `json:"go_default"` // 0: not known
}

// TuneSubject is what was tuned.
type TuneSubject struct {
	Kind    string   `json:"kind"` // server, job, gobench
	Name    string   `json:"name"`
	Command []string `json:"command"`
	URL     string   `json:"url,omitempty"`
	Unit    string   `json:"work_unit"` // of work: request, run, operation
}

// Each is "a request", or whatever the unit of work is.
func (s TuneSubject) Each() string {
	unit := cmp.Or(s.Unit, map[string]string{"job": "run", "gobench": "operation"}[s.Kind], "request")
	if strings.ContainsRune("aeio", rune(unit[0])) {
		return "an " + unit
	}
	return "a " + unit
}

// TuneLoad is a rate, and what the search said at it.
type TuneLoad struct {
	Rate        float64            `json:"rate"`              // requests a second; 0: a closed loop, or a job
	Share       float64            `json:"share_of_capacity"` // 0: not known
	Capacity    float64            `json:"capacity"`          // of the current setting; 0: not known
	Arrivals    string             `json:"arrivals"`          // poisson, const
	Connections int                `json:"connections"`       // of a closed loop
	Window      float64            `json:"window_seconds"`    // of a run
	WarmUp      float64            `json:"warm_up_seconds"`   //
	Tail        string             `json:"tail"`              // the highest percentile that a window can carry: p99, p90, p50
	SLO         string             `json:"slo_text"`          // ""
	Noise       map[string]float64 `json:"noise"`             // metric (p99, cpu, time) to the sd of its logarithm from run to run
	Main        bool               `json:"main"`              // the verdict rests on it
	Kind        string             `json:"kind"`              // change, keep, undecided
	Procs       int                `json:"gomaxprocs"`        //
	GOGC        int                `json:"gogc,omitempty"`    //
	Text        string             `json:"text"`              //
	Effects     []TuneEffect       `json:"effects,omitempty"` // of the confirmation
	Pairs       int                `json:"pairs"`             // of the confirmation
	MorePairs   int                `json:"more_pairs,omitempty"`
	MoreSeconds float64            `json:"more_seconds,omitempty"` // undecided: that would settle it
	Blocks      int                `json:"blocks"`                 // of the exploration
	Invalid     int                `json:"invalid_runs,omitempty"`
	Done        bool               `json:"done"`
}

// TuneEffect is what a metric does from one setting to another, by pairs of runs.
type TuneEffect struct {
	Metric   string  `json:"metric"` // p99, time, cpu, throughput, throttled, slo
	Decides  bool    `json:"decides,omitempty"`
	From     float64 `json:"before"` // medians; seconds, a second, or a share
	To       float64 `json:"after"`
	Ratio    float64 `json:"ratio"` // of a typical pair; 0: there is none
	Low      float64 `json:"low"`   // 95 % interval; both 0: too few pairs
	High     float64 `json:"high"`
	P        float64 `json:"p,omitempty"`
	Adjusted float64 `json:"p_adjusted,omitempty"`
	Verdict  string  `json:"verdict,omitempty"` // better, worse, no worthwhile difference, undecided
}

// TuneSetting is a candidate at a load.
type TuneSetting struct {
	Load    int                     `json:"load"`
	Procs   int                     `json:"gomaxprocs"`
	GOGC    int                     `json:"gogc,omitempty"`
	Current bool                    `json:"is_current,omitempty"`
	Best    bool                    `json:"is_best,omitempty"` // so far, or at the end
	Dropped string                  `json:"dropped,omitempty"` // why the exploration took it out
	Runs    int                     `json:"run_count"`         // of the exploration and the confirmation
	Failed  int                     `json:"failed,omitempty"`
	Broken  int                     `json:"slo_missed_runs,omitempty"`
	Metrics map[string]BenchSummary `json:"metrics"`
	Versus  []TuneEffect            `json:"versus_current"` // by the exploration's blocks; empty for the current one
	Curve   []CurvePoint            `json:"curve"`          // of percentiles: the median of the runs' at each; empty: no requests
	GC      *TuneGC                 `json:"gc,omitempty"`   // null: not known
}

// TuneGC is what a run with GODEBUG=gctrace=1 has told.
type TuneGC struct {
	PerSecond float64 `json:"collections_per_second"`
	CPUShare  float64 `json:"cpu_share"`       // of the CPU time that the program used, in the collector
	Live      int64   `json:"live_heap_bytes"` // median after a collection
	Goal      int64   `json:"heap_goal_bytes"`
}

// TuneRun is one run of one setting.
type TuneRun struct {
	Load    int                `json:"load"`
	Phase   string             `json:"phase"` // pilot, explore, confirm
	Block   int                `json:"block"` // of the phase; in the confirmation the pair
	Procs   int                `json:"gomaxprocs"`
	GOGC    int                `json:"gogc,omitempty"`
	Seed    uint64             `json:"seed"`
	Start   string             `json:"start"` // RFC 3339
	Seconds float64            `json:"seconds"`
	Valid   bool               `json:"valid"`
	Late    bool               `json:"generator_late,omitempty"` // latencies that this may have made are left out
	Invalid []string           `json:"invalid,omitempty"`
	SLOHeld bool               `json:"slo_held"`
	Metrics map[string]float64 `json:"metrics"`
	Curve   []CurvePoint       `json:"curve,omitempty"`
	Axis    []TuneStep         `json:"axis,omitempty"`
	Marks   []string           `json:"marks,omitempty"` // what the host did meanwhile
	Error   string             `json:"error,omitempty"`
}

// TuneStep is a piece of a run's window.
type TuneStep struct {
	At        float64 `json:"at_seconds"`
	Length    float64 `json:"length_seconds"`
	Sent      int64   `json:"sent"`
	P99       float64 `json:"p99"`
	Periods   int64   `json:"periods"`
	Throttled int64   `json:"throttled_periods"`
}

// ThrottledPeriods is in how many of a step's periods it was throttled.
func (s TuneStep) ThrottledPeriods() (n, of int64) {
	of = max(0, s.Periods)
	return max(0, min(s.Throttled, of)), of
}

// ThrottledShare is the share of a step's periods in which it was throttled.
func (s TuneStep) ThrottledShare() float64 {
	n, of := s.ThrottledPeriods()
	return float64(n) / float64(max(of, 1))
}

// ThrottledPeriods is in how many of a run's periods it was throttled.
func (r TuneRun) ThrottledPeriods() (n, of int64) {
	for _, s := range r.Axis {
		throttled, periods := s.ThrottledPeriods()
		n, of = n+throttled, of+periods
	}
	return n, of
}

// TuneLimit is a limit that was tried, where the question is which one is needed.
type TuneLimit struct {
	CPUs     float64          `json:"limit_cpus"`
	Settings []TuneLimitRates `json:"settings"`
	Held     int              `json:"held_windows"` // at the user's rate, of
	Of       int              `json:"window_count"`
	Will     bool             `json:"will_do"` // it holds the SLO at the user's rate
	P99      float64          `json:"p99"`     // seconds, at that rate: median of the windows
	CPU      float64          `json:"cpu_seconds_per_request"`
}

// TuneLimitRates is the highest rate at which a setting holds the SLO under a limit.
type TuneLimitRates struct {
	Procs   int          `json:"gomaxprocs"`
	Default bool         `json:"default,omitempty"` // what Go chooses under this limit
	Rate    float64      `json:"rate"`              // 0: none was found
	Text    string       `json:"text"`
	Windows []LoadWindow `json:"windows"`
}
