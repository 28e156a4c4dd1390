//go:build !linux

package disturbance

import (
	"io"
	"syscall"
)

// WatchPauses does nothing here.
func WatchPauses(io.Reader, io.Writer) error { return errNotSupported }

func now() int64 { return 0 }

const supported = false

func ownGroup() *syscall.SysProcAttr { return nil }
