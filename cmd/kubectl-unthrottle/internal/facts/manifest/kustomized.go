package manifest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A folder is a kustomization.
type folder struct {
	tree   *tree // nil: it was named
	file   string
	takes  []string // absolute: files, and directories of other kustomizations
	remote []string // what it takes from elsewhere
	part   bool     // a component, which others take
}

func (k *folder) dir() string { return filepath.Dir(k.file) }

// kustomized keeps a kustomization that was found or named.
func (r *reader) kustomized(t *tree, file string, data []byte) {
	if r.options.Rendering.By == nil {
		return
	}
	k := folderOf(file, data)
	if k == nil {
		return
	}
	k.tree = t
	r.sources.folders = append(r.sources.folders, k)
}

// folderOf reads what a kustomization takes. What does not fit leaves its field empty: kustomize says what is broken. It is nil for an
// object of Flux, which has the same name.
func folderOf(file string, data []byte) *folder {
	var says struct {
		Kind         string   `yaml:"kind"`
		APIVersion   string   `yaml:"apiVersion"`
		Resources    []string `yaml:"resources"`
		Bases        []string `yaml:"bases"`
		Components   []string `yaml:"components"`
		Generators   []string `yaml:"generators"`
		Transformers []string `yaml:"transformers"`
		Validators   []string `yaml:"validators"`
	}
	_ = safely(func() error { return yaml.Unmarshal(data, &says) })
	if says.APIVersion != "" && !strings.HasPrefix(says.APIVersion, "kustomize.config.k8s.io/") {
		return nil
	}
	k := &folder{file: file, part: says.Kind == "Component"}
	for _, name := range slices.Concat(says.Resources, says.Bases, says.Components, says.Generators, says.Transformers, says.Validators) {
		switch {
		case len(k.takes)+len(k.remote) >= mostTakes:
			return k
		case isRemote(name):
			k.remote = append(k.remote, name)
		case name != "" && !strings.Contains(name, "\n"):
			k.takes = append(k.takes, absolute(filepath.Join(filepath.Dir(file), name)))
		}
	}
	return k
}

// isRemote says whether kustomize would fetch what is called so.
func isRemote(name string) bool {
	host, _, _ := strings.Cut(name, "/")
	return strings.Contains(name, "://") || strings.Contains(name, "?ref=") || strings.HasPrefix(name, "git@") ||
		strings.HasPrefix(name, "git::") || host == "github.com" || host == "gitlab.com" || host == "bitbucket.org"
}

// Bounds on what is kept of kustomizations, however many of them take the same ones. Files beyond are read on their own.
const (
	mostTaken = 1000   // kustomizations that one may be made of
	mostTakes = 10_000 // names in one
)

// A taken is all that a kustomization is made of.
type taken struct {
	files   map[string]bool // absolute
	folders []*folder
	remote  []string
}

// takenBy goes through what a kustomization takes. Those that were found are known; others, as of a base elsewhere, are read as kustomize
// reads them.
func (s *sources) takenBy(ctx context.Context, k *folder) taken {
	if s.known == nil {
		s.known = map[string]*folder{}
		for _, f := range s.folders {
			s.known[absolute(f.dir())] = f
		}
	}
	all := taken{files: map[string]bool{}}
	seen := map[*folder]bool{}
	var visit func(*folder)
	visit = func(f *folder) {
		if f == nil || seen[f] || len(seen) >= mostTaken || ctx.Err() != nil {
			return
		}
		seen[f] = true
		all.folders, all.remote = append(all.folders, f), append(all.remote, f.remote...)
		for _, name := range f.takes {
			next, ok := s.known[name]
			if !ok {
				next = readFolder(ctx, name)
				s.known[name] = next
			}
			if next == nil {
				all.files[name] = true
			}
			visit(next)
		}
	}
	visit(k)
	return all
}

