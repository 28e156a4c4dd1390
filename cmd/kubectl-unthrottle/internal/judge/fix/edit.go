package fix

import (
	"errors"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// An edit puts text in the place of bytes.
type edit struct {
	start, end int
	text       string
}

// A change is a remedy in its place.
type change struct {
	decision *Decision
	w        *workload.Workload
	c        *workload.Container
	remedy   remedy.Remedy

	// For patches.
	container route  // from the object, until it is made
	pointer   string // the same as a JSON pointer
	keys      []string
	entries   []int // of env that it is about; none: it adds one
	count     int   // how many entries env has; -1: no env
	emptied   bool  // env goes as a whole
	old, new  *node // the entry before and after, as patches have it

	env   *node // the list
	index int   // of env in the container, -1
	meaning
	edits []edit
}

// A meaning is what changes make of nodes: some go, some become others, and some come after others.
type meaning struct {
	drop  map[*node]bool
	put   map[*node]*node
	after map[*node]*node // a map of one pair after a value of a map, an item after an item of a list
}

func newMeaning() meaning {
	return meaning{map[*node]bool{}, map[*node]*node{}, map[*node]*node{}}
}

// object is the object of a workload, and the way to it in its tree.
func (d *document) object(w *workload.Workload) (t *tree, above route, o *node, err error) {
	if t, err = d.tree(w.At); err != nil {
		return nil, nil, nil, err
	}
	if above, err = find(t.root, w.At); err != nil {
		return nil, nil, nil, err
	}
	return t, above, end(t.root, above), nil
}

// change prepares a remedy, or says why it can't be done in that text.
func (d *document) change(w *workload.Workload, c *workload.Container, r remedy.Remedy) (*change, error) {
	t, above, o, err := d.object(w)
	if err != nil {
		return nil, err
	}
	if t.templates(o, d.data) {
		return nil, errors.New("the object has templates in it that were not rendered")
	}
	at, err := find(o, c.At)
	if err != nil {
		return nil, err
	}
	ch := &change{w: w, c: c, remedy: r, container: at, pointer: at.pointer(), count: -1, meaning: newMeaning()}
	for _, s := range at {
		ch.keys = append(ch.keys, s.key())
	}
	container := end(o, at)
	ch.env, ch.index = pair(container, "env")
	nodes := []*node{t.root}
	for _, s := range append(slices.Clone(above), at...) {
		nodes = append(nodes, s.to)
	}
	if ch.index >= 0 {
		nodes = append(nodes, ch.env)
	} else if merges(container) {
		return nil, errors.New("env may come by a merge key")
	}
	for _, n := range nodes {
		if t.aliased[n] {
			return nil, refuse("the text has an anchor, &%s, and stands for other places, too", n.Anchor)
		}
	}
	if err := ch.find(); err != nil {
		return nil, err
	}
	for _, i := range ch.entries {
		if err := alone(t, ch.env.Items[i]); err != nil {
			return nil, err
		}
	}
	switch r.Action {
	case remedy.Remove:
		err = ch.remove(container)
	case remedy.Set:
		err = d.set(ch, container)
	case remedy.Repair:
		err = d.repair(ch)
	default:
		err = refuse("there is no known way to %s", r.Action)
	}
	return ch, err
}

func end(from *node, p route) *node {
	if len(p) == 0 {
		return from
	}
	return p[len(p)-1].to
}

// find finds the entries of the variable.
func (ch *change) find() error {
	if ch.index < 0 {
		return nil
	}
	if isNull(ch.env) {
		ch.count = 0
		return nil
	}
	if ch.env.Kind != manifest.List {
		return errors.New("env is not a list of its own")
	}
	ch.count = len(ch.env.Items)
	for i, item := range ch.env.Items {
		own := item
		if own.Kind == manifest.Alias {
			own = own.To
		}
		name, _ := pair(own, "name")
		if name != nil && name.Kind == manifest.Alias {
			name = name.To
		}
		switch {
		case own.Kind != manifest.Map || name == nil && merges(own):
			return errors.New("env has an entry whose name is not known")
		case name == nil || name.Kind != manifest.Scalar || name.Value != ch.remedy.Variable:
		case own != item || merges(own):
			return errors.New("its entry stands behind an alias or a merge key")
		default:
			ch.entries = append(ch.entries, i)
		}
	}
	return nil
}

// alone reports whether no alias stands for a part of a node, and none is in it.
func alone(t *tree, n *node) (err error) {
	walk(n, func(n *node) {
		if t.aliased[n] {
			err = refuse("its entry has an anchor, &%s, that is used elsewhere", n.Anchor)
		}
		if n.Kind == manifest.Alias {
			err = refuse("its entry has an alias in it, *%s", n.Value)
		}
	})
	return err
}

// remove takes all entries of the variable out. How, is known when all that goes from the list is.
func (ch *change) remove(container *node) error {
	if len(ch.entries) == 0 {
		return errors.New("not an entry of env")
	}
	if err := ch.referred(container); err != nil {
		return err
	}
	for _, i := range ch.entries {
		ch.drop[ch.env.Items[i]] = true
	}
	return nil
}

// referred says that something in the container refers to the variable: that would mean something else if it came or went.
func (ch *change) referred(container *node) (err error) {
	reference := "$(" + ch.remedy.Variable + ")"
	walk(container, func(n *node) {
		if n.Kind == manifest.Scalar && strings.Contains(n.Value, reference) {
			err = refuse("something in the container refers to %s", reference)
		}
	})
	return err
}

// value is what a variable is set to, as a pair of its entry.
func (ch *change) value() (key string, n *node) {
	if r := ch.remedy; r.Resource != "" {
		return "valueFrom", object("resourceFieldRef", object("resource", r.Resource, "divisor", "1"))
	}
	return "value", str(ch.remedy.Value)
}

// set sets the variable in its entry, or adds one.
func (d *document) set(ch *change, container *node) error {
	key, value := ch.value()
	ch.new = object("name", ch.remedy.Variable, key, value)
	if len(ch.entries) == 0 {
		return d.add(ch, container)
	}
	entry := ch.last()
	_, v := pair(entry, "value")
	_, from := pair(entry, "valueFrom")
	switch {
	case v >= 0 && from >= 0:
		return errors.New("its entry has both value and valueFrom")
	case v < 0 && from < 0:
		ch.insert(d.text, entry, len(entry.Keys)-1, key, value)
		return nil
	case v >= 0 && key == "value":
		return ch.scalar(d.text, entry, v, ch.remedy.Value)
	}
	ch.replace(d.text, entry, max(v, from), key, value)
	return nil
}

// last is the entry that counts.
func (ch *change) last() *node { return ch.env.Items[ch.entries[len(ch.entries)-1]] }

// repair makes the divisor of a reference 1.
func (d *document) repair(ch *change) error {
	if len(ch.entries) == 0 {
		return errors.New("not an entry of env")
	}
	from, _ := pair(ch.last(), "valueFrom")
	ref, _ := pair(from, "resourceFieldRef")
	if ref == nil || ref.Kind != manifest.Map || merges(ref) || merges(from) {
		return errors.New("its resourceFieldRef is not found again")
	}
	ch.new = object("name", ch.remedy.Variable, "valueFrom", object("resourceFieldRef", object("divisor", ch.remedy.Value)))
	for _, key := range []string{"resource", "containerName"} {
		if n, i := pair(ref, key); i >= 0 && n.Value != "" {
			to := ch.new.Items[1].Items[0]
			to.Keys, to.Items = append(to.Keys, str(key)), append(to.Items, str(n.Value))
		}
	}
	if _, i := pair(ref, "divisor"); i >= 0 {
		return ch.scalar(d.text, ref, i, ch.remedy.Value)
	}
	ch.insert(d.text, ref, len(ref.Keys)-1, "divisor", str(ch.remedy.Value))
	return nil
}

// scalar puts a text in the place of a value, in quotes as they were.
func (ch *change) scalar(t text, m *node, i int, value string) error {
	n := m.Items[i]
	if n.Kind != manifest.Scalar {
		return errors.New("its value is not text")
	}
	if n.Start != n.Body && n.Anchor == "" {
		return errors.New("its value has a tag")
	}
	written := quote(value)
	switch {
	case n.Style == manifest.Single:
		written = "'" + strings.ReplaceAll(value, "'", "''") + "'"
	case n.Style == manifest.Plain && isPlain(value):
		written = value
	}
	ch.put[n] = str(value)
	if n.Start == n.End { // name: A, value:
		at := t.colon(m.Keys[i])
		ch.edits = append(ch.edits, edit{at, at, " " + written})
		return nil
	}
	ch.edits = append(ch.edits, edit{n.Body, n.End, written})
	return nil
}

// replace puts a pair in the place of another one.
func (ch *change) replace(t text, m *node, i int, key string, value *node) {
	old := m.Items[i]
	ch.drop[old] = true
	ch.after[old] = object(key, value)
	start, stop := m.Keys[i].Start, t.end(old)
	if old.Start == old.End {
		stop = t.colon(m.Keys[i])
	}
	if m.Style == manifest.Flow {
		f := t.flowOf(m, i)
		ch.edits = append(ch.edits, edit{start, stop, f.pair(key, value, f)})
		return
	}
	column, _ := t.column(start)
	ch.edits = append(ch.edits, edit{start, stop, ch.style(t, start).block(key, value, strings.Repeat(" ", column))})
}

// insert puts a pair behind another one.
func (ch *change) insert(t text, m *node, i int, key string, value *node) {
	before := m.Items[i]
	ch.after[before] = object(key, value)
	if m.Style == manifest.Flow {
		f := t.flowOf(m, i)
		comma := f.comma
		if f.lines != "" {
			comma = "," + f.lines
		}
		ch.edits = append(ch.edits, edit{before.End, before.End, comma + f.pair(key, value, f)})
		return
	}
	stop := t.end(before)
	if before.Start == before.End {
		stop = t.colon(m.Keys[i])
	}
	column, _ := t.column(m.Keys[0].Start)
	indent := strings.Repeat(" ", column)
	s := ch.style(t, stop)
	at := t.lineEnd(stop)
	ch.edits = append(ch.edits, edit{at, at, s.newline + indent + s.block(key, value, indent)})
}

// add adds an entry for a variable that has none.
func (d *document) add(ch *change, container *node) error {
	if err := ch.referred(container); err != nil {
		return err
	}
	entry := ch.new
	switch {
	case ch.index < 0:
		i := ch.place(container)
		ch.insert(d.text, container, i, "env", list(entry))
	case ch.count == 0:
		ch.replace(d.text, container, ch.index, "env", list(entry))
	case ch.env.Style == manifest.Flow:
		last := ch.env.Items[ch.count-1]
		ch.after[last] = entry
		f, comma := flow{colon: ": ", comma: ", "}, ", "
		if last.Kind == manifest.Map && last.Style == manifest.Flow && len(last.Keys) > 0 {
			f = d.flowOf(last, 0)
			comma = f.comma
		}
		if column, first := d.column(last.Start); first {
			lines := d.newline(last.Start) + strings.Repeat(" ", column)
			comma = "," + lines
			if f.lines != "" {
				f.step, f.lines = strings.TrimPrefix(f.lines, lines), lines
			}
		} else {
			f.lines = ""
		}
		ch.edits = append(ch.edits, edit{last.End, last.End, comma + f.write(entry)})
	default:
		last := ch.env.Items[ch.count-1]
		ch.after[last] = entry
		dash, ok := d.dash(ch.env, ch.count-1)
		column, first := d.column(dash)
		if !ok || !first {
			return errors.New("the place for it is not known")
		}
		indent := strings.Repeat(" ", column)
		s := ch.style(d.text, dash)
		at := d.below(d.end(last), column)
		if at > 0 && d.data[at-1] == '\n' {
			at = d.lineEnd(at - 1)
		}
		ch.edits = append(ch.edits, edit{at, at, s.newline + indent + s.item(entry, indent)})
	}
	return nil
}

// place is the pair of a container that env goes behind.
func (ch *change) place(container *node) int {
	for _, key := range []string{"args", "command", "image", "name"} {
		if _, i := pair(container, key); i >= 0 {
			return i
		}
	}
	return len(container.Keys) - 1
}

// style is how the container is written: how far in its maps and lists are.
func (ch *change) style(t text, at int) style {
	s := style{newline: t.newline(at), step: "  "}
	for _, step := range ch.container {
		if step.from.Kind != manifest.Map || step.from.Style == manifest.Flow || step.to.Style == manifest.Flow {
			continue
		}
		outer, _ := t.column(step.from.Keys[step.index].Start)
		inner, first := t.column(step.to.Body)
		if !first || inner < outer {
			continue
		}
		switch step.to.Kind {
		case manifest.Map:
			if inner > outer {
				s.step = strings.Repeat(" ", inner-outer)
			}
		case manifest.List:
			s.list = strings.Repeat(" ", inner-outer)
		}
	}
	return s
}
