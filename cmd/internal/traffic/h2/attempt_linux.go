package h2

import (
	"net"
	"syscall"
	"unsafe"
)

// An attempt writes to a socket what that takes at once.
type attempt struct {
	raw  syscall.RawConn // nil: it isn't a socket, but TLS
	data []byte
	n    int
	do   func(fd uintptr) bool
}

func (a *attempt) of(nc net.Conn) {
	s, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	a.raw = raw
	a.do = func(fd uintptr) bool {
		// A socket of package net never blocks, and so the scheduler need not know.
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(a.data))), uintptr(len(a.data)))
		if errno == 0 {
			a.n = int(n)
		}
		return true // whatever came of it: the code that writes the rest will see
	}
}

// write returns how much was written.
func (a *attempt) write(data []byte) int {
	if a.raw == nil {
		return 0
	}
	a.data, a.n = data, 0
	if a.raw.Write(a.do) != nil {
		return 0
	}
	return a.n
}
