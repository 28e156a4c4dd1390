package tune

import (
	"os"
	"strings"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A Foresight is what is known of a program's GOMAXPROCS before it runs.
type Foresight struct {
	Procs     int    `json:"gomaxprocs"` // 0: not known
	Why       string `json:"why"`
	GoDefault int    `json:"go_default"` // what Go's runtime would choose; 0: not known
	// Pinned: the environment must name the current setting, because the program would not find it unaided. No runtime
	// sees an emulated limit.
	Pinned bool `json:"pinned"`
}

// Foresee says what a program has on its own under a limit, judging by its file and our environment. hidden is a limit that no runtime
// sees.
func Foresee(file string, limit float64, hostCPUs int, hidden bool) Foresight {
	p := procs.Process{Env: map[string]string{}}
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok {
			p.Env[name] = value
		}
	}
	p.Program, p.ProgramErr = procs.ReadProgram(file)
	policy, _ := unthrottle.ParsePolicy(func(name string) string { return p.Env[name] })
	s := choice.Under(limit, hostCPUs, policy)
	own := s.Predict(p)
	f := Foresight{
		Procs: own.Procs, Why: own.Why, GoDefault: s.GoDefault(p).Procs,
		Pinned: own.Source == choice.FromEnvironment, // which runs do not inherit
	}
	if f.GoDefault == 0 { // a script, say: then what it starts is likely to be of now
		f.GoDefault = s.Of(choice.Go126).Procs
	}
	if limit > 0 && hidden {
		if f.Pinned = true; f.Procs == 0 {
			f.Procs, f.Why = f.GoDefault, "what Go chooses under such a limit"
		}
	}
	return f
}
