package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// read reads a file and takes the facts from its objects.
func (r *reader) read(ctx context.Context, in input) {
	f := &File{Name: in.name, chart: in.chart, top: in.top, found: in.tree != nil}
	if in.tree != nil {
		f.within = in.tree.dir
	}
	r.set.Files = append(r.set.Files, f)
	if in.skip == "" {
		if in.skip = r.sources.skip(in); in.skip != "" && in.top == "" && r.options.Rendering.Keep {
			in.skip, f.taken = "", true
		}
	}
	if in.skip != "" {
		f.Skipped = in.skip
		return
	}
	var err error
	if in.name == "-" {
		f.Name = Stdin
		if r.options.Stdin == nil {
			return
		}
		f.Data, err = readAll(ctx, r.options.Stdin, r.options.MaxBytes)
	} else {
		f.Data, err = readFile(ctx, in, r.options.MaxBytes)
	}
	switch {
	case errors.Is(err, errTooLarge):
		r.problem(f, workload.Position{File: f.Name}, Error, "read it in parts", "more than %d MiB", r.options.MaxBytes>>20)
		return
	case errors.As(err, new(notPlain)):
		r.problem(f, workload.Position{File: f.Name}, Error, "kubectl unthrottle lint - < "+f.Name+", if it ends", "%v", err)
		return
	case err != nil:
		r.unreadable(f.Name, err)
		return
	}
	if r.options.Whole {
		f.Whole = f.Data
	}
	at := 0
	switch data := f.Data; {
	case bytes.HasPrefix(data, bom):
		at = len(bom)
	case isUTF16(data):
		r.problem(f, workload.Position{File: f.Name, Line: 1, Column: 1}, Error,
			"save it as UTF-8; PowerShell 5 needs | Out-File -Encoding utf8", "it is UTF-16")
		f.Data = nil
		return
	}
	f.lines = newLines(f.Data, at)
	if helm := helmContent(in.name, f.Data); helm != "" {
		f.Skipped, f.Data = helm, nil
		if !f.found {
			r.problem(f, workload.Position{File: f.Name}, Note, "name the directory of the chart", "%s", helm)
		}
		return
	}
	r.units(ctx, f, at)
}

// units reads the documents of a file, which begin at a place.
func (r *reader) units(ctx context.Context, f *File, at int) {
	var more int
	if f.units, more = split(f.Data, at); more >= 0 {
		r.problem(f, f.position(more, more), Error, "read it in parts", "more than %d documents: the rest is not read", mostDocuments)
	}
	r.objects(ctx, f)
}

// objects reads the objects of a file.
func (r *reader) objects(ctx context.Context, f *File) {
	objects := 0
	var pending []comment // that are before a document's marker, and so belong to the next one
	for _, u := range f.units {
		if ctx.Err() != nil {
			return
		}
		if u.end-u.start > r.options.MaxObject {
			r.problem(f, f.position(u.start, u.start), Error, "an object of Kubernetes is never that large",
				"one document with more than %d MiB", r.options.MaxObject>>20)
			continue
		}
		if f.found && f.chart == "" && !isKustomization(filepath.Base(f.Name)) && u.path == "" &&
			!bytes.Contains(f.Data[u.start:u.end], []byte("kind")) && !bytes.Contains(f.Data[u.start:u.end], []byte(ignoreWord)) {
			continue // not ours: it is not worth parsing
		}
		root, err := f.parse(u)
		if err == nil && root != nil {
			err = checkAliases(root)
		}
		if err != nil {
			if r.broken(f, u, err) {
				objects++
			}
			continue
		}
		comments := r.comments(f, u, root)
		if root == nil {
			pending = append(pending, comments...)
			continue
		}
		d := &document{reader: r, file: f, unit: u, root: root, comments: append(pending, comments...)}
		pending = d.after()
		if f.chart != "" && root.isTemplate(f.Data) {
			// All of it is a template: {{ include "common.deployment" . }}
			r.rendering.unreadable(f, d.position(root, "", false), true)
			objects++
			continue
		}
		objects += d.object(d.top(), u.list, 0)
		d.templates()
	}
	if objects > 0 {
		return
	}
	if f.Skipped == "" {
		f.Skipped = "no object of Kubernetes"
	}
	f.Data, f.units, f.lines = nil, nil, nil
	if !f.found && len(f.problems) == 0 {
		r.problem(f, workload.Position{File: f.Name}, Note, "", "there is no object of Kubernetes in it: nothing has apiVersion and kind")
	}
}

