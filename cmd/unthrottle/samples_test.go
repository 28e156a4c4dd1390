package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/command/cli"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

// unrecorded are samples that docs/samples/record.sh has yet to record. What the documents show of them is not checked.
var unrecorded = []string{}

// sampleWidth is the screen that samples are rendered for.
const sampleWidth = 120

// sampleComment is above a block that shows output:
//
//	<!-- sample: NAME.json [--format F] [from "TEXT"] [until "TEXT"] … -->   of a document in docs/samples
//	<!-- sample: NAME.txt [from "TEXT"] [until "TEXT"] … -->                 of output that was recorded there
//	<!-- run: unthrottle VERB ARGS [from "TEXT"] [until "TEXT"] … -->        of a command that measures nothing
//
// from and until leave lines out, in their order: until the first line with TEXT, or from it on; +N in place of "TEXT" is
// N lines after the cut before. … stands for what is left out.
var sampleComment = regexp.MustCompile(`^<!-- (sample|run): (.*?)((?: (?:from|until) (?:"[^"]*"|\+\d+))*) -->$`)

var sampleCut = regexp.MustCompile(`(from|until) (?:"([^"]*)"|\+(\d+))`)

// TestDocsSamples holds what the documents show as output to what is printed now. -update writes it into them.
func TestDocsSamples(t *testing.T) {
	used := map[string]bool{}
	for _, file := range documents(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(checkout, file)
		d := sampledDocument{t: t, name: name, used: used}
		for _, block := range cutBlocks(string(data)) {
			d.add(block)
		}
		if text := strings.Join(d.out, "\n"); *update && text != string(data) {
			if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := os.ReadDir(checkout + "/docs/samples")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); (ext == ".json" || ext == ".txt") && !used[f.Name()] {
			t.Errorf("no document shows docs/samples/%s", f.Name())
		}
		if slices.Contains(unrecorded, f.Name()) {
			t.Errorf("docs/samples/%s is recorded: take it off the list", f.Name())
		}
	}
}

// A docBlock is some lines of a document: an indented block, or what is between two of them.
type docBlock struct {
	line     int // of its first
	lines    []string
	indented bool
}

// cutBlocks cuts a document. Empty lines at the end of an indented block belong to what follows it.
func cutBlocks(text string) (blocks []docBlock) {
	item := false // what is indented below an item of a list is more of it
	for i, line := range strings.Split(text, "\n") {
		item = listItem.MatchString(line) || item && strings.HasPrefix(line, " ")
		indented := strings.HasPrefix(line, "    ") && !item
		last := len(blocks) - 1
		if last >= 0 && (blocks[last].indented == indented || line == "" && !item) {
			blocks[last].lines = append(blocks[last].lines, line)
			continue
		}
		var gap []string
		if last >= 0 && blocks[last].indented {
			n := len(blocks[last].lines)
			for n > 0 && blocks[last].lines[n-1] == "" {
				n--
			}
			blocks[last].lines, gap = blocks[last].lines[:n], blocks[last].lines[n:]
		}
		blocks = append(blocks, docBlock{i + 1 - len(gap), append(slices.Clone(gap), line), indented})
	}
	return blocks
}

// recipe is the comment above what TestRecipes runs.
var recipe = regexp.MustCompile(`^<!-- recipe( file| prints)?(?:: (\S+))? -->$`)

var listItem = regexp.MustCompile(`^ {0,3}([-*]|\d+\.) `)

// A sampledDocument is a document being read, block by block.
type sampledDocument struct {
	t    *testing.T
	name string
	used map[string]bool

	out     []string // the lines as they should be
	comment []string // what sampleComment matched above the block
}

