//go:build unix

package manifest

import "syscall"

// nonblock keeps the opening of a pipe from waiting for a writer.
const nonblock = syscall.O_NONBLOCK
