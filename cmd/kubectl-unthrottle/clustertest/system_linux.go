package clustertest

import (
	"fmt"
	"os"
	"syscall"
)

const supported = true

func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// ownNamespaces are those of a node. Its first process makes the one of control groups itself, after it has entered them.
func ownNamespaces() *syscall.SysProcAttr {
	attributes := dieWithParent()
	attributes.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	return attributes
}

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// peakMemory is the most bytes that an ended process had in memory.
func peakMemory(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return int64(usage.Maxrss) << 10
	}
	return 0
}

// reusePort is SO_REUSEPORT of socket(7), which package syscall lacks for some architectures.
const reusePort = 0xf

// A port of the loopback interface that is kept from others until close. A program of the same user may listen on it if it
// sets SO_REUSEPORT too; a port that was merely found to be free could be anyone's by then.
type port struct {
	number int
	socket int
}

func reservePort() (p port, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("reserving a port: %w", err)
		}
	}()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			syscall.Close(socket)
		}
	}()
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, reusePort, 1); err != nil {
		return p, err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return p, err
	}
	address, err := syscall.Getsockname(socket)
	if err != nil {
		return p, err
	}
	return port{address.(*syscall.SockaddrInet4).Port, socket}, nil
}

func (p port) close() { syscall.Close(p.socket) }
