package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A syntaxError is what is wrong with a document's text, and where.
type syntaxError struct {
	offset int // in the file
	text   string
}

func (e *syntaxError) Error() string { return e.text }

// parseYAML reads the one YAML document that is in data from start to end. It returns nil for an empty one.
//
// The library gives the line and the column where a node begins, counted in characters, and not where it ends. Both are turned
// into bytes here by reading the text alongside the nodes; a node that the text does not bear out is an error, so that no edit
// uses a wrong position.
func parseYAML(data []byte, start, end int) (root *Node, err error) {
	defer func() {
		// The library's scanner has panicked on texts that no one writes.
		if p := recover(); p != nil {
			root, err = nil, &syntaxError{start, fmt.Sprintf("the YAML parser can't read it: %v", p)}
		}
	}()
	text := data[start:end]
	if isUTF16(text) {
		return nil, &syntaxError{start, "it is UTF-16"}
	}
	var document yaml.Node
	err = yaml.Unmarshal(text, &document)
	if bytes.HasPrefix(text, bom) {
		// As after the ... of a file that another was appended to. The library's first column is the one after it.
		text, start = text[len(bom):], start+len(bom)
	}
	if err != nil {
		return nil, located(err, text, start)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return nil, nil
	}
	p := &placer{data: data[:end], lines: yamlLines(text, start), nodes: map[*yaml.Node]*Node{}}
	root = p.node(document.Content[0], start)
	if p.err != nil {
		return nil, p.err
	}
	if root.isNull() && root.Start == root.End {
		return nil, nil
	}
	return root, nil
}

var bom = []byte("\uFEFF")

// isUTF16 says whether a text begins with one of the marks by which the library knows UTF-16.
func isUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte("\xFF\xFE")) || bytes.HasPrefix(text, []byte("\xFE\xFF"))
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// located finds the place of a parser's error.
func located(err error, text []byte, start int) error {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return &syntaxError{start, err.Error()}
	}
	lines := yamlLines(text, start)
	line, _ := strconv.Atoi(m[1])
	line = max(1, min(line, len(lines)))
	return &syntaxError{lines[line-1], m[2]}
}

// yamlLines returns where each line begins, as YAML counts them: it knows more line breaks than editors do.
func yamlLines(text []byte, start int) []int {
	lines := []int{start}
	for i := 0; i < len(text); {
		n := lineBreak(text[i:])
		i += max(1, n)
		if n > 0 {
			lines = append(lines, start+i)
		}
	}
	return lines
}

// lineBreak is the length of the line break that a text begins with.
func lineBreak(text []byte) int {
	switch {
	case len(text) == 0:
		return 0
	case text[0] == '\n':
		return 1
	case text[0] == '\r':
		if len(text) > 1 && text[1] == '\n' {
			return 2
		}
		return 1
	case text[0] == 0xC2 && len(text) > 1 && text[1] == 0x85:
		return 2
	case text[0] == 0xE2 && len(text) > 2 && text[1] == 0x80 && (text[2] == 0xA8 || text[2] == 0xA9):
		return 3
	}
	return 0
}

// space is the length of the blank or line break that a text begins with.
func space(text []byte) int {
	if len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		return 1
	}
	return lineBreak(text)
}

// A placer makes our nodes of the library's, with their places in the text.
type placer struct {
	data  []byte
	lines []int // where YAML's lines begin
	nodes map[*yaml.Node]*Node
	err   error

	// The last place that was asked for: most nodes are in order, and a line may be the whole file.
	line, column, offset int
}

var errPlace = errors.New("the place of a value in it is not known")

func (p *placer) fail(offset int) int {
	if p.err == nil {
		p.err = &syntaxError{offset, errPlace.Error()}
	}
	return offset
}

