package load

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A timer waits more exactly than time.Sleep, which wakes half a millisecond late where nothing else wakes the thread:
// the runtime's poller waits in whole milliseconds. A timerfd is a file that becomes readable in time, and that wakes the
// poller within some 30 µs.
type timer struct {
	fd   int
	file *os.File
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timer{fd, os.NewFile(uintptr(fd), "timerfd")}, nil
}

// sleep waits. It returns false if close was called.
func (t *timer) sleep(d time.Duration) bool {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))}
	if unix.TimerfdSettime(t.fd, 0, &spec, nil) != nil {
		return false
	}
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err == nil
}

// close ends a sleep, and the timer.
func (t *timer) close() { t.file.Close() }
