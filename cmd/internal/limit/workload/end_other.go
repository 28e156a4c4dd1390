//go:build !linux

package workload

import "os/exec"

func run(cmd *exec.Cmd) ([]byte, error) { return cmd.Output() }
