package load

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mostDoze is the longest that may be dozed.
const mostDoze = 20 * time.Millisecond

// doze waits. The scheduler does not learn of it, as with loop.pollEvents: telling it would take two thirds of the CPU time at 4,000 calls
// of gRPC a second.
func doze(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// dozing makes the goroutine one that dozes: its thread wakes in time, and others have a P meanwhile. undo gives that back.
func dozing() (undo func()) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if ps := runtime.GOMAXPROCS(0); ps == 1 {
		runtime.GOMAXPROCS(2)
		return func() { runtime.GOMAXPROCS(ps) }
	}
	return func() {}
}
