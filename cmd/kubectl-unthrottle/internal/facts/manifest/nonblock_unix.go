//go:build unix

package manifest

import "syscall"

// nonblock keeps the opening of a pipe from waiting for somebody to write into it.
const nonblock = syscall.O_NONBLOCK
