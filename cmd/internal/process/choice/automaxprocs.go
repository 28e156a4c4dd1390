package choice

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
)

// automaxprocs models go.uber.org/automaxprocs 1.6, from its source: v2 only where it is mounted at /sys/fs/cgroup, ignoring
// the mount's root, and the process's own cgroup only; on v1 one controller that can't be reached makes it fail. When
// it fails or finds no limit, GOMAXPROCS stays as the runtime chose it.
func (s System) automaxprocs() belief {
	if s.hidden {
		return belief{why: "it fails because /proc can't be read"}
	}
	mounts, ok := s.amMounts()
	if !ok {
		return belief{why: "it fails on a line of /proc/self/mountinfo that it does not understand, or of 64 KiB or more"}
	}
	groups, ok := s.amGroups()
	if !ok {
		return belief{why: "it fails on a line of /proc/self/cgroup that it does not understand"}
	}
	for _, m := range mounts {
		if p, ok := groups[""]; ok && m.fstype == "cgroup2" && m.point == amPoint {
			return s.amV2(p)
		}
	}
	return s.amV1(mounts, groups)
}

// amPoint is where it looks for cgroup v2.
const amPoint = "/sys/fs/cgroup"

// amMounts reads mountinfo. It needs all fields of all lines, and never undoes an escape.
func (s System) amMounts() (mounts []mount, ok bool) {
	for _, line := range lines(s.mountinfo) {
		front, back, ok := strings.Cut(line, " - ")
		f, b := strings.Split(front, " "), strings.SplitN(back, " ", 3)
		if !ok || len(f) < 6 || len(b) < 3 || len(line) >= 64<<10 || !isNumber(f[0]) || !isNumber(f[1]) {
			return nil, false
		}
		mounts = append(mounts, mount{root: f[3], point: f[4], fstype: b[0], options: b[2]})
	}
	return mounts, true
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// amGroups returns the process's cgroups: by v1 controller, and under "" that of v2.
func (s System) amGroups() (groups map[string]string, ok bool) {
	groups = map[string]string{}
	for _, line := range lines(s.cgroup) {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 || !isNumber(f[0]) {
			return nil, false
		}
		for _, controller := range strings.Split(f[1], ",") {
			groups[controller] = f[2]
		}
	}
	return groups, true
}

func (s System) amV2(group string) belief {
	file := path.Join(amPoint, group, "cpu.max")
	text, err := s.read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.Limits.Version == cgroup.V1:
		return belief{why: "it prefers cgroup v2, which is mounted as well, and the CPU limit is on v1"}
	case errors.Is(err, fs.ErrNotExist) && s.Inside.Mount.Root != "/":
		return belief{why: "it leaves the mount's root out of account and finds no " + file}
	case errors.Is(err, fs.ErrNotExist):
		return belief{why: ownHasNone}
	}
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) == 1 {
		f = append(f, "100000")
	}
	switch {
	case len(f) == 2 && f[0] == "max":
		return belief{why: ownHasNone}
	case len(f) != 2 || !isNumber(f[0]) || !isNumber(f[1]) || amNumber(f[1]) == 0:
		return belief{why: "it fails on the text of " + file}
	}
	return s.found(amNumber(f[0])/amNumber(f[1]), file)
}

// amV1 translates every controller's path, and fails if it can't.
func (s System) amV1(mounts []mount, groups map[string]string) belief {
	dir := ""
	for _, m := range mounts {
		if m.fstype != "cgroup" {
			continue
		}
		for _, option := range strings.Split(m.options, ",") {
			group, ok := groups[option]
			if !ok {
				continue
			}
			rel, err := filepath.Rel(m.root, group)
			rel = filepath.ToSlash(rel)
			if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
				return belief{why: "it fails because the " + option + " controller can't be reached"}
			}
			if option == "cpu" {
				dir = path.Join(m.point, rel)
			}
		}
	}
	if dir == "" {
		return belief{why: "it looks for cgroup v2 at " + amPoint + " only"}
	}
	var values [2]float64
	for i, file := range []string{dir + "/cpu.cfs_quota_us", dir + "/cpu.cfs_period_us"} {
		text, err := s.read(file)
		line, _, _ := strings.Cut(text, "\n")
		if err != nil || !isNumber(line) {
			return belief{why: "it fails on " + file}
		}
		if values[i] = amNumber(line); values[i] <= 0 {
			return belief{why: ownHasNone}
		}
	}
	return s.found(values[0]/values[1], dir+"/cpu.cfs_quota_us")
}

func amNumber(text string) float64 {
	n, _ := strconv.Atoi(text)
	return float64(n)
}
