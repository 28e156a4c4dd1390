package runner

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttr makes the process end when our thread ends: nothing is left running outside of our sight if we are killed.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until a child has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

func exitDetails(state *os.ProcessState, res *Result) {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		res.ExitCode = 128 + int(status.Signal())
		res.Signal = unix.SignalName(status.Signal())
	}
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if ok {
		res.Voluntary, res.Involuntary = int64(usage.Nvcsw), int64(usage.Nivcsw)
	}
	if ok && res.PeakOf != OfGroup {
		res.PeakMemory, res.PeakOf = int64(usage.Maxrss)*1024, OfProcess
		var own syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err == nil && usage.Maxrss <= own.Maxrss {
			res.PeakOf = AtMost
		}
	}
}

// setAffinity binds the calling thread, and with it what it starts.
func setAffinity(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(0, &set)
}

// checkCpuset holds the CPUs that are asked for against those that we may use.
func checkCpuset(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return err
	}
	var allowed []string
	for c := range 1024 {
		if own.IsSet(c) {
			allowed = append(allowed, strconv.Itoa(c))
		}
	}
	for _, c := range cpus {
		if !own.IsSet(c) {
			return refused("CPU %d may not be used here, only %s", c, strings.Join(allowed, ","))
		}
	}
	return nil
}

// fromTerminal reports whether a signal that came to us was a key at our terminal: it went to the command as well.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
