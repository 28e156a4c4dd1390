// Package plain answers: how do we show someone else's text so that it is read, and does nothing else? In goes what a process, a server, a
// file or an object is called or says; out comes what a terminal, a log, a page or a spreadsheet can hold: valid UTF-8 without control
// characters, and without those that change the direction of a text or can't be seen. Everything that is printed goes through it. It
// shortens nothing, and knows no markup: renderers escape their own.
package plain

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line is a text that stays on its line: what can't be printed, line breaks too, is written as Go would quote it. A text that can be
// printed comes back unchanged, so that it makes no difference how often this is done.
func Line(text string) string {
	if Printable(text) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Printable reports whether a text is shown unchanged.
func Printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Lines is a text that may have several lines, such as several errors in one. All but the first begin with indent, so that what someone
// else wrote after a line break does not look like a line of ours. Tabs stay.
func Lines(text, indent string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for k, cell := range cells {
			cells[k] = Line(cell)
		}
		if line = strings.Join(cells, "\t"); i > 0 && line != "" {
			line = indent + line
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// JSON is a JSON text that can be printed, with the same data in it: encoding/json leaves some of what can't be printed unchanged, such as
// U+202E, U+009B and U+007F. All of those are in strings, since nothing else in JSON is beyond ASCII.
func JSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, unprintableInJSON) && utf8.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\ufffd`...) // as encoding/json has it
		case !unprintableInJSON(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

// unprintableInJSON leaves the white space between its parts.
func unprintableInJSON(r rune) bool {
	return r != '\n' && r != '\r' && r != '\t' && !unicode.IsPrint(r)
}

// Cell is a cell of CSV. Spreadsheets take what begins with one of =+-@ for a formula, which can ask other hosts and start programs; a
// quote in front makes it a text, as OWASP advises. A number stays one.
func Cell(text string) string {
	text = Line(text)
	if text == "" || !strings.ContainsRune("=+-@＝＋－＠", first(text)) || isNumber(text) {
		return text
	}
	return "'" + text
}

func first(text string) rune {
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

// isNumber reports whether a text is a decimal number, and not NaN, Inf or anything else that strconv reads.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && strings.Trim(text, "0123456789.eE+-") == ""
}
