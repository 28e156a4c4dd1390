package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// Rendering says how charts and kustomizations are rendered. The zero value renders none.
type Rendering struct {
	By interface {
		Render(context.Context, render.Request) (*render.Reply, error)
	}
	// Chart has values and names for charts that are named themselves. Those that are found take their own.
	Chart render.Request
	// Keep has the files that kustomizations take read on their own, too, because what changes files needs them.
	Keep bool
}

// given says whether there are values.
func given(q render.Request) bool { return len(q.Values)+len(q.Set)+len(q.SetString) > 0 }

// mostRendering is how long all of them may take together.
const mostRendering = 10 * time.Minute

// Bounds on the directory of a chart. Helm takes no larger files, and not more of them together.
const (
	mostChartFile  = 5 << 20
	mostChartBytes = 100 << 20
	mostChartFiles = 20_000
	mostChartDepth = 50
	mostTests      = 20 // files of values that a chart is tested with, to find one that it renders with
)

// Sources are what is rendered before anything is read.
type sources struct {
	charts  []*chart
	folders []*folder          // kustomizations
	known   map[string]*folder // by their absolute directories, also of those that were not found; nil: none
	tried   map[string]bool    // charts' directories and kustomizations' files
	done    map[string]bool    // those that were rendered: what they are made of is not read on its own
	part    map[string]string
}

// A chart is one to render.
type chart struct {
	tree *tree
	dir  string // its directory, in the tree
	file string // or itself, packed
	// beside are the charts that it depends on and that are elsewhere in the tree, by where Helm would put them: charts/common.
	beside map[string]string
}

// IsPacked reports whether a file is a chart in one, as helm package makes it.
func IsPacked(name string) bool { return strings.HasSuffix(name, ".tgz") }

// chart keeps a chart's directory that was found.
func (r *reader) chart(t *tree, dir string) {
	if r.options.Rendering.By != nil {
		r.sources.charts = append(r.sources.charts, &chart{tree: t, dir: dir})
	}
}

// told says whether rendering a chart was tried: then a failure is reported with its reason.
func (s *sources) told(dir string) bool { return dir != "" && s.tried[dir] }

// skip says why a file is not read on its own, or "".
func (s *sources) skip(in input) string {
	if in.top != "" && s.done[in.top] {
		return "a template of a Helm chart, which is rendered"
	}
	if len(s.part) > 0 && in.tree != nil {
		return s.part[absolute(in.name)]
	}
	return ""
}

// renderAll renders all that was found. What can't be is a problem, and is never passed over: what it says is not known.
func (r *reader) renderAll(ctx context.Context) error {
	s := &r.sources
	s.tried, s.done, s.part = map[string]bool{}, map[string]bool{}, map[string]string{}
	begin := time.Now()
	late := func() bool { return time.Since(begin) > mostRendering }
	for _, c := range s.charts {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.renderChart(ctx, c, late())
	}
	for _, k := range s.tops(ctx) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.renderFolder(ctx, k, late())
	}
	return ctx.Err()
}

var errLate = &render.Failure{Kind: render.TooSlow, Text: "the others took 10 minutes together"}

func (r *reader) renderChart(ctx context.Context, c *chart, late bool) {
	name, file := c.dir, filepath.Join(c.dir, "Chart.yaml")
	if c.tree == nil {
		name, file = c.file, c.file
	}
	r.sources.tried[name] = true
	q := render.Request{}
	if c.tree == nil || c.dir == c.tree.dir {
		q = r.options.Rendering.Chart
	}
	var err error
	if c.tree == nil {
		q.Packed, err = readFile(ctx, input{name: c.file}, mostChartBytes)
	} else {
		if q.Files, err = chartFiles(ctx, c.tree, c.dir); err == nil {
			q.Files, c.beside, err = withLocal(ctx, c.tree, c.dir, q.Files, 0)
		}
	}
	if err == nil && late {
		err = errLate
	}
	at := workload.Position{File: file}
	var reply *render.Reply
	if err == nil {
		reply, err = r.options.Rendering.By.Render(ctx, q)
		if tests := testValues(q.Files); broken(err) && !given(q) && len(tests) > 0 {
			for _, values := range tests {
				with := q
				with.Values = []render.File{values}
				if again, bad := r.options.Rendering.By.Render(ctx, with); bad == nil {
					reply, err = again, nil
					r.problem(nil, at, Note, "", "it does not render by itself, and is rendered with %s", values.Name)
					break
				}
			}
		}
	}
	if ctx.Err() != nil {
		return
	}
	var failed *render.Failure
	switch errors.As(err, &failed); {
	case failed != nil && failed.Kind == render.Nothing:
		r.sources.done[name] = true
		r.problem(nil, at, Note, "", "%s: there is nothing to render", failed.Text)
	case err != nil:
		hint := ""
		switch {
		case failed == nil || failed.Kind == render.TooSlow || failed.Kind == render.TooLarge:
		case failed.Kind == render.Missing:
			hint = "helm dependency build " + name
		case c.tree == nil || c.dir == c.tree.dir:
			hint = "--values FILE and --set KEY=VALUE give it values"
		default:
			hint = "name it by itself, with --values FILE or --set KEY=VALUE"
		}
		r.problem(nil, at, Error, hint, "the chart is not rendered: %s", long(err.Error()))
	default:
		r.sources.done[name] = true
		r.chartText(ctx, c, name, q.Files, reply)
	}
}

