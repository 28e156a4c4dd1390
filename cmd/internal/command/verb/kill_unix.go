//go:build unix

package verb

import (
	"os"
	"syscall"
)

// kill sends this process a signal.
func kill(sig syscall.Signal) { syscall.Kill(os.Getpid(), sig) }
