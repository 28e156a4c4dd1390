//go:build unix

package cli

import (
	"fmt"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and the group of another. A user who may not do that does not replace someone else's file.
func keepOwner(f *os.File, other os.FileInfo) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := mine.Sys().(*syscall.Stat_t)
	want, known := other.Sys().(*syscall.Stat_t)
	if !ok || !known || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("the new file would not belong to user %d and group %d: %w", want.Uid, want.Gid, err)
	}
	return nil
}
