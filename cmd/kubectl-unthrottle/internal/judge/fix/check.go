package fix

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A batch is the changes of one object, with what the object means when they are made. They are made together, or not at all.
type batch struct {
	offset  int // of the object in the old text
	changes []*change
	edits   []edit
	want    [sha256.Size]byte
}

// close makes a batch of the changes that are open, which are those of one object, so that no tree must be kept.
func (d *document) close() {
	changes := d.open
	d.open = nil
	if len(changes) == 0 {
		return
	}
	b, err := d.batch(changes)
	if err != nil {
		leave(changes, err)
		return
	}
	d.batches = append(d.batches, b)
}

func (d *document) batch(changes []*change) (*batch, error) {
	w := changes[0].w
	_, _, o, err := d.object(w)
	if err != nil {
		return nil, err
	}
	edits, m, err := d.removals(changes, o)
	if err != nil {
		return nil, err
	}
	b := &batch{offset: w.At.Offset, changes: changes, edits: edits}
	for _, ch := range changes {
		b.edits = append(b.edits, ch.edits...)
		for n := range ch.drop {
			m.drop[n] = true
		}
		for n, to := range ch.put {
			m.put[n] = to
		}
		for n, then := range ch.after {
			m.after[n] = then
		}
	}
	slices.SortStableFunc(b.edits, func(x, y edit) int { return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end)) })
	for i, e := range b.edits {
		if e.start > e.end || i > 0 && e.start < b.edits[i-1].end {
			return nil, errors.New("two changes meet in one place")
		}
	}
	b.want = m.sum(o)
	for _, ch := range changes { // the nodes are no longer needed
		if len(ch.entries) > 0 {
			ch.old = plain(ch.last())
		}
		ch.container, ch.env, ch.meaning, ch.edits = nil, nil, meaning{}, nil
	}
	return b, nil
}

// plain is a copy without places.
func plain(n *node) *node {
	c := &node{Kind: n.Kind, Tag: n.Tag, Value: n.Value}
	for i, item := range n.Items {
		if n.Kind == manifest.Map {
			c.Keys = append(c.Keys, plain(n.Keys[i]))
		}
		c.Items = append(c.Items, plain(item))
	}
	return c
}

// sum is a checksum of what a node says: its values, their order, anchors and aliases, not how they are written.
func (m meaning) sum(n *node) [sha256.Size]byte {
	var b bytes.Buffer
	m.write(&b, n)
	return sha256.Sum256(b.Bytes())
}

func (m meaning) write(b *bytes.Buffer, n *node) {
	if to := m.put[n]; to != nil {
		copied := *to
		copied.Anchor = n.Anchor
		n = &copied
	}
	if n.Anchor != "" {
		b.WriteString("&" + n.Anchor + " ")
	}
	switch n.Kind {
	case manifest.Alias:
		b.WriteString("*" + n.Value)
	case manifest.Scalar:
		b.WriteString(n.Tag + strconv.Quote(n.Value))
	case manifest.List:
		b.WriteByte('[')
		for _, item := range n.Items {
			if !m.drop[item] {
				m.write(b, item)
				b.WriteByte(',')
			}
			if then := m.after[item]; then != nil {
				m.write(b, then)
				b.WriteByte(',')
			}
		}
		b.WriteByte(']')
	case manifest.Map:
		b.WriteByte('{')
		for i, item := range n.Items {
			if !m.drop[item] {
				m.pair(b, n.Keys[i], item)
			}
			if then := m.after[item]; then != nil {
				m.pair(b, then.Keys[0], then.Items[0])
			}
		}
		b.WriteByte('}')
	}
}

func (m meaning) pair(b *bytes.Buffer, key, value *node) {
	m.write(b, key)
	b.WriteByte(':')
	m.write(b, value)
	b.WriteByte(',')
}

// settle finds the batches that can be made together. The others are left with why.
func (d *document) settle(ctx context.Context) ([]*batch, error) {
	d.readings = 0
	before, err := readAlone(ctx, d.file.Data)
	if err != nil {
		return nil, err
	}
	return d.most(ctx, before, d.batches)
}

func leave(changes []*change, why error) {
	for _, ch := range changes {
		ch.decision.leave(why.Error())
	}
}

// mostReadings is how often a text with its changes is read again. Once is enough where all is well, and to find one object among a
// thousand takes some thirty readings. Without a bound a file in which many don't read back would be read as often as it has objects.
const mostReadings = 200

var errReadings = fmt.Errorf("more than %d readings of the file did not tell which of its changes read back as they are meant", mostReadings)

// most is as many batches as read back as intended. One that does not is left out; it is looked for by halves.
func (d *document) most(ctx context.Context, before *reading, all []*batch) ([]*batch, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if d.readings >= mostReadings {
		for _, b := range all {
			leave(b.changes, errReadings)
		}
		return nil, nil
	}
	wrong, err := d.wrong(ctx, before, all)
	if err != nil || wrong == nil {
		return all, err
	}
	if len(all) == 1 {
		leave(all[0].changes, wrong)
		return nil, nil
	}
	left, err := d.most(ctx, before, all[:len(all)/2])
	if err != nil {
		return nil, err
	}
	right, err := d.most(ctx, before, all[len(all)/2:])
	if err != nil {
		return nil, err
	}
	both := append(slices.Clip(left), right...)
	if wrong, err = d.wrong(ctx, before, both); wrong != nil {
		for _, b := range right {
			leave(b.changes, wrong)
		}
		return left, err
	}
	return both, err
}

