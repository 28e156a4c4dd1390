package heartbeat

import (
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/watcher"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// Beat is the heartbeat: it waits for a line from in, beats, and writes pulses to out, until that fails because they are no longer read.
// Its process does nothing else.
//
// The sleep is a system call that the Go scheduler does not know about. Otherwise its monitor would take the P within each sleep, and look
// for the next such call every 20 µs.
func Beat(in io.Reader, out io.Writer) error {
	if err := watcher.AwaitBegin(in); err != nil {
		return err
	}
	// Without this the kernel may put off each wake-up by 50 µs. It applies to this thread. The goroutine stays on it without being locked
	// to it: a locked one would make the monitor switch threads to let others run, and there aren't any.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	var p Pulse
	var line []byte
	pace := pacer{sleep: Interval, cpu: procs.OwnCPU()}
	began := time.Now()
	last, told := time.Duration(0), time.Duration(0)
	for {
		nanosleep(pace.sleep)
		now := time.Since(began)
		p.Beats++
		if now-last-pace.sleep >= Late {
			p.Freezes = append(p.Freezes, newFreeze(last+pace.sleep, now))
		}
		last = now
		if now-told < reportEvery {
			continue
		}
		p.At, p.CPU, told = now, procs.OwnCPU(), now
		line = p.append(line[:0])
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("writing a pulse: %w", err)
		}
		p.Freezes = p.Freezes[:0]
		pace.adjust(p.At, p.CPU)
	}
}

// nanosleep sleeps, at most as long as asked: a signal ends it.
func nanosleep(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	rawNanosleep(&t)
}
