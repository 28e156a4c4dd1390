package choice

import (
	"strconv"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// Alone is what a program does about its limit if no GOMAXPROCS is in its environment.
type Alone int

const (
	NotKnown Alone = iota
	Follows        // it makes its GOMAXPROCS from the limit, and changes it when that changes
	Ignores        // it does not
)

// AloneOf is what a program does that reads only the limit of its own cgroup.
func AloneOf(p *procs.Program, env map[string]string) Alone {
	switch {
	case p == nil || p.Minor() == 0:
		return NotKnown
	case p.Unthrottle >= procs.Linked || p.Setting("containermaxprocs", env).On && p.Setting("updatemaxprocs", env).On:
		return Follows
	}
	return Ignores
}

// Alone is what a program does about the limit in force, which may be one that it can't see, or does not look for.
func (s System) Alone(p procs.Process) Alone {
	own := s.Limits.State != cgroup.Limited || len(s.Inside.Levels) > 0 && s.agrees(s.Inside.Levels[0].Quota.CPUs())
	return AloneUnder(p.Program, p.Env, own, !s.OutOfSight())
}

// AloneUnder is what a program does about a limit that its own cgroup has, or one above, which only our library looks for if it can be seen.
func AloneUnder(p *procs.Program, env map[string]string, own, seen bool) Alone {
	a := AloneOf(p, env)
	if a == Follows && !own && (p.Unthrottle < procs.Linked || !seen) {
		return Ignores
	}
	return a
}

// Fix says what to do about a GOMAXPROCS in the environment that does not suit the limit, where n is right. Where no limit reaches the
// program on its own, it would have all the CPUs of the machine that it is started on next.
func (a Alone) Fix(n int) string {
	set := "set GOMAXPROCS to " + strconv.Itoa(n)
	switch a {
	case Follows:
		return "take GOMAXPROCS out of its environment, or set it to " + strconv.Itoa(n)
	case Ignores:
		return set + ": left alone, this program does not follow its limit"
	}
	return set + ", or take it out if the program is built with Go 1.25 or later and has a go line to match"
}
