package cgroup

import (
	"strings"
	"sync"
)

// A reader in a container that shares its node's processes (hostPID) has mounts that show its own cgroup only. Those of process 1
// show all. That takes the right to follow /proc/1/root.
//
// In a cgroup namespace of its own, which containers have on version 2, the kernel writes every path as seen from the reader's own cgroup:
// /../../podX/Y. The mount of process 1 then begins at /../../.., and none of these texts names the directories between the two. They are
// found by looking for the reader's own directory below that mount.

// useNodeMounts makes r look for cgroups where process 1 does.
func (r *reader) useNodeMounts() { r.mounts, r.prefix = "/proc/1", "/proc/1/root" }

// fromRoot writes a path that begins with "/.." as one that begins as the root of a mount of process 1 does.
func (r *reader) fromRoot(path, mountinfo, controller string, v Version) string {
	up, rest := climb(path)
	for up > 0 && mountinfo != "" {
		var line string
		line, mountinfo = cut(mountinfo, '\n')
		root, point := parseMount(line, v, controller)
		most, more := climb(root)
		if most <= up || more != "" {
			continue
		}
		if own := r.own(point, controller, v, most); len(own) == most {
			return root + "/" + strings.Join(own[:most-up], "/") + rest
		}
	}
	return path
}

// climb counts how often a path begins with "/..".
func climb(path string) (up int, rest string) {
	for {
		after, ok := strings.CutPrefix(path, "/..")
		if !ok || after != "" && after[0] != '/' {
			return up, path
		}
		up, path = up+1, after
	}
}

// owns remembers what own found: the reader's cgroup stays the same, and finding it means looking at all cgroups of a node.
var owns sync.Map

type ownKey struct {
	root, point string
	depth       int
}

// own is the path from a mount point of process 1 to the reader's own cgroup, depth directories deep.
func (r *reader) own(point, controller string, v Version, depth int) []string {
	key := ownKey{r.root, point, depth}
	if known, ok := owns.Load(key); ok {
		return known.([]string)
	}
	mountinfo, err := r.record("/proc/self", "/mountinfo")
	if err != nil {
		return nil
	}
	for mountinfo != "" {
		var line string
		line, mountinfo = cut(mountinfo, '\n')
		root, at := parseMount(line, v, controller)
		if root != "/" {
			continue
		}
		self, err := r.others.stat(at)
		if err != nil {
			continue
		}
		if r.others.searches++; r.others.searches > mostSearches {
			return nil
		}
		if way := r.others.find(self, r.prefix+point, depth); way != nil {
			owns.Store(key, way)
			return way
		}
	}
	return nil
}

const (
	// mostGroups is how many cgroups a search looks at. A node with 250 pods has some 2,000.
	mostGroups = 1 << 16
	// mostSearches is how many mounts are searched for one answer. Process 1 has one of the kind, or a handful.
	mostSearches = 8
)
