//go:build !linux

package trial

import (
	"os/exec"
	"syscall"
)

func endWithUs() *syscall.SysProcAttr { return nil }

func groupWithUs() *syscall.SysProcAttr { return nil }

func endGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func guardGroup(int) (stop func(), err error) { return func() {}, nil }

func machine() (kernel, cpu string, memory int64) { return "", "", 0 }
