package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// mostDocuments is how many documents of a file, or objects of a list, are read: what renders all of a company's charts into one has some ten thousand, and
// the pods of a large cluster are as many.
const mostDocuments = 100_000

// split cuts a file into the pieces that are parsed one by one, so that a broken document takes no other with it, and so that only one is
// in memory. at is where the text begins, after a byte order mark. more is where the first document begins that is one too many, or -1.
func split(data []byte, at int) (units []unit, more int) {
	start, directives := at, false
	document := 0
	more = -1
	add := func(end int) {
		text := data[start:end]
		if onlyComments(text) {
			// The directives of a document are before its marker, and so are the comments of the first one.
			if directives = bytes.Contains(text, []byte("\n%")) || bytes.HasPrefix(text, []byte("%")); directives {
				return
			}
			if len(bytes.TrimSpace(text)) == 0 {
				start = end
				return
			}
		}
		if !directives && onlyMarker(text) {
			document++
			start = end
			return
		}
		directives = false
		if len(units) >= mostDocuments {
			more = start
			return
		}
		units = append(units, documentUnits(data, start, end, &document)...)
		if len(units) > mostDocuments {
			more, units = units[mostDocuments].start, units[:mostDocuments]
		}
		start = end
	}
	for line := at; line < len(data) && more < 0; {
		next := line + bytes.IndexByte(data[line:], '\n') + 1
		if next == line {
			next = len(data)
		}
		switch {
		case bytes.HasPrefix(data[line:next], []byte("---")) && isMarker(data[line:next]):
			add(line)
			if !directives {
				start = line
			}
		case bytes.HasPrefix(data[line:next], []byte("...")) && isMarker(data[line:next]):
			directives = false
			add(line)
			start = next
		}
		line = next
	}
	if start < len(data) && more < 0 {
		add(len(data))
	}
	return units, more
}

// onlyMarker says whether a document is its marker and nothing else, so that there is nothing to be kept of it.
func onlyMarker(text []byte) bool {
	return bytes.HasPrefix(text, []byte("---")) && len(bytes.TrimSpace(text)) == 3
}

// isMarker says whether a line that begins with --- or ... ends a document.
func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || space(line[3:]) > 0
}

// onlyComments says whether a text has nothing but blanks, comments and directives.
func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimLeft(line, " \t\r\n")
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// documentUnits are the units of one document of YAML, or of a stream of JSON values.
func documentUnits(data []byte, start, end int, document *int) []unit {
	if units, ok := jsonUnits(data, start, end, document); ok {
		return units
	}
	all := unit{start: start, end: end, document: *document}
	*document++
	if end-start > smallList {
		if units := listUnits(data, all); units != nil {
			return units
		}
	}
	return []unit{all}
}

var topKey = regexp.MustCompile(`^([A-Za-z]+):(.*)$`)

// listUnits cuts a long YAML list, as kubectl get -o yaml writes it, into its objects. It returns nil for anything else: what
// has anchors, or a top level with more than simple keys.
func listUnits(data []byte, all unit) []unit {
	var units []unit
	var of list
	inItems, dash := false, -1
	count, keys := 0, 0
	for line := all.start; line < all.end; {
		next := line + bytes.IndexByte(data[line:all.end], '\n') + 1
		if next == line {
			next = all.end
		}
		text := data[line:next]
		spaces := len(text) - len(bytes.TrimLeft(text, " "))
		rest := text[spaces:]
		switch {
		case inItems && bytes.HasPrefix(rest, []byte("- ")) && (dash < 0 || spaces == dash):
			if dash < 0 {
				dash = spaces
			}
			if len(units) > 0 {
				units[len(units)-1].end = line
			}
			if count <= mostDocuments {
				units = append(units, unit{
					start: line, end: all.end, document: all.document, inList: true,
					path: fmt.Sprintf("items[%d]", count),
				})
			}
			count++
		case spaces == 0 && len(bytes.TrimSpace(text)) > 0 && text[0] != '#' && !isMarker(text):
			if inItems && len(units) > 0 {
				units[len(units)-1].end = line
			}
			m := topKey.FindSubmatch(bytes.TrimRight(text, "\r\n"))
			if keys++; m == nil || keys > 20 {
				return nil
			}
			inItems = string(m[1]) == "items"
			if inItems && (len(bytes.TrimSpace(m[2])) > 0 || dash >= 0) {
				return nil
			}
			switch value := string(bytes.Trim(m[2], " \r\"'")); string(m[1]) {
			case "kind":
				of.kind = value
			case "apiVersion":
				of.version = value
			}
		}
		line = next
	}
	if hasAnchor(data[all.start:all.end]) {
		return nil
	}
	return of.units(units)
}

