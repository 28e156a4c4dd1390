//go:build !linux

package procs

import "os"

// A FileID is a file's name: without /proc, a file is read once.
type FileID struct{ name string }

// NewFileID returns the identity of an open file.
func NewFileID(f *os.File) (FileID, error) { return FileID{f.Name()}, nil }

// StatFileID returns the path, unless nothing is there.
func StatFileID(path string) (FileID, error) {
	_, err := os.Stat(path)
	return FileID{path}, err
}
