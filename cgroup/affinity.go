package cgroup

import (
	"bytes"
	"fmt"
)

// affinity counts the CPUs that the process may run on now. On the running system the kernel is asked; below another
// root the process's status file tells.
func (r *reader) affinity() (int, error) {
	if r.Root == "" {
		if n, err := schedAffinity(r.PID); err == nil {
			return n, nil
		}
	}
	file := r.proc + "/status"
	data, err := r.file(file)
	if err != nil {
		return 0, err
	}
	for len(data) > 0 {
		var line []byte
		line, data = cutLine(data)
		mask, ok := bytes.CutPrefix(line, []byte("Cpus_allowed:\t"))
		if !ok {
			continue
		}
		n, ok := parseCPUMask(mask)
		if !ok {
			return 0, fmt.Errorf("%s: bad Cpus_allowed %q", file, mask)
		}
		return n, nil
	}
	return 0, fmt.Errorf("%s: no line Cpus_allowed", file)
}
