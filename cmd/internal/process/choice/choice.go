// Package choice answers: which GOMAXPROCS would each known rule choose for a process, and where does it go wrong? The
// rules are those of the Go runtime by version, automaxprocs, the Kubernetes downward API, and this project's library.
//
// In goes what the files of a system say, as the process itself sees them. Other projects' rules are modelled with their peculiarities,
// because these are what users run into; TestReal compares each with the real thing. The package decides nothing: it asks unthrottle.Decide
// what is right.
package choice

import (
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A System is a process's surroundings.
type System struct {
	Limits cgroup.Limits // what is in force
	Inside cgroup.Limits // what can be found from inside the process
	Memory cgroup.Memory
	Policy unthrottle.Policy

	cgroup    string // text of /proc/PID/cgroup, as the process sees it
	mountinfo string
	hidden    bool                              // one of the two can't be read
	read      func(file string) (string, error) // reads a file where the process would find it
}

// ReadSystem reads the surroundings of process pid, 0 meaning the calling process, from the files below root. The policy is the one that
// this project's library would get.
func ReadSystem(root string, pid int, policy unthrottle.Policy) System {
	s := System{Policy: policy}
	s.Limits, s.Memory = cgroup.ReadAll(cgroup.Source{Root: root, PID: pid})
	s.Inside = s.Limits
	t := foreign.Open(root)
	defer t.Close()
	proc, prefix := procs.Dir("", pid), ""
	if pid != 0 && contained(t, proc) {
		s.Inside = cgroup.Read(cgroup.Source{Root: root, PID: pid, Inside: true})
		prefix = proc + "/root"
	}
	var err1, err2 error
	s.cgroup, err1 = readText(t.ReadRecord(proc+"/cgroup", foreign.Group))
	s.mountinfo, err2 = readText(t.Read(proc+"/mountinfo", foreign.Mounts))
	s.hidden = err1 != nil || err2 != nil
	if mine := namespace(t, "/proc/self"); namespace(t, proc) != mine {
		switch base := s.Inside.Mount.Root; {
		case mine == firstNamespace && base == "/" && s.Inside.Path != "/":
			// A namespace of its own with the mounts of the first one, as "unshare --cgroup" leaves it. For the process
			// its path is "/", and the mounts begin somewhere above that: nothing leads it to its own cgroup.
			s.Inside = cgroup.Limits{
				Reason: cgroup.ErrNotVisible, Version: s.Inside.Version, Path: s.Inside.Path, Affinity: s.Inside.Affinity,
			}
			s.mountinfo = ""
		case base != "" && base != "/":
			s.rebase(base)
		}
	}
	s.read = func(file string) (string, error) {
		// Where they are is what the process's own list of mounts says. It is the cgroup's file, or nothing.
		t := foreign.Open(root)
		defer t.Close()
		return readText(t.ReadGroup(prefix+path.Clean("/"+file), foreign.Group))
	}
	return s
}

// Short is the system without the texts of its files, for callers that keep many: its rules can no longer be asked.
func (s System) Short() System {
	return System{Limits: s.Limits, Inside: s.Inside, Memory: s.Memory, Policy: s.Policy}
}

// contained reports whether a process has mounts of its own, and whether they can be read.
func contained(t *foreign.Tree, proc string) bool {
	mine, err1 := t.Link("/proc/self/ns/mnt")
	its, err2 := t.Link(proc + "/ns/mnt")
	if err1 != nil || err2 != nil || mine == its {
		return false
	}
	_, err := t.Stat(proc + "/root/.")
	return err == nil
}

// firstNamespace is the cgroup namespace that a system starts with: the kernel gives it this number everywhere.
const firstNamespace = "cgroup:[4026531835]"

// namespace names a process's cgroup namespace.
func namespace(t *foreign.Tree, proc string) string {
	ns, _ := t.Link(proc + "/ns/cgroup")
	return ns
}

func readText(data []byte, err error) (string, error) { return string(data), err }

// rebase turns the paths of cgroups, which the kernel shows as the reader's namespace sees them, into what the process
// sees, whose own namespace has its root at base.
func (s *System) rebase(base string) {
	strip := func(p, base string) string {
		rel, ok := strings.CutPrefix(p, base)
		switch {
		case !ok || rel != "" && rel[0] != '/':
			return p
		case rel == "":
			return "/"
		}
		return rel
	}
	group := strings.Split(s.cgroup, "\n")
	for i, line := range group {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 {
			group[i] = f[0] + ":" + f[1] + ":" + strip(f[2], base)
		}
	}
	s.cgroup = strings.Join(group, "\n")
	mounts := strings.Split(s.mountinfo, "\n")
	for i, line := range mounts {
		if f := strings.SplitN(line, " ", 5); len(f) == 5 && strings.Contains(line, " - cgroup") {
			f[3] = strip(f[3], escape(base))
			mounts[i] = strings.Join(f, " ")
		}
	}
	s.mountinfo = strings.Join(mounts, "\n")
}

// A Rule is one way of choosing GOMAXPROCS.
type Rule string

// The rules, in the order in which they are shown.
const (
	Go124        Rule = "Go 1.24 and earlier"
	Go125        Rule = "Go 1.25"
	Go126        Rule = "Go 1.26 and later"
	Automaxprocs Rule = "automaxprocs 1.6"
	Downward     Rule = "downward API"
	Unthrottle   Rule = "unthrottle"
)

// A Choice is what a rule chooses for a system.
type Choice struct {
	Rule  Rule
	Procs int     // 0: not known
	Limit float64 // the limit that the rule believes in, 0 for none
	Wrong bool    // it would choose a different number if it knew the limit in force and the CPUs
	Why   string  // why it believes in a limit other than the one in force, or is wrong; "": neither
	Fix   string  // one line, when it is wrong

	limited bool // it believes in a limit; the kernel never writes one that makes Limit 0 or less
}

// Rules returns the choice of every rule.
func (s System) Rules() []Choice {
	return []Choice{
		s.Of(Go124), s.Of(Go125), s.Of(Go126), s.Of(Automaxprocs), s.Of(Downward), s.Of(Unthrottle),
	}
}

// Of returns the choice of one rule.
func (s System) Of(rule Rule) Choice {
	switch rule {
	case Go124:
		return s.judge(rule, belief{why: "it reads no cgroup"}, goRound)
	case Go125, Go126:
		return s.judge(rule, s.goRuntime(rule), goRound)
	case Automaxprocs:
		return s.judge(rule, s.automaxprocs(), floorRound)
	case Downward:
		return s.judge(rule, s.downward(), ceilRound)
	}
	d := unthrottle.Decide(s.Inside, s.Policy)
	c := Choice{Rule: Unthrottle, Procs: d.Procs, Limit: s.Inside.CPUs}
	if d.Procs == 0 {
		byGo := s.Of(Go126)
		c.Procs, c.Why = byGo.Procs, "it leaves GOMAXPROCS to the Go runtime"
		if s.OutOfSight() && byGo.Wrong {
			c.Wrong, c.Why, c.Fix = true, "it can't see the limit, and leaves GOMAXPROCS to the Go runtime", byGo.Fix
		}
		return c
	}
	if s.OutOfSight() {
		c.Why = "the level that sets the limit can't be seen from inside of the container"
		if c.Wrong = c.Procs != unthrottle.Decide(s.Limits, s.Policy).Procs; c.Wrong {
			c.Fix = s.fix(rule)
		}
	}
	return c
}

// OutOfSight reports whether the level that sets the limit can't be seen by the process itself.
func (s System) OutOfSight() bool {
	return s.Limits.State == cgroup.Limited && !s.agrees(s.Inside.CPUs)
}

// A belief is what a rule takes the limit to be.
type belief struct {
	limit   float64
	limited bool   // false: it finds none, or gives up
	why     string // why that is not the limit in force, if it is not
}

// A rounding turns a limit and the number of CPUs into GOMAXPROCS.
type rounding func(limit float64, cpus int) int

// goRound returns 0 if the runtime would end with a fatal error, because it turns such a limit into a negative number. That is
// so on amd64; the conversion depends on the processor.
func goRound(limit float64, cpus int) int {
	limit = math.Max(math.Ceil(limit), 2)
	if !(limit <= math.MaxInt32) {
		return 0
	}
	return min(int(limit), cpus)
}

// floorRound is that of automaxprocs, which does not look at the CPUs.
func floorRound(limit float64, _ int) int { return int(math.Max(math.Floor(limit), 1)) }

// ceilRound is that of the downward API, which doesn't look at them either: it writes what the pod's manifest says.
func ceilRound(limit float64, _ int) int { return int(math.Ceil(limit)) }

// judge completes a choice: a rule is wrong if it would have chosen another number had it known the limit in force and the
// CPUs. A difference in rounding alone is not wrong.
func (s System) judge(rule Rule, b belief, round rounding) Choice {
	cpus := s.Limits.Affinity
	c := Choice{Rule: rule, Limit: b.limit, limited: b.limited}
	if math.IsInf(c.Limit, 0) || math.IsNaN(c.Limit) {
		c.Limit = 0
	}
	c.Procs = cpus
	if b.limited {
		c.Procs = round(b.limit, cpus)
	}
	if cpus == 0 {
		return c
	}
	if c.Procs == 0 {
		c.Why = "it ends with a fatal error on such a limit"
		return c
	}
	if s.Limits.State == cgroup.Unknown || s.Limits.State == cgroup.Hidden {
		return c // nothing to compare with
	}
	right := cpus
	if s.Limits.State == cgroup.Limited {
		if n := round(s.Limits.CPUs, cpus); n > 0 {
			right = min(n, cpus)
		}
	}
	c.Wrong = c.Procs != right
	switch {
	case s.agrees(b.limit) && c.Wrong:
		c.Why = "it does not know that there are " + strconv.Itoa(cpus) + " CPUs only"
	case !s.agrees(b.limit):
		c.Why = b.why
	}
	if c.Wrong {
		c.Fix = s.fix(rule)
	}
	return c
}

func (s System) agrees(limit float64) bool {
	return math.Abs(limit-s.Limits.CPUs) < 1e-9*math.Max(1, limit)
}

// fix says in one line how to get the right number if a rule gets it wrong.
func (s System) fix(rule Rule) string {
	switch {
	case s.OutOfSight():
		return "set the limit on the container itself, or GOMAXPROCS in its environment"
	case rule == Automaxprocs:
		return `import "github.com/unthrottle/unthrottle/maxprocs" in its place`
	case rule == Downward:
		return "leave GOMAXPROCS out of the pod and import unthrottle/auto"
	case !s.agrees(s.goRuntime(Go126).limit): // a level above, which no version of Go reads
		return `add import _ "github.com/unthrottle/unthrottle/auto"`
	case rule == Go124:
		return "build with Go 1.26 and a go line of 1.25 or later, or import unthrottle/auto"
	}
	return "build with Go 1.26 or later, or import unthrottle/auto"
}

// downward models a GOMAXPROCS taken from resources.limits.cpu: the limit of the container, which is the nearest limit that the
// process can see above itself.
func (s System) downward() belief {
	for _, level := range s.Inside.Levels {
		if cpus := level.Quota.CPUs(); cpus > 0 {
			return belief{cpus, true, "it is the container's own limit; " + s.Limits.From + " has a smaller one"}
		}
	}
	return belief{why: "the container has no limit of its own, which makes it the CPUs of the node"}
}

// ownHasNone is why most rules find no limit even if there is one.
const ownHasNone = "it reads its own cgroup only, which has no limit"

// found is the belief in a limit from a file.
func (s System) found(limit float64, file string) belief {
	if own := s.Inside.Levels; len(own) > 0 && limit == own[0].Quota.CPUs() {
		return belief{limit, true, "it reads its own cgroup only, and one above has a smaller limit"}
	}
	return belief{limit, true, "it takes " + file + " for the file of its cgroup"}
}

// lines returns the lines of a text without their ends.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func has(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }
