package manifest

import (
	"bytes"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// Shorter lines are in every file.
const shortestLine = 4

// align finds, for each line of a text that was rendered, the line of the file that it was made of: the one that reads the same, or
// that has a template where the text has a value. Of several it is the next one after the line before. A line that the file does not
// have, as it comes from a value, is that of the last line before it that the file has.
func align(text, file []byte) []workload.Line {
	var columns []int
	same, begins := map[string][]int{}, map[string][]int{}
	for line := range bytes.Lines(file) {
		columns = append(columns, begin(line))
		said := bare(line)
		if len(said) < shortestLine {
			continue
		}
		at := len(columns) - 1
		before, _, template := bytes.Cut(said, []byte("{{"))
		if before = bytes.TrimRight(before, " \"'"); !template {
			same[string(said)] = append(same[string(said)], at)
		} else if i := bytes.IndexByte(before, ':'); i >= 0 {
			begins[string(before[:i+1])] = append(begins[string(before[:i+1])], at)
		}
	}
	var lines []workload.Line
	last := -1
	for line := range bytes.Lines(text) {
		if isMarker(line) {
			last = -1
		}
		said := bare(line)
		at := same[string(said)]
		if i := bytes.IndexByte(said, ':'); at == nil && i >= 0 {
			at = begins[string(said[:i+1])]
		}
		if len(at) > 0 {
			last = next(at, last)
		}
		if last < 0 {
			lines = append(lines, workload.Line{})
			continue
		}
		l := workload.Line{Number: last + 1, Column: columns[last]}
		if len(at) > 0 {
			l.Indent = begin(line)
		}
		lines = append(lines, l)
	}
	return lines
}

// begin is the column in which a line begins.
func begin(line []byte) int { return 1 + len(line) - len(bytes.TrimLeft(line, " ")) }

// next is the first of some lines after one, or else the first of all.
func next(lines []int, after int) int {
	for _, n := range lines {
		if n > after {
			return n
		}
	}
	return lines[0]
}

// bare is what a line says, without its place in a list.
func bare(line []byte) []byte {
	line = bytes.TrimSpace(line)
	return bytes.TrimLeft(bytes.TrimPrefix(line, []byte("- ")), " ")
}
