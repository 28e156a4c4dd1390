//go:build !linux

package pauses

import (
	"io"
	"syscall"
)

// Watch does nothing here.
func Watch(io.Reader, io.Writer) error { return errNotSupported }

func now() int64 { return 0 }

const supported = false

func ownGroup() *syscall.SysProcAttr { return nil }
