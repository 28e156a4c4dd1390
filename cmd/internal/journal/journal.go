// Package journal answers: what of a long measurement is there, should it be interrupted? A journal is a file of lines of
// JSON: a head, which says what is measured, and a record for each thing that was done, written as soon as it is. In go
// the values of head and records, and out they come again, save a last line that a full disk or a killed process has cut
// off. What head and records mean is for the package that they are of; see lab and tune.
package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// A Journal is the file, open for more.
type Journal struct{ file *os.File }

// Create begins a journal in a new file: one that is there is not written over.
func Create(path string) (*Journal, error) { return open(path, os.O_CREATE|os.O_EXCL) }

// Resume goes on with a journal after its first size bytes, which are whole lines.
func Resume(path string, size int64) (*Journal, error) {
	j, err := open(path, os.O_APPEND)
	if err != nil {
		return nil, err
	}
	info, err := j.file.Stat()
	if err == nil && info.Size() > size {
		err = j.file.Truncate(size)
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func open(path string, how int) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|how, 0o644)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// Name is the path by which the journal was opened.
func (j *Journal) Name() string { return j.file.Name() }

// Write adds the head, or a record.
func (j *Journal) Write(v any) error { return Write(j.file, v) }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Remove closes the file and takes it away.
func (j *Journal) Remove() {
	j.file.Close()
	os.Remove(j.file.Name())
}

// Write writes a head or a record as one line.
func Write(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// Read reads a journal: it hands its first line to head, and each other to record. A last line without its end is left
// out, even if nothing else of it is missing, because what is added would be in the same line; cut tells its length. A head
// without its end is none: head gets an empty line then.
func Read(data []byte, head, record func(line []byte) error) (cut int, err error) {
	line, rest, whole := bytes.Cut(data, []byte("\n"))
	if !whole {
		line = nil
	}
	if err := head(line); err != nil {
		return 0, err
	}
	for number := 2; len(rest) > 0; number++ {
		line, next, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return len(rest), nil
		}
		if err := record(line); err != nil {
			return 0, fmt.Errorf("line %d of the runs: %w", number, err)
		}
		rest = next
	}
	return 0, nil
}
