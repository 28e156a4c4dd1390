package report

import (
	"cmp"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// Tune is the document of the verb tune.
type Tune struct {
	Header
	Verdict     TuneVerdict     `json:"verdict"`
	Current     TuneCurrent     `json:"current"`
	Subject     TuneSubject     `json:"subject"`
	LimitCPUs   float64         `json:"limit_cpus"`       // 0: none, or several; see limits
	LimitKind   string          `json:"limit_kind"`       // cgroup-v1, cgroup-v2, systemd, emulated, kubernetes, none
	Loads       []TuneLoad      `json:"loads"`            // by rate, the lowest first; a job has one, without a rate
	Settings    []TuneSetting   `json:"settings"`         // of all loads, the best of each first
	Runs        []TuneRun       `json:"runs"`             // of all loads, in the order in which they were done
	Varied      []TuneVaried    `json:"varied,omitempty"` // what is varied besides GOMAXPROCS and GOGC, or in place of them
	AtOnce      *TuneAtOnce     `json:"at_once,omitempty"`
	Limits      []TuneLimit     `json:"limits,omitempty"`
	Metrics     []lab.Metric    `json:"metrics"` // that any run has, in the order in which to show them
	Environment lab.Environment `json:"environment"`
	Margin      float64         `json:"margin"`
	TailMargin  float64         `json:"tail_margin"` // how much higher the tail may be with what is advised; 0: no tail is compared
	Objective   string          `json:"objective"`   // p99, cpu, throughput, time; "": the first in which settings differ
	Command     []string        `json:"command"`     // that repeats it
	Seed        uint64          `json:"seed"`
	Seconds     float64         `json:"seconds"`
	Finished    bool            `json:"finished"`
	Failure     string          `json:"failure,omitempty"` // the error that ended it before it was finished
	Resume      string          `json:"resume,omitempty"`  // the command that goes on
	Warnings    []string        `json:"warnings"`
}

// TuneVaried is something of the program that has one of several values.
type TuneVaried struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // the current one first
	In     string   `json:"in"`     // arguments, environment
}

// TuneAtOnce says how much was made at the same time.
type TuneAtOnce struct {
	Most   int    `json:"most"`              // runs for which there was room, of a block; 0: of one
	Runs   int    `json:"runs"`              // that were made at the same time as others
	InTurn string `json:"in_turn,omitempty"` // why runs took turns, from the first one on or later
}

// TuneVerdict is what to do.
type TuneVerdict struct {
	Kind      string     `json:"kind"`       // change, keep, trade, undecided
	Procs     int        `json:"gomaxprocs"` // to run with; 0: it was left unchanged, as in loads, settings and runs
	GOGC      int        `json:"gogc,omitempty"`
	Vary      []lab.Pair `json:"vary,omitempty"`               // what else the program has, of what is varied
	LimitCPUs float64    `json:"limit_cpus,omitempty"`         // where several were tried: the smallest that will do; 0: none will
	Memory    int64      `json:"memory_limit_bytes,omitempty"` // the same, where several memory limits were tried
	Text      string     `json:"text"`                         // in plain words
	Also      []string   `json:"also,omitempty"`               // more sentences: other loads, where the cost comes from
	Load      int        `json:"load"`                         // that it rests on, a number in loads
	How       []TuneHow  `json:"how,omitempty"`                // how to set it
}

// TuneHow is a way to set what the verdict advises.
type TuneHow struct {
	Where string `json:"where"` // "environment", "Kubernetes", "systemd", "Go"
	Text  string `json:"text"`  // may have several lines
}

// Lines are its lines, to be copied.
func (h TuneHow) Lines() []string { return strings.Split(strings.TrimRight(h.Text, "\n"), "\n") }

// TuneCurrent is what the program runs with on its own.
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
	Load    string   `json:"load_command,omitempty"` // that loads it; "": our own generator, or see below
	Units   string   `json:"units_url,omitempty"`    // a counter of its own that says what was done; without a command the work comes on its own
	Unit    string   `json:"work_unit"`              // of work: request, run, operation, unit of work
}

