package fix

import (
	"bytes"
	"errors"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
)

// A removal is all that goes from one env.
type removal struct {
	text
	container, env *node
	index          int // of env in the container
	gone           []int
}

// removals makes the edits for what an object's changes take out of the lists of its containers.
func (d *document) removals(changes []*change, o *node) (edits []edit, m meaning, err error) {
	m = newMeaning()
	var lists []*removal
	of := map[*node][]*change{}
	for _, ch := range changes {
		if len(ch.drop) == 0 || ch.new != nil {
			continue
		}
		if of[ch.env] == nil {
			lists = append(lists, &removal{text: d.text, container: end(o, ch.container), env: ch.env, index: ch.index})
		}
		of[ch.env] = append(of[ch.env], ch)
	}
	for _, r := range lists {
		for _, ch := range of[r.env] {
			r.gone = append(r.gone, ch.entries...)
		}
		slices.Sort(r.gone)
		var more []edit
		switch all := len(r.gone) == len(r.env.Items); {
		case all:
			for _, ch := range of[r.env] {
				ch.emptied = true
			}
			more, err = r.all(&m)
		case r.env.Style == manifest.Flow:
			more = r.flow()
		default:
			more, err = r.lines(0)
		}
		if err != nil {
			return nil, m, err
		}
		edits = append(edits, more...)
	}
	return edits, m, nil
}

// lines takes entries out whose dashes begin their lines, with the comments that belong to them. Nothing above least is touched.
func (r *removal) lines(least int) (edits []edit, err error) {
	for _, i := range r.gone {
		dash, ok := r.dash(r.env, i)
		column, first := r.column(dash)
		stop := r.end(r.env.Items[i])
		if !ok || !first || !r.rest(stop) {
			return nil, errors.New("its entry does not stand on lines of its own")
		}
		if i > 0 {
			least = r.next(r.end(r.env.Items[i-1]))
		} else if least == 0 {
			least = r.next(r.colon(r.container.Keys[r.index]))
		}
		edits = append(edits, edit{r.above(dash, least), r.below(stop, column), ""})
	}
	return edits, nil
}

// flow takes entries out of brackets, with one comma each.
func (r *removal) flow() (edits []edit) {
	items := r.env.Items
	for i := 0; i < len(r.gone); {
		j := i
		for j+1 < len(r.gone) && r.gone[j+1] == r.gone[j]+1 {
			j++
		}
		first, last := r.gone[i], r.gone[j]
		e := edit{items[first].Start, 0, ""}
		if last+1 < len(items) {
			e.end = items[last+1].Start
		} else {
			e.start, e.end = items[first-1].End, items[last].End
		}
		edits = append(edits, e)
		i = j + 1
	}
	return edits
}

// all takes env out, and the key with it.
func (r *removal) all(m *meaning) ([]edit, error) {
	key, env := r.container.Keys[r.index], r.env
	m.drop[env] = true
	next := r.index + 1
	if r.container.Style == manifest.Flow {
		switch {
		case next < len(r.container.Keys):
			return []edit{{key.Start, r.container.Keys[next].Start, ""}}, nil
		case r.index > 0:
			return []edit{{r.container.Items[r.index-1].End, env.End, ""}}, nil
		}
		return []edit{{key.Start, env.End, ""}}, nil
	}
	stop := r.end(env)
	if !r.rest(stop) {
		return nil, errors.New("env does not stand on lines of its own")
	}
	column, first := r.column(key.Start)
	switch {
	case first && env.Style == manifest.Flow:
		return []edit{{r.above(key.Start, r.before(r.index)), r.below(stop, column), ""}}, nil
	case first && r.rest(r.colon(key)) && env.Start == env.Body:
		// Comments that belong to no entry stay.
		line := r.next(key.Start)
		edits, err := r.lines(line)
		return append([]edit{{r.above(key.Start, r.before(r.index)), line, ""}}, edits...), err
	case !first && next < len(r.container.Keys) && r.blank(stop, r.container.Keys[next].Start) && !bytes.Contains(r.data[key.Start:stop], []byte("#")):
		// - env: …, and the next key takes its place.
		return []edit{{key.Start, r.container.Keys[next].Start, ""}}, nil
	}
	delete(m.drop, env)
	m.put[env] = &node{Kind: manifest.List}
	return []edit{{r.colon(key), stop, " []"}}, nil
}

// before is where the lines begin that a pair of the container may take with it.
func (r *removal) before(i int) int {
	if i == 0 {
		return r.lineStart(r.container.Keys[0].Start)
	}
	at := r.end(r.container.Items[i-1])
	if v := r.container.Items[i-1]; v.Start == v.End {
		at = r.colon(r.container.Keys[i-1])
	}
	return r.next(at)
}
