// What of the screen can be drawn again? In goes what a verb writes to; out comes the terminal
// that it is, if it is one, with its size. It draws lines in the place of those before, and takes them away. What the lines
// say is not its affair.

package conduct

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// A Terminal is one that lines can be drawn on.
type Terminal struct {
	file  *os.File
	drawn bool
}

// TerminalOf returns the terminal that a writer is, or nil if it isn't one, or is one on which nothing can be redrawn.
func TerminalOf(w io.Writer, env func(string) string) *Terminal {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || env("TERM") == "dumb" {
		return nil
	}
	return &Terminal{file: f}
}

// Size is how many columns and rows it has: 80 and 24 if it does not say.
func (t *Terminal) Size() (width, height int) {
	width, height, err := term.GetSize(int(t.file.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Fit cuts a text without escapes to what fits into a line.
func (t *Terminal) Fit(text string) string {
	width, _ := t.Size()
	if utf8.RuneCountInString(text) < width {
		return text
	}
	return string([]rune(text)[:max(0, width-2)]) + "…"
}

// Draw puts lines in the place of those that it drew before. Each must fit. The cursor stays in the first.
func (t *Terminal) Draw(lines ...string) {
	text := "\r" + strings.Join(lines, "\x1b[K\n") + "\x1b[J"
	if up := len(lines) - 1; up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	fmt.Fprint(t.file, text+"\r")
	t.drawn = true
}

// Clear takes the lines away.
func (t *Terminal) Clear() {
	if t != nil && t.drawn {
		fmt.Fprint(t.file, "\r\x1b[J")
		t.drawn = false
	}
}
