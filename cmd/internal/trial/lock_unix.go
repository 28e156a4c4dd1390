//go:build unix

package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Lock waits until no other lab is at work on this machine: two at once would measure each other. It calls waiting once
// if it has to wait. Where there can be no lock there is none.
func Lock(ctx context.Context, waiting func()) (unlock func(), err error) {
	path := filepath.Join(os.TempDir(), "unthrottle-bench.lock")
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return func() {}, nil
	}
	for told := false; ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil // and leave the file: whoever waits has it open
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !told {
			waiting()
			told = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
