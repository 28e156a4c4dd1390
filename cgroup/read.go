package cgroup

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Self finds the CPU limit of the calling process. It reads only what a decision needs; [Read] reads more.
//
// Importing package auto adds Self and all that it calls to a program, so they are written to be small there: what is called in many places
// is not inlined, and large structs are passed by pointer.
func Self() *Limits {
	l := new(Limits)
	if runtime.GOOS != "linux" {
		l.Reason = ErrNotSupported
	} else {
		newReader("CPU limit", "", "/proc/self").limits(l)
	}
	l.Affinity = schedAffinity(0)
	return l
}

// SelfAll is Self, ReadMemory and the part of ReadThrottling that is about limits, for the calling process and in one call: what the level
// whose quota is in force counted, without CPU time, and what all levels together did. What several of them need is read once; the list of
// mounts, which takes a third of the time and hardly ever changes, is read once a minute.
func SelfAll() (*Limits, Memory, Throttling) {
	if runtime.GOOS != "linux" {
		return Self(), ReadMemory(Source{}), Throttling{}
	}
	r, l := newReader("CPU limit", "", "/proc/self"), new(Limits)
	r.once = mounted.lately(remember())
	r.limits(l)
	l.Affinity = schedAffinity(0)
	var t Throttling
	if l.State == Limited {
		t.Owner = r.counted(l.From)
	}
	if len(l.Levels) > 0 {
		t.Local, t.LocalKnown = r.local(l)
	}
	r.of = "memory limit"
	return l, r.memory(Source{}), t
}

// Read finds the CPU limit that s is held to. It always returns an answer: what could not be found out is in
// Limits.State, Limits.Reason and Limits.Warnings.
func Read(s Source) Limits {
	if runtime.GOOS != "linux" && s.Root == "" {
		return Limits{Reason: ErrNotSupported, Affinity: runtime.NumCPU()}
	}
	r := s.reader("CPU limit")
	defer r.close()
	return *r.everything(s)
}

// ReadAll is [Read] and [ReadMemory] at once. It reads once what both need.
func ReadAll(s Source) (Limits, Memory) {
	if runtime.GOOS != "linux" && s.Root == "" {
		return Read(s), ReadMemory(s)
	}
	r := s.reader("CPU limit")
	defer r.close()
	l := r.everything(s)
	r.of = "memory limit"
	r.useMounts(s)
	return *l, r.memory(s)
}

func (r *reader) everything(s Source) *Limits {
	l := new(Limits)
	r.limits(l)
	if l.Mount.Point == "" && s.PID != 0 && !s.Inside {
		// Our own mounts come first, since they lead to levels that a contained process can't see; its own help a reader that doesn't share
		// them. The kernel shows cgroups in both as the reader's namespace sees them. In between are those of process 1, which lead to all
		// levels of a node whose processes the reader shares.
		r.useNodeMounts()
		node := new(Limits)
		if r.limits(node); node.Mount.Point != "" && node.Reason == nil {
			l = node
		} else {
			r.useOwnMounts()
			own := new(Limits)
			if r.limits(own); own.Mount.Point != "" {
				l = own
			}
		}
	}
	l.Path = strings.Clone(l.Path) // what is kept must not hold on to the text of a line for each hierarchy
	r.of = "CPU affinity"
	var err error
	if l.Affinity, err = r.affinity(); err != nil {
		l.Warnings = append(l.Warnings, err)
	}
	for i := range l.Levels {
		r.details(&l.Levels[i], l.Version)
	}
	if l.Version == V1 {
		r.cpusetsV1(l)
		r.apartV1(l)
	}
	return l
}

// reader reads small files below a root into one buffer.
//
// The calling process's own, and what its own mounts show, is read in the shortest way: no one else can put anything there. Everything else
// is read with care, see package foreign. That package is not part of a program that calls only Self.
type reader struct {
	of     string // what it reads, for errors
	root   string
	proc   string // "/proc/self" or "/proc/PID"
	mounts string // the same for the process whose mounts to use
	prefix string // what goes before its mount points
	buf    []byte
	others *others // nil: only our own is read

	// once reads a record, or returns what it read before; nil: each is read where it is needed. A program that calls only Self has none.
	once func(path string, read func() (string, error)) (string, error)
}

func newReader(of, root, proc string) *reader {
	return &reader{of: of, root: root, proc: proc, mounts: "/proc/self", buf: make([]byte, 1<<10)}
}

func (s Source) reader(of string) *reader {
	proc := "/proc/self"
	if s.PID != 0 {
		proc = "/proc/" + strconv.Itoa(s.PID)
	}
	r := newReader(of, strings.TrimSuffix(s.Root, "/"), proc)
	if s.PID != 0 || r.root != "" {
		r.others = newOthers(r.root)
		r.once = remember()
	}
	r.useMounts(s)
	return r
}

