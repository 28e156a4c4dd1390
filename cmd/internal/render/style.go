// Package render answers: how does a document look? In goes a report document, out comes text on an io.Writer. It
// computes nothing: every number is in the document. One file a verb and format.
package render

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Style says what the reader's screen can show.
type Style struct {
	Color bool
	Width int // columns; 0 means that lines may be of any length
}

// wrap breaks text between words so that no line is wider than the screen, and indents all lines after the first.
func (s Style) wrap(text string, indent int) string {
	room := s.Width - indent
	if s.Width == 0 || room < 20 {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
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

func (s Style) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) bold(text string) string { return s.paint("1", text) }
func (s Style) dim(text string) string  { return s.paint("2", text) }
func (s Style) bad(text string) string  { return s.paint("31", text) }
func (s Style) good(text string) string { return s.paint("32", text) }

// printable makes what other people have named safe for a terminal: control characters, which a process may have in its
// name and a cgroup in its path, are written as Go would quote them.
func printable(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// pad fills text with spaces up to a width; colour codes must come after it.
func pad(text string, width int) string {
	if n := width - utf8.RuneCountInString(text); n > 0 {
		return text + strings.Repeat(" ", n)
	}
	return text
}

// padLeft is pad for numbers.
func padLeft(text string, width int) string {
	if n := width - utf8.RuneCountInString(text); n > 0 {
		return strings.Repeat(" ", n) + text
	}
	return text
}

// cpus prints a number of CPUs with three digits after the point at most.
func cpus(v float64) string {
	if v == 1 {
		return "1 CPU"
	}
	return number(v) + " CPUs"
}

func number(v float64) string {
	if v != 0 && math.Abs(v) < 0.001 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// percent prints a share with one digit after the point at most.
func percent(share float64) string { return number(math.Round(share*1000)/10) + " %" }

// millis prints microseconds as milliseconds.
func millis(micros int64) string { return number(float64(micros)/1000) + " ms" }

// seconds prints a time with as many digits as it deserves.
func seconds(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case s < 0.001:
		return number(math.Round(s*1e6)) + " µs"
	case s < 1:
		return number(math.Round(s*1e4)/10) + " ms"
	case s < 100:
		return number(math.Round(s*100)/100) + " s"
	}
	return number(math.Round(s)) + " s"
}

// bytes prints a memory size in the units of GOMEMLIMIT.
func bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return number(math.Round(v*10)/10) + " " + units[i]
}

func plural(n int64, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "s"):
		one += "e"
	}
	return strconv.FormatInt(n, 10) + " " + one + "s"
}

// warnings writes what the reader should know, a line each.
func warnings(b *strings.Builder, texts []string, style Style) {
	for _, w := range texts {
		b.WriteString(style.bad("warning: ") + style.wrap(printable(w), len("warning: ")) + "\n")
	}
}
