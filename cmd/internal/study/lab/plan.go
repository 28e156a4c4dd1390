// Package lab answers: what do settings such as GOMAXPROCS cost a program, and how sure is that? In goes a plan, and a
// Runner that can do one run of one setting; out comes a study, every run in it, and what the runs say together.
//
// Runs are grouped into blocks: each block runs every setting once, in random order, so that a machine that gets slower
// or faster while the lab is at work affects all settings alike. One run of a fresh process is the unit of analysis. The
// package starts no program itself and writes to nothing but what it is given.
package lab

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is the number of the format of documents and of files of runs. It changes only if a field changes its meaning.
const Version = 2

// A Setting is one of the combinations that are compared.
type Setting struct {
	Workload string  `json:"workload"`
	Build    string  `json:"build,omitempty"`    // one of several that are compared; "": there is only one
	Go       string  `json:"go_version"`         // toolchain that builds it; "": the one that built this command
	CPUs     float64 `json:"limit_cpus"`         // 0: no limit
	Procs    int     `json:"gomaxprocs_env"`     // 0: not set, the runtime decides
	GOGC     int     `json:"gogc_env,omitempty"` // 0: unchanged

	GOMEMLIMIT string `json:"gomemlimit_env,omitempty"` // "": unchanged

	// By tune, which has them in its plan:
	Memory int64 `json:"-"` // limit in bytes; 0: unchanged
	Vary   Pairs `json:"-"` // what else is set
}

// A Factor is what may vary between settings.
type Factor string

const (
	ByBuild    Factor = "build"
	ByProcs    Factor = "procs"
	ByCPUs     Factor = "cpus"
	ByGo       Factor = "go"
	ByWorkload Factor = "workload"
)

// Factors in the order in which they name a setting.
var Factors = []Factor{ByWorkload, ByBuild, ByGo, ByCPUs, ByProcs}

// Value is what a setting has of a factor, in the words of the command line.
func (s Setting) Value(f Factor) string {
	switch f {
	case ByWorkload:
		return s.Workload
	case ByBuild:
		return s.Build
	case ByGo:
		return s.Go
	case ByCPUs:
		if s.CPUs == 0 {
			return "none"
		}
		return strconv.FormatFloat(s.CPUs, 'f', -1, 64)
	case ByProcs:
		if s.Procs == 0 {
			return "default"
		}
		return strconv.Itoa(s.Procs)
	}
	return ""
}

// Without is the setting with one factor taken out: what settings that are compared by that factor have in common.
func (s Setting) Without(f Factor) Setting {
	switch f {
	case ByWorkload:
		s.Workload = ""
	case ByBuild:
		s.Build = ""
	case ByGo:
		s.Go = ""
	case ByCPUs:
		s.CPUs = 0
	case ByProcs:
		s.Procs = 0
	}
	return s
}

// A Metric is something that a run reports.
type Metric struct {
	Unit   string `json:"unit"`   // as in Go benchmarks
	Better string `json:"better"` // Lower, Higher or "": neither
	About  string `json:"about"`
}

// A Plan is what a lab does.
type Plan struct {
	Settings []Setting         `json:"settings"`
	Figures  map[string]Metric `json:"figures"`             // of each workload: what its settings are compared by
	Costs    map[string]Metric `json:"costs,omitempty"`     // of a workload that has one: what its settings are compared by as well
	Served   *Served           `json:"served,omitempty"`    // the load, if the program is a server
	Metrics  []Metric          `json:"metrics"`             // that the workloads report besides their figures
	Builds   []Build           `json:"builds,omitempty"`    // what the settings' builds are
	Same     []string          `json:"identical,omitempty"` // what is the same in all builds, byte for byte, and therefore not run
	Compare  Factor            `json:"compare"`             // what the settings of a comparison differ in
	Blocks   int               `json:"blocks"`              // 0: as many as the budget allows
	Budget   Seconds           `json:"budget_seconds"`
	AtOnce   int               `json:"at_once,omitempty"` // how many settings of a comparison may run at the same time, where there is room
	Looks    int               `json:"looks,omitempty"`   // at which what is decided gets no further runs; 0: none
	Seed     uint64            `json:"seed"`
	Margin   float64           `json:"margin"` // smaller differences are ignored
	Tail     float64           `json:"tail_margin,omitempty"`
	Command  []string          `json:"command"`
	Dir      string            `json:"dir"` // where it was given
}

// A Build is what settings run that have its name and its Go version.
type Build struct {
	Name   string   `json:"name"`
	Go     string   `json:"go_version"`       // toolchain; "": the go command's own
	Commit string   `json:"commit,omitempty"` // that the source is of; "": the working tree, or a program as it was
	Flags  []string `json:"flags,omitempty"`  // of go build, and variables
	Sum    string   `json:"sha256,omitempty"` // of what was built
}

