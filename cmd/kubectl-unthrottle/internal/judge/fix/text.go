package fix

import (
	"bytes"
	"encoding/json"
	"regexp"
	"sort"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
)

// A text is the bytes of a file, with what is needed to go about in its lines.
type text struct {
	data []byte
	*lines
}

// lines are where the lines of a text are. They are looked up: a file may be one line, with thousands of changes in it.
type lines struct {
	breaks        []int
	start, blanks int // of the line that was last asked for: where it begins, and how many blanks it begins with
}

func textOf(data []byte) text {
	l := &lines{breaks: make([]int, 0, bytes.Count(data, []byte("\n"))), start: -1}
	for i, c := range data {
		if c == '\n' {
			l.breaks = append(l.breaks, i)
		}
	}
	return text{data, l}
}

// line is the number of a place's line, from 0.
func (t text) line(at int) int { return sort.SearchInts(t.breaks, at) }

func (t text) lineStart(at int) int {
	if i := t.line(at); i > 0 {
		return t.breaks[i-1] + 1
	}
	return 0
}

// lineEnd is where the line of a place ends, before its line break.
func (t text) lineEnd(at int) int {
	i := t.line(at)
	if i == len(t.breaks) {
		return len(t.data)
	}
	end := t.breaks[i]
	if end > at && t.data[end-1] == '\r' {
		end--
	}
	return end
}

// next is where the line after a place begins.
func (t text) next(at int) int {
	i := t.line(at)
	if i == len(t.breaks) {
		return len(t.data)
	}
	return t.breaks[i] + 1
}

