package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
)

// Read finds the CPU limit that s is held to. It always answers: what could not be found out is in Limits.State,
// Limits.Reason and Limits.Warnings.
func Read(s Source) Limits {
	if runtime.GOOS != "linux" && s.Root == "" {
		return Limits{Reason: ErrNotSupported, Affinity: runtime.NumCPU()}
	}
	r := newReader(s)
	l := Limits{}
	if n, err := r.affinity(); err != nil {
		l.warn(fmt.Errorf("reading CPU affinity: %w", err))
	} else {
		l.Affinity = n
	}
	h, err := r.locate("cpu")
	l.Version, l.Hybrid, l.Path, l.Mounts, l.Mount = h.version, h.hybrid, h.path, h.mounts, h.mount
	if err != nil {
		l.Reason = fmt.Errorf("reading CPU limit: %w", err)
		return l
	}
	if h.gone != "" {
		l.warn(fmt.Errorf("cgroup %s is gone: reading from %s, its nearest ancestor that exists", h.gone, h.dir))
	}
	l.Levels = r.levels(h)
	l.settle()
	if l.State == None {
		l.doubt(r, h)
	}
	return l
}

func (l *Limits) warn(err error) { l.Warnings = append(l.Warnings, err) }

// settle derives the effective limit from the levels: the smallest quota, the lowest level first where two are equal.
// One level that can't be understood makes the limit unknown, for it may be the smallest.
func (l *Limits) settle() {
	l.State = None
	for _, level := range l.Levels {
		if level.Err != nil {
			l.State, l.Reason = Unknown, level.Err
			l.warn(level.Err)
		}
		if cpus := level.Quota.CPUs(); cpus > 0 && (l.CPUs == 0 || cpus < l.CPUs) {
			l.CPUs, l.From = cpus, level.Dir
		}
	}
	switch {
	case l.State == Unknown:
		l.AtMost, l.CPUs, l.From = l.CPUs, 0, ""
	case l.CPUs > 0:
		l.State = Limited
	}
}

// doubt looks whether "no limit" is true.
func (l *Limits) doubt(r *reader, h hierarchy) {
	switch {
	case r.Root == "" && !isCgroupDir(h.dir):
		l.State, l.Reason = Unknown, fmt.Errorf("reading CPU limit: %s is covered by another mount", h.dir)
	case r.throttledByOthers(*l):
		l.State, l.Reason = Hidden, errHidden
	}
}

// reader reads small files below a root into one buffer.
type reader struct {
	Source
	proc string // "/proc/self" or "/proc/PID"
	buf  []byte
}

func newReader(s Source) *reader {
	r := &reader{Source: s, proc: "/proc/self", buf: make([]byte, 4096)}
	if s.PID != 0 {
		r.proc = "/proc/" + strconv.Itoa(s.PID)
	}
	r.Root = strings.TrimSuffix(r.Root, "/")
	return r
}

// file returns the text of a file; it is good until the next call.
func (r *reader) file(path string) (data []byte, err error) {
	data, r.buf, err = readFile(r.Root+path, r.buf)
	return data, err
}

// A hierarchy is where a controller keeps a process's files.
type hierarchy struct {
	version Version
	hybrid  bool
	path    string // the process's cgroup, as /proc names it
	mounts  []Mount
	mount   Mount
	dir     string // directory of the process's own level
	gone    string // the directory that should have been dir, when it no longer exists
}

// locate finds the hierarchy of a controller such as "cpu".
func (r *reader) locate(controller string) (hierarchy, error) {
	data, err := r.file(r.proc + "/cgroup")
	if err != nil {
		return hierarchy{}, err
	}
	h, err := parseProcCgroup(data, controller)
	if err != nil {
		return h, fmt.Errorf("%w: %s/cgroup %w", ErrNotVisible, r.proc, err)
	}
	// Both files show cgroups as the reader's cgroup namespace sees them, so our own mounts come first: they lead to
	// levels that a contained process can't see. Its own mounts help a reader who doesn't share them.
	err = r.findMount(&h, "/proc/self/mountinfo", "", controller)
	if err != nil && r.PID != 0 {
		err2 := r.findMount(&h, r.proc+"/mountinfo", r.proc+"/root", controller)
		if err2 == nil {
			err = nil
		} else if errors.Is(err, fs.ErrNotExist) {
			err = err2
		}
	}
	return h, err
}

// findMount completes h from a mountinfo file whose mount points are below prefix.
func (r *reader) findMount(h *hierarchy, mountinfo, prefix, controller string) error {
	data, err := r.file(mountinfo)
	if err != nil {
		return err
	}
	h.mounts = parseMountinfo(data, h.version, controller)
	if prefix != "" {
		for i := range h.mounts {
			h.mounts[i].Point = prefix + h.mounts[i].Point
		}
	}
	if len(h.mounts) == 0 {
		return fmt.Errorf("%w: %s has no cgroup %s mount with the %s controller", ErrNotVisible, mountinfo, h.version, controller)
	}
	if r.choose(h, h.path) {
		return nil
	}
	if path, ok := strings.CutSuffix(h.path, " (deleted)"); ok && r.choose(h, path) {
		return nil
	}
	if r.chooseAncestor(h, strings.TrimSuffix(h.path, " (deleted)")) {
		return nil
	}
	return fmt.Errorf("%w: %s has no cgroup %s mount that leads to %q", ErrNotVisible, mountinfo, h.version, h.path)
}

