package manifest

import (
	"bytes"
	"sort"
	"unicode/utf8"
)

// block is how many bytes are counted for a place, at most: a file may be one line, or have nothing but line breaks.
const block = 4 << 10

// lines are where the lines of a file begin, and what it takes to count in them, without a number for each of them.
type lines struct {
	data  []byte
	marks []mark // of each block's first byte
}

type mark struct {
	line, start int // its line, from 1, and where that begins
	letters     int // characters of the file before the one that it is in
}

// newLines counts a text that begins at start, after a byte order mark.
func newLines(data []byte, start int) *lines {
	l := &lines{data: data, marks: make([]mark, 0, len(data)/block+1)}
	now := mark{line: 1, start: start}
	for at := 0; at <= len(data); at += block {
		l.marks = append(l.marks, now)
		text := data[at:min(at+block, len(data))]
		now.line += bytes.Count(text, newline)
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
			now.start = at + i + 1
		}
		now.letters += utf8.RuneCount(data[character(data, at):character(data, at+len(text))])
	}
	return l
}

var newline = []byte{'\n'}

// at is the line of a place, from 1, and where it begins. A live object has none.
func (l *lines) at(offset int) (line, start int) {
	if l == nil {
		return 0, 0
	}
	m := l.marks[offset/block]
	text := l.data[offset/block*block : offset]
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		m.start = offset - len(text) + i + 1
	}
	return m.line + bytes.Count(text, newline), m.start
}

// count is how many lines there are.
func (l *lines) count() int {
	line, _ := l.at(len(l.data))
	return line
}

// line is a line, with its end. Lines count from 1.
func (l *lines) line(n int) []byte {
	// The last block that begins in a line before it, or with it.
	i := max(0, sort.Search(len(l.marks), func(i int) bool { return l.marks[i].line >= n })-1)
	start, at := l.marks[i].start, i*block
	for line := l.marks[i].line; line < n; line++ {
		next := bytes.IndexByte(l.data[at:], '\n')
		if next < 0 {
			return nil
		}
		at += next + 1
		start = at
	}
	end := bytes.IndexByte(l.data[start:], '\n')
	if end < 0 {
		return l.data[start:]
	}
	return l.data[start : start+end+1]
}

// letters is how many characters there are between two places; the first one begins a character.
func (l *lines) letters(from, to int) int {
	if to-from <= block {
		return utf8.RuneCount(l.data[from:to])
	}
	before := func(at int) int {
		i := at / block
		return l.marks[i].letters + utf8.RuneCount(l.data[character(l.data, i*block):at])
	}
	return before(to) - before(from)
}

// character is where the character begins that a place is in. A byte that isn't part of one, as in a text that is not UTF-8, counts
// as one, as in editors.
func character(data []byte, at int) int {
	for i := at - 1; i >= 0 && i > at-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if _, n := utf8.DecodeRune(data[i:]); i+n > at {
				return i
			}
			break
		}
	}
	return at
}
