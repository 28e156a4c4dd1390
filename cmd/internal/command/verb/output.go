package verb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
)

// Output is where a result goes: stdout, or a file that is opened before the work and appears whole when it is done.
type Output struct {
	W     io.Writer
	whole *ours.File // becomes the file when it is done
	in    *os.File   // is written in place; nil for stdout, too
	path  string
}

// NewOutput opens the file of -o, or stdout without one.
func NewOutput(path string, stdout io.Writer) (*Output, error) {
	if path == "" {
		return &Output{W: stdout}, nil
	}
	in, inPlace, err := ours.InPlace(path) // a pipe or a device can't be replaced
	switch {
	case errors.Is(err, ours.ErrNoReader):
		return nil, hint.With(fmt.Errorf("opening the output: %s: %w", path, ours.ErrNoReader), "start what reads it first")
	case err != nil:
		return nil, hint.With(fmt.Errorf("opening the output: %w", err), "give the name of a file")
	case inPlace:
		return &Output{W: in, in: in, path: path}, nil
	}
	f, err := ours.Create(path)
	if err != nil {
		return nil, hint.With(fmt.Errorf("opening the output: %s: %w", path, inDirectory(err)), "-o needs a file in a directory that exists and is writable")
	}
	return &Output{W: f, whole: f, path: path}, nil
}

// unfinished begins the name that a file has until it is whole.
const unfinished = ".unthrottle-unfinished-"

// UnfinishedIn makes a file in a directory below a root for what takes another file's name when it is whole. Sweep removes what killed
// processes have left in it: once is enough for a directory in which many files are made.
func UnfinishedIn(root *os.Root, dir string) (name string, file *os.File, err error) {
	name = filepath.Join(dir, ours.Name(unfinished))
	file, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return name, file, err
}

// Sweep removes what killed runs have left in a directory below a root.
func Sweep(root *os.Root, dir string) {
	d, err := root.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1)
	for _, e := range entries {
		if ours.Abandoned(unfinished, e.Name()) {
			_ = root.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// inDirectory is why a file can't be made, in terms of its directory.
func inDirectory(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such directory")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("permission denied in that directory")
	}
	return hint.Cause(err)
}

// Finish closes the output. Unless err says that the work failed, the file takes its name; err comes back unchanged.
func (o *Output) Finish(err error) error {
	switch {
	case o.in != nil:
		if closeErr := o.in.Close(); err == nil {
			err = closeErr
		}
	case o.whole != nil && err != nil:
		o.whole.Drop()
	case o.whole != nil:
		if err = o.whole.Keep(); err != nil {
			err = fmt.Errorf("writing %s: %w", o.path, err)
		}
	}
	var own *fs.PathError
	if o.whole != nil && errors.As(err, &own) && own.Path == o.whole.Name() {
		err = fmt.Errorf("writing %s: %w", o.path, own.Err)
	}
	return err
}
