package trial

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// endWithUs makes a process end with the thread that starts it, and so when we are killed.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// groupWithUs is the same of a shell, with what it starts in a group of its own, which endGroup ends.
func groupWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func endGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// guardScript ends a group when nothing can be read any longer, unless a line has come before.
const guardScript = `trap '' INT QUIT HUP TERM; read -r line || kill -s KILL -- "-$1"`

// guardGroup ends a process group if we are killed. stop ends the guard.
func guardGroup(group int) (stop func(), err error) {
	guard := exec.Command("sh", "-c", guardScript, "sh", strconv.Itoa(group))
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := guard.Start(); err != nil {
		return nil, err
	}
	return func() {
		io.WriteString(alive, "\n")
		guard.Wait()
	}, nil
}

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
