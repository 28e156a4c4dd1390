package ours

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The name of every temporary file of any of our commands begins with this.
const tempPrefix = "unthrottle-temp-"

// mostNames is how many names are tried for something temporary. One is enough unless another user guesses when we were started, and makes
// it before us.
const mostNames = 100

// TempDir makes a directory that exists as long as the work that it is for; its name says what that is. SweepTemp removes those that killed
// processes leave behind.
func TempDir(what string) (dir string, remove func(), err error) {
	return TempDirIn(os.TempDir(), what)
}

// TempDirIn is TempDir in a directory of ours, from where things can be renamed into it. Sweep removes what killed processes leave there.
func TempDirIn(in, what string) (dir string, remove func(), err error) {
	for range mostNames {
		dir = filepath.Join(in, Name(tempPrefix+what+"-"))
		if err = os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", func() {}, err
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

// KeptDir makes a fresh directory that stays, for a user who has no lasting one.
func KeptDir(what string) (string, error) { return os.MkdirTemp("", "unthrottle-"+what+"-*") }

// TempFile makes a file that exists as long as the work that it is for, as TempDir does with a directory.
func TempFile(what string) (f *os.File, err error) {
	for range mostNames {
		path := filepath.Join(os.TempDir(), Name(tempPrefix+what+"-"))
		if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}

// SweepTemp removes the temporary files and directories of processes of this user's that were killed.
func SweepTemp() { Sweep(os.TempDir()) }

// Sweep is SweepTemp in another directory.
func Sweep(in string) {
	d, err := os.Open(in)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		what, ok := strings.CutPrefix(name, tempPrefix)
		_, owner, told := strings.Cut(what, "-")
		if !ok || !told || !Abandoned("", owner) {
			continue
		}
		path := filepath.Join(in, name)
		if info, err := os.Lstat(path); err == nil && own(info) {
			os.RemoveAll(path) // which follows no links
		}
	}
}
