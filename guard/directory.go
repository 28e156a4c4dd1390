package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// A directory holds the newest snapshots of a program. Names sort by time:
//
//	throttled-myserver-20261121T203015.123Z-4711.trace
//
// A file appears whole or not at all: until it is complete it is called .throttled-myserver-….tmp.
type directory struct {
	path   string
	prefix string // of this program's files
	most   int
}

const (
	snapshotEnd = ".trace"
	unfinished  = ".tmp"
	// leftAfter is how old an unfinished file must be to be a dead program's.
	leftAfter  = time.Hour
	timeLayout = "20060102T150405.000Z"
)

// openDirectory makes the directory, and checks that it can be written to.
func openDirectory(path string, most int) (*directory, error) {
	if path == "" {
		path = os.TempDir()
	}
	d := &directory{path: path, prefix: "throttled-" + programName() + "-", most: most}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory for snapshots: %w", err)
	}
	f, err := d.create()
	if err != nil {
		return nil, fmt.Errorf("trying the directory for snapshots: %w", err)
	}
	return d, errors.Join(f.Close(), os.Remove(f.Name()))
}

// programName is the program's name, reduced to what a file name may hold.
func programName() string {
	name := "program"
	if file, err := os.Executable(); err == nil {
		name = filepath.Base(file)
	}
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_' // also for '-', which parts the name from the time
	}, name)
}

func (d *directory) create() (*os.File, error) {
	return os.CreateTemp(d.path, "."+d.prefix+"*"+unfinished)
}

// write saves a snapshot and removes the oldest if there are too many.
func (d *directory) write(at time.Time, snapshot io.WriterTo) (path string, n int64, err error) {
	f, err := d.create()
	if err != nil {
		return "", 0, err
	}
	n, err = snapshot.WriteTo(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	path = filepath.Join(d.path, d.prefix+at.UTC().Format(timeLayout)+"-"+strconv.Itoa(os.Getpid())+snapshotEnd)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return "", n, err
	}
	if err := d.prune(at); err != nil {
		return path, n, fmt.Errorf("%s is saved; removing older ones: %w", path, err)
	}
	return path, n, nil
}

// prune removes this program's oldest snapshots, and what a dead process of it did not finish.
func (d *directory) prune(now time.Time) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	var names []string
	var errs []error
	remove := func(name string) {
		// Another process of the same program may have been faster.
		if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case !e.Type().IsRegular():
		case d.isSnapshot(name):
			names = append(names, name)
		case strings.HasPrefix(name, "."+d.prefix) && strings.HasSuffix(name, unfinished):
			if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > leftAfter {
				remove(name)
			}
		}
	}
	sort.Strings(names)
	for len(names) > d.most {
		remove(names[0])
		names = names[1:]
	}
	return errors.Join(errs...)
}

// isSnapshot reports whether a name is one that write gives.
func (d *directory) isSnapshot(name string) bool {
	if !strings.HasPrefix(name, d.prefix) || !strings.HasSuffix(name, snapshotEnd) {
		return false
	}
	at, pid, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, d.prefix), snapshotEnd), "-")
	if !ok {
		return false
	}
	_, timeErr := time.Parse(timeLayout, at)
	_, pidErr := strconv.ParseUint(pid, 10, 32)
	return timeErr == nil && pidErr == nil
}
