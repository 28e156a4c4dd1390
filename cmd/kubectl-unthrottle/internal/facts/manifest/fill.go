package manifest

import (
	"bytes"
	"regexp"
)

// parseFilled reads a document that YAML can't read for its templates, as in image: {{ repo }}/app: with letters in their place. It
// returns nil where templates may make lines, or leave some out. Then what is there is unknown.
func parseFilled(data []byte, start, end int) *Node {
	filled := fill(data, start, end)
	if filled == nil {
		return nil
	}
	root, err := parseYAML(filled, start, end)
	if err != nil || root == nil {
		return nil
	}
	named := true
	root.walk(func(n *Node) bool {
		for _, k := range n.Keys {
			named = named && !bytes.Contains(data[k.Body:k.End], opening)
		}
		if text := data[n.Body:n.End]; n.Kind == Scalar && bytes.Contains(text, opening) {
			n.Value = string(bytes.Trim(text, `"'`))
		}
		return named
	})
	if !named {
		return nil
	}
	return root
}

var (
	opening = []byte("{{")
	closing = []byte("}}")
	blocks  = regexp.MustCompile(`^\{\{-?\s*(?:(if|with|range|define|block)|end)\b`)
)

// fill puts letters in the place of templates: in a copy, so that each byte stays in its place.
func fill(data []byte, start, end int) []byte {
	text := data[start:end]
	if !bytes.Contains(text, opening) || bytes.Contains(text, []byte("{%")) || bytes.Contains(text, []byte("{#")) {
		return nil
	}
	filled := bytes.Clone(data[:end])
	for line := range bytes.Lines(filled[start:]) {
		inside := 0
		for from := 0; ; {
			i := bytes.Index(line[from:], opening)
			if i < 0 {
				break
			}
			if from += i; len(bytes.TrimLeft(line[:from], " \t-\"'")) == 0 {
				return nil // it may be any number of lines
			}
			n := bytes.Index(line[from:], closing) + len(closing)
			if n < len(closing) {
				return nil
			}
			template := line[from : from+n]
			if m := blocks.FindSubmatch(template); m != nil && m[1] != nil {
				inside++
			} else if m != nil {
				inside--
			}
			if bytes.HasSuffix(template, []byte("-}}")) && len(bytes.TrimSpace(line[from+n:])) == 0 {
				return nil // the next line goes on here
			}
			copy(template, bytes.Repeat([]byte("x"), n))
			from += n
		}
		if inside != 0 {
			return nil
		}
	}
	return filled
}
