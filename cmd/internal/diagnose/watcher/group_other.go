//go:build !linux

package watcher

import "syscall"

// ownGroup is for Linux: nothing watches elsewhere.
func ownGroup() *syscall.SysProcAttr { return nil }
