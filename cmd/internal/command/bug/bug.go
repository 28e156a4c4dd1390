// Package bug answers: what does a report of a wrong answer need? In goes a process; out come the files of /proc and of its
// cgroups from which unthrottle draws its conclusions, without what may be a secret. As a tree on disk they are what explain
// reads with --root. It writes nothing itself.
package bug

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A File is one of a report, by a path with slashes. Below unthrottle/ is what was made for the report, and all else is as the
// kernel has it.
type File struct{ Name, Data string }

// groupFiles are read from each cgroup that has them.
var groupFiles = []string{
	"cgroup.procs", "cgroup.controllers", "cgroup.subtree_control", "cgroup.type",
	"cpu.max", "cpu.max.burst", "cpu.weight", "cpu.stat", "cpu.stat.local", "cpu.pressure",
	"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares", "cpuacct.usage",
	"cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus",
	"memory.max", "memory.high", "memory.limit_in_bytes",
}

// Collect reads the files of a process; 0 is this one. Below root are the mounts of another system.
func Collect(root string, pid int) (files []File) {
	proc := "/proc/self"
	if pid != 0 {
		proc = "/proc/" + strconv.Itoa(pid)
	}
	t := foreign.Open(root)
	defer t.Close()
	add := func(name string, read func(string, int) ([]byte, error), most int, change func(string) string) {
		data, err := read(name, most)
		text := string(data)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			name, text = "unthrottle/unreadable"+name, err.Error()+"\n"
		case change != nil:
			text = change(text)
		}
		files = append(files, File{strings.TrimPrefix(name, "/"), text})
	}
	add(proc+"/cgroup", t.Read, foreign.Group, nil)
	add(proc+"/mountinfo", t.Read, foreign.Mounts, cgroupMounts)
	if proc != "/proc/self" {
		add("/proc/self/mountinfo", t.Read, foreign.Mounts, cgroupMounts) // groups are looked for where this process sees them
	}
	add(proc+"/status", t.Read, foreign.Record, nil)
	add("/proc/loadavg", t.Read, foreign.Record, nil)
	add("/proc/pressure/cpu", t.Read, foreign.Record, nil)
	for _, dir := range groups(cgroup.Source{Root: root, PID: pid}) {
		for _, name := range groupFiles {
			add(path.Join(dir, name), t.ReadGroup, foreign.Members, nil) // one of them is the list of its processes
		}
	}
	return files
}

// groups are the cgroups that a process is in, each with all above it.
func groups(of cgroup.Source) []string {
	dirs := map[string]bool{}
	for _, controller := range []string{"cpu", "cpuset", "cpuacct", "memory"} {
		dir, _, mount, err := cgroup.Locate(of, controller)
		if err != nil {
			continue
		}
		for ; strings.HasPrefix(dir, mount.Point); dir = path.Dir(dir) {
			dirs[dir] = true
			if dir == mount.Point || dir == "/" {
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// cgroupMounts keeps the lines of a mountinfo by which cgroups are found: the others show what is mounted from where.
func cgroupMounts(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if _, after, ok := strings.Cut(line, " - "); ok && strings.HasPrefix(after, "cgroup") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// told are the variables that say how a Go program uses CPUs.
var told = []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "UNTHROTTLE", "UNTHROTTLE_HEAP_FLOOR"}

// Environment are these of an environment, a line each.
func Environment(env map[string]string) string {
	var text strings.Builder
	for _, name := range told {
		if value, ok := env[name]; ok {
			text.WriteString(name + "=" + value + "\n")
		}
	}
	return text.String()
}

// Told are the names of the variables that a report has.
func Told() []string { return slices.Clone(told) }

// Text is a report as one text: about it, and then its files, each below a line "-- NAME --". It is the txtar format.
func Text(about string, files []File) string {
	var text strings.Builder
	text.WriteString(about)
	for _, f := range files {
		text.WriteString("-- " + f.Name + " --\n" + f.Data)
		if f.Data != "" && !strings.HasSuffix(f.Data, "\n") {
			text.WriteString("\n")
		}
	}
	return text.String()
}
