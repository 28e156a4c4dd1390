// Package render answers: how does a sheet look? In goes a sheet, out comes text for a terminal, Markdown or a page of HTML on
// an io.Writer. It knows no verb, makes no sentence and computes nothing: it only finds room.
package render

import (
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A Style says what the reader's screen can show.
type Style struct {
	Color bool
	Width int // columns; 0 means that lines may be of any length
}

// wrap breaks text between words so that no line is wider than the screen, and indents all lines after the first. A unit
// stays with its number.
func (s Style) wrap(text string, indent int) string {
	room := s.Width - indent
	if s.Width == 0 || room < 20 {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range words(text) {
		n := visible(word)
		switch {
		case i == 0:
		case used+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// words are the parts of a text between which a line may end.
func words(text string) (parts []string) {
	for i, word := range strings.Split(text, " ") {
		if last := len(parts) - 1; i > 0 && quantity.Glued(parts[last], word) {
			parts[last] += " " + word
			continue
		}
		parts = append(parts, word)
	}
	return parts
}

// visible counts the columns of a text, colour codes left out.
func visible(text string) (n int) {
	for inCode := false; len(text) > 0; {
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch {
		case r == '\x1b':
			inCode = true
		case inCode:
			inCode = r != 'm'
		default:
			n++
		}
	}
	return n
}

// codes are how tones look on a terminal.
var codes = map[sheet.Tone]string{sheet.Strong: "1", sheet.Unsure: "1", sheet.Soft: "2", sheet.Bad: "31", sheet.Good: "32", sheet.Warn: "33"}

// Paint gives a text the look of its tone.
func (s Style) Paint(tone sheet.Tone, text string) string {
	code := codes[tone]
	if !s.Color || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// cut shortens text to a width. Of a long name, such as a container's id, it leaves both ends; else it cuts at the end.
func cut(text string, width int) string {
	r := []rune(text)
	if len(r) <= width {
		return text
	}
	last := len([]rune(text[:strings.LastIndexByte(text, ' ')+1]))
	if room := width - 1 - last; len(r)-last > len(r)/2 && room >= shortest {
		return string(r[:last+room-room/2]) + "…" + string(r[len(r)-room/2:])
	}
	return strings.TrimRight(string(r[:width-1]), " ") + "…"
}
