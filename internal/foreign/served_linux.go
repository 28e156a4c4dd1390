package foreign

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A FUSE is worse than other file systems that do not answer: once its daemon has taken a request, the kernel doesn't let a thread that
// waits for the answer end, not even by SIGKILL, and that keeps its whole process from ending. So a file that another user's daemon serves
// is first opened and read by a process of its own, which can be left behind.

const (
	answering = time.Second     // how long a daemon may take
	askAgain  = 5 * time.Second // after which it is asked again
)

// silent are the file systems, by their devices, whose daemons have not answered, and when they may be asked again.
var silent = struct {
	sync.Mutex
	devices map[uint64]time.Time
}{devices: map[uint64]time.Time{}}

var never = time.Unix(1<<40, 0)

// answers checks that the file system of a file answers, if another user's daemon serves it. The error is ErrStuck.
func (f *File) answers() error {
	if !f.served() {
		return nil
	}
	silent.Lock()
	defer silent.Unlock()
	if time.Now().Before(silent.devices[f.Device]) || Behind() >= MostBehind {
		return ErrStuck
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	pid, err := ask(f.fd, int(w.Fd()))
	w.Close()
	if err != nil {
		return err
	}
	r.SetReadDeadline(time.Now().Add(answering))
	_, err = r.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		ended(pid)
		delete(silent.devices, f.Device)
		return nil
	}
	silent.devices[f.Device] = never
	behind.Add(1)
	go func() {
		syscall.Kill(pid, syscall.SIGKILL)
		again := time.Now()
		if !ended(pid) {
			again = again.Add(askAgain)
		}
		silent.Lock()
		silent.devices[f.Device] = again
		silent.Unlock()
		behind.Add(-1)
	}()
	return ErrStuck
}

// ended waits for a process, and reports whether it has come to its own end.
func ended(pid int) bool {
	for {
		var s syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &s, 0, nil); err != syscall.EINTR {
			return s.Exited()
		}
	}
}

// served reports whether the file is another process's, and on a file system that a daemon serves. Nothing but the kernel is asked. What
// has a disk's number has a disk, and root has mounted it.
func (f *File) served() bool {
	if f.process == "" || f.mount == 0 || major(f.Device) != 0 {
		return false
	}
	mounts, err := Read(f.root, f.process+"/mountinfo", Mounts)
	if err != nil {
		return false
	}
	return isServed(string(mounts), f.mount)
}

// isServed looks for a mount in a list of them, and says whether a daemon serves it. A line is
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func isServed(mounts string, mount uint64) bool {
	for len(mounts) > 0 {
		var line string
		line, mounts, _ = strings.Cut(mounts, "\n")
		id, rest, _ := strings.Cut(line, " ")
		if id != digits(mount) {
			continue
		}
		_, kind, _ := strings.Cut(rest, " - ")
		kind, _, _ = strings.Cut(kind, " ")
		kind, _, _ = strings.Cut(kind, ".") // fuse.sshfs
		return kind == "fuse" || kind == "virtiofs"
	}
	return false
}

// ask makes a process that opens and reads a file, of which it has a descriptor that opens nothing, writes a byte to another
// descriptor and ends.
func ask(fd, tell int) (pid int, err error) {
	path, _ := syscall.BytePtrFromString("/proc/self/fd/0")
	var buf [8]byte
	var all, before [16]byte
	for i := range all {
		all[i] = 0xff
	}
	size := uintptr(8) // of a set of signals
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		size = 16
	}
	const setMask = 2 // SIG_SETMASK; MIPS has 3
	how := uintptr(setMask)
	if size == 16 {
		how = 3
	}
	// A signal in the child would run what Go has for it, which the child has no threads for.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), size, 0, 0)
	n, errno := fork(uintptr(fd), uintptr(tell), openat2Number()-1, path, &buf[0])
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(&before)), 0, size, 0, 0)
	runtime.KeepAlive(path)
	if errno != 0 {
		return 0, os.NewSyscallError("clone", errno)
	}
	return int(n), nil
}

// fork is the part that comes back in the child, where nothing of Go works but calls of the kernel: other threads may have held any lock.
// The child closes everything that its parent has open.
//
//go:norace
//go:nosplit
//go:noinline
func fork(fd, tell, closeRange uintptr, path, buf *byte) (pid uintptr, errno syscall.Errno) {
	flags, stack := uintptr(syscall.SIGCHLD), uintptr(0)
	if runtime.GOARCH == "s390x" {
		flags, stack = stack, flags
	}
	if pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, flags, stack, 0, 0, 0, 0); errno != 0 || pid != 0 {
		return pid, errno
	}
	// The pipe's end is out of the way of 0 and 1 first: it may be either.
	if tell, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, tell, syscall.F_DUPFD, 3); errno == 0 {
		syscall.RawSyscall(syscall.SYS_DUP3, fd, 0, 0)
		syscall.RawSyscall(syscall.SYS_DUP3, tell, 1, 0)
		syscall.RawSyscall(closeRange, 2, 1<<30, 0) // since Linux 5.9
		const cwd = ^uintptr(99)                    // AT_FDCWD, -100
		file, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, cwd, uintptr(unsafe.Pointer(path)), syscall.O_RDONLY|syscall.O_NONBLOCK, 0, 0, 0)
		if errno == 0 {
			syscall.RawSyscall(syscall.SYS_READ, file, uintptr(unsafe.Pointer(buf)), 1)
		}
		syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(buf)), 1)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
