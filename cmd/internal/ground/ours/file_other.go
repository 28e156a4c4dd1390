//go:build !linux

package ours

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A File is a file that takes its name when it is whole: until then there is the old one, or none.
type File struct {
	*os.File
	path string
}

// Create makes a file that is to have a name.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), Name(unfinished)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// Keep gives the file its name, and closes it. A file that had the name gives it its mode.
func (f *File) Keep() error {
	err := f.keep()
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func (f *File) keep() error {
	made, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if old, err := os.Lstat(f.path); err == nil && old.Mode().IsRegular() {
		f.Chmod(old.Mode().Perm())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if now, err := os.Lstat(f.Name()); err != nil || !os.SameFile(made, now) {
		return errSwapped
	}
	return os.Rename(f.Name(), f.path)
}

// Drop closes the file, and takes it away.
func (f *File) Drop() {
	f.Close()
	os.Remove(f.Name())
}

// ErrNoReader is the error of a pipe without a reader.
var ErrNoReader = errors.New("nothing reads this pipe")

// InPlace opens what can't be replaced and is written to directly: a pipe or a device. ok is false where a file has to be made.
func InPlace(path string) (f *os.File, ok bool, err error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil, false, nil
	}
	if info.IsDir() {
		return nil, true, &fs.PathError{Op: "open", Path: path, Err: errors.New("is a directory")}
	}
	f, err = os.OpenFile(path, os.O_WRONLY, 0)
	return f, true, err
}
