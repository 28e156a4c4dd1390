//go:build !linux

package builds

import "os/exec"

func run(cmd *exec.Cmd) ([]byte, error) { return cmd.Output() }
