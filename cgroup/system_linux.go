package cgroup

import (
	"math/bits"
	"syscall"
	"unsafe"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// schedAffinity asks the kernel how many CPUs a process may use, 0 meaning the calling thread: the Go runtime asks for the same. It returns
// 0 when the kernel doesn't say.
func schedAffinity(pid int) int {
	var mask [128]uint64 // 8192 CPUs, the most that Linux can be built for
	n, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, uintptr(pid), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return 0
	}
	cpus := 0
	for _, word := range mask[:(n+7)/8] {
		cpus += bits.OnesCount64(word)
	}
	return cpus
}

// readFile reads a whole file into *buf, which it makes larger if need be. It calls the kernel directly: package os would register each
// file with the poller, which costs more than reading it. A file of one record, as those of cgroups are, ends where the kernel returns less
// than there is room for; a list of mounts, which may be long, may go on.
func readFile(path string, buf *[]byte, most int) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	for err == syscall.EINTR {
		fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	n := 0
	for err == nil {
		if n == len(*buf) {
			if n >= most {
				err = errTooLong
				break
			}
			*buf = append(*buf, *buf...)
		}
		var m int
		m, err = syscall.Read(fd, (*buf)[n:])
		if err == nil && m == 0 {
			break
		}
		if err == syscall.EINTR {
			m, err = 0, nil
		}
		n += m
		if most <= foreign.Group && err == nil && m > 0 && n < len(*buf) {
			break
		}
	}
	if fd >= 0 {
		syscall.Close(fd)
	}
	if err != nil {
		return nil, err
	}
	return (*buf)[:n], nil
}

// exists reports whether there is such a file, even if it may not be read.
func exists(path string) bool {
	var st syscall.Stat_t
	return !isMissing(syscall.Stat(path, &st))
}

//go:noinline
func isMissing(err error) bool { return err == syscall.ENOENT || err == syscall.ENOTDIR }