// broken reports a document that can't be parsed. In a directory there are files of all kinds: what does not look like an
// object of Kubernetes is not our concern. It says whether it looks like one.
func (r *reader) broken(f *File, u unit, err error) bool {
	text := f.Data[u.start:u.end]
	ours := bytes.Contains(text, []byte("apiVersion")) || bytes.Contains(text, []byte("kind:"))
	if f.found && !ours {
		return false
	}
	offset := u.start
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		offset = min(max(syntax.offset, u.start), u.end)
	}
	at := f.position(offset, offset)
	at.Document, at.Path = u.document, u.path
	if i := bytes.Index(text, []byte("{{")); i >= 0 && f.made == nil {
		pods := bytes.Contains(text, []byte("containers")) || bytes.Contains(text, []byte("include")) || bytes.Contains(text, []byte("template "))
		r.rendering.unreadable(f, f.position(u.start+i, u.start+i+2), pods)
		return true
	}
	hint := ""
	switch {
	case tabbed(f.lines, at.Line):
		hint = "a line is indented with a tab here: YAML wants spaces"
	case strings.Contains(err.Error(), "mapping values are not allowed"):
		hint = "look at the indentation, and for a colon in a text without quotes"
	}
	switch kind, name := nameOf(text); {
	case f.found && filled.Match(text):
		r.problem(f, at, Warning, "render it first, or leave it out: --exclude", "it is a template that was not rendered: what it says is not known")
	case f.found && !bytes.Contains(text, []byte("containers")) && !aboutPods.Match(text): // it has no pod, but one may refer to it
		r.unparsed = append(r.unparsed, brokenObject{f, missedKey{kind, name}, fault{at, hint, err.Error()}})
	default:
		r.problem(f, at, Error, hint, "%v", err)
	}
	return true
}

// filled are places that sed and the like fill in, which YAML does not take where a value begins: @NAME@, %NAME%.
var filled = regexp.MustCompile(`(?m)[:\-]\s+(@[A-Za-z_][A-Za-z0-9_]*@|%[A-Za-z_][A-Za-z0-9_]*%)`)

// A brokenObject is one that does not parse, and as what others may refer to it.
type brokenObject struct {
	file *File
	as   missedKey
	fault
}

var (
	// aboutPods are kinds that say something about pods without being referred to.
	aboutPods = regexp.MustCompile(`\b(LimitRange|ResourceQuota|VerticalPodAutoscaler|StartupCPUBoost)\b`)

	kindLine = regexp.MustCompile(`(?m)^kind:[ \t]*["']?(ConfigMap|Secret)\b`)
	nameLine = regexp.MustCompile(`(?m)^metadata:(?:[ \t]*\{|[ \t]*\n(?:[ \t]+.*\n)*?[ \t]+)[ \t]*name:[ \t]*["']?([^\s"',}]+)`)
)

// nameOf is what an unparseable object is, as far as its lines say.
func nameOf(text []byte) (kind, name string) {
	if m := kindLine.FindSubmatch(text); m != nil {
		kind = string(m[1])
	}
	if m := nameLine.FindSubmatch(text); m != nil {
		name = string(m[1])
	}
	return kind, name
}

// tellFaults reports what is wrong with objects that aren't workloads, once it is known which of them workloads refer to.
func (r *reader) tellFaults() {
	severity := func(wanted bool) Severity {
		if wanted {
			return Error
		}
		return Note
	}
	for _, d := range r.join.faulty {
		for _, fault := range d.faults {
			r.tell(d.file, "a value of a ConfigMap or Secret", Problem{fault.at, severity(d.wanted), fault.text, fault.hint})
		}
	}
	for _, b := range r.unparsed {
		r.tell(b.file, b.text, Problem{b.at, severity(r.join.missed[b.as]), b.text, b.hint})
	}
}

