package attach

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile is a file that no directory has.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("unthrottle-trace", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "the trace in memory"), nil
}
