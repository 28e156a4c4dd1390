package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// scope is a group that systemd makes for a command, and removes when it has ended.
type scope struct {
	group
	unit string
	args []string // systemd-run and its arguments up to the command

	mu    sync.Mutex
	last  Counters // the last that could be read: the group is gone with the command
	known bool
}

// placeInScope finds out by trying whether systemd gives us limits.
func placeInScope(l Limit) (place, error) {
	run, err := exec.LookPath("systemd-run")
	if err != nil {
		return nil, errors.New("there is no systemd-run")
	}
	if !exists("/run/systemd/system") {
		return nil, errors.New("systemd does not run here")
	}
	if l.Burst != 0 {
		return nil, errNoBurst
	}
	s := &scope{unit: ownName() + ".scope"}
	s.args = append([]string{run}, scopeArgs(l, os.Geteuid() == 0)...)
	try := exec.Command(run, append(s.args[1:len(s.args):len(s.args)], "--", "true")...)
	if out, err := try.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("systemd-run: %w: %s", err, bytes.TrimSpace(out))
	}
	s.args = append(s.args, "--unit="+s.unit, "--")
	return s, nil
}

// scopeArgs tells systemd-run what a limit is.
func scopeArgs(l Limit, root bool) []string {
	args := []string{"--scope", "--quiet", "--collect"}
	if !root {
		args = append(args, "--user")
	}
	if l.CPUs != 0 {
		// A quota of systemd is a share of one CPU in each period, with two digits after the point.
		args = append(args, "--property=CPUQuota="+strconv.FormatFloat(l.CPUs*100, 'f', 2, 64)+"%",
			"--property=CPUQuotaPeriodSec="+micros(l.PeriodInForce())+"us")
	}
	if l.Memory != 0 {
		args = append(args, "--property=MemoryMax="+strconv.FormatInt(l.Memory, 10))
	}
	return args
}

func (s *scope) kind() Kind { return Scope }

func (s *scope) command(c *processConfig) {
	c.name, c.args = s.args[0], append(s.args, c.args...)
}

func (s *scope) enter() error { return nil }
func (s *scope) leave()       {}

// started waits until systemd has put the process into its scope. systemd-run becomes the command then: the process
// stays the same.
func (s *scope) started(pid int) error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		dir, version, _, err := cgroup.Locate(cgroup.Source{PID: pid}, "cpu")
		if err != nil {
			break
		}
		if filepath.Base(dir) != s.unit {
			if startTime(pid) == "" {
				break // it has ended
			}
			continue
		}
		s.version, s.cpu, s.usage = version, dir, dir
		if dir, _, _, err := cgroup.Locate(cgroup.Source{PID: pid}, "cpuacct"); version == cgroup.V1 && err == nil {
			s.usage = dir
		}
		if dir, _, _, err := cgroup.Locate(cgroup.Source{PID: pid}, "memory"); err == nil && strings.HasSuffix(dir, s.unit) {
			s.memory = dir
		}
		if err := s.stat.open(version, s.cpu, s.usage); err != nil {
			return fmt.Errorf("systemd has put the command into a group without a limit on CPU: %w", err)
		}
		return nil
	}
	// A command that ended at once has taken its scope with it. So has one that systemd refused, which has said so.
	s.warnings = append(s.warnings, errors.New("the command ended before its scope could be read"))
	return nil
}

// counters reads the scope's counters, or gives the last that could be read.
func (s *scope) counters() (Counters, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stat.stat != nil {
		if c, ok := s.stat.read(); ok {
			s.last, s.known = c, true
		}
	}
	return s.last, s.known
}

func (s *scope) finish(res *Result) {
	res.Warnings = append(res.Warnings, s.warnings...)
	s.readMemory(res)
	s.stat.close()
	if s.cpu != "" && exists(s.cpu) {
		res.Left = killAll(s.cpu)
	}
}
