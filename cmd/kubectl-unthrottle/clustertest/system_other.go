//go:build !linux

package clustertest

import (
	"errors"
	"os"
	"syscall"
)

const supported = false

func dieWithParent() *syscall.SysProcAttr { return nil }

func ownNamespaces() *syscall.SysProcAttr { return nil }

func ownGroup() *syscall.SysProcAttr { return nil }

func peakMemory(*os.ProcessState) int64 { return 0 }

type port struct{ number int }

func reservePort() (port, error) { return port{}, errors.ErrUnsupported }

func (port) close() {}