// add checks the next block and adds it, with its output as printed now.
func (d *sampledDocument) add(b docBlock) {
	comment := d.comment
	d.comment = nil
	if !b.indented {
		for i, line := range b.lines {
			if line != "" {
				d.comment = sampleComment.FindStringSubmatch(line)
			}
			if strings.Contains(line, "<!--") && d.comment == nil && !recipe.MatchString(line) {
				d.t.Errorf("%s:%d: the test does not know this comment", d.name, b.line+i)
			}
		}
		d.out = append(d.out, b.lines...)
		return
	}
	head := 0
	for i, line := range b.lines {
		if strings.HasPrefix(line, "    $ ") {
			head = i + 1
			for strings.HasSuffix(b.lines[head-1], `\`) && head < len(b.lines) {
				head++
			}
		}
	}
	if comment == nil {
		if head > 0 && head < len(b.lines) && !strings.HasPrefix(b.lines[0], "    $ kubectl ") { // its own tests hold those
			d.t.Errorf("%s:%d: nothing says where this output is from: write <!-- sample: NAME.json --> above it", d.name, b.line)
		}
		d.out = append(d.out, b.lines...)
		return
	}
	want, err := d.sample(comment)
	if err != nil {
		d.t.Errorf("%s:%d: %v", d.name, b.line, err)
	}
	if want == nil {
		d.out = append(d.out, b.lines...)
		return
	}
	got := trimEmpty(b.lines[head:])
	if !*update && !slices.Equal(got, want) {
		d.t.Errorf("%s:%d: go test ./cmd/unthrottle -run TestDocs -update writes what is printed now. It shows\n%s\nand should show\n%s",
			d.name, b.line+head, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d.out = slices.Concat(d.out, b.lines[:head], want, b.lines[head+len(got):])
}

// sample is the output that a comment names, as lines of a block; empty if it is not recorded.
func (d *sampledDocument) sample(comment []string) ([]string, error) {
	words := strings.Fields(comment[2])
	var text bytes.Buffer
	switch name := words[0]; {
	case comment[1] == "run":
		stdio := cli.IO{IO: verb.IO{Out: &text, Err: &text, Env: func(string) string { return "" }, Args: words[1:]}}
		if code := cli.Run(context.Background(), stdio); code != 0 {
			return nil, fmt.Errorf("exit code %d: %s", code, &text)
		}
	case slices.Contains(unrecorded, name):
		return nil, nil
	default:
		data, err := os.ReadFile(checkout + "/docs/samples/" + name)
		if err != nil {
			return nil, err
		}
		d.used[name] = true
		format := "text"
		if len(words) == 3 && words[1] == "--format" {
			format = words[2]
		} else if len(words) > 1 {
			return nil, fmt.Errorf("%q is none of NAME [--format F]", comment[2])
		}
		if filepath.Ext(name) == ".txt" {
			text.Write(data)
		} else if err := cli.Show(&text, data, format, sampleWidth); err != nil {
			return nil, err
		}
	}
	lines, err := cutLines(strings.Split(strings.Trim(text.String(), "\n"), "\n"), sampleCut.FindAllStringSubmatch(comment[3], -1))
	for i, line := range lines {
		if line != "" {
			lines[i] = "    " + strings.TrimRight(line, " ")
		}
	}
	return lines, err
}

// cutLines leaves lines out. The line that replaces them is indented as their first.
func cutLines(lines []string, cuts [][]string) (kept []string, err error) {
	showing := len(cuts) == 0 || cuts[0][1] == "until"
	since := 0    // lines since that has changed
	instead := "" // what replaces the lines that were left out last
	for i, line := range lines {
		for len(cuts) > 0 && (cuts[0][1] == "until") == showing && reached(cuts[0], line, since) {
			cuts, showing, since = cuts[1:], !showing, 0
		}
		since++
		switch {
		case !showing && instead == "" && line != "":
			instead = line[:len(line)-len(strings.TrimLeft(line, " "))] + "…"
		case showing && instead != "":
			kept, instead = append(trimEmpty(kept), instead), ""
			if lines[i-1] == "" {
				kept = append(kept, "")
			}
		}
		if showing {
			kept = append(kept, line)
		}
	}
	if len(cuts) > 0 {
		return nil, fmt.Errorf("the output does not have what %s asks for, or not in this order", cuts[0][0])
	}
	if instead != "" {
		kept = append(trimEmpty(kept), instead)
	}
	return kept, nil
}

// reached reports whether a cut is before this line, since lines after the last cut.
func reached(cut []string, line string, since int) bool {
	if n, err := strconv.Atoi(cut[3]); err == nil {
		return since >= n
	}
	return strings.Contains(line, cut[2])
}

// trimEmpty takes the empty lines from the end.
func trimEmpty(lines []string) []string {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// TestCutLines holds what from and until leave out.
func TestCutLines(t *testing.T) {
	text := "facts\n  a\n\nrows\n  1\n  2\n  3\n\nend\n  b"
	for cuts, want := range map[string]string{
		`until "rows"`: "facts\n  a\n…",
		`from "rows"`:  "…\n\nrows\n  1\n  2\n  3\n\nend\n  b",
		`until "rows" from "rows" until +2 from "end"`: "facts\n  a\n\nrows\n  1\n  …\n\nend\n  b",
	} {
		got, err := cutLines(strings.Split(text, "\n"), sampleCut.FindAllStringSubmatch(cuts, -1))
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%s: got %q, %v, want %q", cuts, strings.Join(got, "\n"), err, want)
		}
	}
	if _, err := cutLines([]string{"a"}, [][]string{{`until "b"`, "until", "b", ""}}); err == nil {
		t.Error("a text that isn't there is found")
	}
}