// choose takes the mount that shows path with most of its ancestors, among those where its directory exists.
func (r *reader) choose(h *hierarchy, path string) bool {
	depth := -1
	for _, m := range h.mounts {
		rel, ok := below(path, m.Root)
		if n := strings.Count(rel, "/"); ok && n > depth && exists(r.Root+join(m.Point, rel)) {
			depth, h.mount, h.dir = n, m, join(m.Point, rel)
		}
	}
	return depth >= 0
}

// chooseAncestor is for a directory that is gone: it takes the nearest ancestor that exists.
func (r *reader) chooseAncestor(h *hierarchy, path string) bool {
	best := -1
	for _, m := range h.mounts {
		rel, ok := below(path, m.Root)
		if !ok {
			continue
		}
		gone := join(m.Point, rel)
		for dir := gone; ; dir = parent(dir) {
			if n := strings.Count(dir[len(m.Point):], "/"); n > best && exists(r.Root+dir) {
				best, h.mount, h.dir, h.gone = n, m, dir, gone
			}
			if len(dir) <= len(m.Point) {
				break
			}
		}
	}
	return best >= 0
}

// below returns the part of the cgroup path that lies under root, starting with a slash or empty. All is lexical: a path
// may begin with "/..", which names a cgroup outside of the reader's namespace, and only a root that begins in the same
// way can lead there.
func below(path, root string) (rel string, ok bool) {
	if root != "/" {
		if rel, ok = strings.CutPrefix(path, root); !ok || rel != "" && rel[0] != '/' {
			return "", false
		}
	} else if path != "/" {
		rel = path
	}
	return rel, rel != "/.." && !strings.HasPrefix(rel, "/../")
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

// levels reads every level of the CPU hierarchy from the process's own to the root of the mount.
func (r *reader) levels(h hierarchy) []Level {
	var levels []Level
	for dir := h.dir; ; dir = parent(dir) {
		level := Level{Dir: dir}
		level.Quota, level.Err = r.quota(dir, h.version)
		if level.Err != nil {
			level.Err = fmt.Errorf("reading CPU limit: %w", level.Err)
		}
		if !r.Brief {
			r.details(&level, h.version)
		}
		levels = append(levels, level)
		if len(dir) <= len(h.mount.Point) {
			break
		}
	}
	if !r.Brief && h.version == V1 {
		r.cpusetsV1(levels, h)
	}
	return levels
}

// quota reads the limit of one level. A missing file is no limit: the root has none on v2, nor has a level without
// the controller.
func (r *reader) quota(dir string, v Version) (Quota, error) {
	if v == V2 {
		file := join(dir, "/cpu.max")
		data, err := r.file(file)
		if err != nil {
			return Quota{}, ignoreMissing(err)
		}
		q, err := parseCPUMax(data)
		return q, inFile(file, err)
	}
	file := join(dir, "/cpu.cfs_quota_us")
	data, err := r.file(file)
	if err != nil {
		return Quota{}, ignoreMissing(err)
	}
	quota, err := parseQuotaMicros(data)
	if err != nil || quota == 0 {
		return Quota{}, inFile(file, err)
	}
	file = join(dir, "/cpu.cfs_period_us")
	data, err = r.file(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Quota{quota, defaultPeriodMicros}, nil
	}
	if err != nil {
		return Quota{}, err
	}
	period, err := parsePeriodMicros(data)
	if err != nil {
		return Quota{}, inFile(file, err)
	}
	return Quota{quota, period}, nil
}

// details reads what is shown beside the quota. These files are often missing, and nothing is decided by them.
func (r *reader) details(level *Level, v Version) {
	burst, weight := "/cpu.max.burst", "/cpu.weight"
	if v == V1 {
		burst, weight = "/cpu.cfs_burst_us", "/cpu.shares"
	}
	level.BurstMicros = r.number(join(level.Dir, burst))
	level.Weight = r.number(join(level.Dir, weight))
	if v == V2 {
		level.Cpuset = r.line(join(level.Dir, "/cpuset.cpus.effective"))
	}
}

// cpusetsV1 fills in the cpusets of v1, which are in a hierarchy of their own: a level's is known if the process has
// the same path there.
func (r *reader) cpusetsV1(levels []Level, cpu hierarchy) {
	h, err := r.locate("cpuset")
	if err != nil || h.version != V1 || h.path != cpu.path {
		return
	}
	dir := h.dir
	for i := range levels {
		levels[i].Cpuset = r.line(join(dir, "/cpuset.effective_cpus"))
		if len(dir) <= len(h.mount.Point) {
			return
		}
		dir = parent(dir)
	}
}

// number reads a file that holds one number, 0 when it can't.
func (r *reader) number(path string) int64 {
	data, err := r.file(path)
	if err != nil {
		return 0
	}
	n, _ := parseInt(trim(data))
	return n
}

// line reads a file that holds one line, "" when it can't.
func (r *reader) line(path string) string {
	data, err := r.file(path)
	if err != nil {
		return ""
	}
	return string(trim(data))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func inFile(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}
