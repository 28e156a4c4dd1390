package manifest

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

const (
	ignoreWord       = "unthrottle:ignore"
	ignoreAnnotation = "unthrottle.dev/ignore"
)

// A comment is one that takes findings back, before it is known which lines it is for.
type comment struct {
	workload.Ignore
	file       *File
	start, end int
	alone      bool // nothing else is on its line
}

// comments finds the comments of a unit that take findings back. What only looks like one, in a text that the document holds, isn't one.
func (r *reader) comments(f *File, u unit, root *Node) []comment {
	text := f.Data[u.start:u.end]
	if u.json || !bytes.Contains(text, []byte(ignoreWord)) {
		return nil
	}
	var scalars [][2]int
	if root != nil {
		root.walk(func(n *Node) bool {
			if n.Kind == Scalar {
				scalars = append(scalars, [2]int{n.Start, n.End})
			}
			return true
		})
	}
	var list []comment
	next := 0
	for line := u.start; line < u.end; {
		end := line + bytes.IndexByte(f.Data[line:u.end], '\n')
		if end < line {
			end = u.end
		}
		if i := bytes.Index(f.Data[line:end], []byte(ignoreWord)); i >= 0 {
			at := line + i
			for next < len(scalars) && scalars[next][1] <= at {
				next++
			}
			before := bytes.TrimRight(f.Data[line:at], " \t")
			inText := next < len(scalars) && scalars[next][0] <= at
			if !inText && bytes.HasSuffix(before, []byte("#")) {
				c := comment{file: f, start: line + len(before) - 1, end: end}
				c.alone = len(bytes.Trim(before, " \t#")) == 0
				c.At = f.position(c.start, len(bytes.TrimRight(f.Data[:end], " \t\r")))
				c.At.Document = u.document
				if c.Rules, c.Reason = r.rules(f, c.At, string(f.Data[at+len(ignoreWord):end])); c.Rules != nil {
					list = append(list, c)
				}
			}
		}
		line = end + 1
	}
	return list
}

var (
	ruleID     = regexp.MustCompile(`^K\d{3}$`)
	likeRuleID = regexp.MustCompile(`^(?i:k)\d+$`)
)

// rules reads what follows the word: K004, K007 the reason.
func (r *reader) rules(f *File, at workload.Position, text string) ([]string, string) {
	const hint = "write it so: # unthrottle:ignore K004 the reason"
	var ids []string
	rest := strings.TrimLeft(text, ": \t")
	for rest != "" {
		word, after := rest, ""
		if i := strings.IndexAny(rest, ", \t\r"); i >= 0 {
			word, after = rest[:i], strings.TrimLeft(rest[i:], ", \t\r")
		}
		switch {
		case ruleID.MatchString(word):
			ids = append(ids, word)
		case len(ids) == 0 || likeRuleID.MatchString(word):
			r.problem(f, at, Warning, hint, "%q does not look like the id of a rule", short(word))
			if len(ids) == 0 {
				return nil, ""
			}
		default:
			return ids, strings.TrimSpace(rest)
		}
		rest = after
	}
	if len(ids) == 0 {
		r.problem(f, at, Warning, hint, "it does not say which rule")
	}
	return ids, ""
}

// after are the comments behind all of a document: before its end marker, they belong to the next one.
func (d *document) after() []comment {
	var rest []comment
	for _, c := range d.comments {
		if c.alone && c.file == d.file && c.start >= d.root.End && d.unit.path == "" {
			rest = append(rest, c)
		}
	}
	return rest
}

// ignores are the comments and annotations that take findings of an object back, with the lines that they are for.
func (d *document) ignores(o object, template at) []workload.Ignore {
	var list []workload.Ignore
	first, last := d.file.lineOf(o.node.Start), d.lastLine(o.node)
	for _, c := range d.comments {
		ignore := c.Ignore
		if c.start >= d.root.End && c.alone {
			continue
		}
		ignore.From, ignore.To = d.lines(c)
		if ignore.From <= last && ignore.To >= first {
			list = append(list, ignore)
		}
	}
	for _, meta := range []at{o.at, template} {
		a := meta.get("metadata").get("annotations")
		if a.node == nil {
			continue
		}
		value, shared := a.node.get(ignoreAnnotation)
		if value == nil || value.resolved().Kind != Scalar {
			continue
		}
		at := d.position(value, (&trail{up: a.path, key: ignoreAnnotation}).String(), shared)
		rules, reason := d.reader.rules(d.file, at, value.resolved().Value)
		if rules != nil {
			list = append(list, workload.Ignore{Rules: rules, Reason: reason, At: at, From: first, To: last})
		}
		if meta.node == template.node {
			break // a Pod is its own template
		}
	}
	return list
}

func (d *document) lastLine(n *Node) int { return d.file.lineOf(max(n.Start, n.End-1)) }

// lines are the lines that a comment is for: those of the largest element that begins on its own line or, if it is alone, on
// the next one that is not a comment.
func (d *document) lines(c comment) (from, to int) {
	line := d.file.lineOf(c.start)
	if c.start < d.unit.start {
		line = d.file.lineOf(d.root.Start)
	} else if c.alone {
		last := d.file.lines.count()
		for line++; line <= last; line++ {
			text := bytes.TrimSpace(d.file.lines.line(line))
			if len(text) > 0 && text[0] != '#' && !isMarker(text) {
				break
			}
		}
	}
	from, to = line, line
	if c.alone && d.file.lineOf(d.root.Start) == line {
		return line, d.lastLine(d.root)
	}
	d.root.walk(func(n *Node) bool {
		for i, item := range n.Items {
			start := item
			if n.Kind == Map {
				start = n.Keys[i]
			}
			if d.file.lineOf(start.Start) == line {
				to = max(to, d.lastLine(item))
			}
		}
		return d.file.lineOf(n.Start) <= line && d.lastLine(n) >= line
	})
	return from, to
}
