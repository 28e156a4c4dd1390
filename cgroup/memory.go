package cgroup

import "runtime"

// Memory is the memory limit of a process.
type Memory struct {
	State  State // Unknown, None or Limited
	Reason error
	Bytes  int64  // for Limited: the smallest limit of all levels
	From   string // for Limited: the directory of the level that sets it; the topmost that can be seen with "/..", where it is above
	High   bool   // it is a memory.high, beyond which the kernel slows the group down and reclaims memory; else it kills
}

// noMemoryLimit is where v1 stops counting: it writes "no limit" as the largest number of whole pages in an int64.
const noMemoryLimit = 1 << 62

// ReadMemory finds the memory limit that s is held to: the smallest one, of all levels, at which the kernel kills or reclaims memory.
// Systems other than Linux have no groups, and so none of their limits.
func ReadMemory(s Source) Memory {
	if runtime.GOOS != "linux" && s.Root == "" {
		return Memory{State: None}
	}
	r := s.reader("memory limit")
	defer r.close()
	return r.memory(s)
}

// memory looks for the limit by the mounts that Read looks at.
func (r *reader) memory(s Source) Memory {
	m, ok := r.memoryHere()
	if !ok && s.PID != 0 && !s.Inside {
		r.useNodeMounts()
		if node, ok := r.memoryHere(); ok {
			return node
		}
		r.useOwnMounts()
		if own, ok := r.memoryHere(); ok {
			return own
		}
	}
	return m
}

// memoryHere looks for the limit by one process's mounts. ok is false if none of them leads to the group.
func (r *reader) memoryHere() (m Memory, ok bool) {
	var l Limits
	dir, err := r.locate(&l, "memory")
	if err == errUnused {
		return Memory{State: None}, true
	}
	if err != nil {
		return Memory{Reason: err}, false
	}
	names := []string{"/memory.max", "/memory.high"}
	if l.Version == V1 {
		names = []string{"/memory.limit_in_bytes"}
	}
	m = Memory{State: None}
	for own := dir; ; dir = parent(dir) {
		for i, name := range names {
			n, err := r.memoryLimit(dir, name)
			if err != nil {
				return Memory{Reason: err}, true
			}
			if n > 0 && (m.State == None || n < m.Bytes) {
				m = Memory{State: Limited, Bytes: n, From: dir, High: i > 0}
			}
		}
		if len(dir) <= len(l.Mount.Point) {
			if l.Version == V1 {
				r.hierarchical(own, dir, &m)
			}
			return m, true
		}
	}
}

// hierarchical corrects what was found on the way from the process's own directory to the top, by what the kernel of v1 says of all levels
// together: it knows those above the top, and whether a level holds those below it.
func (r *reader) hierarchical(own, top string, m *Memory) {
	switch n, ok := r.stat(own, "/memory.stat", "hierarchical_memory_limit"); {
	case !ok || n == m.Bytes:
	case n >= noMemoryLimit:
		*m = Memory{State: None}
	case m.State == None || n < m.Bytes:
		*m = Memory{State: Limited, Bytes: n, From: join(top, "/..")}
	default:
		*m = Memory{State: Limited, Bytes: n, From: own}
	}
}

// memoryLimit reads one level's limit, 0 for none.
func (r *reader) memoryLimit(dir, file string) (int64, error) {
	text, err := r.file(dir, file)
	if isMissing(err) {
		return 0, nil
	}
	if err != nil {
		return 0, r.fail(dir, file, err)
	}
	text = trim(text)
	n := parsePositive(text)
	switch {
	case text == "max" || text == "0" || n >= noMemoryLimit:
		return 0, nil
	case n == 0:
		return 0, r.fail(dir, file, badText(text))
	}
	return n, nil
}
