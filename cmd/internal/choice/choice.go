// Package choice answers: which GOMAXPROCS would each known rule choose for a process, and where does it go wrong? The
// rules are those of the Go runtime by version, automaxprocs, the Kubernetes downward API, and this project's library.
//
// In goes what the files of a system say, as the process itself sees them. The rules of others are modelled with their
// peculiarities, because these are what users run into; each was checked against the real thing. The package decides
// nothing: what is right it asks unthrottle.Decide.
package choice

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
)

// A System is a process's surroundings.
type System struct {
	Limits cgroup.Limits // what is in force
	Inside cgroup.Limits // what can be found from inside the process
	Policy unthrottle.Policy

	cgroup    string // text of /proc/PID/cgroup, as the process sees it
	mountinfo string
	read      func(file string) (string, error) // reads a file where the process would find it
}

// ReadSystem reads the surroundings of process pid, 0 meaning the calling process, from the files below root. The policy
// is what this project's library would be told to do.
func ReadSystem(root string, pid int, policy unthrottle.Policy) System {
	s := System{Policy: policy}
	s.Limits = cgroup.Read(cgroup.Source{Root: root, PID: pid})
	s.Inside = s.Limits
	root = strings.TrimSuffix(root, "/")
	proc, prefix := root+"/proc/self", root
	if pid != 0 {
		proc = root + "/proc/" + strconv.Itoa(pid)
	}
	if pid != 0 && contained(root, proc) {
		s.Inside = cgroup.Read(cgroup.Source{Root: root, PID: pid, Inside: true})
		prefix = proc + "/root"
	}
	s.cgroup = readText(proc + "/cgroup")
	s.mountinfo = readText(proc + "/mountinfo")
	if base := s.Inside.Mount.Root; namespace(proc) != namespace(root+"/proc/self") && base != "/" && base != "" {
		s.rebase(base)
	}
	s.read = func(file string) (string, error) {
		data, err := os.ReadFile(prefix + file)
		return string(data), err
	}
	return s
}

// contained reports whether a process has mounts of its own, and whether they can be read.
func contained(root, proc string) bool {
	mine, err1 := os.Readlink(root + "/proc/self/ns/mnt")
	its, err2 := os.Readlink(proc + "/ns/mnt")
	if err1 != nil || err2 != nil || mine == its {
		return false
	}
	_, err := os.Stat(proc + "/root/proc")
	return err == nil
}

// namespace names a process's cgroup namespace.
func namespace(proc string) string {
	ns, _ := os.Readlink(proc + "/ns/cgroup")
	return ns
}

func readText(file string) string {
	data, _ := os.ReadFile(file)
	return string(data)
}

// rebase turns the paths of cgroups, which the kernel shows as the reader's namespace sees them, into what the process
// sees, whose own namespace has its root at base.
func (s *System) rebase(base string) {
	strip := func(p string) string {
		if p == base {
			return "/"
		}
		return strings.TrimPrefix(p, base)
	}
	var lines []string
	for _, line := range strings.Split(s.cgroup, "\n") {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 {
			line = f[0] + ":" + f[1] + ":" + strip(f[2])
		}
		lines = append(lines, line)
	}
	s.cgroup = strings.Join(lines, "\n")
	lines = nil
	for _, line := range strings.Split(s.mountinfo, "\n") {
		if f := strings.SplitN(line, " ", 5); len(f) == 5 && strings.Contains(line, " - cgroup") {
			f[3] = strip(f[3])
			line = strings.Join(f, " ")
		}
		lines = append(lines, line)
	}
	s.mountinfo = strings.Join(lines, "\n")
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

// A Choice is what a rule makes of a system.
type Choice struct {
	Rule  Rule
	Procs int     // 0: it can't be told
	Limit float64 // the limit that the rule believes in, 0 for none
	Wrong bool    // it would choose otherwise if it knew the limit in force and the CPUs
	Why   string  // why it believes in another limit than the one in force, or is wrong; "" when all is well
	Fix   string  // one line, when it is wrong
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
		return s.judge(rule, 0, "it reads no cgroup", goRound)
	case Go125, Go126:
		limit, why := s.goRuntime(rule)
		return s.judge(rule, limit, why, goRound)
	case Automaxprocs:
		limit, why := s.automaxprocs()
		return s.judge(rule, limit, why, floorRound)
	case Downward:
		limit, why := s.downward()
		return s.judge(rule, limit, why, ceilRound)
	}
	d := unthrottle.Decide(s.Inside, s.Policy)
	c := Choice{Rule: Unthrottle, Procs: d.Procs, Limit: s.Inside.CPUs}
	if c.Procs == 0 {
		c.Procs = s.Inside.Affinity
	}
	if s.Limits.State == cgroup.Limited && !s.agrees(c.Limit) {
		c.Why = "the level that sets the limit can't be seen from inside of the container"
		if c.Wrong = c.Procs != unthrottle.Decide(s.Limits, s.Policy).Procs; c.Wrong {
			c.Fix = "set the limit on the container itself, or GOMAXPROCS in its environment"
		}
	}
	return c
}

