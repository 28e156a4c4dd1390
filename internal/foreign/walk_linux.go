package foreign

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// Flags that package syscall doesn't have, or not for all processors.
const (
	atCWD      = -0x64
	oPath      = 0x200000 | syscall.O_CLOEXEC
	oDirectory = syscall.O_DIRECTORY
	oNoFollow  = syscall.O_NOFOLLOW
	toRead     = syscall.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY | syscall.O_CLOEXEC | syscall.O_LARGEFILE

	resolveNoXdev       = 0x01
	resolveNoMagicLinks = 0x02
	resolveNoSymlinks   = 0x04
	resolveBeneath      = 0x08
	resolveInRoot       = 0x10
)

// File systems, by the numbers that the kernel gives them. See statfs(2).
const (
	cgroupV1 = 0x0027e0eb
	cgroupV2 = 0x63677270
	procfs   = 0x00009fa0
)

// fileSystem is the kind of file system that a file is on, 0 when that isn't known.
func fileSystem(fd int) uint32 {
	var s syscall.Statfs_t
	for {
		switch err := syscall.Fstatfs(fd, &s); err {
		case nil:
			return uint32(s.Type)
		case syscall.EINTR:
		default:
			return 0
		}
	}
}

var (
	errNoProc = errors.New("can't be opened safely: no /proc is mounted here")
	errLinks  = errors.New("too many links on the way")
	errDeep   = errors.New("too many directories on the way")
)

// resolve opens a path as one that begins at the directory base, which no link and no ".." leads out of.
func (t *Tree) resolve(base int, path string, flags int) (int, error) {
	path = strings.TrimLeft(path, "/")
	if path == "" {
		path = "."
	}
	if t.hand {
		return walk(base, path, flags)
	}
	for tries := 0; ; tries++ {
		fd, err := openat2(base, path, flags, resolveInRoot|resolveNoMagicLinks)
		if err != syscall.EAGAIN || tries == 16 { // something was renamed while the kernel followed ".."
			return fd, err
		}
	}
}

const (
	// mostLinks is how many links are followed, as by the kernel.
	mostLinks = 40
	// mostNames is how many names a path may have, links followed, and those that ".." has to go through again. A path that is
	// passed to the kernel has 2,048 at most, real ones have a dozen.
	mostNames = 2048
)

// walk is resolve for kernels before 5.6, and where a filter refuses openat2. It goes from name to name, and looks at each before it
// goes on. A link of the kernel's own is taken by its text, as any other.
func walk(base int, path string, flags int) (int, error) {
	left := strings.Split(path, "/")
	var way []string // from base to at
	at, links := -1, 0
	defer func() {
		if at >= 0 {
			syscall.Close(at)
		}
	}()
	for n := 0; ; n++ {
		if n > mostNames || len(left) > mostNames {
			return -1, errDeep
		}
		from := at
		if from < 0 {
			from = base
		}
		if len(left) == 0 {
			return openat(from, ".", flags)
		}
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			// A slash or a dot at the end says that it is a directory.
			continue
		case "..":
			if len(way) > 0 {
				way = way[:len(way)-1]
			}
			n += len(way) // which are gone through again
			var err error
			if from, err = straight(base, way); err != nil {
				return -1, err
			}
			if at >= 0 {
				syscall.Close(at)
			}
			at = from
			continue
		}
		fd, err := openat(from, name, oPath|oNoFollow)
		if err != nil {
			return -1, err
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			syscall.Close(fd)
			return -1, err
		}
		last := len(left) == 0
		switch kind := st.Mode & syscall.S_IFMT; {
		case kind == syscall.S_IFLNK:
			target, err := readlinkat(fd, "")
			syscall.Close(fd)
			if links++; err == nil && links > mostLinks {
				err = errLinks
			}
			if err != nil {
				return -1, err
			}
			if strings.HasPrefix(target, "/") {
				if at >= 0 {
					syscall.Close(at)
				}
				at, way = -1, nil
			}
			left = append(strings.Split(target, "/"), left...)
		case kind != syscall.S_IFDIR && (!last || flags&oDirectory != 0):
			syscall.Close(fd)
			return -1, syscall.ENOTDIR
		case last && kind != syscall.S_IFDIR:
			return fd, nil
		default:
			if at >= 0 {
				syscall.Close(at)
			}
			at, way = fd, append(way, name)
		}
	}
}

// straight opens a directory by names of which none is a link.
func straight(base int, names []string) (int, error) {
	at, err := openat(base, ".", oPath|oDirectory)
	for _, name := range names {
		if err != nil {
			return -1, err
		}
		var next int
		next, err = openat(at, name, oPath|oDirectory|oNoFollow)
		syscall.Close(at)
		at = next
	}
	if err != nil {
		return -1, err
	}
	return at, nil
}

func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}

func openat(dir int, path string, flags int) (int, error) {
	return retry(func() (int, error) { return syscall.Openat(dir, path, flags, 0) })
}

// openHow is what openat2(2) takes.
type openHow struct{ flags, mode, resolve uint64 }

func openat2(dir int, path string, flags int, resolve uint64) (int, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := openHow{flags: uint64(flags), resolve: resolve}
	return retry(func() (int, error) {
		fd, _, errno := syscall.Syscall6(openat2Number(), uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno != 0 {
			return -1, errno
		}
		return int(fd), nil
	})
}

// openat2Number is the call's number: new calls have the same one everywhere, save that MIPS begins at others.
func openat2Number() uintptr {
	switch runtime.GOARCH {
	case "mips", "mipsle":
		return 4437
	case "mips64", "mips64le":
		return 5437
	}
	return 437
}

// hasOpenat2 reports whether the kernel has openat2 and nothing refuses it, as filters of system calls do.
func hasOpenat2() bool {
	probe.Do(func() {
		if fd, err := openat2(atCWD, "/", oPath|oDirectory, resolveInRoot|resolveNoMagicLinks); err == nil {
			syscall.Close(fd)
			probed = true
		}
	})
	return probed
}

var (
	probe  sync.Once
	probed bool
)

// readlinkat reads a link in a directory, or the one that dir is if name is "".
func readlinkat(dir int, name string) (string, error) {
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	buf := make([]byte, 4096) // PATH_MAX: the kernel has no longer ones
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(buf[:n]), nil
}
