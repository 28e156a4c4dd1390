package manifest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
)

// An input is a file to be read.
type input struct {
	name  string
	found bool   // in a directory
	chart string // directory of the Helm chart whose template it is
	skip  string // why it is not read
}

// find makes files of names: those that are directories are searched. A file is read once, however it was named.
func (r *reader) find(ctx context.Context, names []string) []input {
	w := &walk{r: r, ctx: ctx, seen: map[string]bool{}, not: map[string]string{}}
	for _, name := range names {
		if name == "-" {
			w.add(input{name: "-"})
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			r.unreadable(name, err)
		case info.IsDir():
			w.directory(name, "")
		default:
			w.add(input{name: name})
		}
	}
	for i := range w.inputs {
		in := &w.inputs[i]
		if why := w.not[absolute(in.name)]; why != "" && in.found && in.skip == "" {
			in.skip = why
		}
	}
	return w.inputs
}

// unreadable is the problem of a file that can't be opened or read.
func (r *reader) unreadable(name string, err error) {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	r.problem(nil, workload.Position{File: name}, Error, "", "reading it: %v", err)
}

// A walk finds the files of directories.
type walk struct {
	r      *reader
	ctx    context.Context
	inputs []input
	seen   map[string]bool   // real paths of files and directories
	not    map[string]string // absolute paths of files that are no manifests, and why
}

func absolute(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return path
}

// first says whether a file or directory is met for the first time, by whatever links led to it.
func (w *walk) first(name string) bool {
	path := absolute(name)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if w.seen[path] {
		return false
	}
	w.seen[path] = true
	return true
}

func (w *walk) add(in input) {
	if w.first(in.name) {
		w.inputs = append(w.inputs, in)
	}
}

// notOurs are directories of other people's code.
var notOurs = map[string]bool{"node_modules": true, "vendor": true}

// directory adds what is in a directory and below. Chart is the Helm chart it belongs to.
func (w *walk) directory(name, chart string) {
	if w.ctx.Err() != nil || !w.first(name) {
		return
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		w.r.unreadable(name, err)
		// What was listed before the error is read all the same.
	}
	isChart := false
	for _, e := range entries {
		if e.Name() == "Chart.yaml" {
			isChart, chart = true, name
		}
	}
	for _, e := range entries {
		path := filepath.Join(name, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			info, err := os.Stat(path)
			if err != nil {
				continue // a link to nothing
			}
			mode = info.Mode().Type()
		}
		switch {
		case mode.IsDir() && notOurs[e.Name()]:
		case mode.IsDir() && isChart && e.Name() == "ci":
			// Values that the chart is tested with.
		case mode.IsDir():
			w.directory(path, chart)
		case mode.IsRegular() && isKustomization(e.Name()):
			w.kustomization(path)
		case mode.IsRegular() && isManifestName(e.Name()):
			in := input{name: path, found: true, skip: helmFile(e.Name(), isChart)}
			if filepath.Base(name) == "templates" || strings.Contains(path, string(filepath.Separator)+"templates"+string(filepath.Separator)) {
				in.chart = chart
			}
			w.add(in)
		}
	}
}

func isManifestName(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// kustomization adds a kustomization, and marks the files that are patches and the like for it.
func (w *walk) kustomization(path string) {
	w.add(input{name: path, found: true})
	data, err := readFile(path, maxObject)
	if err != nil {
		return // read tells
	}
	for file, why := range kustomizationFiles(data) {
		w.not[absolute(filepath.Join(filepath.Dir(path), file))] = why
	}
}

var errTooLarge = errors.New("it is too large")

func readFile(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, most)
}

func readAll(from io.Reader, most int64) ([]byte, error) {
	var b bytes.Buffer
	if f, ok := from.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if info.Size() > most {
				return nil, errTooLarge
			}
			b.Grow(int(info.Size()) + bytes.MinRead)
		}
	}
	if _, err := b.ReadFrom(io.LimitReader(from, most+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > most {
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}
