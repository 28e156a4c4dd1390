package workload

import (
	"os/exec"
	"runtime"
	"syscall"
)

// run runs a command that ends with us, even if we are killed: git at once, as it would go on to write into a directory that was removed
// meanwhile, and go after what it is compiling, as it has files of its own to remove. Linux signals them when the thread that started them
// ends.
func run(cmd *exec.Cmd) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signal := syscall.SIGKILL
	if cmd.Args[0] == "go" {
		signal = syscall.SIGINT
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: signal}
	return cmd.Output()
}
