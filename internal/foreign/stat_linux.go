package foreign

import (
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A status is what is known of a file without opening it.
type status struct {
	ID
	mode  uint32
	mount uint64 // its number in lists of mounts; 0: not known
}

// statx is what the call of that name writes.
type statx struct {
	mask, blockSize      uint32
	attributes           uint64
	links, uid, gid      uint32
	mode, _              uint16
	ino, size, blocks, _ uint64
	_, _, changed, _     struct {
		sec  int64
		nsec uint32
		_    int32
	}
	_, _, major, minor uint32
	mount              uint64
	_                  [13]uint64
}

// noStatx is that a kernel before 4.11, or a filter, has refused it.
var noStatx atomic.Bool

// stat says what is at a path from a directory, or, for "", what a descriptor is of. A file system that is elsewhere is not asked: it may
// not answer. Links at the end of a path are followed.
func stat(dir int, path string) (status, error) {
	const (
		emptyPath, noAutomount, dontSync = 0x1000, 0x800, 0x4000
		basic, mountID                   = 0x7ff, 0x1000
	)
	if n := statxNumber(); n != 0 && !noStatx.Load() {
		name, err := syscall.BytePtrFromString(path)
		if err != nil {
			return status{}, err
		}
		var x statx
		_, err = retry(func() (int, error) {
			_, _, errno := syscall.Syscall6(n, uintptr(dir), uintptr(unsafe.Pointer(name)), emptyPath|noAutomount|dontSync, basic|mountID, uintptr(unsafe.Pointer(&x)), 0)
			if errno != 0 {
				return 0, errno
			}
			return 0, nil
		})
		if err == nil {
			s := status{mode: uint32(x.mode)}
			s.ID = ID{dev: device(x.major, x.minor), ino: x.ino, size: int64(x.size), changed: [2]int64{x.changed.sec, int64(x.changed.nsec)}}
			if x.mask&mountID != 0 {
				s.mount = x.mount
			}
			return s, nil
		}
		if err != syscall.ENOSYS && err != syscall.EPERM {
			return status{}, err
		}
		noStatx.Store(true)
	}
	var st syscall.Stat_t
	err := syscall.Fstat(dir, &st)
	if path != "" {
		err = syscall.Stat(path, &st)
	}
	return status{ID: newID(&st), mode: st.Mode}, err
}

// device is a device's number as stat has it.
func device(major, minor uint32) uint64 {
	return uint64(major&0xfff)<<8 | uint64(major&^0xfff)<<32 | uint64(minor&0xff) | uint64(minor&^0xff)<<12
}

func major(device uint64) uint32 { return uint32(device>>8)&0xfff | uint32(device>>32)&^0xfff }

// statxNumber is the call's number, 0 where it is not known.
func statxNumber() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 332
	case "arm64", "riscv64", "loong64":
		return 291
	case "386", "ppc64", "ppc64le":
		return 383
	case "arm":
		return 397
	case "s390x":
		return 379
	}
	return 0
}

func digits(n uint64) string { return strconv.FormatUint(n, 10) }

// processOf is the directory of the process that a path belongs to, such as /proc/7; "" for one that belongs to none.
func processOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/proc/")
	if !ok {
		return ""
	}
	pid, _, ok := strings.Cut(rest, "/")
	if !ok || !isPID(pid) {
		return ""
	}
	return path[:len("/proc/")+len(pid)]
}