// foreign reports whether the load is not our generator's.
func (s TuneSubject) foreign() bool { return s.Load != "" || s.Units != "" }

// Each is "per request", or per any other unit of work.
func (s TuneSubject) Each() string {
	return "per " + cmp.Or(s.Unit, map[string]string{"job": "run", "gobench": "operation"}[s.Kind], "request")
}

// TuneLoad is a rate, and what the search said at it.
type TuneLoad struct {
	Rate        float64              `json:"rate"`                // requests a second; 0: a closed loop, or a job
	RateFrom    float64              `json:"rate_from,omitempty"` // the rate at the beginning of a window, where it changes evenly to RateTo
	RateTo      float64              `json:"rate_to,omitempty"`   //
	RateFile    string               `json:"rate_file,omitempty"` // of recorded arrivals
	RateSum     string               `json:"rate_file_sha256,omitempty"`
	Share       float64              `json:"share_of_limit"`              // of the limit's CPU, that the current setting uses there; 0: not known
	Closed      float64              `json:"share_of_capacity"`           // 0: not known
	Capacity    float64              `json:"capacity"`                    // requests a second that a closed loop gets out of the current setting, to two digits; 0: not known
	Arrivals    string               `json:"arrivals"`                    // poisson, const, recorded
	Burst       int                  `json:"burst,omitempty"`             // requests that arrive at once; 0: one
	Connections int                  `json:"connections"`                 // of a closed loop
	FirstWindow float64              `json:"first_window_seconds"`        // of a run of the first blocks, and of a guard after them
	Window      float64              `json:"window_seconds"`              // of the other runs
	WarmUp      float64              `json:"warm_up_seconds"`             //
	Overload    int                  `json:"overload_requests,omitempty"` // under way before the warm-up
	Rush        int                  `json:"rush,omitempty"`              // requests with which the warm-up begins, all at once
	Tail        string               `json:"tail"`                        // the highest percentile that a window can carry: p99, p90, p50; "": the load reports none
	SLO         string               `json:"slo_text"`                    // ""
	Noise       map[string]TuneNoise `json:"noise"`                       // of a metric: p99, cpu, time
	Main        bool                 `json:"main"`                        // the verdict rests on it
	Kind        string               `json:"kind"`                        // change, keep, trade, undecided
	Procs       int                  `json:"gomaxprocs"`                  //
	GOGC        int                  `json:"gogc,omitempty"`              //
	Vary        []lab.Pair           `json:"vary,omitempty"`              //
	GOMEMLIMIT  string               `json:"gomemlimit,omitempty"`        // that goes with each GOGC
	Text        string               `json:"text"`                        //
	Also        []string             `json:"also,omitempty"`              // its figures, and what to type
	Why         []string             `json:"why,omitempty"`               // what speaks against it, and where a difference comes from
	Fallen      []TuneFallen         `json:"fallen,omitempty"`            // settings that the program does not survive, the current one first; another is compared with instead
	Effects     []TuneEffect         `json:"effects,omitempty"`           // from the current setting to what is advised, the trade, or what looks best
	Pairs       int                  `json:"pairs"`                       // blocks that these rest on
	Fresh       int                  `json:"fresh_pairs,omitempty"`       // of these, pairs that guard a change
	Agreed      int                  `json:"agreed_pairs,omitempty"`      // and of those, in which it was better
	Disturbed   int                  `json:"disturbed_runs,omitempty"`    // while which something else ran: their tail and their time don't count
	MoreRuns    int                  `json:"more_runs,omitempty"`         // that would decide what is still open
	MoreSeconds float64              `json:"more_seconds,omitempty"`      // that these take
	Blocks      int                  `json:"blocks"`                      // of all settings
	Invalid     int                  `json:"invalid_runs,omitempty"`
	Done        bool                 `json:"done"`
}

// TuneNoise is by how much runs of one setting differ within a block: the standard deviation of a metric's logarithm.
type TuneNoise struct {
	SD   float64 `json:"sd"`
	Low  float64 `json:"low"` // 95 % interval
	High float64 `json:"high"`
}

