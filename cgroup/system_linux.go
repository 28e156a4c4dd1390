package cgroup

import (
	"io/fs"
	"math/bits"
	"syscall"
	"unsafe"
)

// schedAffinity asks the kernel for the mask of a process, 0 meaning the calling thread: that is what the Go runtime
// asks for as well.
func schedAffinity(pid int) (int, error) {
	for size := 1024; ; size *= 2 { // enough for 8192 CPUs at first
		mask := make([]byte, size)
		n, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, uintptr(pid), uintptr(size), uintptr(unsafe.Pointer(&mask[0])))
		if errno == syscall.EINVAL && size < 1<<20 {
			continue // the kernel has more CPUs than the mask has bits
		}
		if errno != 0 {
			return 0, errno
		}
		cpus := 0
		for _, b := range mask[:n] {
			cpus += bits.OnesCount8(b)
		}
		return cpus, nil
	}
}

// readFile reads a whole file into buf, which it returns, grown if need be. It calls the kernel directly: package os
// would register each file with the poller, which costs more than reading it.
func readFile(path string, buf []byte) (data, grown []byte, err error) {
	fd, err := ignoringEINTR(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, buf, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	n := 0
	for {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := ignoringEINTR(func() (int, error) { return syscall.Read(fd, buf[n:]) })
		if err != nil {
			return nil, buf, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if m == 0 {
			return buf[:n], buf, nil
		}
		n += m
	}
}

// exists reports whether there is such a directory, also when it may not be looked into.
func exists(dir string) bool {
	var st syscall.Stat_t
	_, err := ignoringEINTR(func() (int, error) { return 0, syscall.Stat(dir, &st) })
	return err != syscall.ENOENT && err != syscall.ENOTDIR
}

// isCgroupDir reports whether dir is on a cgroup file system. A directory that was taken for one may not be: another
// mount can cover the one that mountinfo shows.
func isCgroupDir(dir string) bool {
	var st syscall.Statfs_t
	_, err := ignoringEINTR(func() (int, error) { return 0, syscall.Statfs(dir, &st) })
	const v1Magic, v2Magic = 0x27e0eb, 0x63677270
	return err != nil || int64(st.Type) == v1Magic || int64(st.Type) == v2Magic
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
