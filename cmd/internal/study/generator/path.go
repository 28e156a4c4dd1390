package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A path leads to a number in a JSON document: $.latencies.p99, $["a.b"] or $.list[0].
type path []any // names and numbers

var errPath = errors.New(`not a path such as $.latencies.p99, $["p(99)"] or $.list[0]`)

// parsePath reads one, which begins with $.
func parsePath(text string) (p path, err error) {
	rest := strings.TrimPrefix(text, "$")
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, `["`):
			name, after, ok := strings.Cut(rest[2:], `"]`)
			if !ok {
				return nil, errPath
			}
			p, rest = append(p, name), after
		case rest[0] == '[':
			number, after, ok := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(number)
			if !ok || err != nil || n < 0 {
				return nil, errPath
			}
			p, rest = append(p, n), after
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			if end == 1 {
				return nil, errPath
			}
			p, rest = append(p, rest[1:end]), rest[end:]
		default:
			return nil, errPath
		}
	}
	if len(p) == 0 {
		return nil, errPath
	}
	return p, nil
}

// in finds what a document has there: from its first bracket to the last, so that what was printed before and after it does not matter.
func (p path) in(output string) (value string, err error) {
	begin, end := strings.IndexByte(output, '{'), strings.LastIndexByte(output, '}')
	if begin < 0 || end < begin {
		return "", errors.New("no JSON object in its output")
	}
	d := json.NewDecoder(strings.NewReader(output[begin : end+1]))
	d.UseNumber()
	var at any
	if err := d.Decode(&at); err != nil {
		return "", fmt.Errorf("its output is not a JSON object: %w", err)
	}
	for _, step := range p {
		var ok bool
		switch step := step.(type) {
		case string:
			var object map[string]any
			if object, ok = at.(map[string]any); ok {
				at, ok = object[step]
			}
		case int:
			var list []any
			if list, ok = at.([]any); ok && step < len(list) {
				at = list[step]
			} else {
				ok = false
			}
		}
		if !ok {
			return "", fmt.Errorf("the JSON that it has printed has no %v there", step)
		}
	}
	switch at := at.(type) {
	case json.Number:
		return at.String(), nil
	case string:
		return at, nil
	}
	return "", errors.New("the JSON has no number there")
}
