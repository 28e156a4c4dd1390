package manifest

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// deepest is how many levels a JSON value may have. The YAML library has a bound of its own.
const deepest = 1000

// A jsonReader reads JSON with the places of its values, which encoding/json does not give.
type jsonReader struct {
	data []byte // up to where it may read
	at   int
	live bool // leave out what an API server keeps for itself: it may be most of an object
}

// parseJSON reads the one value that is in data from start to end.
func parseJSON(data []byte, start, end int) (*Node, error) {
	return (&jsonReader{data: data[:end], at: start}).whole()
}

func (r *jsonReader) whole() (*Node, error) {
	n, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if r.blank(); r.at < len(r.data) {
		return nil, r.wrong("more text after the value")
	}
	return n, nil
}

func (r *jsonReader) wrong(format string, args ...any) error {
	return &syntaxError{min(r.at, len(r.data)), fmt.Sprintf(format, args...)}
}

func (r *jsonReader) blank() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// next is the next byte that is not blank, 0 at the end.
func (r *jsonReader) next() byte {
	if r.blank(); r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

func (r *jsonReader) value(depth int) (*Node, error) {
	if depth > deepest {
		return nil, r.wrong("values in values, more than %d deep", deepest)
	}
	switch c := r.next(); {
	case c == '{' || c == '[':
		return r.collection(c, depth)
	case c == '"':
		return r.text()
	case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
		return r.word()
	case c == 0:
		return nil, r.wrong("the text ends where a value is wanted")
	}
	return nil, r.wrong("%q where a value is wanted", r.shown())
}

func (r *jsonReader) shown() string {
	c, _ := utf8.DecodeRune(r.data[r.at:])
	return string(c)
}

func (r *jsonReader) collection(open byte, depth int) (*Node, error) {
	n := &Node{Kind: Map, Style: Flow, Start: r.at, Body: r.at}
	end := byte('}')
	if open == '[' {
		n.Kind, end = List, ']'
	}
	r.at++
	for first := true; r.next() != end; first = false {
		if !first {
			if r.next() != ',' {
				return nil, r.wrong("a comma or %q is missing", string(end))
			}
			r.at++
		}
		if n.Kind == Map {
			if r.next() != '"' {
				return nil, r.wrong("a key in double quotes is wanted")
			}
			key, err := r.text()
			if err != nil {
				return nil, err
			}
			if r.next() != ':' {
				return nil, r.wrong("a colon is missing")
			}
			r.at++
			if r.live && key.Value == "managedFields" {
				r.blank()
				if err := r.skip(); err != nil {
					return nil, err
				}
				continue
			}
			n.Keys = append(n.Keys, key)
		}
		item, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Items = append(n.Items, item)
	}
	r.at++
	n.End = r.at
	return n, nil
}

func (r *jsonReader) text() (*Node, error) {
	start := r.at
	plain := true
	for r.at++; ; r.at++ {
		if r.at >= len(r.data) || r.data[r.at] < ' ' {
			return nil, r.wrong("a double quote is missing")
		}
		if c := r.data[r.at]; c == '"' {
			break
		} else if c == '\\' {
			plain = false
			r.at++
		}
	}
	r.at++
	n := &Node{Style: Double, Tag: "!!str", Start: start, Body: start, End: r.at}
	if plain && utf8.Valid(r.data[start+1:r.at-1]) {
		n.Value = string(r.data[start+1 : r.at-1])
		return n, nil
	}
	if err := json.Unmarshal(r.data[start:r.at], &n.Value); err != nil {
		r.at = start
		return nil, r.wrong("%v", err)
	}
	return n, nil
}

// word reads a number, true, false or null. A number may be larger than a float64 can hold: JSON has no bound.
func (r *jsonReader) word() (*Node, error) {
	start := r.at
	for r.at < len(r.data) && isWord(r.data[r.at]) {
		r.at++
	}
	n := &Node{Value: string(r.data[start:r.at]), Start: start, Body: start, End: r.at}
	if !json.Valid(r.data[start:r.at]) {
		r.at = start
		return nil, r.wrong("%q is not a JSON value", short(n.Value))
	}
	switch n.Value[0] {
	case 'n':
		n.Tag, n.Value = "!!null", ""
	case 't', 'f':
		n.Tag = "!!bool"
	default:
		n.Tag = "!!float"
	}
	return n, nil
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// skip skips a value without keeping anything, so that a list of thousands of objects need not be in memory at once. It
// checks only strings and brackets: the values are read afterwards.
func (r *jsonReader) skip() error {
	switch c := r.next(); c {
	case '{', '[':
	case '"':
		_, err := r.text()
		return err
	default:
		_, err := r.value(0)
		return err
	}
	depth := 0
	for ; r.at < len(r.data); r.at++ {
		switch r.data[r.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				r.at++
				return nil
			}
		case '"':
			for r.at++; r.at < len(r.data) && r.data[r.at] != '"'; r.at++ {
				if r.data[r.at] == '\\' {
					r.at++
				}
			}
		}
	}
	return r.wrong("a bracket is missing at the end")
}
