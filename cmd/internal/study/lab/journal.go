// What is kept of a long measurement if it is interrupted? A journal is a file of lines of JSON:
// a head, which says what is measured, and a record for each thing that was done, written as soon as it is. In go the
// values of head and records, and out they come again, save a last line that a full disk or a killed process has cut off.
// What head and records mean is up to the package that they belong to; see lab and tune.

package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
)

// A Journal is the file, open for more.
type Journal struct{ file *os.File }

// CreateJournal begins a journal in a new file, which is for this user alone: one that is there is not written over.
func CreateJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// OpenJournal opens a journal to go on with it, and reads it. It says what to run: so it must be a file of this user's that no one else may
// write to.
func OpenJournal(path string) (j *Journal, data []byte, err error) {
	path, err = filepath.Abs(path) // the study may be elsewhere
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	if err = ours.Private(f); err == nil {
		data, err = io.ReadAll(f)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &Journal{f}, data, nil
}

// Resume goes on with the journal after its first size bytes, which are whole lines.
func (j *Journal) Resume(size int64) error {
	info, err := j.file.Stat()
	if err == nil && info.Size() > size {
		err = j.file.Truncate(size)
	}
	return err
}

// Name is the path by which the journal was opened.
func (j *Journal) Name() string { return j.file.Name() }

// Write adds the head, or a record.
func (j *Journal) Write(v any) error { return WriteJournal(j.file, v) }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Remove closes the file and takes it away.
func (j *Journal) Remove() {
	j.file.Close()
	os.Remove(j.file.Name())
}

// WriteJournal writes a head or a record as one line.
func WriteJournal(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// ReadJournal reads a journal: it hands its first line to head, and each other to record. A last line without its end is left out,
// even if nothing else of it is missing, because what is added would be in the same line; cut is its length. A head without
// its end is none: head gets an empty line then.
func ReadJournal(data []byte, head, record func(line []byte) error) (cut int, err error) {
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

// What a directory of journals may hold, and how long one is left alone, for it may be in use.
const (
	mostFiles = 200
	mostBytes = 64 << 20
	inUse     = 24 * time.Hour
)

// PruneJournals takes the oldest journals of a directory away, as long as there are too many or they are too large. What is not a
// journal stays.
func PruneJournals(dir string) {
	entries, _ := os.ReadDir(dir)
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == ".jsonl" {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	bytes := int64(0)
	for i, f := range files {
		bytes += f.Size()
		if (i >= mostFiles || bytes > mostBytes) && time.Since(f.ModTime()) > inUse {
			os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}