// apply makes the new text.
func (d *document) apply(all []*batch) []byte {
	var out bytes.Buffer
	at := 0
	for _, b := range all {
		for _, e := range b.edits {
			out.Write(d.file.Data[at:e.start])
			out.WriteString(e.text)
			at = e.end
		}
	}
	out.Write(d.file.Data[at:])
	return out.Bytes()
}

// A reading is a file read on its own, so that its old and its new text are read alike.
type reading struct {
	file      *manifest.File
	workloads []*workload.Workload
	first     map[int]int // of the workloads that are at an offset
}

func readAlone(ctx context.Context, data []byte) (*reading, error) {
	set, err := manifest.Read(ctx, manifest.Options{Stdin: bytes.NewReader(data)}, "-")
	if err != nil {
		return nil, err
	}
	r := &reading{file: set.Files[0], workloads: set.Workloads, first: map[int]int{}}
	for i, w := range set.Workloads {
		if _, ok := r.first[w.At.Offset]; !ok {
			r.first[w.At.Offset] = i
		}
	}
	return r, nil
}

var errBack = errors.New("the result does not read back as intended, so nothing is changed here; please report this file")

// wrong reads the text with these changes, and says what is not as it should be. It is nil if each object that changes says exactly
// what was intended, and the facts of all workloads are the same except for the intended variables.
func (d *document) wrong(ctx context.Context, before *reading, all []*batch) (wrong, err error) {
	slices.SortFunc(all, func(x, y *batch) int { return cmp.Compare(x.offset, y.offset) })
	last := 0
	for _, b := range all {
		for _, e := range b.edits {
			if e.start < last {
				return errors.New("two changes meet in one place"), nil
			}
			last = e.end
		}
	}
	d.readings++
	after, err := readAlone(ctx, d.apply(all))
	if err != nil {
		return nil, err
	}
	if len(after.workloads) != len(before.workloads) {
		return errBack, nil
	}
	next := &document{file: after.file}
	of := map[int]byTemplate{}
	for _, b := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		i, ok := before.first[b.offset]
		if !ok {
			return errBack, nil
		}
		of[b.offset] = b.byTemplate()
		at := after.workloads[i].At
		t, err := next.tree(at)
		if err != nil {
			return errBack, nil
		}
		path, err := find(t.root, at)
		if err != nil || (meaning{}).sum(end(t.root, path)) != b.want {
			return errBack, nil
		}
	}
	for i, w := range before.workloads {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !same(w, after.workloads[i], of[w.At.Offset][w.Pod.At.Offset]) {
			return errBack, nil
		}
	}
	return nil, nil
}

// byTemplate are the changes of an object by where its pod templates and their containers are: it may have many of both.
type byTemplate map[int]map[int][]*change

func (b *batch) byTemplate() byTemplate {
	all := byTemplate{}
	for _, ch := range b.changes {
		pod := ch.w.Pod.At.Offset
		if all[pod] == nil {
			all[pod] = map[int][]*change{}
		}
		all[pod][ch.c.At.Offset] = append(all[pod][ch.c.At.Offset], ch)
	}
	return all
}

// same compares the facts of a workload before and after. changes are those of its pod template, by their containers.
func same(before, after *workload.Workload, changes map[int][]*change) bool {
	b, a := facts(before), facts(after)
	for j := range min(len(b.Pod.Containers), len(a.Pod.Containers)) {
		for _, ch := range changes[before.Pod.Containers[j].At.Offset] {
			if !ch.meant(&before.Pod.Containers[j], &after.Pod.Containers[j]) {
				return false
			}
			for _, c := range []*workload.Container{&b.Pod.Containers[j], &a.Pod.Containers[j]} {
				c.Env = slices.DeleteFunc(c.Env, func(v workload.Variable) bool { return v.Name == ch.remedy.Variable })
			}
		}
	}
	return reflect.DeepEqual(b, a)
}

// meant says whether a container's variable is what it should become.
func (ch *change) meant(before, after *workload.Container) bool {
	v, ok := after.Var(ch.remedy.Variable)
	switch ch.remedy.Action {
	case remedy.Remove:
		return !ok
	case remedy.Set:
		if ch.remedy.Resource != "" {
			return ok && v.Form == workload.ResourceRef && v.Resource == ch.remedy.Resource && v.Divisor == "1" && v.Container == ""
		}
		return ok && v.Form == workload.Literal && v.Text == ch.remedy.Value
	case remedy.Repair:
		old, _ := before.Var(ch.remedy.Variable)
		return ok && v.Form == workload.ResourceRef && v.Resource == old.Resource && v.Container == old.Container && v.Divisor == ch.remedy.Value
	}
	return false
}

// facts is a copy of a workload without places, which move. Comments that take findings back may go with what they are about.
func facts(w *workload.Workload) *workload.Workload {
	c := *w
	c.Ignore = nil
	c.Pod.Containers = slices.Clone(c.Pod.Containers)
	for i := range c.Pod.Containers {
		p := &c.Pod.Containers[i]
		p.Env, p.EnvFrom = slices.Clone(p.Env), slices.Clone(p.EnvFrom)
		if p.Env == nil {
			p.Env = []workload.Variable{}
		}
	}
	if c.Around.VPA != nil {
		v := *c.Around.VPA
		c.Around.VPA = &v
	}
	clearPlaces(reflect.ValueOf(&c))
	return &c
}

var placeType = reflect.TypeFor[workload.Position]()

// clearPlaces clears all positions in a value.
func clearPlaces(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			clearPlaces(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			clearPlaces(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == placeType {
			v.SetZero()
			return
		}
		for i := range v.NumField() {
			clearPlaces(v.Field(i))
		}
	}
}