// tabbed says whether there is a tab in the indentation of a line, or of the ones next to it: parsers differ in where they
// stop.
func tabbed(l *lines, line int) bool {
	for i := max(line-1, 1); i <= min(line+1, l.count()); i++ {
		text := l.line(i)
		if n := len(text) - len(bytes.TrimLeft(text, " \t")); bytes.IndexByte(text[:n], '\t') >= 0 {
			return true
		}
	}
	return false
}

// Some lines that name each other can stand for billions of values. Once its aliases are written out a document may have as many
// as it has bytes, which is twice what it could have without any, and mostExpanded more: anchors of Compose and CI files stand for
// some hundreds.
const (
	mostExpanded = 100_000
	worthOne     = 16 // bytes of a text that count as a value
)

// checkAliases refuses documents whose aliases go in circles or grow without end. The API server does the same.
func checkAliases(root *Node) error {
	c := aliasCheck{size: map[*Node]int{}}
	total := c.count(root)
	switch {
	case c.circle != nil:
		return &syntaxError{c.circle.Start, fmt.Sprintf("*%s stands for something that it is a part of", short(c.circle.Value))}
	case c.aliases > 0 && total > mostExpanded+root.End-root.Start:
		return &syntaxError{root.Start, fmt.Sprintf("its aliases stand for more than %d values", mostExpanded)}
	}
	return nil
}

type aliasCheck struct {
	size    map[*Node]int // of what an alias stands for; -1 while it is counted
	aliases int
	circle  *Node
}

func (c *aliasCheck) count(n *Node) int {
	if n.Kind == Alias {
		c.aliases++
		switch size, known := c.size[n.To]; {
		case known && size < 0:
			c.circle = n
			return 0
		case known:
			return size
		}
		return c.anchored(n.To)
	}
	if n.Anchor != "" {
		if size, known := c.size[n]; known && size >= 0 {
			return size
		}
		return c.anchored(n)
	}
	return c.parts(n)
}

func (c *aliasCheck) anchored(n *Node) int {
	c.size[n] = -1
	size := c.parts(n)
	c.size[n] = size
	return size
}

func (c *aliasCheck) parts(n *Node) int {
	const enough = 1 << 40
	size := 1 + len(n.Value)/worthOne
	for i, item := range n.Items {
		if n.Kind == Map {
			size += c.count(n.Keys[i])
		}
		size = min(size+c.count(item), enough)
	}
	return size
}

// A document is one that is being read.
type document struct {
	reader   *reader
	file     *File
	unit     unit
	root     *Node
	comments []comment

	template workload.Position // the first value that is a template
}

func (d *document) position(n *Node, path string, shared bool) workload.Position {
	p := d.file.position(n.Start, n.End)
	p.Path, p.Document, p.Shared = path, d.unit.document, shared
	return p
}

// top is all of the document.
func (d *document) top() at {
	a := at{document: d, node: d.root}
	if d.unit.path != "" {
		a.path = &trail{key: d.unit.path}
	}
	return a
}

// An at is a value and the path that led to it. The value may be missing.
type at struct {
	document *document
	node     *Node
	path     *trail
	shared   bool // an alias or a merge key is on the path
}

// A trail is the path to a value, from its end up to the document. It is written out for what is kept alone: a key can be as long
// as a document, and have as many values below it.
type trail struct {
	up    *trail
	key   string
	index int // of a list, which has no key
}

// longestPath is how much of a path is given, from its end: those of Kubernetes' own kinds have 100 letters, and a label's key 320.
const longestPath = 1 << 10

// String writes a path as spec.containers[0].name.
func (t *trail) String() string {
	var parts []string
	for length := 0; t != nil; t = t.up {
		part := t.key
		if part == "" {
			part = "[" + strconv.Itoa(t.index) + "]"
		} else if t.up != nil {
			part = "." + part
		}
		if length += len(part); length > longestPath {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, part)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "")
}

