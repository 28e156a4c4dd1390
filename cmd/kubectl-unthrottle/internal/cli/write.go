package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/unthrottle/unthrottle/cmd/internal/verb"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/fix"
)

// A replacement is a file's new text beside it, until it takes its name.
type replacement struct{ name, path, temporary string }

// writeFiles writes the new texts. All are on the disk before the first file is replaced, so that a disk that is full leaves every
// file as it was. A link stays a link, and mode and owner stay.
func writeFiles(files []fix.File) (err error) {
	var all []replacement
	defer func() {
		for _, r := range all { // those that are in place have no such file any more
			os.Remove(r.temporary)
		}
	}()
	for _, f := range files {
		r, err := prepareFile(f)
		if r.temporary != "" {
			all = append(all, r)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
	}
	for i, r := range all {
		if err := os.Rename(r.temporary, r.path); err != nil {
			return fmt.Errorf("writing %s, after %d of %d files: %w", r.name, i, len(all), err)
		}
	}
	return nil
}

// prepareFile writes a file's new text beside it, with its mode.
func prepareFile(f fix.File) (r replacement, err error) {
	path, err := filepath.EvalSymlinks(f.Name)
	if err != nil {
		return r, err
	}
	// A file that may not be written is not replaced, either.
	old, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return r, err
	}
	defer old.Close()
	info, err := old.Stat()
	if err != nil {
		return r, err
	}
	if !info.Mode().IsRegular() {
		return r, errors.New("it is no plain file")
	}
	if now, err := os.ReadFile(path); err != nil {
		return r, err
	} else if !bytes.Equal(now, f.Old) {
		return r, errors.New("it was changed in the meantime")
	}
	temporary, err := verb.Unfinished(filepath.Dir(path))
	if err != nil {
		return r, err
	}
	r = replacement{f.Name, path, temporary.Name()}
	defer func() {
		if e := temporary.Close(); err == nil {
			err = e
		}
	}()
	if _, err := temporary.Write(f.New); err != nil {
		return r, err
	}
	if err := keepOwner(temporary, info); err != nil {
		return r, err
	}
	if err := temporary.Chmod(info.Mode().Perm()); err != nil {
		return r, err
	}
	return r, temporary.Sync()
}
