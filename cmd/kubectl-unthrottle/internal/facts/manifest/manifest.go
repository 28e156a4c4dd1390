// Package manifest answers: which programs do these files start, and what do the files say about their CPU? In go the names of
// files and directories, or standard input; out come workloads with their containers, limits and variables, each with its
// place, and the problems that kept something from being read.
//
// It reads YAML and JSON as kubectl does, whole streams of either, and judges nothing: rules do. What a file leaves open stays
// open: a template that was not rendered, a variable from a ConfigMap that is not among the files. One bad document is a
// problem; the rest goes on.
package manifest

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Set is all that was read.
type Set struct {
	Files     []*File
	Workloads []*workload.Workload
	Problems  []Problem
	Excluded  int // files and directories that the options leave out
}

// Named is how many files there are. What was rendered has the name of what it was rendered from.
func (s *Set) Named() int {
	names := map[string]bool{}
	for _, f := range s.Files {
		names[f.Name] = true
	}
	return len(names)
}

// Options say how to read. The zero value is fine.
type Options struct {
	Stdin io.Reader // what the name "-" stands for
	Whole bool      // files keep their bytes, regardless of what is in them
	// Rendering says how charts and kustomizations are rendered. Without it their templates are read if they are YAML.
	Rendering Rendering
	// MaxBytes is how large a file may be: 256 MiB, unless it is set. MaxObject is how large a single object may be: 4 MiB. The
	// API server's own bound is lower; a list may be larger, as its objects are read one by one.
	MaxBytes  int64
	MaxObject int
	// Exclude says which files and directories are left alone, by the names that they were given or found by. nil: none.
	Exclude func(name string) bool
}

const (
	maxBytes  = 256 << 20
	maxObject = 4 << 20
	// smallList is up to where a list is read as one: beyond, it is cut into its objects first.
	smallList = 1 << 20
)

// A Problem is what was wrong with something that was read, or why it was not.
type Problem struct {
	At       workload.Position
	Severity Severity
	Text     string
	Hint     string // what to do; may be empty
}

// Severity says what a problem took away.
type Severity string

const (
	Error   Severity = "error"   // something could not be read
	Warning Severity = "warning" // it was read; something in it is wrong, or not known
	Note    Severity = "note"    // it is not for us, and was left alone
)

// Stdin is the name of standard input.
const Stdin = "<stdin>"

// A File is one that was read.
type File struct {
	Name    string // as it was given, or found in a directory; <stdin>
	Data    []byte // its bytes, unless it has no object of Kubernetes
	Whole   []byte // its bytes, if they are wanted in any case
	Skipped string // why nothing was taken from it: "values of a Helm chart"

	lines    *lines
	units    []unit
	problems problems
	in       string // its directory, once it was asked for
	chart    string // directory of the Helm chart that it is a template of
	top      string // and of the one that is rendered with it
	found    bool   // in a directory, and not given by name
	within   string // that directory, as it was given
	live     bool   // it is an object of an API server, and has no lines

	made  *workload.Made // it was rendered, and isn't a file
	taken bool           // by a kustomization that is rendered
}

// A unit is a piece of a file that is parsed on its own: a document, or an object of a long list.
type unit struct {
	start, end int
	document   int    // of the file, from 0
	path       string // of the unit inside its document: "items[3]", "" for all of it
	json       bool
	inList     bool // it is YAML of one list's item: "- kind: Pod"
	list       list
}

// A list is what the list of an object is: the API server leaves out the kind of a PodList's items.
type list struct{ kind, version string }

// Within is the directory that was named, and in which the file was found; "" if the file itself was named.
func (f *File) Within() string { return f.within }

// Taken reports whether a kustomization takes the file, and was rendered: then the rendering says what is applied.
func (f *File) Taken() bool { return f.taken }

// Made reports whether the file is a rendering, which has the name of what it was rendered from.
func (f *File) Made() bool { return f.made != nil }

func (f *File) dir() string {
	if f.in == "" {
		f.in = filepath.Dir(f.Name)
	}
	return f.in
}

