//go:build unix

package journal

import "syscall"

// nonblock opens a pipe without waiting for whoever is at its other end.
const nonblock = syscall.O_NONBLOCK