func broken(err error) bool {
	var failed *render.Failure
	return errors.As(err, &failed) && failed.Kind == render.Broken
}

// long makes an error of a library fit into a message, on one line.
func long(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// testValues are the files of values that a chart is tested with, as helm's chart-testing has them.
func testValues(files []render.File) (tests []render.File) {
	for _, f := range files {
		if ok, _ := path.Match("ci/*-values.yaml", f.Name); ok && len(tests) < mostTests {
			tests = append(tests, f)
		}
	}
	return tests
}

// chartFiles reads the directory of a chart. A link that leads out of what was named is not followed.
func chartFiles(ctx context.Context, t *tree, dir string) (files []render.File, err error) {
	total := 0
	var list func(dir, below string, depth int) error
	list = func(dir, below string, depth int) error {
		if depth > mostChartDepth {
			return fmt.Errorf("its directories are more than %d deep", mostChartDepth)
		}
		entries, err := t.entries(dir)
		if err != nil {
			return fmt.Errorf("reading %s: %w", dir, cause(err))
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			name, rel := filepath.Join(dir, e.Name()), path.Join(below, e.Name())
			mode := e.Type()
			if mode&fs.ModeSymlink != 0 {
				info, err := t.root.Stat(t.below(name))
				switch {
				case errors.Is(err, fs.ErrNotExist):
					continue
				case err != nil:
					return fmt.Errorf("%s is a link that leads out of %s", name, t.dir)
				}
				mode = info.Mode().Type()
			}
			switch {
			case mode.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules"):
			case mode.IsDir():
				if err := list(name, rel, depth+1); err != nil {
					return err
				}
			case mode.IsRegular():
				data, err := readFile(ctx, input{name: name, tree: t}, mostChartFile)
				if errors.Is(err, errTooLarge) && !strings.HasPrefix(rel, "templates/") && !strings.HasPrefix(rel, "charts/") {
					continue // Helm refuses it, unless .helmignore names it: no template is missed
				}
				if err != nil {
					return fmt.Errorf("reading %s: %w", name, cause(err))
				}
				total += len(data)
				files = append(files, render.File{Name: rel, Data: data})
				if total > mostChartBytes || len(files) > mostChartFiles {
					return fmt.Errorf("more than %d MiB, or %d files", mostChartBytes>>20, mostChartFiles)
				}
			}
		}
		return nil
	}
	return files, list(dir, "", 0)
}

func cause(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// chartText reads what a chart was rendered to, template by template.
func (r *reader) chartText(ctx context.Context, c *chart, name string, files []render.File, reply *render.Reply) {
	var texts made
	names, known := map[string]*render.File{}, map[string]string{}
	for i := range files {
		names[files[i].Name] = &files[i]
	}
	for _, d := range reply.Documents {
		source, ok := known[d.Source]
		if !ok {
			source = templateOf(d.Source, files, names)
			known[d.Source] = source
		}
		texts.add(source, "---\n# Source: "+d.Source+"\n"+d.Text+"\n")
	}
	for _, t := range texts.all {
		m := &workload.Made{Chart: name}
		f := &File{Name: name, made: m, found: c.tree != nil, in: name}
		if c.tree == nil {
			f.in = filepath.Dir(name)
		} else {
			f.within = c.tree.dir
		}
		if t.source != "" {
			f.Name = c.place(name, t.source)
			m.File = f.Name
			if !IsPacked(t.source) {
				m.Lines = align(t.text.Bytes(), names[t.source].Data)
			}
		}
		r.madeFile(ctx, f, t.text.Bytes())
	}
}

// place is where a file of a chart is.
func (c *chart) place(name, file string) string {
	longest := ""
	for prefix := range c.beside {
		if strings.HasPrefix(file, prefix+"/") && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	if longest != "" {
		return filepath.Join(c.beside[longest], filepath.FromSlash(file[len(longest):]))
	}
	return filepath.Join(name, filepath.FromSlash(file))
}

// mostLocal is how deep charts that depend on each other are brought together.
const mostLocal = 5

// withLocal adds the charts that a chart depends on by file://, and that are not in it yet, as helm dependency build does: if they
// are below what was named. Others stay missing.
func withLocal(ctx context.Context, t *tree, dir string, files []render.File, depth int) (all []render.File, beside map[string]string, err error) {
	var says struct {
		Dependencies []struct{ Name, Repository string }
	}
	has := map[string]bool{}
	total := 0
	for _, f := range files {
		total += len(f.Data)
		if f.Name == "Chart.yaml" || f.Name == "requirements.yaml" && says.Dependencies == nil {
			_ = safely(func() error { return yaml.Unmarshal(f.Data, &says) }) // Helm says what is broken
		}
		if parts := strings.Split(f.Name, "/"); parts[0] == "charts" && len(parts) > 1 {
			has[parts[1]] = true
		}
	}
	beside = map[string]string{}
	for _, d := range says.Dependencies {
		from, local := strings.CutPrefix(d.Repository, "file://")
		if !local || filepath.IsAbs(from) || depth >= mostLocal || strings.ContainsAny(d.Name, "/\\") {
			continue
		}
		from = filepath.Join(dir, filepath.FromSlash(from))
		packed := func(name string) bool { return IsPacked(name) && strings.HasPrefix(name, d.Name+"-") }
		if has[d.Name] || slices.ContainsFunc(slices.Collect(maps.Keys(has)), packed) || !filepath.IsLocal(t.below(from)) {
			continue
		}
		has[d.Name] = true
		more, err := chartFiles(ctx, t, from)
		if err != nil {
			continue // then it stays missing
		}
		more, inner, err := withLocal(ctx, t, from, more, depth+1)
		if err != nil {
			return nil, nil, err
		}
		prefix := "charts/" + d.Name
		beside[prefix] = from
		for place, at := range inner {
			beside[prefix+"/"+place] = at
		}
		for _, f := range more {
			total += len(f.Data)
			files = append(files, render.File{Name: prefix + "/" + f.Name, Data: f.Data})
		}
		if total > mostChartBytes || len(files) > mostChartFiles {
			return nil, nil, fmt.Errorf("with what it depends on it has more than %d MiB, or %d files", mostChartBytes>>20, mostChartFiles)
		}
	}
	return files, beside, nil
}

// made are texts by what they were made of, in the order in which they come.
type made struct {
	all []*madeText
	by  map[string]*madeText
}

type madeText struct {
	source string
	text   bytes.Buffer
}

func (m *made) add(source, text string) {
	t := m.by[source]
	if t == nil {
		if m.by == nil {
			m.by = map[string]*madeText{}
		}
		t = &madeText{source: source}
		m.by[source] = t
		m.all = append(m.all, t)
	}
	t.text.WriteString(text)
}

// madeFile reads a text that was rendered.
func (r *reader) madeFile(ctx context.Context, f *File, data []byte) {
	if r.excluded(f.Name) {
		return
	}
	f.Data = data
	f.lines = newLines(data, 0)
	r.set.Files = append(r.set.Files, f)
	r.units(ctx, f, 0)
}

// templateOf is the file of a chart that helm calls shop/charts/sub/templates/a.yaml: by its name, else the only one whose name ends
// alike, else the packed chart that it is in, else "".
func templateOf(source string, files []render.File, names map[string]*render.File) string {
	_, name, _ := strings.Cut(source, "/")
	has := func(is func(string) bool) string {
		found := ""
		for _, f := range files {
			if is(f.Name) {
				if found != "" {
					return ""
				}
				found = f.Name
			}
		}
		return found
	}
	if names[name] != nil {
		return name
	}
	sub, in := name, ""
	for {
		_, rest, ok := strings.Cut(sub, "charts/")
		if !ok {
			break
		}
		in, sub, _ = strings.Cut(rest, "/")
	}
	if in == "" {
		return ""
	}
	if found := has(func(n string) bool { return strings.HasPrefix(n, "charts/") && strings.HasSuffix(n, "/"+sub) }); found != "" {
		return found
	}
	return has(func(n string) bool { return IsPacked(n) && strings.HasPrefix(path.Base(n), in+"-") })
}
