package clustertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node/setup"
)

// ownGroups returns the directories of the process's own groups, in each hierarchy of cgroup v1 that is mounted.
func ownGroups(process string) (groups []setup.Cgroup, err error) {
	memberships, err := os.ReadFile(filepath.Join(process, "cgroup"))
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile(filepath.Join(process, "mountinfo"))
	if err != nil {
		return nil, err
	}
	return findGroups(string(memberships), string(mounts)), nil
}

// findGroups reads proc(5)'s files cgroup and mountinfo:
//
//	4:cpu,cpuacct:/a/b
//	31 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
func findGroups(memberships, mounts string) (groups []setup.Cgroup) {
	for line := range strings.Lines(memberships) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] == "" { // that of cgroup v2
			continue
		}
		for mount := range strings.Lines(mounts) {
			before, after, _ := strings.Cut(mount, " - ")
			where, what := strings.Fields(before), strings.Fields(after)
			if len(where) < 5 || len(what) < 3 || what[0] != "cgroup" || !sameHierarchy(fields[1], what[2]) {
				continue
			}
			below, err := filepath.Rel(where[3], fields[2])
			if err != nil || below == ".." || strings.HasPrefix(below, "../") {
				continue
			}
			groups = append(groups, setup.Cgroup{Controllers: fields[1], Dir: filepath.Join(where[4], below)})
			break
		}
	}
	return groups
}

func sameHierarchy(controllers, options string) bool {
	all := strings.Split(options, ",")
	for controller := range strings.SplitSeq(controllers, ",") {
		if !slices.Contains(all, controller) {
			return false
		}
	}
	return true
}

func hierarchy(groups []setup.Cgroup, controller string) (setup.Cgroup, bool) {
	i := slices.IndexFunc(groups, func(g setup.Cgroup) bool { return slices.Contains(strings.Split(g.Controllers, ","), controller) })
	if i < 0 {
		return setup.Cgroup{}, false
	}
	return groups[i], true
}

// keepGroups returns a keeper that removes the groups of a name below the given ones, and everything below them, when it is
// ended or this process is gone. They need not exist yet.
func keepGroups(groups []setup.Cgroup, name string) (*keeper, error) {
	var dirs []string
	for _, g := range groups {
		dirs = append(dirs, filepath.Join(g.Dir, name))
	}
	// A process that was killed is in its group for a moment yet.
	keeper, _, err := newKeeper("echo", `
		for i in $(seq 100); do
			left=
			for dir; do
				[ ! -d "$dir" ] || find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null
				[ ! -d "$dir" ] || left=1
			done
			[ -n "$left" ] || exit 0
			sleep 0.1
		done
		exit 1`, dirs...)
	return keeper, err
}

// makeGroups makes the groups of a node.
func makeGroups(groups []setup.Cgroup, names ...string) (made []setup.Cgroup, err error) {
	for _, g := range groups {
		dir := g.Dir
		for _, name := range names {
			parent := dir
			dir = filepath.Join(dir, name)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, fmt.Errorf("making a control group: %w", err)
			}
			if slices.Contains(strings.Split(g.Controllers, ","), "cpuset") {
				// Nothing may run in a group that has been given no CPU and no memory.
				for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
					value, err := os.ReadFile(filepath.Join(parent, file))
					if err == nil {
						err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
					}
					if err != nil {
						return nil, fmt.Errorf("making a control group: %w", err)
					}
				}
			}
		}
		made = append(made, setup.Cgroup{Controllers: g.Controllers, Dir: dir})
	}
	return made, nil
}
