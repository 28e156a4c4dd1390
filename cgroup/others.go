package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// others reads what isn't ours: the mounts of another process, which may have covered its cgroups with anything, and trees of saved files,
// which may come from anyone. Its fields are functions, so that what they call is part of a program only if something makes an others.
type others struct {
	read   func(path string, group bool) (string, error)
	exists func(path string) bool
	mount  func(point string) // files below it will be read: it is quicker to say so
	stat   func(path string) (foreign.ID, error)
	find   func(wanted foreign.ID, point string, depth int) []string
	close  func()

	searches int
}

func newOthers(root string) *others {
	t := foreign.Open(root)
	return &others{
		read: func(path string, group bool) (string, error) {
			read, most := t.Read, foreign.Mounts
			if group {
				read, most = t.ReadGroup, foreign.Group
			}
			data, err := read(path, most)
			return string(data), cause(err)
		},
		exists: func(path string) bool {
			_, err := t.Stat(path)
			return !isMissing(cause(err))
		},
		mount: func(point string) { _ = t.Mount(point) }, // what is read below it fails in the same way
		stat:  t.Stat,
		find: func(wanted foreign.ID, point string, depth int) []string {
			way, _ := t.Find(wanted, point, depth, mostGroups)
			return way
		},
		close: t.Close,
	}
}

// cause leaves out the name of the file: fail adds it.
func cause(err error) error {
	var path *fs.PathError
	if errors.Is(err, foreign.ErrNotGroup) {
		return fmt.Errorf("%w: %w", foreign.ErrNotGroup, ErrNotVisible)
	}
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