// Tree parses the object at a place again. Trees take far more memory than the text that they are made of, so none is kept.
func (f *File) Tree(at workload.Position) (*Node, error) {
	// An empty value may be at the very end of its unit.
	last := max(at.Offset, at.End-1)
	if at.End == at.Offset {
		last--
	}
	i := sort.Search(len(f.units), func(i int) bool { return f.units[i].end > last })
	if i == len(f.units) || f.units[i].start > at.Offset {
		return nil, fmt.Errorf("%s: no object stands there", at)
	}
	root, err := f.parse(f.units[i])
	if err == nil && root == nil {
		err = fmt.Errorf("%s: no object stands there", at)
	}
	return root, err
}

func (f *File) parse(u unit) (*Node, error) {
	if u.json {
		return (&jsonReader{data: f.Data[:u.end], at: u.start, live: f.live}).whole()
	}
	root, err := parseYAML(f.Data, u.start, u.end)
	if err != nil && f.made == nil && f.chart == "" {
		if filled := parseFilled(f.Data, u.start, u.end); filled != nil {
			root, err = filled, nil
		}
	}
	if err != nil || !u.inList || root == nil {
		return root, err
	}
	if root.Kind != List || len(root.Items) != 1 {
		return nil, &syntaxError{u.start, "an item of a list does not stand as the others do"}
	}
	return root.Items[0], nil
}

// position is the place of a node. The column counts characters, as editors do.
func (f *File) position(start, end int) workload.Position {
	if f.live {
		return workload.Position{}
	}
	line, from := f.lines.at(start)
	return workload.Position{
		File: f.Name, Line: line, Column: 1 + f.lines.letters(from, start),
		Offset: start, End: end, EndLine: f.lineOf(max(start, end-1)),
	}
}

func (f *File) lineOf(offset int) int {
	line, _ := f.lines.at(offset)
	return line
}

// Read reads files, directories with all that is in them, and standard input, which is "-". What can't be read is a problem of
// the set; only a context that ends is an error.
func Read(ctx context.Context, o Options, names ...string) (*Set, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = maxBytes
	}
	if o.MaxObject <= 0 {
		o.MaxObject = maxObject
	}
	r := &reader{options: o, set: &Set{}, join: newJoin()}
	defer r.close()
	inputs := r.find(ctx, names)
	if err := r.renderAll(ctx); err != nil {
		return nil, err
	}
	for _, in := range inputs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.read(ctx, in)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.rendering.tell(r)
	if err := r.join.resolve(ctx); err != nil {
		return nil, err
	}
	r.tellFaults()
	r.fold(r.set.Files...)
	for _, f := range r.set.Files {
		f.lines = nil // all places are known
	}
	sortProblems(r.set.Problems)
	return r.set, nil
}

// A reader holds what is known while files are read.
type reader struct {
	options    Options
	set        *Set
	join       *join
	rendering  rendering
	trees      []*tree
	sources    sources // charts and kustomizations
	unparsed   []brokenObject
	containers int // and pods, that were met so far
}

// excluded says whether a file or directory is left alone, and counts it.
func (r *reader) excluded(name string) bool {
	if r.options.Exclude == nil || !r.options.Exclude(name) {
		return false
	}
	r.set.Excluded++
	return true
}

func (r *reader) close() {
	for _, t := range r.trees {
		t.root.Close()
	}
}

// sortProblems puts the problems of a file in order; files keep theirs.
func sortProblems(problems []Problem) {
	order := map[string]int{}
	for _, p := range problems {
		if _, ok := order[p.At.File]; !ok {
			order[p.At.File] = len(order)
		}
	}
	sort.SliceStable(problems, func(i, j int) bool {
		a, b := problems[i].At, problems[j].At
		if a.File != b.File {
			return order[a.File] < order[b.File]
		}
		return a.Offset < b.Offset
	})
}

// short makes a text fit into a message, on one line.
func short(text string) string {
	const most = 60
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if utf8.RuneCountInString(text) > most {
		return string([]rune(text)[:most-1]) + "…"
	}
	return text
}
