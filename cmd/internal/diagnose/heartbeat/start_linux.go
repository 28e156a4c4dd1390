package heartbeat

import "syscall"

const supported = true

// ownGroup gives the heartbeat a process group of its own, so that the terminal's signals don't reach it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