// TuneEffect is what a metric does from the current setting to another, by all blocks in which both ran.
type TuneEffect struct {
	Metric   string  `json:"metric"`         // p99, pooled, time, cpu, throughput, throttled
	Says     string  `json:"says,omitempty"` // better, not worse, worse, open; "": it does not decide
	From     float64 `json:"before"`         // geometric means; seconds, a second, or a share (of that the median)
	To       float64 `json:"after"`
	Ratio    float64 `json:"ratio"` // of a typical block; 0: none
	Low      float64 `json:"low"`   // 95 % interval, by the noise of all settings; both 0: too few blocks
	High     float64 `json:"high"`
	Pairs    int     `json:"pairs"`
	RankLow  float64 `json:"rank_low,omitempty"` // 95 % interval of the signed-rank test; both 0: too few blocks
	RankHigh float64 `json:"rank_high,omitempty"`
	P        float64 `json:"p,omitempty"` // of that test
}

// TuneSetting is a candidate at a load.
type TuneSetting struct {
	Load    int                     `json:"load"`
	Procs   int                     `json:"gomaxprocs"`
	GOGC    int                     `json:"gogc,omitempty"`
	Vary    []lab.Pair              `json:"vary,omitempty"`
	Current bool                    `json:"is_current,omitempty"` // the others are compared with it: it is the current one, or in the place of those that are fallen
	Best    bool                    `json:"is_best,omitempty"`    // so far, or at the end
	Front   bool                    `json:"on_front,omitempty"`   // no other setting is better in every metric that decides
	Pairs   int                     `json:"pairs"`                // blocks in which the current setting ran too
	Dropped string                  `json:"dropped,omitempty"`    // why it was dropped
	Runs    int                     `json:"run_count"`
	Failed  int                     `json:"failed,omitempty"`
	Broken  int                     `json:"slo_missed_runs,omitempty"`
	Judged  int                     `json:"slo_judged_runs,omitempty"` // that those are of: during the others something else ran
	Metrics map[string]BenchSummary `json:"metrics"`
	Versus  []TuneEffect            `json:"versus_current"`          // empty for the current one
	Curve   []CurvePoint            `json:"curve"`                   // of percentiles: the median of the runs' at each; empty: no requests
	GC      *TuneGC                 `json:"gc,omitempty"`            // null: not known
	Killed  bool                    `json:"out_of_memory,omitempty"` // it is out as it takes more memory than there is, where the current one does not
}

// TuneFallen is the current setting, or one that took its place in comparisons, with which the program fails under the load.
type TuneFallen struct {
	Procs  int    `json:"gomaxprocs"`
	Error  string `json:"error"`
	Killed bool   `json:"out_of_memory,omitempty"`
}

// TuneGC is what a run with GODEBUG=gctrace=1 has reported.
type TuneGC struct {
	PerSecond float64 `json:"collections_per_second"`
	CPUShare  float64 `json:"cpu_share"`       // of the CPU time that the program used, in the collector; 0: not known
	Live      int64   `json:"live_heap_bytes"` // median after a collection
	Goal      int64   `json:"heap_goal_bytes"`
}

