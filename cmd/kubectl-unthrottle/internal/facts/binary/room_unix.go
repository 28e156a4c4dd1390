//go:build linux || darwin || freebsd

package binary

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// room is how many bytes more the file system of f can take. One that does not say has enough: it will refuse what it can't take.
func room(f *os.File) int64 {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil || s.Bsize <= 0 || uint64(s.Bavail) > math.MaxInt64/uint64(s.Bsize) {
		return math.MaxInt64
	}
	return int64(uint64(s.Bavail) * uint64(s.Bsize))
}
