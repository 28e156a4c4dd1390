//go:build unix

package ours

import (
	"io/fs"
	"os"
	"syscall"
)

// own reports whether a file belongs to the user that we run as.
func own(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == uint32(os.Geteuid())
}

// trusted reports whether a file is ours or root's, who can do everything anyway.
func trusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || stat.Uid == uint32(os.Geteuid()))
}

func othersWrite(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// ownGroupWrites reports whether, besides the owner, only the group with the owner's number may write: by the convention of most
// distributions that is a group of its own for each user, and homes are often made with a umask of 002.
func ownGroupWrites(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Gid == stat.Uid && info.Mode().Perm()&0o002 == 0
}
