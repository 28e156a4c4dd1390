package trial

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// endWithUs makes a process end with the thread that starts it, and so when we are killed.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// groupWithUs is the same of a shell, with what it starts in a group of its own, which endGroup ends.
func groupWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func endGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// machine says what this machine is.
func machine() (kernel, cpu string, memory int64) {
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err == nil {
		memory = int64(info.Totalram) * int64(info.Unit)
	}
	return kernel, procs.CPUModel(), memory
}
