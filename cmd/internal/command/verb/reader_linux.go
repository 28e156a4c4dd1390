package verb

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// awaitReadersEnd calls gone when one of the writers is a pipe that is no longer read, unless ctx is done before. A write would show it as
// well, but what takes minutes may write nothing until its end.
func awaitReadersEnd(ctx context.Context, gone func(), writers ...io.Writer) {
	var pipes []unix.PollFd
	for _, w := range writers {
		f, ok := w.(*os.File)
		if !ok {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			pipes = append(pipes, unix.PollFd{Fd: int32(f.Fd())}) // an error is reported without being asked for
		}
	}
	if len(pipes) == 0 {
		return
	}
	const look = time.Second // for the end of ctx; the end of a reader is seen at once
	for ctx.Err() == nil {
		n, err := unix.Poll(pipes, int(look.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if n > 0 {
			gone()
			return
		}
	}
}
