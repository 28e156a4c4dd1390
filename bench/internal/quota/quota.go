// Package quota puts a benchmark, and the programs that it starts, under a CPU limit of the kernel. It needs root.
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

func move(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}
