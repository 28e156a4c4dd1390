package ours

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A File is a file that gets its name when it is complete: until then the old one is there, or none. The directory is opened once, so that
// another in its place changes nothing.
type File struct {
	*os.File
	dir  *os.File
	name string // that it is to have, in dir
	temp string // that it has until then; "": none, so that no one can put anything in its place and nothing is left of it
}

// Create makes a file that will have a name. A link on the way there that belongs to another user is not followed; see follow.
func Create(path string) (*File, error) {
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f := &File{dir: dir, name: filepath.Base(path)}
	f.sweep()
	mode := uint32(0o666) // less the umask
	if _, there := f.old(); there {
		mode = 0o600 // until it has the old one's
	}
	fd, err := unix.Openat(f.at(), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
	if err == nil && !f.canBeNamed(fd) {
		unix.Close(fd)
		err = unix.EOPNOTSUPP
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		fd, err = f.createNamed(mode) // the file system has no files without a name
	}
	if err != nil {
		dir.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f.File = os.NewFile(uintptr(fd), path)
	return f, nil
}

func (f *File) at() int { return int(f.dir.Fd()) }

// canBeNamed reports whether a file without a name can be given one: that needs /proc.
func (f *File) canBeNamed(fd int) bool {
	var own, seen unix.Stat_t
	return unix.Fstat(fd, &own) == nil && unix.Stat(inProc(fd), &seen) == nil && sameFile(&own, &seen)
}

func inProc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (f *File) createNamed(mode uint32) (fd int, err error) {
	for range mostNames {
		f.temp = Name(unfinished)
		fd, err = unix.Openat(f.at(), f.temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	return fd, err
}

// sweep removes what killed processes have left in the directory.
func (f *File) sweep() {
	d, err := os.Open(inProc(f.at()))
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		var stat unix.Stat_t
		if Abandoned(unfinished, name) && unix.Fstatat(f.at(), name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && stat.Uid == uint32(os.Geteuid()) {
			unix.Unlinkat(f.at(), name, 0)
		}
	}
}

// old is the mode of a plain file of ours that has the name now.
func (f *File) old() (mode uint32, there bool) {
	var stat unix.Stat_t
	if unix.Fstatat(f.at(), f.name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Uid != uint32(os.Geteuid()) {
		return 0, false
	}
	return stat.Mode & 0o777, true
}

// Keep gives the file its name, and closes it. One of ours that had the name gives it its mode; a link that had the name is replaced.
func (f *File) Keep() error {
	err := f.keep()
	if err != nil && f.temp != "" && f.is(f.temp) {
		unix.Unlinkat(f.at(), f.temp, 0)
	}
	f.dir.Close()
	if closeErr := f.File.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (f *File) keep() error {
	if err := f.flush(); err != nil {
		return err
	}
	if mode, there := f.old(); there {
		if err := f.Chmod(fs.FileMode(mode)); err != nil {
			return err
		}
	}
	if f.temp == "" {
		err := f.link(f.name)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		f.temp = Name(unfinished)
		if err := f.link(f.temp); err != nil {
			f.temp = ""
			return err
		}
	}
	if !f.is(f.temp) {
		return errSwapped
	}
	if err := unix.Renameat(f.at(), f.temp, f.at(), f.name); err != nil {
		return err
	}
	f.temp = ""
	if !f.is(f.name) {
		return errSwapped
	}
	return nil
}

// flush finds out whether everything could be written: a file server may report that only when a descriptor is closed.
func (f *File) flush() error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func (f *File) link(name string) error {
	return unix.Linkat(unix.AT_FDCWD, inProc(int(f.Fd())), f.at(), name, unix.AT_SYMLINK_FOLLOW)
}

// is reports whether a name in the directory is this file's.
func (f *File) is(name string) bool {
	var own, seen unix.Stat_t
	return unix.Fstat(int(f.Fd()), &own) == nil && unix.Fstatat(f.at(), name, &seen, unix.AT_SYMLINK_NOFOLLOW) == nil && sameFile(&own, &seen)
}

func sameFile(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// Drop closes the file. There is nothing left of it.
func (f *File) Drop() {
	if f.temp != "" && f.is(f.temp) {
		unix.Unlinkat(f.at(), f.temp, 0)
	}
	f.File.Close()
	f.dir.Close()
}

// openDir opens a directory, one name after the other.
func openDir(path string) (*os.File, error) {
	dir, last, err := openPath(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), last, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openPath opens the directory in which a path ends, following links on the way where that is allowed, and returns the last name, which
// isn't a link.
func openPath(path string) (dir *os.File, last string, err error) {
	fail := func(err error) (*os.File, string, error) {
		if dir != nil {
			dir.Close()
		}
		var why *linkError
		if errors.As(err, &why) {
			return nil, "", err
		}
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	start := "."
	if filepath.IsAbs(path) {
		start = "/"
	}
	fd, err := unix.Open(start, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	dir = os.NewFile(uintptr(fd), start)
	rest := split(path)
	for links := 0; ; {
		if len(rest) == 0 {
			return dir, ".", nil
		}
		name := rest[0]
		rest = rest[1:]
		target, isLink, err := readLink(dir, name)
		switch {
		case err != nil && (len(rest) > 0 || !errors.Is(err, unix.ENOENT)):
			return fail(err)
		case isLink:
			if links++; links > mostLinks {
				return fail(unix.ELOOP)
			}
			if strings.HasPrefix(target, "/") {
				dir.Close()
				if fd, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
					dir = nil
					return fail(err)
				}
				dir = os.NewFile(uintptr(fd), "/")
			}
			rest = append(split(target), rest...)
		case len(rest) == 0:
			return dir, name, nil
		default:
			fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|noFollow(dir), 0)
			if err != nil {
				return fail(err)
			}
			dir.Close()
			dir = os.NewFile(uintptr(fd), name)
		}
	}
}

// A linkError is a link that is not followed.
type linkError struct{ text string }

func (e *linkError) Error() string { return e.text }

// readLink reads a link in a directory, if it is one that may be followed. One of /proc is the kernel's: its text need not be a
// path, and the kernel follows it.
func readLink(dir *os.File, name string) (target string, isLink bool, err error) {
	var in, link unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &link, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", false, err
	}
	if link.Mode&unix.S_IFMT != unix.S_IFLNK || onProc(dir) {
		return "", false, nil
	}
	if err := unix.Fstat(int(dir.Fd()), &in); err != nil {
		return "", false, err
	}
	if !follow(&in, &link) {
		return "", false, &linkError{fmt.Sprintf("%s is a link of another user's, and is not followed", name)}
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	return string(buf[:max(n, 0)]), true, err
}

// follow reports whether a link in a directory may be followed: it is root's or ours, or it belongs to the owner of the directory that it
// is in, as with the kernel's protected_symlinks. Root, who can be led everywhere, follows no other user's.
func follow(dir, link *unix.Stat_t) bool {
	uid := uint32(os.Geteuid())
	everybodys := dir.Mode&unix.S_ISVTX != 0 && dir.Mode&0o002 != 0
	return link.Uid == 0 || link.Uid == uid || uid != 0 && link.Uid == dir.Uid && !everybodys
}

func onProc(dir *os.File) bool {
	var stat unix.Statfs_t
	return unix.Fstatfs(int(dir.Fd()), &stat) == nil && stat.Type == unix.PROC_SUPER_MAGIC
}

func noFollow(dir *os.File) int {
	if onProc(dir) {
		return 0
	}
	return unix.O_NOFOLLOW
}

// ErrNoReader is the error of a pipe without a reader.
var ErrNoReader = errors.New("nothing reads this pipe")

// InPlace opens what can't be replaced and is written to directly: a pipe, a device, a descriptor of this process, as /dev/stdout and
// /dev/fd/63 are. ok is false where a file has to be made. It never waits, not even for a reader of the pipe.
func InPlace(path string) (f *os.File, ok bool, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, true, &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
	}
	dir, last, err := openPath(path)
	if err != nil {
		return nil, false, nil // Create says what is wrong with it, or it is a link that is replaced
	}
	defer dir.Close()
	if fd, isOwn := ownDescriptor(dir, last); isOwn {
		again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, true, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(again), path), true, nil
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), last, &stat, 0); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFREG {
		return nil, false, nil
	}
	fd, err := unix.Openat(int(dir.Fd()), last, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|noFollow(dir), 0)
	if errors.Is(err, unix.ENXIO) && stat.Mode&unix.S_IFMT == unix.S_IFIFO {
		err = ErrNoReader
	}
	if err != nil {
		return nil, true, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var opened unix.Stat_t
	if err := unix.Fstat(fd, &opened); err != nil || opened.Mode&unix.S_IFMT == unix.S_IFREG {
		unix.Close(fd)
		return nil, true, &fs.PathError{Op: "open", Path: path, Err: errSwapped}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFIFO { // a terminal's flags are also its shell's
		unix.SetNonblock(fd, false)
	}
	return os.NewFile(uintptr(fd), path), true, nil
}

// ownDescriptor is the number of a descriptor of this process that a name is.
func ownDescriptor(dir *os.File, name string) (fd int, ok bool) {
	fd, err := strconv.Atoi(name)
	if err != nil || fd < 0 || !onProc(dir) {
		return 0, false
	}
	var own, seen unix.Stat_t
	ok = unix.Stat("/proc/self/fd", &own) == nil && unix.Fstat(int(dir.Fd()), &seen) == nil && sameFile(&own, &seen)
	return fd, ok
}
