package cgroup

import (
	"fmt"
)

// Memory is the memory limit of a process.
type Memory struct {
	State  State // Unknown, None or Limited
	Reason error
	Bytes  int64  // for Limited: the smallest limit of all levels
	From   string // for Limited: the directory of the level that sets it
}

// noMemoryLimit is where v1 stops counting: it writes "no limit" as the largest number of whole pages in an int64.
const noMemoryLimit = 1 << 62

// ReadMemory finds the memory limit that s is held to.
func ReadMemory(s Source) Memory {
	r := newReader(s)
	h, err := r.locate("memory")
	if err != nil {
		return Memory{Reason: fmt.Errorf("reading memory limit: %w", err)}
	}
	name := "/memory.max"
	if h.version == V1 {
		name = "/memory.limit_in_bytes"
	}
	m := Memory{State: None}
	for dir := h.dir; ; dir = parent(dir) {
		file := join(dir, name)
		n, err := r.memoryLimit(file)
		if err != nil {
			return Memory{Reason: fmt.Errorf("reading memory limit: %w", err)}
		}
		if n > 0 && (m.State == None || n < m.Bytes) {
			m = Memory{State: Limited, Bytes: n, From: dir}
		}
		if len(dir) <= len(h.mount.Point) {
			return m
		}
	}
}

// memoryLimit reads one level's limit, 0 when there is none.
func (r *reader) memoryLimit(file string) (int64, error) {
	data, err := r.file(file)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	text := trim(data)
	if string(text) == "max" {
		return 0, nil
	}
	n, ok := parseInt(text)
	if !ok || n < 0 {
		return 0, fmt.Errorf("%s: bad limit %q", file, text)
	}
	if n >= noMemoryLimit {
		return 0, nil
	}
	return n, nil
}