func (r *reader) close() {
	if r.others != nil {
		r.others.close()
	}
}

// useMounts makes r look for cgroups in the first place to try: where the reader itself would, if it may.
func (r *reader) useMounts(s Source) {
	r.mounts, r.prefix = "/proc/self", ""
	if s.Inside && s.PID != 0 {
		r.useOwnMounts()
	}
}

// useOwnMounts makes r look for cgroups where the process itself would.
func (r *reader) useOwnMounts() { r.mounts, r.prefix = r.proc, r.proc+"/root" }

// file returns the text of a file. Its errors don't name the file: fail does.
//
//go:noinline
func (r *reader) file(dir, name string) (string, error) {
	if r.others != nil && r.isOthers(join(dir, name)) {
		path := join(dir, name) // not the one above, which so needs no memory of its own
		return r.others.read(path, r.isGroup(path))
	}
	most := foreign.Group
	if name == "/mountinfo" {
		most = foreign.Mounts
	}
	data, err := readFile(join(dir, name), &r.buf, most)
	return string(data), err
}

// record returns the text of a file of many lines, in which several things are looked for.
func (r *reader) record(dir, name string) (string, error) {
	if r.once == nil {
		return r.file(dir, name)
	}
	return r.once(join(dir, name), func() (string, error) { return r.file(dir, name) })
}

// remember makes a reader read no record twice.
func remember() func(path string, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	all := map[string]answer{}
	return func(path string, read func() (string, error)) (string, error) {
		a, ok := all[path]
		if !ok {
			a.text, a.err = read()
			all[path] = a
		}
		return a.text, a.err
	}
}

// mostKept is how long a list of mounts may be that is kept: that of a node has a line for each volume.
const mostKept = 64 << 10

// mounted are the calling process's own mounts as SelfAll last read them.
var mounted list

type list struct {
	sync.Mutex
	text string
	read time.Time
}

// lately uses a list of mounts that is less than a minute old in place of the current one.
func (m *list) lately(once func(string, func() (string, error)) (string, error)) func(string, func() (string, error)) (string, error) {
	return func(path string, read func() (string, error)) (string, error) {
		if path != "/proc/self/mountinfo" {
			return once(path, read)
		}
		m.Lock()
		defer m.Unlock()
		if m.text != "" && time.Since(m.read) < time.Minute {
			return m.text, nil
		}
		text, err := read()
		if m.text, m.read = text, time.Now(); len(text) > mostKept {
			m.text = ""
		}
		return text, err
	}
}

// isOthers reports whether a path may lead to something that someone else has put there.
func (r *reader) isOthers(path string) bool {
	return r.root != "" || r.prefix != "" && strings.HasPrefix(path, r.prefix+"/")
}

// isGroup reports whether a path is that of a cgroup's file, and not of a process's.
func (r *reader) isGroup(path string) bool {
	return !strings.HasPrefix(path, "/proc/") || r.prefix != "" && strings.HasPrefix(path, r.prefix+"/")
}

// exists reports whether there is such a file, even if it may not be read.
func (r *reader) exists(path string) bool {
	if r.isOthers(path) {
		return r.others.exists(strings.Clone(path)) // so that our own, as below, needs no memory
	}
	return exists(path)
}

// fail returns an error such as `reading CPU limit: /sys/fs/cgroup/a/cpu.max: bad text "1O0"`.
//
//go:noinline
func (r *reader) fail(dir, name string, cause error) error {
	return fmt.Errorf("reading %s: %s%s: %w", r.of, dir, name, cause)
}

// limits reads the levels of the CPU hierarchy and derives the limit in force.
func (r *reader) limits(l *Limits) {
	dir, err := r.locate(l, "cpu")
	if err == errUnused {
		l.State = None
		return
	}
	if err != nil {
		l.Reason = err
		return
	}
	for ; ; dir = parent(dir) {
		q, err := r.quota(dir, l.Version)
		l.Levels = append(l.Levels, Level{Dir: dir, Quota: q, Err: err})
		if err != nil {
			l.Reason = err
			l.warn(err)
		}
		// The smallest quota counts, the lowest level first where two are equal.
		if cpus := q.CPUs(); cpus > 0 && (l.CPUs == 0 || cpus < l.CPUs) {
			l.CPUs, l.From = cpus, dir
		}
		if len(dir) <= len(l.Mount.Point) {
			break
		}
	}
	r.settle(l)
}

//go:noinline
func (l *Limits) warn(err error) { l.Warnings = append(l.Warnings, err) }