// mostLevels is how deep the lists of lists of objects are looked into: kubectl writes one level.
const mostLevels = 100

// longestName is how long a name may be. Kubernetes' own bound is 253 letters, and templates that stand for names need some more.
const longestName = 1 << 10

// name is the text of a name, which many findings may repeat: of one that no object can have, only the beginning is given.
func (a at) name() string {
	if text := a.text(); len(text) <= longestName {
		return text
	}
	return short(a.text())
}

func (a at) ok() bool { return a.node != nil && !a.node.isNull() }

// resolved goes to what an alias stands for.
func (a at) resolved() at {
	for a.node != nil && a.node.Kind == Alias {
		a.node, a.shared = a.node.To, true
	}
	return a
}

// get goes to the value of a key.
func (a at) get(keys ...string) at {
	for _, key := range keys {
		a = a.resolved()
		value, shared := a.node.get(key)
		a.node, a.shared = value, a.shared || shared
		a.path = &trail{up: a.path, key: key}
	}
	return a.resolved()
}

// list returns the items of a list.
func (a at) list() []at {
	a = a.resolved()
	if a.node == nil || a.node.Kind != List {
		return nil
	}
	items := make([]at, len(a.node.Items))
	for i, n := range a.node.Items {
		items[i] = at{a.document, n, &trail{up: a.path, index: i}, a.shared}.resolved()
	}
	return items
}

// entries visits the pairs of a map, those of merge keys included, with what get returns for each key.
func (a at) entries(visit func(key string, value at)) {
	a = a.resolved()
	var pairs []pair
	if a.node != nil {
		pairs = a.node.pairs(nil, false, map[string]bool{}, map[*Node]bool{})
	}
	for i := len(pairs) - 1; i >= 0; i-- {
		p := pairs[i]
		visit(p.key, at{a.document, p.value, &trail{up: a.path, key: p.key}, a.shared || p.shared}.resolved())
	}
}

func (a at) position() workload.Position {
	if a.node == nil {
		return workload.Position{}
	}
	return a.document.position(a.node, a.path.String(), a.shared)
}

func (a at) isMap() bool { a = a.resolved(); return a.node != nil && a.node.Kind == Map }

// template says whether a value has yet to be filled in. What Helm renders is final; what a kustomization makes may be a chart's
// template, as kubebuilder's charts are.
func (a at) template() bool {
	a = a.resolved()
	if a.node == nil {
		return false
	}
	f := a.document.file
	return !f.live && (f.made == nil || f.made.Kustomization != "") && a.node.isTemplate(f.Data)
}

// raw is a value as written in the file.
func (a at) raw() string { return short(string(a.document.file.Data[a.node.Body:a.node.End])) }

// text is a scalar's text, or a template as written.
func (a at) text() string {
	a = a.resolved()
	switch {
	case a.node == nil:
		return ""
	case a.template() && a.node.Kind != Scalar:
		return a.raw()
	case a.node.Kind != Scalar || a.node.isNull():
		return ""
	}
	return a.node.Value
}

// bool reads true.
func (a at) bool() bool {
	a = a.resolved()
	return a.node != nil && a.node.Tag == "!!bool" && strings.EqualFold(a.node.Value, "true")
}

// texts are the strings of a map.
func (a at) texts() map[string]string {
	var m map[string]string
	a.entries(func(key string, value at) {
		if m == nil {
			m = map[string]string{}
		}
		m[key] = value.text()
	})
	return m
}

// list of strings, such as a command.
func (a at) strings() []string {
	var list []string
	for _, item := range a.list() {
		list = append(list, item.text())
	}
	return list
}

func (a at) problem(severity Severity, hint, format string, args ...any) {
	a.document.reader.problem(a.document.file, a.position(), severity, hint, format, args...)
}

// An object is one of Kubernetes.
type object struct {
	at
	version, group, kind, namespace, name string
}

