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
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
)

// scope is a group that systemd makes for a command. It is removed when the last process has ended, which need not be waited for; so what
// it counts is read repeatedly while the command runs.
type scope struct {
	group
	limit Limit
	unit  string
	args  []string // systemd-run and its arguments up to the command

	mu   sync.Mutex
	last cgroup.Counters // the last that could be read
	peak Result          // the last that could be read of memory

	stopWatch func()
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
	s := &scope{limit: l, args: append([]string{run}, scopeArgs(l, os.Geteuid() == 0)...)}
	if err := s.try(); err != nil {
		return nil, err
	}
	s.setUnit()
	return s, nil
}

// setUnit gives the scope a name of its own. The command follows these arguments.
func (s *scope) setUnit() {
	s.unit = ours.Name(prefix) + ".scope"
	s.args = append(s.args[:len(s.args):len(s.args)], "--unit="+s.unit, "--")
}

// try makes a scope for a program that waits until we have looked at it. That is needed: systemd takes properties that it
// can do nothing about, where a user's manager does not have the controllers.
func (s *scope) try() error {
	try := &scope{limit: s.limit, args: s.args}
	try.setUnit()
	const waits = "cat"
	cmd := exec.Command(try.args[0], append(try.args[1:], waits)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe() // its end is that of cat, even if it is we who end
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("systemd-run: %w", err)
	}
	pid := cmd.Process.Pid
	// Any other name says nothing: for a moment after its start it is still ours.
	there := await(pid, func() bool { return program(pid) == waits })
	if there {
		err = try.locate(pid)
		sweepScopes(filepath.Dir(try.cpu))
	} else {
		cmd.Process.Kill() // for it may hang
	}
	in.Close()
	if ended := cmd.Wait(); !there {
		return fmt.Errorf("systemd-run: %w: %s", ended, bytes.TrimSpace(stderr.Bytes()))
	}
	return err
}

// sweepScopes removes what killed runners have left. A command that was killed while systemd was about to move it leaves an
// empty scope, of which systemd no longer hears anything.
func sweepScopes(dir string) {
	stop := []string{"stop", "--quiet"}
	if os.Geteuid() != 0 {
		stop = append(stop, "--user")
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); ours.Abandoned(prefix, name) && strings.HasSuffix(name, ".scope") {
			exec.Command("systemctl", append(stop[:len(stop):len(stop)], name)...).Run() // the next one will try again
		}
	}
}

// scopePatience is how long systemd may take to make a scope, which are some milliseconds on a machine that is not busy.
const scopePatience = 30 * time.Second

// await waits until something is true of a process, and reports whether it came to that.
func await(pid int, ok func() bool) bool {
	for deadline := time.Now().Add(scopePatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
		if ours.StartTime(pid) == "" {
			return false
		}
	}
	return false
}

// program is the name of the program that a process runs.
func program(pid int) string {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSpace(string(data))
}

// scopeArgs are systemd-run's arguments for a limit.
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
	if !await(pid, func() bool { return s.locate(pid) == nil }) {
		if ours.StartTime(pid) != "" {
			return fmt.Errorf("systemd has made no scope in %v", scopePatience)
		}
		return nil // A command that ended at once has taken its scope with it. So has one that systemd refused, which has said so.
	}
	if s.cpu != "" {
		// Where that fails, the scope is gone already.
		_ = s.stat.open(s.version, s.cpu, s.usage)
	}
	s.counters()
	s.watch()
	if s.limit.CPUs != 0 {
		s.warnOfParents(s.limit)
	}
	return nil
}

// locate finds the scope's directories by a process in it, and looks whether they limit it.
func (s *scope) locate(pid int) error {
	own := func(controller string) string {
		dir, version, _, err := cgroup.Locate(cgroup.Source{PID: pid}, controller)
		if err != nil || filepath.Base(dir) != s.unit {
			return ""
		}
		s.version = version
		return dir
	}
	s.memory, s.usage, s.cpu = own("memory"), own("cpuacct"), own("cpu")
	if s.limit.CPUs != 0 && !exists(filepath.Join(s.cpu, "cpu.max")) && !exists(filepath.Join(s.cpu, "cpu.cfs_quota_us")) {
		return notDelegated("cpu")
	}
	if s.limit.Memory != 0 && !exists(filepath.Join(s.memory, "memory.max")) && !exists(filepath.Join(s.memory, "memory.limit_in_bytes")) {
		return notDelegated("memory")
	}
	return nil
}

func notDelegated(controller string) error {
	err := fmt.Errorf("the scope has no %s controller", controller)
	if os.Geteuid() != 0 {
		err = fmt.Errorf("%w (as root: systemctl edit user@.service, and there: [Service] Delegate=cpu memory pids)", err)
	}
	return err
}

// scopeStep is how old the figures are at most where systemd was faster than we to see the end.
const scopeStep = 50 * time.Millisecond

// watch reads what is counted until the end.
func (s *scope) watch() {
	stop, stopped := make(chan struct{}), make(chan struct{})
	s.stopWatch = func() { close(stop); <-stopped }
	go func() {
		defer close(stopped)
		tick := time.NewTicker(scopeStep)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				s.counters()
			}
		}
	}()
}

// counters reads the scope's counters, or gives the last that could be read.
func (s *scope) counters() cgroup.Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stat.stat != nil {
		if c := s.stat.read(); c.Known {
			s.last = c
		}
	}
	var res Result
	if s.readMemory(&res); res.PeakOf == OfGroup {
		s.peak = res
	}
	return s.last
}

func (s *scope) finish(res *Result) {
	if s.stopWatch != nil {
		s.stopWatch()
	}
	s.counters()
	s.stat.close()
	res.Warnings = append(res.Warnings, s.warnings...)
	if s.limit.CPUs != 0 && !s.last.Known {
		res.Warnings = append(res.Warnings, errors.New("the command ended before its scope could be read"))
	}
	if s.peak.PeakOf == OfGroup {
		res.PeakMemory, res.PeakOf, res.OOMKills = s.peak.PeakMemory, OfGroup, s.peak.OOMKills
	}
	for _, dir := range s.dirs() {
		res.Left = max(res.Left, endAll(dir))
	}
}

// endAll kills the processes of a group, and those that they start meanwhile, until none are left.
func endAll(dir string) (left int) {
	for range 500 {
		n := killAll(dir)
		if n == 0 {
			break
		}
		left = max(left, n)
		time.Sleep(time.Millisecond)
	}
	return left
}
