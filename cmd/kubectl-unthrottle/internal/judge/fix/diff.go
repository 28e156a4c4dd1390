package fix

import (
	"bytes"
	"fmt"
	"strings"
)

// context3 is how many lines are shown around a change.
const context3 = 3

// A hunk is a run of lines that become others.
type hunk struct {
	line, newLine int // of the first one, from 0
	old, new      []string
}

// Diff is what changes, as diff -u writes it: patch -p0 and git apply -p0 take it.
func (f File) Diff() string {
	hunks := f.hunks()
	if len(hunks) == 0 {
		return ""
	}
	lines := splitLines(f.Old)
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", f.Name, f.Name)
	for i := 0; i < len(hunks); {
		j := i
		for j+1 < len(hunks) && hunks[j+1].line-hunks[j].line-len(hunks[j].old) <= 2*context3 {
			j++
		}
		first, last := hunks[i], hunks[j]
		from := max(0, first.line-context3)
		to := min(len(lines), last.line+len(last.old)+context3)
		newFrom := first.newLine - (first.line - from)
		newTo := last.newLine + len(last.new) + to - last.line - len(last.old)
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(from, to-from), span(newFrom, newTo-newFrom))
		at := from
		for _, h := range hunks[i : j+1] {
			write(&b, ' ', lines[at:h.line])
			write(&b, '-', h.old)
			write(&b, '+', h.new)
			at = h.line + len(h.old)
		}
		write(&b, ' ', lines[at:to])
		i = j + 1
	}
	return b.String()
}

// span is a range of lines as diff writes it.
func span(from, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, n)
}

func write(b *strings.Builder, mark byte, lines []string) {
	for _, line := range lines {
		b.WriteByte(mark)
		b.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// splitLines are the lines of a text with their ends.
func splitLines(data []byte) []string {
	var lines []string
	for line := range bytes.Lines(data) {
		lines = append(lines, string(line))
	}
	return lines
}

// hunks are the lines that the edits touch, without those that stay the same at either end.
func (f File) hunks() (hunks []hunk) {
	line, at, moved := 0, 0, 0 // the line that at begins, and how many lines more there are before it
	t := textOf(f.Old)
	for i := 0; i < len(f.edits); {
		start := t.lineStart(f.edits[i].start)
		var b strings.Builder
		from, stop := start, start
		for ; i < len(f.edits) && (stop == start || f.edits[i].start < stop); i++ {
			e := f.edits[i]
			b.Write(f.Old[from:e.start])
			b.WriteString(e.text)
			from = e.end
			stop = t.next(e.end)
			if e.text == "" && t.lineStart(e.start) == e.start && t.lineStart(e.end) == e.end {
				stop = e.end // whole lines go
			}
		}
		b.Write(f.Old[from:stop])
		old, new := splitLines(f.Old[start:stop]), splitLines([]byte(b.String()))
		line += bytes.Count(f.Old[at:start], []byte("\n"))
		at = start
		h := hunk{line: line, old: old, new: new}
		for len(h.old) > 0 && len(h.new) > 0 && h.old[0] == h.new[0] {
			h.old, h.new, h.line = h.old[1:], h.new[1:], h.line+1
		}
		for len(h.old) > 0 && len(h.new) > 0 && h.old[len(h.old)-1] == h.new[len(h.new)-1] {
			h.old, h.new = h.old[:len(h.old)-1], h.new[:len(h.new)-1]
		}
		h.newLine = h.line + moved
		moved += len(h.new) - len(h.old)
		if len(h.old)+len(h.new) > 0 {
			hunks = append(hunks, h)
		}
	}
	return hunks
}