// settle says what the levels mean together. One that can't be understood makes the limit unknown, since it may be the smallest. "No limit"
// is checked twice: another file system may cover the mount, or a level that can't be seen may throttle.
func (r *reader) settle(l *Limits) {
	own := l.Levels[0].Dir
	switch {
	case l.Reason != nil:
		l.AtMost, l.CPUs, l.From = l.CPUs, 0, ""
	case l.CPUs > 0:
		l.State = Limited
	case !r.isCgroup(own):
		l.Reason = r.fail(own, ": covered by another mount", ErrNotVisible)
	case r.throttledByOthers(l):
		l.State, l.Reason = Hidden, errHidden
	default:
		l.State = None
	}
}

// isCgroup reports whether a directory has a file that only a cgroup has.
func (r *reader) isCgroup(dir string) bool {
	for _, file := range [...]string{"/cgroup.procs", "/cpu.max", "/cpu.cfs_quota_us"} {
		if r.exists(join(dir, file)) {
			return true
		}
	}
	return false
}

// throttledByOthers reports whether the process's own group has been throttled by a group that can't be seen. The count in cpu.stat.local
// also grew if a quota was set here and removed since, but then that level has counted it too.
func (r *reader) throttledByOthers(l *Limits) bool {
	if n, _ := r.stat(l.Levels[0].Dir, "/cpu.stat.local", localName(l.Version)); n == 0 {
		return false
	}
	for i := range l.Levels {
		if n, _ := r.stat(l.Levels[i].Dir, "/cpu.stat", "nr_throttled"); n > 0 {
			return false
		}
	}
	return true
}

// stat returns a count from a file of lines such as "nr_throttled 20".
func (r *reader) stat(dir, file, name string) (n int64, ok bool) {
	text, _ := r.record(dir, file)
	return stat(text, name)
}

// locate finds where a controller such as "cpu" keeps the process's files: the directory, and in l the hierarchy.
func (r *reader) locate(l *Limits, controller string) (dir string, err error) {
	text, err := r.record(r.proc, "/cgroup")
	if err != nil {
		return "", r.fail(r.proc, "/cgroup", err)
	}
	if parseProcCgroup(text, controller, l) {
		return "", errUnused
	}
	if l.Version == 0 {
		return "", r.fail(r.proc, "/cgroup names no cgroup", ErrNotVisible)
	}
	if text, err = r.record(r.mounts, "/mountinfo"); err != nil {
		return "", r.fail(r.mounts, "/mountinfo", err)
	}
	path := l.Path
	if r.mounts == "/proc/1" {
		path = r.fromRoot(path, text, controller, l.Version)
	}
	dir, missing := r.choose(l, text, controller, path)
	if missing == crowded {
		return "", r.fail(r.mounts, "/mountinfo has more than "+strconv.Itoa(mostMounts)+" mounts that lead to cgroup "+path, ErrNotVisible)
	}
	if live, ok := strings.CutSuffix(path, " (deleted)"); ok && missing != 0 {
		path = live
		dir, missing = r.choose(l, text, controller, path)
	}
	if missing < 0 {
		return "", r.fail(r.mounts, "/mountinfo has no mount that leads to cgroup "+path, ErrNotVisible)
	}
	if missing > 0 {
		l.warn(r.fail("cgroup ", path, errGone))
	}
	return dir, nil
}

// Locate finds the directory where a controller such as "cpuacct" or "memory" keeps the files of s's own group, and the
// mount that it is in.
func Locate(s Source, controller string) (dir string, v Version, m Mount, err error) {
	var l Limits
	r := s.reader("cgroup")
	defer r.close()
	if dir, err = r.locate(&l, controller); err != nil && err != errUnused && s.PID != 0 {
		r.useNodeMounts()
		node := Limits{}
		if there, failed := r.locate(&node, controller); failed == nil {
			dir, l, err = there, node, nil
		}
	}
	if err == errUnused {
		err = r.fail(r.proc, "/cgroup names no controller "+controller, err)
	}
	return dir, l.Version, l.Mount, err
}

// mostMounts is how many mounts of a cgroup are looked at, where other users have made them. A container has one, and a node that has one
// for each of its pods has some hundreds.
const mostMounts = 1000

// crowded is the answer of choose where there are more than mostMounts.
const crowded = -2