// A rounding turns a limit, 0 for none, and the number of CPUs into GOMAXPROCS.
type rounding func(limit float64, cpus int) int

func goRound(limit float64, cpus int) int {
	if limit <= 0 {
		return cpus
	}
	return min(int(math.Max(math.Ceil(limit), 2)), cpus)
}

// floorRound is automaxprocs': it does not know of the CPUs.
func floorRound(limit float64, cpus int) int {
	if limit <= 0 {
		return cpus
	}
	return max(int(limit), 1)
}

// ceilRound is the downward API's, which doesn't know of them either: what it writes is in the pod's text.
func ceilRound(limit float64, cpus int) int {
	if limit <= 0 {
		return cpus
	}
	return int(math.Ceil(limit))
}

// judge completes a choice: a rule is wrong if it would have chosen otherwise had it known the limit in force and the
// CPUs. A difference in rounding alone is not wrong.
func (s System) judge(rule Rule, limit float64, why string, round rounding) Choice {
	cpus := s.Limits.Affinity
	c := Choice{Rule: rule, Limit: limit}
	if cpus == 0 {
		return c
	}
	c.Procs = round(limit, cpus)
	if s.Limits.State == cgroup.Unknown || s.Limits.State == cgroup.Hidden {
		return c // nothing to compare with
	}
	c.Wrong = c.Procs != min(round(s.Limits.CPUs, cpus), cpus)
	switch {
	case s.agrees(limit) && c.Wrong:
		c.Why = "it does not know that there are " + strconv.Itoa(cpus) + " CPUs only"
	case !s.agrees(limit):
		c.Why = why
	}
	if c.Wrong {
		c.Fix = s.fix(rule)
	}
	return c
}

func (s System) agrees(limit float64) bool {
	return math.Abs(limit-s.Limits.CPUs) < 1e-9*math.Max(1, limit)
}

// fix says in one line how to get the right number where a rule gets it wrong.
func (s System) fix(rule Rule) string {
	newest, _ := s.goRuntime(Go126)
	switch {
	case rule == Automaxprocs:
		return `import "github.com/unthrottle/unthrottle/maxprocs" in its place`
	case rule == Downward:
		return "leave GOMAXPROCS out of the pod and import unthrottle/auto"
	case !s.agrees(newest): // a level above, which no version of Go reads
		return `add import _ "github.com/unthrottle/unthrottle/auto"`
	case rule == Go124:
		return "build with Go 1.26 and a go line of 1.25 or later, or import unthrottle/auto"
	}
	return "build with Go 1.26 or later, or import unthrottle/auto"
}

// downward models GOMAXPROCS taken from resources.limits.cpu: the limit of the container, which is the nearest one above
// the process in what it sees.
func (s System) downward() (limit float64, why string) {
	for _, level := range s.Inside.Levels {
		if cpus := level.Quota.CPUs(); cpus > 0 {
			return cpus, "it is the container's own limit; " + s.Limits.From + " has a smaller one"
		}
	}
	return 0, "the container has no limit of its own, which makes it the CPUs of the node"
}

// mount is a line of mountinfo.
type mount struct {
	root, point, fstype, options string
}

func (s System) mounts() []mount {
	var mounts []mount
	for _, line := range strings.Split(strings.TrimSuffix(s.mountinfo, "\n"), "\n") {
		front, back, ok := strings.Cut(line, " - ")
		f, b := strings.Split(front, " "), strings.SplitN(back, " ", 3)
		if !ok || len(f) < 6 || len(b) < 3 {
			continue
		}
		mounts = append(mounts, mount{root: f[3], point: f[4], fstype: b[0], options: b[2]})
	}
	return mounts
}