// TuneRun is one run of one setting.
type TuneRun struct {
	Load    int                `json:"load"`
	Phase   string             `json:"phase"` // race, confirm, explain
	Block   int                `json:"block"`
	Procs   int                `json:"gomaxprocs"`
	GOGC    int                `json:"gogc,omitempty"`
	Vary    []lab.Pair         `json:"vary,omitempty"`
	Seed    uint64             `json:"seed"`
	Start   string             `json:"start"` // RFC 3339
	Seconds float64            `json:"seconds"`
	Valid   bool               `json:"valid"`
	Invalid []string           `json:"invalid,omitempty"`
	SLOHeld bool               `json:"slo_held"`
	Metrics map[string]float64 `json:"metrics"`
	Curve   []CurvePoint       `json:"curve,omitempty"`
	Axis    []TuneStep         `json:"axis,omitempty"`
	Marks   []string           `json:"marks,omitempty"`   // what the host did at the same time
	AtOnce  int                `json:"at_once,omitempty"` // how many were made at the same time, this one among them; 0: it was alone
	Error   string             `json:"error,omitempty"`
	Killed  bool               `json:"out_of_memory,omitempty"` // by the kernel, for lack of memory
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

// TuneLimit is a limit that was tried, where the question is which one is needed. Its figures at the user's rate are of one
// setting: Go's default, unless only another holds the SLO.
type TuneLimit struct {
	CPUs     float64          `json:"limit_cpus"`
	Memory   int64            `json:"memory_limit_bytes,omitempty"` // where several were tried; 0: none
	Memlimit string           `json:"gomemlimit,omitempty"`         // that its runs had; "": what they have on their own
	Settings []TuneLimitRates `json:"settings"`
	Answer   string           `json:"answer,omitempty"`     // holds, fails, open; "" in older documents
	Procs    int              `json:"gomaxprocs,omitempty"` // that the figures are of
	Held     int              `json:"held_windows"`         // at the user's rate, of
	Of       int              `json:"window_count"`
	Will     bool             `json:"will_do"` // it holds the SLO at the user's rate
	P99      float64          `json:"p99"`     // seconds, at that rate: median of the windows
	CPU      float64          `json:"cpu_seconds_per_request"`
	Peak     int64            `json:"peak_memory_bytes,omitempty"`  // median of its windows
	File     int64            `json:"program_file_bytes,omitempty"` // in memory, of which the group may have been counted none: the first to read them is charged
	Beside   *TuneBeside      `json:"beside,omitempty"`             // of a memory limit that is larger than the one that will do
}

// TuneBeside is what a request costs under a limit, as a ratio to what it costs under the one that will do, by windows in turns.
type TuneBeside struct {
	Pairs int     `json:"pairs"`
	Ratio float64 `json:"cpu_ratio"`
	Low   float64 `json:"cpu_ratio_low"` // 95 %; both are 0 if there are too few pairs
	High  float64 `json:"cpu_ratio_high"`
}

// TuneLimitRates is what was found of a setting under a limit.
type TuneLimitRates struct {
	Procs   int          `json:"gomaxprocs"`
	Default bool         `json:"default,omitempty"` // what Go chooses under this limit
	AtRate  *TuneAtRate  `json:"at_rate,omitempty"` // null: it was not tried at the user's rate
	Rate    float64      `json:"rate"`              // the highest at which it holds the SLO; 0: none was found
	Text    string       `json:"text"`
	Windows []LoadWindow `json:"windows"`
}

// TuneAtRate is what windows at the user's rate say of a setting under a limit.
type TuneAtRate struct {
	Answer    string  `json:"answer"`       // holds, fails, open
	Held      int     `json:"held_windows"` // each on its own
	Of        int     `json:"window_count"`
	Void      int     `json:"void_windows,omitempty"`      // that the generator has spoilt, besides
	Killed    int     `json:"killed_windows,omitempty"`    // in which the kernel killed it for lack of memory
	Disturbed int     `json:"disturbed_windows,omitempty"` // and during which something else ran: they say nothing
	Hit       int     `json:"beyond_windows,omitempty"`    // windows that have any request beyond the objective
	Objective string  `json:"objective"`                   // the goal of the SLO that is nearest to being missed
	Allowed   float64 `json:"allowed_share"`               // of the requests may be beyond it
	Failures  bool    `json:"of_failures,omitempty"`       // those beyond it are those that failed
	Requests  int64   `json:"requests"`
	Beyond    int64   `json:"beyond"` // requests that were slower than it, or failed
	Share     float64 `json:"beyond_share"`
	Low       float64 `json:"low"` // one-sided 95 % bounds of the share, by whole windows
	High      float64 `json:"high"`
	More      int     `json:"more_windows,omitempty"` // that would decide it, where it is open; 0: no reasonable number
	Again     int     `json:"held_again,omitempty"`   // windows that all held it, minutes after others that showed that it fails
	NoStart   string  `json:"no_start,omitempty"`     // why the server did not start
}
