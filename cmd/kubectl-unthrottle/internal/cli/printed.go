package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// likeKubectl lets -o take what kubectl's takes: json, yaml, wide, and name if names gives the names of what was found. wide is the text
// as long as its lines are, and with all of its rows.
func likeKubectl[D any](r *verb.Results[D], wide func(D) *sheet.Sheet, names func(D) []string) {
	words := []string{"json", "yaml", "wide"}
	more := map[string]verb.Writer[D]{
		"yaml": verb.Plainly(func(w io.Writer, doc D) error { return writeYAML(w, doc) }),
		"wide": func(w io.Writer, doc D, style render.Style) error {
			style.Width = 0
			return render.Text(w, wide(doc), style)
		},
	}
	if names != nil {
		words = append(words, "name")
		more["name"] = verb.Plainly(func(w io.Writer, doc D) error {
			for _, name := range names(doc) {
				if _, err := io.WriteString(w, name+"\n"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	r.Words(words, more)
}

// writeYAML writes the JSON document as YAML, its fields in their order.
func writeYAML(w io.Writer, doc any) error {
	var text bytes.Buffer
	if err := report.WriteJSON(&text, doc); err != nil {
		return err
	}
	d := json.NewDecoder(&text)
	d.UseNumber()
	y := yamlWriter{bufio.NewWriter(w), d}
	if err := y.value(0, false); err != nil {
		return err
	}
	return y.Flush() // it has kept the first error
}

// A yamlWriter writes what a decoder of JSON reads.
type yamlWriter struct {
	*bufio.Writer
	from *json.Decoder
}

// value writes the next value behind its key, or behind the dash of an item. Its own lines are indented so far; 0 is the document.
func (y yamlWriter) value(indent int, item bool) error {
	token, err := y.from.Token()
	if err != nil {
		return err
	}
	begun, ok := token.(json.Delim)
	if !ok {
		y.WriteString(" " + yamlScalar(token) + "\n")
		return nil
	}
	if !y.from.More() {
		y.WriteString(map[json.Delim]string{'{': " {}\n", '[': " []\n"}[begun])
	}
	for i := 0; y.from.More(); i++ {
		switch {
		case i == 0 && item && begun == '{':
			y.WriteString(" ")
		case i == 0 && indent > 0:
			y.WriteString("\n")
			fallthrough
		default:
			y.WriteString(strings.Repeat(" ", indent))
		}
		if begun == '[' {
			y.WriteString("-")
		} else if key, err := y.from.Token(); err != nil {
			return err
		} else {
			y.WriteString(yamlScalar(key) + ":")
		}
		if err := y.value(indent+2, begun == '['); err != nil {
			return err
		}
	}
	_, err = y.from.Token() // what ends it
	return err
}

// plainYAML are texts that no reader of YAML takes for something else, except the words below.
var plainYAML = regexp.MustCompile(`^[A-Za-z/]([-A-Za-z0-9_./()%+,= ]*[-A-Za-z0-9_./()%+,=])?$`)

// wordsYAML are those that readers of YAML 1.1 take for true, false and nothing.
var wordsYAML = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// yamlScalar is a text, a number, or one of JSON's words. Escapes of Go in quotes are those of YAML, and anything unprintable is escaped.
func yamlScalar(token json.Token) string {
	text, ok := token.(string)
	switch {
	case token == nil:
		return "null"
	case !ok:
		return fmt.Sprint(token)
	case plainYAML.MatchString(text) && !slices.Contains(wordsYAML, strings.ToLower(text)):
		return text
	}
	return strconv.Quote(text)
}