// Served is the load that a server is put under in each run.
type Served struct {
	By     string  `json:"load_command,omitempty"` // that loads it; "": our own generator
	URL    string  `json:"url"`                    // "": what a file of targets says
	Units  string  `json:"units_url,omitempty"`    // a counter of the server's that shows what was done: URL#NAME
	Rate   float64 `json:"rate"`                   // requests a second, on average; 0: not ours to say
	From   float64 `json:"rate_from,omitempty"`    // with which each window begins, where it changes evenly
	Times  string  `json:"rate_file,omitempty"`    // of recorded arrivals, which have that Rate
	Sum    string  `json:"rate_file_sha256,omitempty"`
	Burst  int     `json:"burst,omitempty"` // that arrive at once; 0: one
	WarmUp Seconds `json:"warm_up_seconds"`
	Window Seconds `json:"window_seconds"`
}

// Foreign reports whether the load is not our generator's: another program's, or one that comes on its own.
func (s *Served) Foreign() bool { return s.By != "" || s.Units != "" }

// Cross makes all combinations, without doubles. What is said of a build is taken from settings that have nothing else.
func Cross(workloads []string, builds []Setting, cpus []float64, procs []int) (settings []Setting) {
	for _, w := range workloads {
		for _, s := range builds {
			for _, c := range cpus {
				for _, p := range procs {
					if s.Workload, s.CPUs, s.Procs = w, c, p; !slices.Contains(settings, s) {
						settings = append(settings, s)
					}
				}
			}
		}
	}
	return settings
}

// Varied returns the factor that settings differ in and by which they are best compared: the build if it is one of them, then
// GOMAXPROCS, then the limit, then Go's version.
func Varied(settings []Setting) Factor {
	for _, f := range []Factor{ByBuild, ByProcs, ByCPUs, ByGo, ByWorkload} {
		for _, s := range settings {
			if s.Value(f) != settings[0].Value(f) {
				return f
			}
		}
	}
	return ByProcs
}

// Order is the order of settings in a block. It follows from the seed alone, so that a lab can be done again, and a
// resumed one goes on as it would have.
func (p Plan) Order(block int) []int {
	return rand.New(rand.NewPCG(p.Seed, uint64(block))).Perm(len(p.Settings))
}

// Name says what a setting is, leaving out what all settings of the plan have in common.
func (p Plan) Name(s Setting) string {
	var parts []string
	for _, f := range Factors {
		if !p.varies(f) {
			continue
		}
		switch f {
		case ByCPUs:
			parts = append(parts, "limit "+s.Value(f))
		case ByProcs:
			parts = append(parts, "GOMAXPROCS "+s.Value(f))
		default:
			parts = append(parts, s.Value(f))
		}
	}
	if len(parts) == 0 {
		return s.Workload
	}
	return strings.Join(parts, ", ")
}

func (p Plan) varies(f Factor) bool {
	return slices.ContainsFunc(p.Settings, func(s Setting) bool { return s.Value(f) != p.Settings[0].Value(f) })
}

// MostSettings is the most that a plan or a group may have: each is set against the others. All of GOMAXPROCS 1 to 64 at 10 limits are
// 640, and would take days.
const MostSettings = 2000

// Check returns what is wrong with a plan, or nil.
func (p Plan) Check() error {
	switch {
	case len(p.Settings)+len(p.Same) == 0:
		return fmt.Errorf("nothing to run")
	case len(p.Settings) > MostSettings:
		return fmt.Errorf("%d settings are too many: at most %d are compared at once", len(p.Settings), MostSettings)
	case p.Blocks < 0 || p.Blocks > 10000:
		return fmt.Errorf("%d blocks: want 1 to 10000", p.Blocks)
	case p.Blocks == 0 && p.Budget <= 0:
		return fmt.Errorf("neither a number of blocks nor a budget of time")
	case p.Looks < 0 || p.Looks > 100 || p.Looks > 0 && p.Blocks > 0:
		return fmt.Errorf("%d looks at %d blocks: they go with a budget of time", p.Looks, p.Blocks)
	case p.Margin < 0 || p.Margin >= 1:
		return fmt.Errorf("a margin of %v: want a share, such as 0.05", p.Margin)
	case p.Tail < 0 || p.Tail >= 1:
		return fmt.Errorf("a margin of %v for the tail: want a share, such as 0.25", p.Tail)
	}
	return nil
}

// Seconds is a length of time that documents give in seconds, like all times.
type Seconds time.Duration

// MarshalJSON writes seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON reads seconds.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	if math.Abs(seconds) > math.MaxInt64/float64(time.Second) {
		return fmt.Errorf("%v s is too long a time", seconds)
	}
	*s = Seconds(math.Round(seconds * float64(time.Second)))
	return nil
}
