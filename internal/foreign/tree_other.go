//go:build !linux

package foreign

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Tree is the files below a root. On other systems than Linux there are no processes to look at: only saved files are, and links in them
// are followed as usual.
type Tree struct{ root string }

// Open returns the tree below root.
func Open(root string) *Tree { return &Tree{strings.TrimRight(root, `/`)} }

// Close does nothing.
func (t *Tree) Close() {}

func (t *Tree) path(path string) string { return t.root + filepath.FromSlash(path) }

// Read reads a whole file, of no more than most bytes.
func (t *Tree) Read(path string, most int) ([]byte, error) {
	f, err := t.Look(path)
	if err != nil {
		return nil, err
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(Bounded(r, most))
}

// File opens a file to be read in pieces.
func (t *Tree) File(path string) (*os.File, error) {
	f, err := t.Look(path)
	if err != nil {
		return nil, err
	}
	return f.Open()
}

// ReadRecord is Read.
func (t *Tree) ReadRecord(path string, most int) ([]byte, error) { return t.Read(path, most) }

// ReadGroup is Read.
func (t *Tree) ReadGroup(path string, most int) ([]byte, error) { return t.Read(path, most) }

// Mount says whether a directory is there.
func (t *Tree) Mount(point string) error {
	_, err := t.Stat(point)
	return err
}

// Stat says what is at a path.
func (t *Tree) Stat(path string) (ID, error) {
	f, err := t.Look(path)
	if err != nil {
		return ID{}, err
	}
	return f.ID, nil
}

// Look looks at a file without opening it.
func (t *Tree) Look(path string) (*File, error) {
	info, err := os.Stat(t.path(path))
	if err != nil {
		return nil, err
	}
	return &File{ID: ID{t.path(path), info.Size(), info.ModTime()}, mode: info.Mode()}, nil
}

// Names are the names in a directory, of which there may be no more than most.
func (t *Tree) Names(path string, most int) ([]string, error) {
	d, err := os.Open(t.path(path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(most + 1)
	if err == io.EOF {
		err = nil
	}
	if len(names) > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: tooMany(most)}
	}
	return names, err
}

// Link is what a link says.
func (t *Tree) Link(path string) (string, error) { return os.Readlink(t.path(path)) }

// Find finds nothing: there are no cgroups.
func (t *Tree) Find(ID, string, int, int) ([]string, error) { return nil, nil }

// An ID says which file it was, and that it is still the same.
type ID struct {
	name    string
	size    int64
	changed time.Time
}

// Size is that of the file.
func (id ID) Size() int64 { return id.size }

// A File was looked at. It can be opened if it is a regular one.
type File struct {
	ID     ID
	Device uint64 // 0: not known
	mode   fs.FileMode
}

// Inode is 0: not known.
func (f *File) Inode() uint64 { return 0 }

// Close does nothing.
func (f *File) Close() error { return nil }

// Open opens it.
func (f *File) Open() (*os.File, error) {
	if !f.mode.IsRegular() && !f.mode.IsDir() { // to read a directory fails with the system's own words
		return nil, &fs.PathError{Op: "open", Path: f.ID.name, Err: ErrNotRegular}
	}
	return os.Open(f.ID.name)
}