// paths returns the process's cgroups: by v1 controller, and under "" that of v2.
func (s System) paths() map[string]string {
	paths := map[string]string{}
	for _, line := range strings.Split(s.cgroup, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" {
			paths[""] = f[2]
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			paths[controller] = f[2]
		}
	}
	return paths
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func has(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// goRuntime models Go's own reading of the limit, from the source of runtime/internal/cgroup at 1.25 and 1.26: the
// process's own cgroup only, through parsers that want all fields and the final newline.
func (s System) goRuntime(rule Rule) (limit float64, why string) {
	paths := s.paths()
	groupPath, v1 := paths["cpu"]
	if !v1 {
		groupPath = paths[""]
	}
	if groupPath == "" {
		return 0, "it found no cgroup"
	}
	dir, why := s.goDir(rule, groupPath, v1)
	if dir == "" {
		return 0, why
	}
	file, period := dir+"/cpu.max", ""
	if v1 {
		file = dir + "/cpu.cfs_quota_us"
		period, _ = s.read(dir + "/cpu.cfs_period_us")
	}
	text, err := s.read(file)
	if err != nil {
		if rule == Go125 && groupPath != "/" {
			return 0, "it puts the cgroup's path after the mount point, whatever the mount shows, and finds no " + file
		}
		return 0, "it reads its own cgroup only, which has no limit"
	}
	if v1 {
		text = strings.TrimSuffix(text, "\n") + " " + period
		if !strings.HasSuffix(period, "\n") {
			text = ""
		}
	}
	quota, rest, ok := strings.Cut(text, " ")
	if quota == "max" || strings.HasPrefix(quota, "-") {
		return 0, "it reads its own cgroup only, which has no limit"
	}
	if !ok || !strings.HasSuffix(rest, "\n") {
		return 0, "its parser drops a limit without the period or the final newline"
	}
	q, err1 := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(strings.TrimSuffix(rest, "\n"), 10, 64)
	if err1 != nil || err2 != nil || p == 0 {
		return 0, "its parser drops a limit that it does not understand"
	}
	return float64(q) / float64(p), "it reads its own cgroup only, and one above has a smaller limit"
}

// goDir finds the directory of the own cgroup as Go does.
func (s System) goDir(rule Rule, groupPath string, v1 bool) (dir, why string) {
	for _, m := range s.mounts() {
		if m.fstype == "cgroup2" && (rule == Go125 || !v1) || m.fstype == "cgroup" && has(m.options, "cpu") && (rule == Go125 || v1) {
			if rule == Go125 {
				dir = strings.TrimSuffix(unescape(m.point), "/") + strings.TrimSuffix(groupPath, "/")
				if m.fstype == "cgroup" {
					return dir, "" // the first v1 mount, but the last of v2
				}
				continue
			}
			root := unescape(m.root)
			rel, ok := strings.CutPrefix(groupPath, strings.TrimSuffix(root, "/"))
			if ok && (rel == "" || rel[0] == '/') && !strings.HasPrefix(rel+"/", "/../") {
				return unescape(m.point) + strings.TrimSuffix(rel, "/"), ""
			}
		}
	}
	if dir == "" {
		why = "it finds no mount that shows its cgroup"
	}
	return dir, why
}

// automaxprocs models go.uber.org/automaxprocs 1.6: v2 only where it is mounted at /sys/fs/cgroup, the mount's root left
// out of account, the own cgroup only; on v1 one controller that can't be reached makes it fail.
func (s System) automaxprocs() (limit float64, why string) {
	for _, line := range strings.Split(s.mountinfo, "\n") {
		if len(line) >= 64<<10 {
			return 0, "it fails on a line of mountinfo over 64 KiB"
		}
	}
	const v2Point = "/sys/fs/cgroup"
	paths := s.paths()
	own := "it reads its own cgroup only, which has no limit"
	for _, m := range s.mounts() {
		if p, ok := paths[""]; ok && m.fstype == "cgroup2" && m.point == v2Point {
			text, err := s.read(path.Join(v2Point, p, "cpu.max"))
			if err != nil && m.root != "/" {
				return 0, "it leaves the mount's root out of account and finds no file"
			}
			if err != nil {
				return 0, own
			}
			return fields(strings.Fields(text), own)
		}
	}
	dir := ""
	for _, m := range s.mounts() {
		if m.fstype != "cgroup" {
			continue
		}
		for _, option := range strings.Split(m.options, ",") {
			p, ok := paths[option]
			if !ok || option == "" {
				continue
			}
			rel, ok := strings.CutPrefix(p, strings.TrimSuffix(m.root, "/"))
			if !ok || rel != "" && rel[0] != '/' {
				return 0, "it fails because the " + option + " controller can't be reached"
			}
			if option == "cpu" {
				dir = path.Join(m.point, rel)
			}
		}
	}
	if dir == "" {
		return 0, "it looks for cgroup v2 at /sys/fs/cgroup only"
	}
	quota, _ := s.read(dir + "/cpu.cfs_quota_us")
	period, _ := s.read(dir + "/cpu.cfs_period_us")
	return fields(append(strings.Fields(quota), strings.Fields(period)...), own)
}

// fields reads a quota and a period as automaxprocs does.
func fields(f []string, none string) (limit float64, why string) {
	if len(f) == 1 {
		f = append(f, "100000")
	}
	if len(f) != 2 {
		return 0, "it fails on a quota that it does not understand"
	}
	if f[0] == "max" || strings.HasPrefix(f[0], "-") {
		return 0, none
	}
	q, err1 := strconv.Atoi(f[0])
	p, err2 := strconv.Atoi(f[1])
	if err1 != nil || err2 != nil || p <= 0 {
		return 0, "it fails on a quota that it does not understand"
	}
	return float64(q) / float64(p), "it reads its own cgroup only, and one above has a smaller limit"
}
