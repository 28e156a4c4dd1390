package watcher

import "syscall"

// ownGroup gives a process a group of its own, so that the terminal's signals don't reach it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
