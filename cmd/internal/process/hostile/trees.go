package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Tree is saved files of a system, with a process 7 in a cgroup of its own, spoilt in one place.
type Tree struct {
	Name  string
	Spoil func(root string) error
	Want  string // a part of the reason why the limit isn't known; "" means that it is found all the same: 2 CPUs
}

// Make writes a good tree, and spoils it. Next to it, in dir, is a file that no reading of the tree may come to: it has a limit of 9 CPUs.
func (t Tree) Make(dir string) (root string, err error) {
	root = filepath.Join(dir, "root")
	for name, text := range map[string]string{
		"../outside/cpu.max":       "900000 100000\n",
		"proc/self/mountinfo":      "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/7/mountinfo":         "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/7/cgroup":            "0::/a\n",
		"proc/7/status":            "Name:\ta\nCpus_allowed:\tf\n",
		"proc/7/stat":              "7 (a) S 1\n",
		"sys/fs/cgroup/a/cpu.max":  "200000 100000\n",
		"sys/fs/cgroup/a/cpu.stat": "nr_periods 1\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return "", err
		}
	}
	return root, t.Spoil(root)
}

const quota = "/sys/fs/cgroup/a/cpu.max"

// Trees are all of them.
func Trees() []Tree {
	replace := func(name string, by func(path string) error) func(string) error {
		return func(root string) error {
			return errors.Join(os.RemoveAll(root+name), by(root+name))
		}
	}
	link := func(to string) func(string) error { return func(path string) error { return os.Symlink(to, path) } }
	long := func(size int64) func(string) error {
		return func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, size)) }
	}
	text := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	return []Tree{
		{"a pipe for a quota", replace(quota, pipe), "not a regular file"},
		{"a link to a device that doesn't end", replace(quota, link("/dev/zero")), ""}, // leads to nothing in the tree: no limit there
		{"an absolute link to the reader's files", func(root string) error {
			return replace(quota, link(filepath.Dir(root)+"/outside/cpu.max"))(root)
		}, ""},
		{"a link that climbs to the reader's files", replace(quota, link("../../../../../outside/cpu.max")), ""},
		{"a directory for a quota", replace(quota, func(path string) error { return os.Mkdir(path, 0o755) }), "is a directory"},
		{"a socket for a quota", replace(quota, socket), "not a regular file"},
		{"a quota of 1 GB", replace(quota, long(1<<30)), "more than a file of its kind can have"},
		{"a link to itself", replace(quota, link("cpu.max")), "too many"},
		{"a group that is a link to the reader's files", func(root string) error {
			return replace("/sys/fs/cgroup/a", link(filepath.Dir(root)+"/outside"))(root)
		}, "gone"},
		{"a mount point that is a link to the reader's files", func(root string) error {
			return replace("/sys/fs/cgroup", link(filepath.Dir(root)+"/outside"))(root)
		}, "no mount that leads to"},
		{"a mount point that is a pipe", replace("/sys/fs/cgroup", pipe), "covered by another mount"},
		{"a mount point that climbs", replace("/proc/self/mountinfo", text("30 24 0:26 / /../outside/../sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")), "no mount that leads to"},
		{"a mount point with escapes", replace("/proc/self/mountinfo", text("30 24 0:26 / /sys\\057fs/\\056\\056/fs/cgroup rw - cgroup2 cgroup2 rw\n")), ""},
		{"mounts of 1 GB", replace("/proc/self/mountinfo", long(1<<30)), "more than a file of its kind can have"},
		{"a pipe for the mounts", replace("/proc/self/mountinfo", pipe), "not a regular file"},
		{"a pipe for the groups", replace("/proc/7/cgroup", pipe), "not a regular file"},
		{"100,000 mounts", replace("/proc/self/mountinfo", text(strings.Repeat("30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", 100_000))), ""},
		{"a pipe for a program", replace("/proc/7/exe", pipe), ""},
		{"a pipe for counters", replace("/sys/fs/cgroup/a/cpu.stat", pipe), ""},
		{"a pipe for a command line", replace("/proc/7/cmdline", pipe), ""},
		{"an environment of 1 GB", replace("/proc/7/environ", long(1<<30)), ""},
	}
}

// A Process covers what it shows of its cgroups. It is started by a user without privileges, in namespaces of its own.
type Process struct {
	Name string
	// Script is one of sh. $point is where the CPU controller's cgroups are mounted, and $quota the name of the file of a quota.
	Script string
}

// Processes are all of them. Regardless of what they do, a reader gets an answer, and the limit that is in force: it is seen through the
// reader's own mounts.
func Processes() []Process {
	const cover = "mount -t tmpfs t $point; "
	all := []Process{
		{"nothing there", cover},
		{"a pipe", cover + "mkfifo $point/$quota"},
		{"a link to a device that doesn't end", cover + "ln -s /dev/zero $point/$quota"},
		{"a link to its own memory", cover + "ln -s /proc/self/mem $point/$quota"},
		{"a link through a process's root", cover + "ln -s /proc/1/root/dev/zero $point/$quota"},
		{"a link to itself", cover + "ln -s $quota $point/$quota"},
		{"a device mounted over it", cover + "touch $point/$quota; mount --bind /dev/zero $point/$quota"},
		{"a device mounted over a real one", "mount --bind /dev/zero $point/$quota"},
		{"a pipe mounted over a real one", "mkfifo $dir/p; mount --bind $dir/p $point/$quota"},
		{"a directory", cover + "mkdir $point/$quota"},
		{"a file of 1 GB", cover + "truncate -s 1G $point/$quota"},
		{"a limit that is made up", cover + "echo 900000 100000 > $point/$quota; touch $point/cgroup.procs"},
		{"a pipe for the period", cover + "echo 100 > $point/$quota; mkfifo $point/cpu.cfs_period_us"},
		{"pipes for all else", cover + "for f in cgroup.procs cpu.stat cpu.stat.local cpu.pressure cpuacct.usage cpu.shares cpu.weight; do mkfifo $point/$f; done"},
		{"a pipe for the memory", "mount -t tmpfs t /sys/fs/cgroup/memory; mkfifo /sys/fs/cgroup/memory/memory.max_usage_in_bytes"},
		{"a mount point that is a link", "mount -t tmpfs t /sys/fs/cgroup; ln -s /dev /sys/fs/cgroup/cpu; ln -s /dev/zero /sys/fs/cgroup/$quota"},
		{"a mount point that is a pipe", "mount -t tmpfs t /sys/fs/cgroup; mkfifo /sys/fs/cgroup/cpu"},
		{"mounts by the thousand", "mount -t tmpfs t /mnt; i=0; while [ $i -lt 1100 ]; do mkdir /mnt/$i; mount --bind $point /mnt/$i || break; i=$((i+1)); done"},
		{"a mount point with spaces", `mount -t tmpfs t /mnt; mkdir "/mnt/a b\\040c"; mount --bind $point "/mnt/a b\\040c"; ` + cover + "mkfifo $point/$quota"},
		{"nothing but its own root", "mount -t tmpfs t /proc; " + cover + "mkfifo $point/$quota"},
	}
	for i := range all {
		all[i].Script = fmt.Sprintf("%s; exec sleep 300", strings.TrimSuffix(all[i].Script, "; "))
	}
	return all
}