// place makes an offset of a line and a column.
func (p *placer) place(line, column int) int {
	if line == len(p.lines)+1 && column == 1 {
		return len(p.data) // after a last line that does not end in a line break
	}
	if line < 1 || line > len(p.lines) {
		return p.fail(p.lines[0])
	}
	offset, at := p.lines[line-1], 1
	if line == p.line && column >= p.column {
		offset, at = p.offset, p.column
	}
	for ; at < column && offset < len(p.data); at++ {
		_, n := utf8.DecodeRune(p.data[offset:])
		offset += n
	}
	p.line, p.column, p.offset = line, column, offset
	return offset
}

// node makes a node of the library's. Its text can't begin before from.
func (p *placer) node(y *yaml.Node, from int) *Node {
	n := &Node{Value: y.Value, Anchor: y.Anchor, Start: p.place(y.Line, y.Column)}
	if n.Start < from {
		// An empty value has the place of what follows or precedes it.
		n.Start = from
	}
	n.Body = n.Start
	p.nodes[y] = n
	empty := y.Kind == yaml.ScalarNode && y.Value == "" && y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	if y.Kind != yaml.AliasNode {
		// The tag "!" alone leaves no trace in the library's node. One that a map begins with may be its first key's.
		bang := !withChild(y) && bytes.HasPrefix(p.data[min(n.Start, len(p.data)):], []byte("!"))
		n.Body = p.properties(n.Start, empty, y.Anchor != "" || y.Style&yaml.TaggedStyle != 0 || bang)
	}
	switch y.Kind {
	case yaml.AliasNode:
		p.alias(n, y)
	case yaml.ScalarNode:
		p.scalar(n, y, empty)
	case yaml.MappingNode, yaml.SequenceNode:
		p.collection(n, y)
	default:
		p.fail(n.Start)
	}
	return n
}

// withChild says whether a node begins where the first one in it does.
func withChild(y *yaml.Node) bool {
	return len(y.Content) > 0 && y.Content[0].Line == y.Line && y.Content[0].Column == y.Column
}

func (p *placer) alias(n *Node, y *yaml.Node) {
	n.Kind, n.To = Alias, p.nodes[y.Alias]
	n.End = n.Start + 1 + len(y.Value)
	if n.To == nil || n.End > len(p.data) || string(p.data[n.Start:n.End]) != "*"+y.Value {
		p.fail(n.Start)
	}
}

// properties skips an anchor and a tag, and what is between them and the value.
func (p *placer) properties(at int, empty, has bool) int {
	if !has {
		return at
	}
	end := at
	for at < len(p.data) && (p.data[at] == '&' || p.data[at] == '!') {
		isAnchor := p.data[at] == '&'
		for at < len(p.data) && space(p.data[at:]) == 0 && !(isAnchor && bytes.IndexByte([]byte(",[]{}"), p.data[at]) >= 0) {
			at++
		}
		end = at
		at = p.blank(at)
	}
	if empty {
		return end
	}
	return at
}

// blank skips blanks, line breaks and comments.
func (p *placer) blank(at int) int {
	for at < len(p.data) {
		if n := space(p.data[at:]); n > 0 {
			at += n
			continue
		}
		if p.data[at] != '#' {
			break
		}
		for at < len(p.data) && lineBreak(p.data[at:]) == 0 {
			at++
		}
	}
	return at
}

func (p *placer) scalar(n *Node, y *yaml.Node, empty bool) {
	n.Tag = y.ShortTag()
	rest := p.data[min(n.Body, len(p.data)):]
	switch {
	case y.Style&yaml.DoubleQuotedStyle != 0:
		n.Style = Double
		n.End = p.quoted(n.Body, '"')
	case y.Style&yaml.SingleQuotedStyle != 0:
		n.Style = Single
		n.End = p.quoted(n.Body, '\'')
	case y.Style&yaml.LiteralStyle != 0:
		n.Style = Literal
		n.End = p.block(n.Body, y.Value, '|')
	case y.Style&yaml.FoldedStyle != 0:
		n.Style = Folded
		n.End = p.block(n.Body, y.Value, '>')
	case empty:
		n.End = n.Body
	default:
		length, ok := plainLength(rest, []byte(y.Value))
		if !ok {
			p.fail(n.Body)
		}
		n.End = n.Body + length
	}
}

