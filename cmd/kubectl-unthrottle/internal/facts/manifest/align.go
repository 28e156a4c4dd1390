package manifest

import (
	"bytes"
	"sort"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// Shorter lines are in every file.
const shortestLine = 4

// align finds, for each line of a text that was rendered, the line of the file that it was made of: the one that reads the same, or
// that has a template where the text has a value. If there are several it is the next one after the line before. A line that the
// file does not have, because it comes from a value, is that of the last line before it that the file has.
func align(text, file []byte) []workload.Line {
	var columns, document []int
	documents, starts := 0, []int{0} // where each begins
	same, begins := map[string][]int{}, map[string][]int{}
	for line := range bytes.Lines(file) {
		columns = append(columns, begin(line))
		if isMarker(line) {
			documents++
			starts = append(starts, len(columns)-1)
		}
		document = append(document, documents)
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
	last, most := -1, 0
	var alike []int
	if documents > 0 {
		alike = likest(text, same, document)
	}
	for line := range bytes.Lines(text) {
		if isMarker(line) {
			last = -1
			most++
		}
		said := bare(line)
		at := same[string(said)]
		if i := bytes.IndexByte(said, ':'); at == nil && i >= 0 {
			at = begins[string(said[:i+1])]
		}
		if len(at) > 0 && alike != nil {
			at = inDocument(at, starts, alike[most])
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

// commonest is in how many places a line may be that says which document of a file it is from.
const commonest = 50

// likest is, for each document of a text, the document of the file that has most of its lines.
func likest(text []byte, same map[string][]int, document []int) []int {
	all := []int{0}
	counts := map[int]int{}
	end := func() {
		best := 0
		for d, n := range counts {
			if n > counts[best] || n == counts[best] && d < best {
				best = d
			}
		}
		all[len(all)-1] = best
		clear(counts)
	}
	for line := range bytes.Lines(text) {
		if isMarker(line) {
			end()
			all = append(all, 0)
		}
		// A line counts the more the fewer there are of it.
		if at := same[string(bare(line))]; len(at) <= commonest {
			before := -1
			for _, n := range at {
				if d := document[n]; d != before {
					before = d
					counts[d] += 1000 / len(at)
				}
			}
		}
	}
	end()
	return all
}

// next is the first of some lines after one, or else the first of all.
func next(lines []int, after int) int {
	if i := sort.SearchInts(lines, after+1); i < len(lines) {
		return lines[i]
	}
	return lines[0]
}

// inDocument are those of some lines that are in a document, or else all.
func inDocument(lines, starts []int, document int) []int {
	from, to := sort.SearchInts(lines, starts[document]), len(lines)
	if document+1 < len(starts) {
		to = sort.SearchInts(lines, starts[document+1])
	}
	if from == to {
		return lines
	}
	return lines[from:to]
}

// bare is what a line says, without its place in a list and a comment behind it.
func bare(line []byte) []byte {
	if i := bytes.Index(line, []byte(" #")); i > 0 && !bytes.ContainsAny(line[:i], "\"'") {
		line = line[:i]
	}
	line = bytes.TrimSpace(line)
	return bytes.TrimLeft(bytes.TrimPrefix(line, []byte("- ")), " ")
}
