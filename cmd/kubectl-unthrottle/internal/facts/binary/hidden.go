package binary

import "strings"

// hidden are the files that upper layers took away. It is a tree: a long name is looked up part by part, and not as often as there
// are directories above it.
type hidden struct {
	tally tally
	next  map[step]int // to a place below another; the root is 0
	marks []mark       // of each place
}

// A step leads from a place to one in it.
type step struct {
	from int
	part string
}

type mark uint8

const (
	gone   mark = 1 << iota // with all that is below it
	opaque                  // a directory that shows nothing of lower layers
)

// place is what a place of the tree takes, in bytes: a step, its number, and the map's share.
const place = 64

func newHidden() *hidden { return &hidden{next: map[step]int{}, marks: []mark{0}} }

// add marks a name, which is clean.
func (h *hidden) add(name string, m mark) error {
	at := 0
	for part := range strings.SplitSeq(name[1:], "/") {
		if name == "/" {
			break
		}
		to, ok := h.next[step{at, part}]
		if !ok {
			if err := h.tally.grow(place); err != nil {
				return err
			}
			to = len(h.marks)
			h.marks = append(h.marks, 0)
			h.next[step{at, part}] = to
		}
		at = to
	}
	h.marks[at] |= m
	return nil
}

// has reports whether an upper layer has taken a file away.
func (h *hidden) has(name string) bool {
	at := 0
	for part := range strings.SplitSeq(name[1:], "/") {
		if h.marks[at] != 0 {
			return true
		}
		to, ok := h.next[step{at, part}]
		if !ok {
			return false
		}
		at = to
	}
	return h.marks[at]&gone != 0
}