// object takes the facts from an object, or from all objects of a list, and returns how many there are.
func (d *document) object(a at, of list, level int) int {
	if level > mostLevels {
		a.problem(Error, "", "lists in lists, more than %d deep", mostLevels)
		return 1
	}
	o := object{
		at: a, version: a.get("apiVersion").name(), kind: a.get("kind").name(),
		namespace: a.get("metadata", "namespace").name(), name: a.get("metadata", "name").name(),
	}
	if kind := strings.TrimSuffix(of.kind, "List"); o.kind == "" && o.version == "" && kind != "" {
		o.version, o.kind = of.version, kind
	}
	if group, _, ok := strings.Cut(o.version, "/"); ok {
		o.group = group
	}
	if isKustomizationObject(d.file.Name, o.kind, o.version) {
		d.file.Skipped = "a kustomization"
		d.reader.kustomization(d.file, a)
		return 0
	}
	if o.version == "" || o.kind == "" {
		return d.array(a, level)
	}
	if items := a.get("items"); strings.HasSuffix(o.kind, "List") && items.node != nil && items.node.Kind == List {
		d.duplicates(a.node, items.node)
		n := 0
		for _, item := range items.list() {
			n += d.object(item, list{o.kind, o.version}, level+1)
		}
		return n
	}
	if !d.file.live {
		d.duplicates(a.node, nil)
	}
	d.reader.join.add(o)
	for _, t := range podTemplates(o) {
		if key := t.assertion(); key != nil {
			d.reader.problem(d.file, d.position(key, "", false), Note, "", "what a test expects (the key %s), and no manifest", short(key.Value))
			continue
		}
		if d.reader.full(t) {
			break
		}
		w := d.workload(o, t)
		d.reader.set.Workloads = append(d.reader.set.Workloads, w)
	}
	return 1
}

// array takes the objects of an array, which some tools write in place of a list.
func (d *document) array(a at, level int) int {
	n := 0
	for _, item := range a.list() {
		if item.get("kind").text() != "" && item.get("apiVersion").text() != "" {
			n += d.object(item, list{}, level+1)
		}
	}
	return n
}

// duplicates reports keys that are in a map twice. The items of a list are objects, and are looked at on their own.
func (d *document) duplicates(root, except *Node) {
	root.walk(func(n *Node) bool {
		if n == except {
			return false
		}
		if n.Kind != Map || d.file.made == nil && n.isTemplate(d.file.Data) {
			return n.Kind != Map
		}
		first := make(map[string]*Node, len(n.Keys))
		for _, k := range n.Keys {
			if k.Kind != Scalar || isMerge(k) {
				continue
			}
			if before := first[k.Value]; before != nil {
				at := d.position(k, "", false)
				if d.file.made != nil {
					d.reader.problem(d.file, at, Warning, "", "%s makes the key %q twice in one place: the last one counts, and kubectl refuses both", d.file.made, short(k.Value))
					continue
				}
				d.reader.problem(d.file, at, Warning, "remove one of them: the last one counts, and kubectl refuses both",
					"the key %q is repeated in line %d", short(k.Value), d.file.lineOf(before.Start))
				continue
			}
			first[k.Value] = k
		}
		return true
	})
}

// unrendered says why a value is not known where there is a template, and has that reported.
func (a at) unrendered() string {
	if d := a.document; d.template.Line == 0 {
		d.template = a.position()
	}
	return a.raw() + " is a template that was not rendered"
}

// templates reports the templates that are where values are wanted.
func (d *document) templates() {
	if d.template.Line > 0 {
		d.reader.rendering.value(d.file, d.template)
	}
}

// workload makes the facts of an object's pod template.
func (d *document) workload(o object, template at) *workload.Workload {
	w := &workload.Workload{
		APIVersion: o.version, Kind: o.kind, Namespace: o.namespace, Name: o.name,
		At:          o.position(),
		Labels:      o.get("metadata", "labels").texts(),
		Annotations: o.get("metadata", "annotations").texts(),
		Made:        d.file.made,
	}
	d.pod(w, template)
	w.Ignore = d.ignores(o, template)
	return w
}
