package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Hung is a file system with one file, a program, that stops answering on request, as a FUSE whose daemon hangs or an NFS whose server is
// gone. Only the programs that it starts see it. It takes root, and a kernel with FUSE.
type Hung struct {
	point   string // where it is mounted
	device  int
	program []byte
	calls   chan func() // for the thread that sees the mount
	ended   chan struct{}

	mu    sync.Mutex // held while a request is taken and answered
	state state
	kept  [][]byte // answers that were not given
}

// NewHung mounts a program at a directory. It answers at first.
func NewHung(point string, program []byte) (*Hung, error) {
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/fuse: %w", err)
	}
	h := &Hung{point: point, device: device, program: program, calls: make(chan func()), ended: make(chan struct{})}
	mounted := make(chan error)
	go h.thread(mounted)
	if err := <-mounted; err != nil {
		unix.Close(device)
		return nil, err
	}
	go h.serve()
	return h, nil
}

// thread is the one that sees the mount. It ends with its goroutine, and its mounts with it.
func (h *Hung) thread(mounted chan<- error) {
	runtime.LockOSThread()
	mounted <- func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("unsharing mounts: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("making mounts private: %w", err)
		}
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", h.device)
		if err := unix.Mount("hung", h.point, "fuse", 0, options); err != nil {
			return fmt.Errorf("mounting a FUSE: %w", err)
		}
		return nil
	}()
	for call := range h.calls {
		call()
	}
}

// Command is the program, started through a shell: Go waits with a whole thread until what it starts is loaded, which a collection of
// garbage would wait for, and the goroutine that has to answer for the collection.
func (h *Hung) Command(args ...string) *exec.Cmd {
	return exec.Command("/bin/sh", append([]string{"-c", `exec "$0" "$@"`, filepath.Join(h.point, "program")}, args...)...)
}

// StartHung starts a program from such a file system, which the end of the test ends. prepare changes the command before. A test is
// skipped where there is no FUSE, but not where CI says that there is one.
func StartHung(t testing.TB, program string, prepare func(*exec.Cmd), args ...string) (*Hung, *exec.Cmd) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHung(t.TempDir(), text)
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" || os.Getenv("UNTHROTTLE_REQUIRE_CLUSTER") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	c := h.Command(args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	prepare(c)
	if err := h.Start(c); err != nil {
		h.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		h.Close()
		c.Wait()
	})
	for name := ""; name != "program\n"; time.Sleep(time.Millisecond) { // until it is no longer a shell
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.Process.Pid))
		if name = string(text); err != nil {
			t.Fatal(err)
		}
	}
	return h, c
}

// Start starts a program that sees the file system.
func (h *Hung) Start(c *exec.Cmd) error {
	result := make(chan error)
	h.calls <- func() { result <- c.Start() }
	return <-result
}

// What a Hung does with requests.
type state int

const (
	answers state = iota
	stopped       // takes none
	takes         // takes them, and does not answer
	closed
)

// Stop takes no further requests. A process that waits for an answer can be killed.
func (h *Hung) Stop() { h.set(stopped) }

// Keep takes requests and does not answer them. Then the kernel doesn't let a waiting process end, not even by SIGKILL.
func (h *Hung) Keep() { h.set(takes) }

// Answer answers again, those that wait too.
func (h *Hung) Answer() { h.set(answers) }

// Close ends the file system. Processes that wait for it get an error.
func (h *Hung) Close() {
	h.Answer()
	h.set(closed)
	<-h.ended
	h.calls <- func() { unix.Unmount(h.point, unix.MNT_FORCE|unix.MNT_DETACH) }
	close(h.calls)
	unix.Close(h.device)
}

func (h *Hung) set(now state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = now
	if now == answers {
		for _, answer := range h.kept {
			unix.Write(h.device, answer)
		}
		h.kept = nil
	}
}

// What FUSE asks. See linux/fuse.h.
const (
	fuseLookup, fuseForget, fuseGetattr          = 1, 2, 3
	fuseOpen, fuseRead, fuseRelease              = 14, 15, 18
	fuseFlush, fuseInit, fuseInterrupt, fuseMany = 25, 26, 36, 42
)

// serve answers until it is closed.
func (h *Hung) serve() {
	defer close(h.ended)
	buf := make([]byte, 1<<20)
	for h.serveOne(buf) {
		unix.Poll([]unix.PollFd{{Fd: int32(h.device), Events: unix.POLLIN}}, 10)
	}
}

// serveOne takes a request, if there is one. It reports whether it must be called again.
func (h *Hung) serveOne(buf []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.state {
	case closed:
		return false
	case stopped:
		time.Sleep(time.Millisecond)
		return true
	}
	n, err := unix.Read(h.device, buf)
	if err == unix.ENODEV { // the last mount is gone
		return false
	}
	if err == nil && n >= 40 {
		switch answer := h.answer(buf[:n]); {
		case answer == nil:
		case h.state == takes:
			h.kept = append(h.kept, answer)
		default:
			unix.Write(h.device, answer)
		}
	}
	return true
}

// answer is the answer to a request; nil: it wants none.
func (h *Hung) answer(request []byte) []byte {
	little := binary.LittleEndian
	operation, unique, node := little.Uint32(request[4:]), little.Uint64(request[8:]), little.Uint64(request[16:])
	body := request[40:]
	var out bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			binary.Write(&out, little, v)
		}
	}
	attr := func(node uint64) { // never kept: each look asks again
		mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
		if node == 2 {
			mode, size = unix.S_IFREG|0o755, uint64(len(h.program))
		}
		put(node, size, (size+511)/512, [3]uint64{}, [3]uint32{}, mode, uint32(1), [2]uint32{}, uint32(0), uint32(4096), uint32(0))
	}
	errno := unix.Errno(0)
	switch operation {
	case fuseForget, fuseMany, fuseInterrupt:
		return nil
	case fuseInit:
		put(uint32(7), uint32(26), uint32(128<<10), uint32(0), uint16(12), uint16(10), uint32(128<<10), uint32(1), uint16(0), uint16(0), [8]uint32{})
	case fuseLookup:
		if string(bytes.TrimRight(body, "\x00")) != "program" {
			errno = unix.ENOENT
			break
		}
		put(uint64(2), uint64(0), uint64(0), uint64(0), uint32(0), uint32(0))
		attr(2)
	case fuseGetattr:
		put(uint64(0), uint32(0), uint32(0))
		attr(node)
	case fuseOpen:
		put(uint64(1), uint32(0), uint32(0))
	case fuseRead:
		offset, size := min(little.Uint64(body[8:]), uint64(len(h.program))), uint64(little.Uint32(body[16:]))
		out.Write(h.program[offset:min(offset+size, uint64(len(h.program)))])
	case fuseRelease, fuseFlush:
	default:
		errno = unix.ENOSYS
	}
	if errno != 0 {
		out.Reset()
	}
	head := make([]byte, 16, 16+out.Len())
	little.PutUint32(head, uint32(16+out.Len()))
	little.PutUint32(head[4:], uint32(-int32(errno)))
	little.PutUint64(head[8:], unique)
	return append(head, out.Bytes()...)
}
