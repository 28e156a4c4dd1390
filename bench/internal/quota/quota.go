// Package quota puts a benchmark, and the programs that it starts, under limits of the kernel. It needs root.
package quota

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/unthrottle/unthrottle/cgroup"
)

// Enter moves this process, and so the programs that it starts, into a new cgroup with a quota. It makes the group just
// below the root of the CPU hierarchy and changes no other.
func Enter(cpus float64) (leave func(), err error) {
	l := cgroup.Read(cgroup.Source{})
	if len(l.Levels) == 0 {
		return nil, fmt.Errorf("no cgroup is visible: %w", l.Reason)
	}
	home, top := l.Levels[0].Dir, l.Levels[len(l.Levels)-1].Dir
	dir := filepath.Join(top, "unthrottle-test-"+strconv.Itoa(os.Getpid())+"-bench")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a cgroup: %w", err)
	}
	leave = func() {
		if err := errors.Join(move(home), os.Remove(dir)); err != nil {
			fmt.Fprintln(os.Stderr, "leaving the cgroup:", err)
		}
	}
	file, quota := "cpu.max", strconv.Itoa(int(cpus*100000))
	if l.Version == cgroup.V1 {
		file = "cpu.cfs_quota_us"
	}
	err = os.WriteFile(filepath.Join(dir, file), []byte(quota), 0o644)
	if err == nil {
		err = move(dir)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// EnterMemory is Enter for a memory limit in bytes. With cgroup v2 it is that of the group that Enter has made.
func EnterMemory(bytes int64) (leave func(), err error) {
	home, version, mount, err := cgroup.Locate(cgroup.Source{}, "memory")
	if err != nil {
		return nil, fmt.Errorf("no memory cgroup is visible: %w", err)
	}
	limit := []byte(strconv.FormatInt(bytes, 10))
	if version == cgroup.V2 {
		return func() {}, os.WriteFile(filepath.Join(home, "memory.max"), limit, 0)
	}
	dir := filepath.Join(mount.Point, "unthrottle-test-"+strconv.Itoa(os.Getpid())+"-bench")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a memory cgroup: %w", err)
	}
	leave = func() {
		if err := errors.Join(move(home), os.Remove(dir)); err != nil {
			fmt.Fprintln(os.Stderr, "leaving the memory cgroup:", err)
		}
	}
	if err = errors.Join(os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), limit, 0), move(dir)); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

func move(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}
