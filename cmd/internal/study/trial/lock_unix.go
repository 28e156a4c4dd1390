//go:build unix

package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Lock waits until no other lab of this user's is at work on this machine: two at once would measure each other. busy is called with the
// lab that it waits for, and its error ends the wait; note is called about other users' labs, which are not waited for: a lock that other
// users can hold, they can hold for ever. Where no lock is possible, it does without.
func Lock(ctx context.Context, note func(string), busy func(holder string) error) (unlock func(), err error) {
	f, err := openLock()
	if err != nil {
		note(fmt.Sprintf("another bench or tune that runs now is not waited for: %v", err))
		return func() {}, nil
	}
	for told := false; ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			if other := strangers("/proc"); other != 0 {
				note(fmt.Sprintf("another user's unthrottle runs here, process %d: if it measures too, the two disturb each other", other))
			}
			sign(f)
			return func() { f.Close() }, nil // and leave the file: a lab that waits has it open
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		if !told {
			told = true
			if err := busy(holder(f)); err != nil {
				f.Close()
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("%s is still at work: %w", holder(f), context.Cause(ctx))
			f.Close()
			return nil, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// sign says in the lock whose it is, for the labs that wait.
func sign(f *os.File) {
	verb := "bench"
	if len(os.Args) > 1 && os.Args[1] == "tune" {
		verb = "tune"
	}
	f.Truncate(0)
	f.WriteAt(fmt.Appendf(nil, "%s %d %d\n", verb, os.Getpid(), time.Now().Unix()), 0)
}

// holder is the lab that has the lock, and since when, if the lock says so.
func holder(f *os.File) string {
	const unknown = "another bench or tune on this machine"
	data := make([]byte, 64)
	n, _ := f.ReadAt(data, 0)
	var verb string
	var pid int
	var since int64
	if _, err := fmt.Sscanf(string(data[:n]), "%s %d %d\n", &verb, &pid, &since); err != nil || verb != "bench" && verb != "tune" || pid < 1 {
		return unknown
	}
	began := time.Unix(since, 0)
	return fmt.Sprintf("another %s (process %d, since %s, %s ago)", verb, pid, began.Format("15:04:05"), quantity.Lasting(max(0, time.Since(began).Round(time.Second).Seconds())))
}

func openLock() (*os.File, error) {
	dir, err := ours.Local()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "bench.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := ours.Private(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// strangers is a process of another user's that has our name; 0: none can be seen.
func strangers(proc string) (pid int) {
	pids, err := procs.List("")
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		name, err := foreign.Read("", filepath.Join(dir, "comm"), foreign.Record)
		if err != nil || strings.TrimSpace(string(name)) != "unthrottle" {
			continue
		}
		var stat unix.Stat_t
		if err := unix.Stat(dir, &stat); err != nil || stat.Uid == uint32(os.Geteuid()) {
			continue
		}
		return pid
	}
	return 0
}
