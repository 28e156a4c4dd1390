package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
)

// output is where a result goes: stdout, or a file that is opened before the work and appears whole when it is done.
type output struct {
	w    io.Writer
	file *os.File // nil for stdout
	path string   // what file becomes; "" when it is written in place
}

// newOutput opens the file of -o, or stdout where there is none.
func newOutput(path string, stdout io.Writer) (*output, error) {
	if path == "" {
		return &output{w: stdout}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // a pipe or a device can't be replaced
		if err != nil {
			return nil, hint.With(fmt.Errorf("opening the output: %w", err), "-o wants the name of a file")
		}
		return &output{w: f, file: f}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, hint.With(fmt.Errorf("opening the output: %w", err), "-o wants a file in a directory that exists and can be written")
	}
	return &output{w: f, file: f, path: path}, nil
}

// finish closes the output. Unless err says that the work failed, the file takes its name; err comes back as it is.
func (o *output) finish(err error) error {
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
	if err != nil {
		os.Remove(o.file.Name())
	}
	return err
}