// readFolder reads the kustomization in a directory; nil: none.
func readFolder(ctx context.Context, dir string) *folder {
	for _, base := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		file := filepath.Join(dir, base)
		if data, err := readFile(ctx, input{name: file}, maxObject); err == nil {
			return folderOf(file, data)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	return nil
}

// tops are the kustomizations that are rendered: those that no other one takes, and one of those that take each other.
func (s *sources) tops(ctx context.Context) (tops []*folder) {
	within := map[string]bool{}
	for _, k := range s.folders {
		for _, name := range k.takes {
			if name != absolute(k.dir()) {
				within[name] = true
			}
		}
	}
	reached := map[*folder]bool{}
	add := func(k *folder) {
		if k.part || reached[k] {
			return
		}
		tops = append(tops, k)
		for _, f := range s.takenBy(ctx, k).folders {
			reached[f] = true
		}
	}
	for _, k := range s.folders {
		if !within[absolute(k.dir())] {
			add(k)
		}
	}
	for _, k := range s.folders {
		add(k)
	}
	return tops
}

func (r *reader) renderFolder(ctx context.Context, k *folder, late bool) {
	s := &r.sources
	all := s.takenBy(ctx, k)
	for _, f := range all.folders {
		s.tried[f.file] = true
	}
	var reply *render.Reply
	err := error(errLate)
	if !late {
		reply, err = r.options.Rendering.By.Render(ctx, render.Request{Directory: absolute(k.dir())})
	}
	if ctx.Err() != nil {
		return
	}
	at := workload.Position{File: k.file}
	var failed *render.Failure
	switch errors.As(err, &failed); {
	case failed != nil && failed.Kind == render.Nothing:
		r.problem(nil, at, Note, "", "%s: there is nothing to render", failed.Text)
	case err != nil && len(all.remote) > 0:
		r.problem(nil, at, Error, "kubectl kustomize "+k.dir()+" | kubectl unthrottle lint -",
			"the kustomization is not rendered: it takes %s from elsewhere, and nothing is fetched", short(all.remote[0]))
	case err != nil:
		r.problem(nil, at, Error, "", "the kustomization is not rendered: %s", long(strings.ReplaceAll(err.Error(), absolute(k.dir())+string(filepath.Separator), "")))
	default:
		for name := range all.files {
			s.part[name] = "a resource of the kustomization " + k.dir() + ", which is rendered"
		}
		r.folderText(ctx, k, all.files, reply)
	}
}

// folderText reads what a kustomization was rendered to, resource by resource.
func (r *reader) folderText(ctx context.Context, k *folder, files map[string]bool, reply *render.Reply) {
	var texts made
	for _, d := range reply.Documents {
		texts.add(d.Source, "---\n"+d.Text)
	}
	for _, t := range texts.all {
		m := &workload.Made{Kustomization: k.dir()}
		f := &File{Name: k.file, made: m, found: true, in: k.dir()}
		if k.tree != nil {
			f.within = k.tree.dir
		}
		text := t.text.Bytes()
		if name := filepath.Join(k.dir(), filepath.FromSlash(t.source)); t.source != "" && files[absolute(name)] {
			f.Name, m.File = name, name
			// It was read just now, by kustomize's rules.
			if data, err := readFile(ctx, input{name: name}, r.options.MaxBytes); err == nil {
				text = weave(text, align(text, data), data)
				m.Lines = align(text, data)
			}
		}
		r.madeFile(ctx, f, text)
	}
}

// weave puts the comments that take findings back into what was rendered without comments: before the line that they are before in
// the file, or behind the one that they are behind.
func weave(text []byte, from []workload.Line, file []byte) []byte {
	if !bytes.Contains(file, []byte(ignoreWord)) {
		return text
	}
	before, behind, items := ignoring(file)
	lines := bytes.SplitAfter(text, newline)
	put := map[int][]string{} // comments before a line of the text
	for i, l := range from {
		if l.Indent == 0 || i >= len(lines) {
			continue
		}
		if comments := before[l.Number]; comments != nil {
			to := i
			if items[l.Number] {
				to = item(lines, i)
			}
			put[to] = append(put[to], comments...)
		}
		if comment := behind[l.Number]; comment != "" {
			lines[i] = append(bytes.TrimRight(slices.Clone(lines[i]), "\r\n"), " "+comment+"\n"...)
		}
	}
	var out bytes.Buffer
	for i, line := range lines {
		for _, comment := range put[i] {
			out.WriteString(strings.Repeat(" ", begin(line)-1) + comment + "\n")
		}
		out.Write(line)
	}
	return out.Bytes()
}

// longestItem is in how many lines the beginning of an item is looked for.
const longestItem = 1000

// item is where the item of a list begins that a line is in: kustomize puts the keys of an item in their order.
func item(lines [][]byte, i int) int {
	dash := func(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("- ")) }
	if dash(lines[i]) {
		return i
	}
	column := begin(lines[i]) - len("- ")
	for to := i - 1; to >= max(0, i-longestItem) && begin(lines[to]) >= column; to-- {
		if begin(lines[to]) == column {
			if dash(lines[to]) {
				return to
			}
			break
		}
	}
	return i
}

// ignoring are the comments of a file that take findings back, by the line that they are before or behind, and whether that begins an
// item of a list.
func ignoring(file []byte) (before map[int][]string, behind map[int]string, items map[int]bool) {
	before, behind, items = map[int][]string{}, map[int]string{}, map[int]bool{}
	var open []string
	n := 0
	for line := range bytes.Lines(file) {
		n++
		said := bytes.TrimSpace(line)
		i := bytes.IndexByte(line, '#')
		switch {
		case bytes.HasPrefix(said, []byte("#")):
			if bytes.Contains(said, []byte(ignoreWord)) {
				open = append(open, string(said))
			}
			continue
		case len(said) == 0, isMarker(line):
			continue
		case i >= 0 && bytes.Contains(line[i:], []byte("# "+ignoreWord)):
			behind[n] = string(bytes.TrimSpace(line[bytes.LastIndexByte(line, '#'):]))
		}
		if open != nil {
			before[n], open = open, nil
			items[n] = bytes.HasPrefix(said, []byte("- "))
		}
	}
	return before, behind, items
}