// units are those of a list, if it is one.
func (l list) units(units []unit) []unit {
	if !strings.HasSuffix(l.kind, "List") {
		return nil
	}
	for i := range units {
		units[i].list = l
	}
	return units
}

var anchor = regexp.MustCompile(`(?m)[:-] +[&*]\w|<<:`)

func hasAnchor(text []byte) bool { return anchor.Match(text) }

// jsonUnits cuts a stream of JSON values. It says no if the text is not JSON from its first value on: YAML may begin with a
// bracket, too.
func jsonUnits(data []byte, start, end int, document *int) ([]unit, bool) {
	r := &jsonReader{data: data[:end], at: start}
	if bytes.HasPrefix(data[start:end], []byte("---")) {
		r.at += 3
	}
	if c := r.next(); c != '{' && c != '[' {
		return nil, false
	}
	if c := r.data[r.at+1:]; len(c) > 0 && c[0] == '{' {
		return nil, false // {{ a template
	}
	var units []unit
	for first := true; r.next() != 0 && len(units) <= mostDocuments; first = false {
		u := unit{start: r.at, end: end, document: *document + len(units), json: true}
		err := r.skip()
		switch {
		case first && (err != nil || !isJSON(data, u.start, r.at)):
			return nil, false
		case err != nil && data[u.start] == '#':
			return nil, false
		case err != nil:
			// Parsing it says what is wrong.
			return append(units, u), true
		}
		u.end = r.at
		units = append(units, u)
	}
	*document += len(units)
	var cut []unit
	for _, u := range units {
		if items := jsonItems(data, u); items != nil {
			cut = append(cut, items...)
			continue
		}
		cut = append(cut, u)
	}
	return cut, true
}

// isJSON says whether a value whose brackets match is JSON, and not YAML in brackets. For a long one the beginning decides.
func isJSON(data []byte, start, end int) bool {
	if end-start <= smallList {
		_, err := parseJSON(data, start, end)
		return err == nil
	}
	r := &jsonReader{data: data[:end], at: start + 1}
	if c := r.next(); data[start] == '[' || c != '"' {
		return c == '{' || c == '[' || c == '"'
	}
	_, err := r.text()
	return err == nil && r.next() == ':'
}

// jsonItems cuts a long JSON list into its objects, and returns nil for anything else.
func jsonItems(data []byte, all unit) []unit {
	if all.end-all.start <= smallList || data[all.start] != '{' {
		return nil
	}
	r := &jsonReader{data: data[:all.end], at: all.start + 1}
	var units []unit
	var of list
	for r.next() == '"' || r.next() == ',' {
		if r.next() == ',' {
			r.at++
			continue
		}
		key, err := r.text()
		if err != nil || r.next() != ':' {
			return nil
		}
		r.at++
		from := r.next()
		valueAt := r.at
		if key.Value == "items" && from == '[' {
			if units = r.elements(all); units == nil {
				return nil
			}
			continue
		}
		if r.skip() != nil {
			return nil
		}
		switch value := string(bytes.Trim(data[valueAt:r.at], `"`)); key.Value {
		case "kind":
			of.kind = value
		case "apiVersion":
			of.version = value
		}
	}
	if r.next() != '}' {
		return nil
	}
	return of.units(units)
}

// elements passes over an array and returns its elements as units.
func (r *jsonReader) elements(all unit) []unit {
	var units []unit
	r.at++
	for r.next() != ']' {
		if r.next() == ',' {
			r.at++
			continue
		}
		from := r.at
		if r.next() == 0 || r.skip() != nil {
			return nil
		}
		if len(units) <= mostDocuments {
			units = append(units, unit{
				start: from, end: r.at, document: all.document, json: true,
				path: fmt.Sprintf("items[%d]", len(units)),
			})
		}
	}
	r.at++
	return units
}