// plainLength is how much of a text a plain scalar takes: line breaks in it were folded, and nothing else was changed.
func plainLength(text, value []byte) (int, bool) {
	at := 0
	for len(value) > 0 {
		if n := space(value); n > 0 {
			value = value[n:]
			continue
		}
		for n := space(text[at:]); n > 0; n = space(text[at:]) {
			at += n
		}
		if at >= len(text) || text[at] != value[0] {
			return at, false
		}
		at, value = at+1, value[1:]
	}
	return at, true
}

// quoted finds the end of a quoted scalar.
func (p *placer) quoted(at int, quote byte) int {
	if at >= len(p.data) || p.data[at] != quote {
		return p.fail(at)
	}
	for at++; at < len(p.data); at++ {
		switch {
		case p.data[at] == '\\' && quote == '"':
			at++
		case p.data[at] == quote && quote == '\'' && at+1 < len(p.data) && p.data[at+1] == quote:
			at++
		case p.data[at] == quote:
			return at + 1
		}
	}
	return p.fail(min(at, len(p.data)))
}

// block finds the end of a block scalar, without the empty lines after it. Its indentation shows in the first line that is not
// blank: what that line has more than its value.
func (p *placer) block(at int, value string, mark byte) int {
	if at >= len(p.data) || p.data[at] != mark {
		return p.fail(at)
	}
	line := p.endOfLine(at)
	end := len(bytes.TrimRight(p.data[:line], " \t"))
	if comment := bytes.IndexByte(p.data[at:end], '#'); comment > 0 {
		end = len(bytes.TrimRight(p.data[:at+comment], " \t"))
	}
	indent := -1
	for line < len(p.data) {
		next := line + lineBreak(p.data[line:])
		line = p.endOfLine(next)
		text := p.data[next:line]
		spaces := len(text) - len(bytes.TrimLeft(text, " "))
		if spaces == len(text) {
			continue
		}
		if indent < 0 {
			if indent = spaces - firstIndent(value); indent < 0 || isBlank(value) {
				break
			}
		}
		if spaces < indent || indent == 0 && spaces == 0 && isMarker(text) {
			break
		}
		end = line
	}
	return end
}

func isBlank(text string) bool { return strings.Trim(text, " \n\u2028\u2029") == "" }

// firstIndent is the number of blanks before a text's first line that has more than blanks.
func firstIndent(value string) int {
	spaces := 0
	for _, c := range value {
		switch c {
		case ' ':
			spaces++
		case '\n', '\u2028', '\u2029':
			spaces = 0
		default:
			return spaces
		}
	}
	return 0
}

func (p *placer) endOfLine(at int) int {
	for at < len(p.data) && lineBreak(p.data[at:]) == 0 {
		at++
	}
	return at
}

func (p *placer) collection(n *Node, y *yaml.Node) {
	n.Kind = List
	if y.Kind == yaml.MappingNode {
		n.Kind = Map
	}
	at := n.Body
	flow, bare := y.Style&yaml.FlowStyle != 0, false
	if flow {
		n.Style = Flow
		// [a: b] has a map in it without brackets, which begins where its key does, or with the ? before that.
		if bare = withChild(y) || bytes.HasPrefix(p.data[at:], []byte("?")); !bare {
			at++
		}
	}
	for i, child := range y.Content {
		node := p.node(child, at)
		if p.err != nil {
			return
		}
		if bare && node.Start == node.End {
			node.Start, node.Body, node.End = at, at, at // the library has it anywhere behind the key
		}
		at = node.End
		if n.Kind == Map && i%2 == 0 {
			n.Keys = append(n.Keys, node)
			continue
		}
		n.Items = append(n.Items, node)
	}
	n.End = at
	if !flow || bare {
		return
	}
	for at = p.blank(at); at < len(p.data); at = p.blank(at + 1) {
		switch p.data[at] {
		case ',', ':', '?':
			continue
		case ']', '}':
			n.End = at + 1
			return
		}
		break
	}
	p.fail(min(at, len(p.data)))
}
