package cgroup

import (
	"strconv"
	"strings"
)

// affinity counts the CPUs that the process may run on now. On the running system the kernel is asked; below another
// root it is read from the process's status file.
func (r *reader) affinity() (int, error) {
	if r.root == "" {
		pid, _ := strconv.Atoi(strings.TrimPrefix(r.proc, "/proc/")) // 0 for "self"
		if n := schedAffinity(pid); n > 0 {
			return n, nil
		}
	}
	file := r.proc + "/status"
	text, err := r.file("", file)
	if err != nil {
		return 0, r.fail("", file, err)
	}
	_, rest, _ := strings.Cut(text, "\nCpus_allowed:\t")
	mask, _ := cut(rest, '\n')
	n, ok := parseCPUMask(mask)
	if !ok {
		return 0, r.fail("", file, badText(mask))
	}
	return n, nil
}