// newline is how lines end around a place.
func (t text) newline(at int) string {
	end := t.next(at)
	if end == len(t.data) && t.lineStart(at) > 0 { // the last line
		end = t.lineStart(at)
	}
	if bytes.HasSuffix(t.data[:end], []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// column is how many bytes are before a place on its line, and first whether all of them are blanks.
func (t text) column(at int) (column int, first bool) {
	start := t.lineStart(at)
	if t.start != start {
		line := t.data[start:]
		t.start, t.blanks = start, len(line)-len(bytes.TrimLeft(line, " "))
	}
	return at - start, at-start <= t.blanks
}

// rest says whether nothing but blanks and a comment follows on the line.
func (t text) rest(at int) bool {
	rest := bytes.TrimLeft(t.data[at:t.lineEnd(at)], " \t")
	return len(rest) == 0 || rest[0] == '#'
}

// blank says whether there are only blanks and line breaks.
func (t text) blank(from, to int) bool {
	return from <= to && len(bytes.TrimSpace(t.data[from:to])) == 0
}

// comment is a line that holds nothing else: its column, and what it says.
func (t text) comment(line int) (column int, says string, ok bool) {
	all := t.data[line:t.lineEnd(line)]
	trimmed := bytes.TrimLeft(all, " ")
	if len(trimmed) == 0 || trimmed[0] != '#' {
		return 0, "", false
	}
	return len(all) - len(trimmed), strings.TrimLeft(string(trimmed), "# \t"), true
}

// above goes up over the comments that belong to what is at a place: they are right above it, no further out. A block containing
// a commented-out entry belongs to nothing.
func (t text) above(at, least int) int {
	indent, _ := t.column(at)
	start := t.lineStart(at)
	top := start
	for top > least {
		line := t.lineStart(top - 1)
		column, says, ok := t.comment(line)
		if line < least || !ok || column < indent {
			break
		}
		if strings.HasPrefix(says, "- ") {
			return start
		}
		top = line
	}
	return top
}

// below goes down over comments that are further in than a place: they are inside of what ends there.
func (t text) below(end, indent int) int {
	line := t.next(end)
	for line < len(t.data) {
		column, _, ok := t.comment(line)
		if !ok || column <= indent {
			break
		}
		line = t.next(line)
	}
	return line
}

// end is where a node's text ends. The parser puts an empty value where the next thing begins.
func (t text) end(n *node) int {
	if n.Style == manifest.Flow || len(n.Items) == 0 {
		return n.End
	}
	last := n.Items[len(n.Items)-1]
	if last.Start == last.End && n.Kind == manifest.Map {
		return t.colon(n.Keys[len(n.Keys)-1])
	}
	return t.end(last)
}

// colon is the place after the colon of a key.
func (t text) colon(key *node) int {
	at := key.End
	for at < len(t.data) && (t.data[at] == ' ' || t.data[at] == '\t') {
		at++
	}
	if at < len(t.data) && t.data[at] == ':' {
		return at + 1
	}
	return key.End
}

// dash is the place of the dash of a list's item.
func (t text) dash(l *node, i int) (int, bool) {
	at := l.Body
	if i > 0 {
		at = t.end(l.Items[i-1])
	}
	for at < l.Items[i].Start {
		switch c := t.data[at]; {
		case c == '-':
			return at, true
		case c == '#':
			at = t.lineEnd(at)
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			at++
		default:
			return at, false
		}
	}
	return at, false
}

// A style is how new text should look in a place.
type style struct {
	newline string
	step    string // one level further in
	list    string // what a list is further in than its key
}

var plainWord = regexp.MustCompile(`^[A-Za-z$][A-Za-z0-9_.=/-]*$`)

// words that aren't texts in YAML 1.1.
var notText = regexp.MustCompile(`^(?i:y|yes|n|no|on|off|true|false|null)$`)

func isPlain(value string) bool { return plainWord.MatchString(value) && !notText.MatchString(value) }

// quote writes a text in double quotes, as YAML and JSON read it.
func quote(value string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // a string can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

func scalar(n *node) string {
	if n.Tag == "!!null" {
		return "null"
	}
	if isPlain(n.Value) {
		return n.Value
	}
	return quote(n.Value)
}

// block writes a pair in block style, whose key is at indent.
func (s style) block(key string, n *node, indent string) string {
	switch n.Kind {
	case manifest.Map:
		return key + ":" + s.newline + indent + s.step + s.pairs(n, indent+s.step)
	case manifest.List:
		var out strings.Builder
		out.WriteString(key + ":")
		for _, item := range n.Items {
			out.WriteString(s.newline + indent + s.list + s.item(item, indent+s.list))
		}
		return out.String()
	}
	return key + ": " + scalar(n)
}

// item writes an item of a list, whose dash is at indent.
func (s style) item(n *node, indent string) string {
	if n.Kind != manifest.Map {
		return "- " + scalar(n)
	}
	return "- " + s.pairs(n, indent+"  ")
}

func (s style) pairs(n *node, indent string) string {
	var out []string
	for i, k := range n.Keys {
		out = append(out, s.block(scalar(k), n.Items[i], indent))
	}
	return strings.Join(out, s.newline+indent)
}

// A flow is how new text should look in brackets.
type flow struct {
	json  bool
	colon string // between a key and its value: ": "
	comma string // between two things on a line: ", "
	lines string // a line break and the indentation of the pair, where pairs are on lines of their own; else ""
	step  string
}

func (f flow) write(n *node) string {
	switch n.Kind {
	case manifest.Map:
		parts := make([]string, len(n.Keys))
		for i, k := range n.Keys {
			parts[i] = f.pair(k.Value, n.Items[i], f.inner())
		}
		return f.around("{", parts, "}")
	case manifest.List:
		parts := make([]string, len(n.Items))
		for i, item := range n.Items {
			parts[i] = f.inner().write(item)
		}
		return f.around("[", parts, "]")
	}
	if f.json && n.Tag != "!!null" {
		return quote(n.Value)
	}
	return scalar(n)
}

func (f flow) pair(key string, value *node, in flow) string {
	return f.write(str(key)) + f.colon + in.write(value)
}

func (f flow) inner() flow {
	if f.lines != "" {
		f.lines += f.step
	}
	return f
}

func (f flow) around(open string, parts []string, end string) string {
	if f.lines == "" {
		return open + strings.Join(parts, f.comma) + end
	}
	return open + f.lines + f.step + strings.Join(parts, ","+f.lines+f.step) + f.lines + end
}

// flowOf is how the brackets around a pair of a map look.
func (t text) flowOf(m *node, i int) flow {
	key, value := m.Keys[i], m.Items[i]
	f := flow{json: key.Style == manifest.Double, colon: string(t.data[key.End:max(key.End, value.Start)]), comma: ", "}
	if strings.Trim(f.colon, " ") != ":" {
		f.colon = ": "
	}
	if f.colon == ":" && f.json {
		f.comma = ","
	}
	if n, first := t.column(key.Start); first {
		indent := string(t.data[key.Start-n : key.Start])
		f.lines, f.step = t.newline(key.Start)+indent, strings.TrimPrefix(indent, t.indent(m.Start))
		if f.step == "" || len(f.step) == len(indent) && t.indent(m.Start) != "" {
			f.step = "  "
		}
	}
	return f
}

// indent is what the line of a place begins with.
func (t text) indent(at int) string {
	line := t.data[t.lineStart(at):]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}
