package host

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// cpuTime is the CPU time that a process has used. For this system's processes the kernel gives it to the nanosecond, including threads
// that are running now, and to any user. The clock's number is ~pid << 3 | 2, see clock_getcpuclockid(3).
func cpuTime(root string, pid int) (time.Duration, bool) {
	if isHere(root) {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
			return 0, false
		}
		return time.Duration(t.Nano()), true
	}
	stat, err := foreign.ReadRecord(root, procs.Dir("", pid)+"/stat", foreign.Record)
	if err != nil {
		return 0, false
	}
	return procs.ParseCPUTime(string(stat))
}

// allowed are the CPUs that a process may run on, in some form. For this system's processes one call is enough.
func allowed(root string, pid int) string {
	if isHere(root) {
		var set unix.CPUSet
		if unix.SchedGetaffinity(pid, &set) != nil {
			return ""
		}
		bits := make([]byte, 0, unsafe.Sizeof(set))
		for _, word := range set {
			bits = binary.NativeEndian.AppendUint64(bits, uint64(word))
		}
		return string(bits)
	}
	return allowedLine(root, pid)
}
