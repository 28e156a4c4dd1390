package heartbeat

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawNanosleep is clock_nanosleep without the Go scheduler knowing.
func rawNanosleep(d *unix.Timespec) {
	unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(d)), 0, 0, 0)
}
