//go:build !linux

package heartbeat

import "syscall"

const supported = false

func ownGroup() *syscall.SysProcAttr { return nil }
