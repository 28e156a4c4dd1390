// Package ours answers: where may we keep what nobody else may have a hand in? In goes what it is for: a cache, work that takes a
// temporary directory, a lock, a file for a result; out comes a directory or a file that is this user's alone, or why there is none.
//
// Much of it lies in places where everybody may write, or, with root at work in somebody's project, where somebody else owns the
// directory. There a name says nothing: who was there before us may have put a directory, a link or a pipe in its place. So a
// directory is taken only if it is ours and nobody else may write to it or move it away; a result is written to a file that has no
// name until it is whole; and what is left of a process that was killed is known by a name that tells whose it was.
//
// It looks at owners and modes. Access that lists beside them give is not seen, and neither is what root does.
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

// Dir makes a directory, and those that it is in, unless it is there. It is an error if it is not ours alone. resolved is its path
// without links, by which it is to be used: that path leads to the same place as long as nobody but root and we change it.
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

// Keeps makes a directory unless it is there, and reports why others could put something else in the place of what is in it.
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

// walk follows a path as far as it is there. Each directory on the way must be one in which nobody but root and we can put another
// thing in the place of ours, and each link must be of root or of us.
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

// alone reports why a directory is not ours alone. Whoever may write to it may have put something there before.
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

// keeps reports why a directory may lose to others what we have in it.
func keeps(dir string, info fs.FileInfo) error {
	switch {
	case !trusted(info):
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode()&fs.ModeSticky == 0 && othersWrite(info) && !ownGroupWrites(info):
		return fmt.Errorf("others may write to %s, and move what is in it", dir)
	}
	return nil
}

// Private reports why an open file may hold what others have written: it must be a plain file of this user's, to which nobody else
// may write.
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

// Cache is a directory of ours for things that stay until somebody removes them, which may be at any time: in the user's directory
// of caches or, for one who has no home, as in many containers, among the temporary files. The error says why there is none.
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
