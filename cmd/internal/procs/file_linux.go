package procs

import (
	"os"
	"syscall"
)

// A FileID says which file it was, and that it is still the same.
type FileID struct {
	dev, ino uint64
	size     int64
	changed  syscall.Timespec
}

// NewFileID returns the identity of an open file.
func NewFileID(f *os.File) (FileID, error) {
	info, err := f.Stat()
	if err != nil {
		return FileID{}, err
	}
	return newFileID(info), nil
}

// StatFileID returns the identity of the file that a path leads to, without opening it.
func StatFileID(path string) (FileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return FileID{}, err
	}
	return newFileID(info), nil
}

func newFileID(info os.FileInfo) FileID {
	s := info.Sys().(*syscall.Stat_t)
	return FileID{dev: uint64(s.Dev), ino: s.Ino, size: s.Size, changed: s.Ctim}
}
