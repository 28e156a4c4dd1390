// Package ours answers: where may we keep what no one else may touch? In goes what it is for: a cache, work that takes a temporary
// directory, a lock, a file for a result; out comes a directory or a file that is this user's alone, or the reason why not.
//
// Much of it is in places where every user may write, or, when root works in a user's project, where another user owns the directory. There
// a name says nothing: someone who was there before us may have put a directory, a link or a pipe in its place. So a directory is taken
// only if it is ours and no one else may write to it or move it away; a result is written to a file that has no name until it is complete;
// and what a killed process has left is recognised by its name, which says whose it was.
//
// It looks at owners and modes. Access that ACLs grant besides is not seen, and neither is what root does.
package ours

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mostLinks is how many symbolic links one path may lead through: as many as Linux follows (MAXSYMLINKS).
const mostLinks = 40

// Dir makes a directory, and those that it is in, unless it is there. It is an error if it is not ours alone. resolved is its path without
// links, which must be used: that path leads to the same place as long as only root and we change it.
func Dir(path string) (resolved string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, rest, err := walk(path)
	if err != nil {
		return "", err
	}
	for _, name := range rest {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	return dir, alone(dir, info)
}

// Alone reports why a directory is not ours alone; nil: it is.
func Alone(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	return alone(dir, info)
}

// Keeps makes a directory unless it is there, and reports why other users could replace what is in it.
func Keeps(path string) error {
	dir, rest, err := walk(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Join(rest...)), 0o755); err != nil {
		return err
	}
	dir = filepath.Join(dir, filepath.Join(rest...))
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	return keeps(dir, info)
}

// walk follows a path as far as it exists. In each directory on the way only root and we may be able to replace what is ours, and each link
// must be root's or ours.
func walk(path string) (dir string, rest []string, err error) {
	volume := filepath.VolumeName(path)
	dir, rest = volume+string(filepath.Separator), split(path[len(volume):])
	for links := 0; len(rest) > 0; {
		info, err := os.Lstat(dir)
		if err != nil {
			return "", nil, err
		}
		if err := keeps(dir, info); err != nil {
			return "", nil, err
		}
		if rest[0] == ".." {
			dir, rest = filepath.Dir(dir), rest[1:]
			continue
		}
		next := filepath.Join(dir, rest[0])
		info, err = os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return dir, rest, nil
		case err != nil:
			return "", nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			if !trusted(info) {
				return "", nil, fmt.Errorf("%s is a link of another user's", next)
			}
			target, err := os.Readlink(next)
			if err != nil {
				return "", nil, err
			}
			if links++; links > mostLinks {
				return "", nil, fmt.Errorf("%s leads through more than %d links", path, mostLinks)
			}
			if filepath.IsAbs(target) {
				volume = filepath.VolumeName(target)
				dir, target = volume+string(filepath.Separator), target[len(volume):]
			}
			rest = append(split(target), rest[1:]...)
		case !info.IsDir():
			return "", nil, fmt.Errorf("%s is not a directory", next)
		default:
			dir, rest = next, rest[1:]
		}
	}
	return dir, nil, nil
}

// split are the names on a path.
func split(path string) (names []string) {
	for _, name := range strings.Split(path, string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// alone reports why a directory is not ours alone. Anyone who may write to it may have put something there before.
func alone(dir string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0 || !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case !own(info):
		return fmt.Errorf("%s belongs to another user", dir)
	case othersWrite(info):
		return fmt.Errorf("others may write to %s", dir)
	}
	return nil
}

// keeps reports why others may replace what we have in a directory.
func keeps(dir string, info fs.FileInfo) error {
	switch {
	case !trusted(info):
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode()&fs.ModeSticky == 0 && othersWrite(info) && !ownGroupWrites(info):
		return fmt.Errorf("others may write to %s, and move what is in it", dir)
	}
	return nil
}

// Private reports why an open file may hold what others have written: it must be a regular file of this user's, to which no one else may
// write.
func Private(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a plain file", f.Name())
	case !own(info):
		return fmt.Errorf("%s belongs to another user", f.Name())
	case othersWrite(info):
		return fmt.Errorf("others may write to %s", f.Name())
	}
	return nil
}

// Cache is a directory of ours for things that stay until someone removes them, which may be at any time: in the user's cache directory or,
// for a user without a home, as in many containers, among the temporary files. The error says why it can't be had.
func Cache(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err == nil {
		var dir string
		if dir, err = Dir(filepath.Join(base, "unthrottle", name)); err == nil {
			return dir, nil
		}
	}
	dir, late := Dir(filepath.Join(os.TempDir(), shared(), name))
	if late != nil {
		return "", errors.Join(err, late)
	}
	return dir, nil
}

// Local is a directory of ours on this machine, which other machines don't share: among the temporary files, else that of Cache.
func Local() (string, error) {
	if dir, err := Dir(filepath.Join(os.TempDir(), shared())); err == nil {
		return dir, nil
	}
	return Cache("")
}

// shared is the name of this user's directory among the temporary files. Others know it too, and may have been there first.
func shared() string { return fmt.Sprintf("unthrottle-%d", os.Geteuid()) }
