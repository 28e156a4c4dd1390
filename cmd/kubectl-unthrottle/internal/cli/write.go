package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
)

// A replacement is a file's new text next to it, until it takes its name. Both are names below a directory that the user
// named: anyone who changes what is in it while we are at work leads us to no other place.
type replacement struct {
	name            string
	top             string
	path, temporary string // below top
	old             fs.FileInfo
}

// writeFiles writes the new texts. All are on the disk before the first file is replaced, so that a disk that is full leaves every
// file as it was. A link stays a link, and mode and owner stay.
func writeFiles(files []fix.File) (err error) {
	var all []replacement
	defer func() {
		for _, r := range all { // those that are in place no longer have such a file
			_ = r.in(func(root *os.Root) error { return root.Remove(r.temporary) })
		}
	}()
	swept := map[string]bool{}
	for _, f := range files {
		r, err := prepareFile(f, swept)
		if r.temporary != "" {
			all = append(all, r)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
	}
	for i, r := range all {
		if err := r.in(r.rename); err != nil {
			return fmt.Errorf("writing %s, after %d of %d files: %w", r.name, i, len(all), err)
		}
	}
	return nil
}

// in does something below the directory. It is opened again: there may be more directories than we may have files open.
func (r *replacement) in(do func(*os.Root) error) error {
	root, err := os.OpenRoot(r.top)
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root)
}

var errMeantime = errors.New("changed in the meantime")

// rename puts the new text in the place of the file that was looked at, and of no other.
func (r *replacement) rename(root *os.Root) error {
	if now, err := root.Lstat(r.path); err != nil {
		return err
	} else if !os.SameFile(now, r.old) {
		return errMeantime
	}
	return root.Rename(r.temporary, r.path)
}

// placeOf is where a file is: below the directory that was named, or in its own if the file itself was.
func placeOf(f fix.File) (r replacement, err error) {
	r.name = f.Name
	path, err := filepath.EvalSymlinks(f.Name)
	if err != nil {
		return r, err
	}
	if f.Within == "" {
		r.top, r.path = filepath.Dir(path), filepath.Base(path)
		return r, nil
	}
	if r.top, err = filepath.EvalSymlinks(f.Within); err != nil {
		return r, err
	}
	if r.path, err = filepath.Rel(r.top, path); err != nil || !filepath.IsLocal(r.path) {
		return r, fmt.Errorf("no longer in %s", f.Within)
	}
	return r, nil
}

// prepareFile writes a file's new text next to it, with its mode.
func prepareFile(f fix.File, swept map[string]bool) (r replacement, err error) {
	if r, err = placeOf(f); err != nil {
		return r, err
	}
	err = r.in(func(root *os.Root) error { return r.write(root, f, swept) })
	return r, err
}

func (r *replacement) write(root *os.Root, f fix.File, swept map[string]bool) (err error) {
	// A file that may not be written is not replaced, either.
	old, err := root.OpenFile(r.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer old.Close()
	if r.old, err = old.Stat(); err != nil {
		return err
	}
	if !r.old.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if now, err := io.ReadAll(io.LimitReader(old, int64(len(f.Old))+1)); err != nil {
		return err
	} else if !bytes.Equal(now, f.Old) {
		return errMeantime
	}
	dir := filepath.Dir(r.path)
	if all := filepath.Join(r.top, dir); !swept[all] {
		swept[all] = true
		verb.Sweep(root, dir)
	}
	name, temporary, err := verb.UnfinishedIn(root, dir)
	if err != nil {
		return err
	}
	r.temporary = name
	defer func() {
		if e := temporary.Close(); err == nil {
			err = e
		}
	}()
	if _, err := temporary.Write(f.New); err != nil {
		return err
	}
	if err := keepOwner(temporary, r.old); err != nil {
		return err
	}
	if err := temporary.Chmod(r.old.Mode().Perm()); err != nil {
		return err
	}
	return temporary.Sync()
}
