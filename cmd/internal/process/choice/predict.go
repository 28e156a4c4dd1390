package choice

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// Source is where a program's GOMAXPROCS comes from.
type Source string

// The sources. A call of runtime.GOMAXPROCS by the program is not among them: it can't be seen from outside.
const (
	FromNowhere      Source = ""             // not known
	FromEnvironment  Source = "environment"  // GOMAXPROCS in the environment
	FromLimit        Source = "limit"        // the Go runtime, from the CPU limit
	FromCPUs         Source = "cpus"         // the Go runtime, from the affinity mask
	FromAutomaxprocs Source = "automaxprocs" // automaxprocs
	FromUnthrottle   Source = "unthrottle"   // this project's library
)

// A Prediction is the GOMAXPROCS that a Go program has if it does not set it in its own code.
type Prediction struct {
	Procs  int // 0: not known
	Source Source
	Rule   Rule // the rule that applied, "" if the environment did
	Why    string

	Choice Choice // what Rule chooses for the system
}

// Predict says which GOMAXPROCS the Go program p has in this system.
func (s System) Predict(p procs.Process) Prediction {
	if p.Program == nil {
		return Prediction{Why: reason(p.ProgramErr)}
	}
	env, set := p.Env["GOMAXPROCS"]
	if n := UserProcs(env, p.Program); n > 0 {
		return Prediction{Procs: n, Source: FromEnvironment, Why: "GOMAXPROCS=" + env + " in its environment"}
	}
	var ours unthrottle.Decision // without a number of its own, the library leaves the choice to the others
	if p.Program.Unthrottle >= procs.Linked {
		ours = unthrottle.Decide(s.Inside, s.Policy)
	}
	if p.Program.Automaxprocs >= procs.Linked && !set { // set to any text, it does nothing
		// Whichever comes first, automaxprocs' number stays if it is lower.
		if c := s.Of(Automaxprocs); c.limited && (ours.Procs == 0 || c.Procs < ours.Procs) {
			return Prediction{Procs: c.Procs, Source: FromAutomaxprocs, Rule: Automaxprocs, Why: "automaxprocs rounds its limit down", Choice: c}
		}
	}
	if ours.Procs > 0 {
		return Prediction{Procs: ours.Procs, Source: FromUnthrottle, Rule: Unthrottle, Why: ours.String(), Choice: s.Of(Unthrottle)}
	}
	return s.runtime(p)
}

// Uncalled is Predict for a program that is known never to have called runtime.GOMAXPROCS, regardless of what is linked into it.
func (s System) Uncalled(p procs.Process) Prediction {
	if p.Program != nil {
		bare := *p.Program
		bare.Automaxprocs, bare.Unthrottle = 0, 0
		p.Program = &bare
	}
	return s.Predict(p)
}

// UserProcs returns the GOMAXPROCS that the text of the environment variable sets, or 0 if the runtime would ignore it: it
// takes only a whole number from 1 to 2147483647. Go 1.26 and later take "+4" too; where the program is not known (nil), only what
// all of them take counts.
func UserProcs(env string, p *procs.Program) int {
	if strings.HasPrefix(env, "+") && (p == nil || p.Minor() < 26) {
		return 0
	}
	n, err := strconv.ParseInt(env, 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return int(n)
}

func reason(err error) string {
	switch {
	case err == nil:
		return "no program was looked at"
	case errors.Is(err, procs.ErrNotGo):
		return procs.ErrNotGo.Error()
	case errors.Is(err, fs.ErrPermission):
		return "this user may not read its program"
	}
	if errors.Is(err, procs.ErrOdd) {
		return err.Error()
	}
	return "its program can't be read: " + err.Error()
}

// runtime says what the Go runtime alone chooses on the system for this program.
func (s System) runtime(p procs.Process) Prediction {
	rule, why := Go126, ""
	switch minor := p.Program.Minor(); {
	case minor == 0:
		return Prediction{Why: fmt.Sprintf("unknown Go version %q", p.Program.GoVersion)}
	case minor < 25:
		rule, why = Go124, "its Go version reads no cgroup"
	case !p.Program.Setting("containermaxprocs", p.Env).On:
		rule, why = Go124, "containermaxprocs=0, so it reads no cgroup"
	case minor == 25:
		rule = Go125
	}
	c := s.Of(rule)
	if c.Procs == 0 {
		if why = c.Why; why == "" {
			why = "the number of CPUs is not known"
		}
		return Prediction{Rule: rule, Why: why, Choice: c}
	}
	if c.limited && c.Procs < s.Limits.Affinity {
		return Prediction{Procs: c.Procs, Source: FromLimit, Rule: rule, Why: "the Go runtime rounds its limit up, to 2 at least", Choice: c}
	}
	if why == "" {
		why = "the CPUs that the affinity mask allows"
		if c.Why != "" {
			why += ", for " + c.Why
		}
	}
	return Prediction{Procs: c.Procs, Source: FromCPUs, Rule: rule, Why: why, Choice: c}
}
