package manifest

import (
	"bytes"
	"strconv"
	"strings"
)

// A Node is a value of a document and the bytes of the file that it is in.
type Node struct {
	Kind   Kind
	Style  Style
	Tag    string // of a scalar: !!str, !!int, !!float, !!bool, !!null, !!timestamp, or the one that is written
	Value  string // of a scalar, unquoted; the name of an alias
	Anchor string
	To     *Node // what an alias stands for

	Start, End int // its first byte in the file, with anchor and tag, and the one after its last
	Body       int // the first byte after anchor and tag

	Keys  []*Node // of a map, one for each of Items
	Items []*Node // of a list, or the values of a map
}

// Kind says what a node is.
type Kind uint8

const (
	Scalar Kind = iota
	Map
	List
	Alias
)

// Style says how a node is written.
type Style uint8

const (
	Plain   Style = iota // a scalar without quotes; a map or list in block style
	Single               // 'a scalar'
	Double               // "a scalar"
	Literal              // |
	Folded               // >
	Flow                 // {a: map} or [a, list], and all that is in JSON
)

// resolved is the node itself, or what an alias stands for. A document whose aliases go in circles is refused before.
func (n *Node) resolved() *Node {
	for n != nil && n.Kind == Alias {
		n = n.To
	}
	return n
}

func (n *Node) isNull() bool { return n.Kind == Scalar && n.Tag == "!!null" }

// isString says whether kubectl makes a string of a scalar. It reads YAML 1.1, where yes and off are booleans.
func (n *Node) isString() bool {
	if n.Style != Plain {
		return true
	}
	switch n.Tag {
	case "!!int":
		// The library takes 0o+7 for a number, and kubectl's does not.
		digits := strings.ReplaceAll(n.Value, "_", "")
		return strings.Contains(digits, "o+") || strings.Contains(digits, "o-")
	case "!!float", "!!bool", "!!null":
		return false
	case "!!str":
		switch n.Value {
		case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF":
			return false
		}
	}
	return true
}

// number is a scalar's text as the API server gets it: YAML's own ways to write an integer (0x10, 010, 1_000) are made
// decimal.
func (n *Node) number() string {
	text := strings.TrimSpace(n.Value)
	if n.Style != Plain || n.Tag != "!!int" {
		return text
	}
	if v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64); err == nil {
		return strconv.FormatInt(v, 10)
	}
	return text
}

// get finds a key's value as kubectl does: if a key is there twice the last one counts, and what a merge key brings is where
// the merge key is.
func (n *Node) get(key string) (value *Node, shared bool) {
	return n.find(key, map[*Node]bool{})
}

func (n *Node) find(key string, seen map[*Node]bool) (value *Node, shared bool) {
	if n == nil || n.Kind != Map {
		return nil, false
	}
	for i := len(n.Keys) - 1; i >= 0; i-- {
		switch k := n.Keys[i].resolved(); {
		case k.Kind != Scalar:
		case isMerge(k):
			if value := n.Items[i].resolved().merged(key, seen); value != nil {
				return value, true
			}
		case k.Value == key:
			return n.Items[i], false
		}
	}
	return nil, false
}

// merged finds a key in what a merge key brings: a map, or a list of maps, where the first counts. A map that was looked at
// is not looked at again: a few lines can name each other a million times.
func (n *Node) merged(key string, seen map[*Node]bool) *Node {
	if seen[n] {
		return nil
	}
	seen[n] = true
	if n.Kind == List {
		for _, item := range n.Items {
			if value := item.resolved().merged(key, seen); value != nil {
				return value
			}
		}
		return nil
	}
	value, _ := n.find(key, seen)
	return value
}

// A pair is a key and its value, as get finds it.
type pair struct {
	key    string
	value  *Node
	shared bool
}

// pairs adds the pairs of a map to a list, the last one first, as get looks for them.
func (n *Node) pairs(list []pair, shared bool, keys map[string]bool, seen map[*Node]bool) []pair {
	if n.Kind != Map || seen[n] {
		return list
	}
	seen[n] = true
	for i := len(n.Keys) - 1; i >= 0; i-- {
		switch k := n.Keys[i].resolved(); {
		case k.Kind != Scalar:
		case isMerge(k):
			sources := []*Node{n.Items[i].resolved()}
			if sources[0].Kind == List {
				sources = sources[0].Items
			}
			for _, s := range sources {
				list = s.resolved().pairs(list, true, keys, seen)
			}
		case !keys[k.Value]:
			keys[k.Value] = true
			list = append(list, pair{k.Value, n.Items[i], shared})
		}
	}
	return list
}

func isMerge(key *Node) bool { return key.Tag == "!!merge" }

// walk visits a node and all nodes in it, without following aliases, until visit says false for a node.
func (n *Node) walk(visit func(*Node) bool) {
	if !visit(n) {
		return
	}
	for i, item := range n.Items {
		if n.Kind == Map {
			n.Keys[i].walk(visit)
		}
		item.walk(visit)
	}
}

// isTemplate says whether a node is what a template engine would have replaced: {{ .Values.cpu }}, which YAML takes for a
// map in a map, or a text with such a thing in it.
func (n *Node) isTemplate(data []byte) bool {
	switch n.Kind {
	case Scalar:
		return strings.Contains(n.Value, "{{")
	case Map:
		return n.Style == Flow && bytes.HasPrefix(data[n.Body:n.End], []byte("{{"))
	}
	return false
}
