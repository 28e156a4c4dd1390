package fix

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

type node = manifest.Node

// A tree is a document as it was parsed.
type tree struct {
	root    *node
	aliased map[*node]bool // what aliases stand for

	templated map[*node]bool // objects that were asked about
}

// A document is a file with the changes to make in it. One tree is kept: objects come in their order.
type document struct {
	file    *manifest.File
	open    []*change // of the object that is being looked at
	batches []*batch
	last    *tree
	text

	readings int // of the text with its changes
}

// tree parses the object at a place, unless it is the one that was parsed last.
func (d *document) tree(at workload.Position) (*tree, error) {
	if d.last != nil && d.last.root.Start <= at.Offset && at.End <= d.last.root.End {
		return d.last, nil
	}
	root, err := d.file.Tree(at)
	if err != nil {
		return nil, err
	}
	t := &tree{root: root, aliased: map[*node]bool{}, templated: map[*node]bool{}}
	walk(root, func(n *node) {
		if n.Kind == manifest.Alias {
			t.aliased[n.To] = true
		}
	})
	if d.lines == nil {
		d.text = textOf(d.file.Data)
	}
	d.last = t
	return t, nil
}

// walk visits a node and all nodes in it, without following aliases.
func walk(n *node, visit func(*node)) {
	visit(n)
	for i, item := range n.Items {
		if n.Kind == manifest.Map {
			walk(n.Keys[i], visit)
		}
		walk(item, visit)
	}
}

// A route leads from a node down to another one.
type route []step

// A step goes to an item of a list, or to the value of a key.
type step struct {
	from  *node
	to    *node
	index int // among from's Items
}

// key is the step's key, "" for an item of a list.
func (s step) key() string {
	if s.from.Kind == manifest.Map {
		return s.from.Keys[s.index].Value
	}
	return ""
}

// pointer is the path as a JSON pointer (RFC 6901).
func (p route) pointer() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		if s.from.Kind == manifest.List {
			b.WriteString(strconv.Itoa(s.index))
			continue
		}
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(s.key()))
	}
	return b.String()
}

// find goes down to the map at a place. No two maps have the same position.
func find(from *node, at workload.Position) (route, error) {
	var p route
	for n := from; n.Start != at.Offset || n.End != at.End || n.Kind != manifest.Map; {
		// They come one after the other, and what is empty ends where it begins.
		next := sort.Search(len(n.Items), func(i int) bool { return n.Items[i].End > at.Offset })
		if next == len(n.Items) || n.Items[next].Start > at.Offset || n.Items[next].End < at.End {
			return nil, fmt.Errorf("%s: no map stands there", at)
		}
		p = append(p, step{n, n.Items[next], next})
		n = n.Items[next]
	}
	return p, nil
}

// pair is the value of a map's key, and its index; -1 if it has none of that name itself. If there are two the last one counts.
func pair(n *node, key string) (value *node, index int) {
	if n == nil || n.Kind != manifest.Map {
		return nil, -1
	}
	for i := len(n.Keys) - 1; i >= 0; i-- {
		if k := n.Keys[i]; k.Kind == manifest.Scalar && k.Value == key {
			return n.Items[i], i
		}
	}
	return nil, -1
}

// merges reports whether a map has a merge key.
func merges(n *node) bool {
	for _, k := range n.Keys {
		if k.Tag == "!!merge" {
			return true
		}
	}
	return false
}

func isNull(n *node) bool { return n.Kind == manifest.Scalar && n.Tag == "!!null" }

// templates reports whether a template engine has yet to work on an object. It may be asked for each of its containers.
func (t *tree) templates(o *node, data []byte) bool {
	found, asked := t.templated[o]
	if !asked {
		found = templates(o, data)
		t.templated[o] = found
	}
	return found
}

// templates reports whether a template engine has yet to work on an object. What annotations say is for others.
func templates(n *node, data []byte) bool {
	switch n.Kind {
	case manifest.Scalar:
		return strings.Contains(n.Value, "{{")
	case manifest.Map:
		if n.Style == manifest.Flow && strings.HasPrefix(string(data[n.Body:min(n.Body+2, n.End)]), "{{") {
			return true
		}
	}
	for i, item := range n.Items {
		if n.Kind == manifest.Map && (n.Keys[i].Value == "annotations" || !bytes.Contains(data[item.Start:item.End], []byte("{{"))) {
			continue
		}
		if templates(item, data) {
			return true
		}
	}
	return false
}

// String makes a scalar that is a text.
func str(value string) *node { return &node{Kind: manifest.Scalar, Tag: "!!str", Value: value} }

// object makes a map of keys and values in turn.
func object(pairs ...any) *node {
	n := &node{Kind: manifest.Map}
	for i := 0; i < len(pairs); i += 2 {
		n.Keys = append(n.Keys, str(pairs[i].(string)))
		value, ok := pairs[i+1].(*node)
		if !ok {
			value = str(pairs[i+1].(string))
		}
		n.Items = append(n.Items, value)
	}
	return n
}

func list(items ...*node) *node { return &node{Kind: manifest.List, Items: items} }