// choose puts the mount that shows path, and as many of its ancestors as possible, into l. It returns the directory of the cgroup there or,
// where that was removed, of its nearest ancestor that exists, and how many directories are missing; -1 means that no mount leads to the
// cgroup.
func (r *reader) choose(l *Limits, mountinfo, controller, path string) (dir string, missing int) {
	missing = -1
	depth, seen := 0, 0
	for mountinfo != "" {
		var line string
		line, mountinfo = cut(mountinfo, '\n')
		root, point := parseMount(line, l.Version, controller)
		rel, ok := below(path, root)
		if !ok {
			continue
		}
		point = strings.Clone(r.prefix + point) // what is kept must not hold on to the table, which is long on a node
		if r.isOthers(point) {
			if seen++; seen > mostMounts {
				return "", crowded
			}
			r.others.mount(point)
		}
		d, gone := join(point, rel), 0
		there := r.exists(d)
		for !there && len(d) > len(point) {
			d = parent(d)
			gone++
			there = r.exists(d)
		}
		if !there {
			continue // not even the mount point
		}
		n := strings.Count(rel, "/")
		if missing < 0 || gone < missing || gone == missing && n > depth {
			dir, missing, depth = d, gone, n
			l.Mount.Root, l.Mount.Point = strings.Clone(root), point
		}
	}
	return dir, missing
}

// below returns the part of the cgroup path that lies under root, starting with a slash or empty. This is purely
// lexical: a path may begin with "/..", which names a cgroup outside of the reader's namespace, and only a root that
// begins in the same way can lead there.
func below(path, root string) (rel string, ok bool) {
	if root == "" {
		return "", false
	}
	if root == "/" {
		root = ""
	}
	if path == "/" {
		path = ""
	}
	rel, ok = strings.CutPrefix(path, root)
	return rel, ok && (rel == "" || rel[0] == '/') && !strings.HasPrefix(rel+"/", "/../")
}

// join appends rel, which is empty or begins with a slash, to the directory dir.
func join(dir, rel string) string {
	if dir == "/" && rel != "" {
		return rel
	}
	return dir + rel
}

// parent returns the directory above dir, lexically.
func parent(dir string) string {
	if i := strings.LastIndexByte(dir, '/'); i > 0 {
		return dir[:i]
	}
	return "/"
}

// quota reads the limit of one level. A missing file means no limit: the root has none on v2, and neither has a level without the
// controller.
func (r *reader) quota(dir string, v Version) (Quota, error) {
	file := "/cpu.max"
	if v == V1 {
		file = "/cpu.cfs_quota_us"
	}
	text, err := r.file(dir, file)
	if v == V1 && err == nil && text != "-1\n" {
		var period string
		period, err = r.file(dir, "/cpu.cfs_period_us")
		text = trim(text) + " " + period
	}
	if err == nil || text != "" && isMissing(err) {
		var q Quota
		if q, err = parseQuota(trim(text)); err == nil {
			return q, nil
		}
	}
	if isMissing(err) {
		return Quota{}, nil
	}
	return Quota{}, r.fail(dir, file, err)
}

// details reads what is shown next to the quota. These files are often missing, and no decision depends on them.
func (r *reader) details(level *Level, v Version) {
	burst, weight := "/cpu.max.burst", "/cpu.weight"
	if v == V1 {
		burst, weight = "/cpu.cfs_burst_us", "/cpu.shares"
	}
	level.BurstMicros = r.number(level.Dir, burst)
	level.Weight = r.number(level.Dir, weight)
	if v == V2 {
		level.Cpuset = r.line(level.Dir, "/cpuset.cpus.effective")
	}
}

// cpusetsV1 fills in the cpusets of v1, which are in a hierarchy of their own: a level's is known if the process has
// the same path there.
func (r *reader) cpusetsV1(l *Limits) {
	var set Limits
	dir, err := r.locate(&set, "cpuset")
	if err != nil || set.Version != V1 || set.Path != l.Path {
		return
	}
	for i := range l.Levels {
		l.Levels[i].Cpuset = r.line(dir, "/cpuset.effective_cpus")
		if len(dir) <= len(set.Mount.Point) {
			return
		}
		dir = parent(dir)
	}
}

// apartV1 finds where v1 counts the CPU time of groups, if that has a hierarchy of its own: it is known if the process has the same
// path there.
func (r *reader) apartV1(l *Limits) {
	if len(l.Levels) == 0 || r.exists(join(l.Levels[0].Dir, "/cpuacct.usage")) {
		return
	}
	var apart Limits
	if _, err := r.locate(&apart, "cpuacct"); err == nil && apart.Version == V1 && apart.Path == l.Path && apart.Mount.Root == l.Mount.Root {
		l.usage = apart.Mount.Point
	}
}

// number reads a file that holds one number, 0 when it can't.
func (r *reader) number(dir, file string) int64 {
	return parsePositive(r.line(dir, file))
}

// line reads a file that holds one line, "" when it can't.
func (r *reader) line(dir, file string) string {
	text, _ := r.file(dir, file)
	return trim(text)
}
