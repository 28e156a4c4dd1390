package manifest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// An input is a file to be read.
type input struct {
	name  string
	tree  *tree  // that it was found in; nil: it was named
	top   string // directory of the chart that is rendered, if it is a template that takes part in it
	chart string // directory of the Helm chart whose template it is
	skip  string // why it is not read
}

// A tree is a directory that was named, with all below it. What is found there is opened through it, so that no link in it leads
// out: anyone who may add a file to a repository may add a link. A link that is named may lead anywhere.
type tree struct {
	dir  string
	root *os.Root
}

// below is a file's name from there.
func (t *tree) below(name string) string {
	rest, err := filepath.Rel(t.dir, name)
	if err != nil {
		return name // which the root refuses
	}
	return rest
}

// open opens a file or a directory, and never waits for a writer of a pipe.
func (t *tree) open(name string) (*os.File, error) {
	return t.root.OpenFile(t.below(name), os.O_RDONLY|nonblock, 0)
}

// find makes files of names: those that are directories are searched. A file is read once, however it was named.
func (r *reader) find(ctx context.Context, names []string) []input {
	w := &walk{r: r, ctx: ctx, seen: map[string]bool{}, not: map[string]string{}}
	for _, name := range names {
		if name == "-" {
			w.add(input{name: "-"})
			continue
		}
		if r.excluded(name) {
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			r.unreadable(name, err)
		case info.IsDir():
			root, err := os.OpenRoot(name)
			if err != nil {
				r.unreadable(name, err)
				continue
			}
			t := &tree{name, root}
			r.trees = append(r.trees, t)
			w.directory(t, name, "", "")
		case r.options.Rendering.By != nil && IsPacked(name):
			r.sources.charts = append(r.sources.charts, &chart{file: name})
		default:
			if isKustomization(filepath.Base(name)) {
				if data, err := readFile(ctx, input{name: name}, maxObject); err == nil {
					r.kustomized(nil, name, data)
				}
			}
			w.add(input{name: name})
		}
	}
	for i := range w.inputs {
		in := &w.inputs[i]
		if why := w.not[absolute(in.name)]; why != "" && in.tree != nil && in.skip == "" {
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
	not    map[string]string // absolute paths of files that aren't manifests, and why
}

func absolute(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return path
}

// first says whether a file or directory is met for the first time, regardless of which links led to it.
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

// directory adds what is in a directory of a tree and below. Chart is the Helm chart it belongs to, and top the one that is rendered with
// it: charts in its charts/ are parts of it.
func (w *walk) directory(t *tree, name, chart, top string) {
	if w.ctx.Err() != nil || !w.first(name) {
		return
	}
	entries, err := t.entries(name)
	if err != nil {
		w.r.unreadable(name, err)
		// What was listed before the error is read all the same.
	}
	isChart := false
	for _, e := range entries {
		if e.Name() == "Chart.yaml" {
			isChart, chart = true, name
			if top == "" || !within(name, filepath.Join(top, "charts")) {
				top = name
				w.r.chart(t, name)
			}
		}
	}
	for _, e := range entries {
		path := filepath.Join(name, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			info, err := t.root.Stat(t.below(path))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue // a link to nothing
			case err != nil:
				if notOurs[e.Name()] || filepath.Ext(e.Name()) != "" && !isManifestName(e.Name()) {
					continue
				}
				w.r.problem(nil, workload.Position{File: path}, Note, "name it, if it is to be read",
					"a link that leads out of %s is not followed", t.dir)
				continue
			}
			mode = info.Mode().Type()
		}
		if (mode.IsDir() || mode.IsRegular() && isManifestName(e.Name())) && w.r.excluded(path) {
			continue
		}
		switch {
		case mode.IsDir() && notOurs[e.Name()]:
		case mode.IsDir() && isChart && e.Name() == "ci":
			// Values that the chart is tested with.
		case mode.IsDir():
			w.directory(t, path, chart, top)
		case mode.IsRegular() && isKustomization(e.Name()):
			w.kustomization(t, path)
		case mode.IsRegular() && isManifestName(e.Name()):
			in := input{name: path, tree: t, skip: helmFile(e.Name(), isChart)}
			if filepath.Base(name) == "templates" || strings.Contains(path, string(filepath.Separator)+"templates"+string(filepath.Separator)) {
				in.chart, in.top = chart, top
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

// entries lists a directory, by name.
func (t *tree) entries(name string) ([]fs.DirEntry, error) {
	f, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// kustomization adds a kustomization, and marks the files that are patches and the like for it.
func (w *walk) kustomization(t *tree, path string) {
	in := input{name: path, tree: t}
	w.add(in)
	data, err := readFile(w.ctx, in, maxObject)
	if err != nil {
		return // read reports it
	}
	w.r.kustomized(t, path, data)
	for file, why := range kustomizationFiles(data) {
		w.not[absolute(filepath.Join(filepath.Dir(path), file))] = why
	}
}

var errTooLarge = errors.New("too large")

// A notPlain is a file that may never end, or never begin.
type notPlain struct{ what string }

func (e notPlain) Error() string { return "it is " + e.what + ", and no plain file" }

// plain says whether a file may be read. What was opened before this program, such as a shell's <(helm template chart), may be a pipe.
func plain(name string, mode fs.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case mode&fs.ModeNamedPipe != 0:
		for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
			if strings.HasPrefix(name, dir) {
				return nil
			}
		}
		if name == "/dev/stdin" {
			return nil
		}
		return notPlain{"a named pipe"}
	case mode&fs.ModeSocket != 0:
		return notPlain{"a socket"}
	case mode&fs.ModeDevice != 0:
		return notPlain{"a device"}
	}
	return notPlain{"a directory or the like"}
}

// readFile reads a file as a whole, if it has no more than that many bytes. It is looked at before it is opened, because just
// opening may do something to a device, and afterwards, as it may be another one by then.
func readFile(ctx context.Context, in input, most int64) ([]byte, error) {
	stat := os.Stat
	open := func(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDONLY|nonblock, 0) }
	if in.tree != nil {
		stat = func(name string) (fs.FileInfo, error) { return in.tree.root.Stat(in.tree.below(name)) }
		open = in.tree.open
	}
	info, err := stat(in.name)
	if err != nil {
		return nil, err
	}
	if err := plain(in.name, info.Mode()); err != nil {
		return nil, err
	}
	file, err := open(in.name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if err := plain(in.name, info.Mode()); err != nil {
		return nil, err
	}
	return readAll(ctx, file, most)
}

// growth is how much of a stream without a size is read at a time.
const growth = 1 << 20

// readAll reads a file, or a stream that ends. It keeps what it reads in pieces until it is whole: one that is too large costs no
// more than what is allowed.
func readAll(ctx context.Context, from io.Reader, most int64) ([]byte, error) {
	size := int64(-1)
	if f, ok := from.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	if size > most {
		return nil, errTooLarge
	}
	read := func() ([]byte, error) {
		var pieces [][]byte
		total := int64(0)
		for next := max(size, 0) + 1; ; next = growth {
			piece := make([]byte, min(next, most+1-total))
			n, err := io.ReadFull(from, piece)
			pieces, total = append(pieces, piece[:n]), total+int64(n)
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				if len(pieces) == 1 {
					return pieces[0], nil
				}
				return bytes.Join(pieces, nil), nil
			case err != nil:
				return nil, err
			case total > most:
				return nil, errTooLarge
			case ctx.Err() != nil:
				return nil, ctx.Err()
			}
		}
	}
	if size >= 0 {
		return read()
	}
	// The writer of a stream may never end it: then it is abandoned.
	type answer struct {
		data []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		data, err := read()
		done <- answer{data, err}
	}()
	select {
	case a := <-done:
		return a.data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
