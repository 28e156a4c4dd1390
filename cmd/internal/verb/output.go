package verb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
)

// Output is where a result goes: stdout, or a file that is opened before the work and appears whole when it is done.
type Output struct {
	W    io.Writer
	file *os.File // nil for stdout
	path string   // what file becomes; "" when it is written in place
}

// NewOutput opens the file of -o, or stdout where there is none.
func NewOutput(path string, stdout io.Writer) (*Output, error) {
	if path == "" {
		return &Output{W: stdout}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // a pipe or a device can't be replaced
		if err != nil {
			return nil, hint.With(fmt.Errorf("opening the output: %w", err), "give the name of a file")
		}
		return &Output{W: f, file: f}, nil
	}
	f, err := Unfinished(filepath.Dir(path))
	if err != nil {
		return nil, hint.With(fmt.Errorf("opening the output: %s: %w", path, inDirectory(err)), "-o needs a file in a directory that exists and is writable")
	}
	return &Output{W: f, file: f, path: path}, nil
}

// unfinished begins the name that a file has until it is whole.
const unfinished = ".unthrottle-unfinished-"

// Unfinished makes a file in a directory for what is to take another file's name when it is whole. What a killed process leaves
// of it the next one removes.
func Unfinished(dir string) (*os.File, error) {
	sweepOutputs(dir)
	return os.OpenFile(filepath.Join(dir, runner.OwnName(unfinished)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// sweepOutputs removes what killed runs have left in a directory.
func sweepOutputs(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if runner.Abandoned(unfinished, e.Name()) {
			os.Remove(filepath.Join(dir, e.Name()))
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

// Finish closes the output. Unless err says that the work failed, the file takes its name; err comes back as it is.
func (o *Output) Finish(err error) error {
	if o.file == nil {
		return err
	}
	if closeErr := o.file.Close(); err == nil {
		err = closeErr
	}
	if o.path == "" {
		return err
	}
	if err == nil {
		err = errors.Join(os.Chmod(o.file.Name(), 0o644), os.Rename(o.file.Name(), o.path))
	}
	var own *fs.PathError
	if errors.As(err, &own) && own.Path == o.file.Name() { // nobody knows the name that it has until it is whole
		err = fmt.Errorf("writing %s: %w", o.path, own.Err)
	}
	if err != nil {
		os.Remove(o.file.Name())
	}
	return err
}
