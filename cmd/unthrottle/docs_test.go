package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/command/cli"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

// checkout is the root of the repository.
const checkout = "../.."

// documents are the Markdown files whose commands are checked and whose samples are rendered.
func documents(t *testing.T) (files []string) {
	t.Helper()
	for _, dir := range []string{".", ".github", "docs", "bench"} {
		err := filepath.WalkDir(filepath.Join(checkout, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && dir == "." && path != checkout {
				return fs.SkipDir
			}
			if err == nil && strings.HasSuffix(path, ".md") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestDocsCommands holds the documents to the commands that there are: each verb and flag in them exists, and takes its
// value. Checked are lines of indented blocks and spans of code.
func TestDocsCommands(t *testing.T) {
	checked := 0
	for _, file := range documents(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(checkout, file)
		for _, c := range append(blockCommands(string(data)), spanCommands(string(data))...) {
			for _, args := range commands(c.text) {
				checked++
				if err := cli.Check(args); err != nil {
					t.Errorf("%s:%d: %s: %v", name, c.line, c.text, err)
				}
			}
			for _, path := range goPaths(c.text) {
				if !isDir(path, filepath.Dir(file)) {
					t.Errorf("%s:%d: %s: there is no directory %s", name, c.line, c.text, path)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found", checked)
	}
}

var (
	link   = regexp.MustCompile(`\]\(([^)#]+\.md)[^)]*\)`)
	figure = regexp.MustCompile(`\d[\d.,]*\d|\d`)
)

// TestDocsHowSure holds each row of docs/how-sure.md to the pages that the row links to: every figure is in one of them.
func TestDocsHowSure(t *testing.T) {
	data, err := os.ReadFile(checkout + "/docs/how-sure.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "| [") {
			continue
		}
		rows++
		var sources strings.Builder
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			page, err := os.ReadFile(filepath.Join(checkout, "docs", m[1]))
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(page)
		}
		there := figure.FindAllString(sources.String(), -1)
		for _, f := range figure.FindAllString(link.ReplaceAllString(line, ""), -1) {
			if !slices.Contains(there, f) {
				t.Errorf("%s stands in no page of its row: %s", f, line)
			}
		}
	}
	if rows < 10 {
		t.Errorf("only %d rows", rows)
	}
}

// TestDocsLinks wants every page that a document links to be there.
func TestDocsLinks(t *testing.T) {
	for _, file := range documents(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
			}
		}
	}
}

// TestDocsRecord holds the script that records the samples to it, since no test runs that.
func TestDocsRecord(t *testing.T) {
	data, err := os.ReadFile(checkout + "/docs/samples/record.sh")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, line := range strings.Split(string(data), "\n") {
		for _, args := range commands(line) {
			n++
			if err := cli.Check(args); err != nil {
				t.Errorf("record.sh:%d: %v", i+1, err)
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d commands were found", n)
	}
}

// TestDocsHelp holds the help of the verbs to it.
func TestDocsHelp(t *testing.T) {
	_, verbs, _ := strings.Cut(help(t), "Verbs:\n")
	verbs, _, _ = strings.Cut(verbs, "\n\n")
	n := 0
	for line := range strings.Lines(verbs) {
		verb := strings.Fields(line)[0]
		for i, line := range strings.Split(help(t, verb), "\n") {
			for _, args := range commands(line) {
				n++
				if err := cli.Check(args); err != nil {
					t.Errorf("help %s, line %d: %s: %v", verb, i+1, line, err)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands were found", n)
	}
}

func help(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	stdio := cli.IO{IO: verb.IO{Out: &out, Err: &out, Env: os.Getenv, Args: append([]string{"help"}, args...)}}
	if code := cli.Run(context.Background(), stdio); code != 0 {
		t.Fatalf("help %v: exit code %d: %s", args, code, &out)
	}
	return out.String()
}

// A docLine is a line of a document that may hold commands.
type docLine struct {
	line int
	text string
}

// blockCommands are the lines of the indented blocks of a document. If a block has prompts, lines without one are output.
func blockCommands(text string) (found []docLine) {
	prompts := false
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, indented := strings.CutPrefix(lines[i], "    ")
		if !indented {
			if lines[i] != "" {
				prompts = false
			}
			continue
		}
		at := i
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + strings.TrimSpace(lines[i])
		}
		command, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		prompts = prompts || prompt
		if prompt == prompts {
			found = append(found, docLine{at + 1, command})
		}
	}
	return found
}

var span = regexp.MustCompile("`((?:[A-Z_]+=\\S+ |sudo )*(?:unthrottle|go) [^`]+)`")

// spanCommands are the spans of code that begin as commands do.
func spanCommands(text string) (found []docLine) {
	for _, m := range span.FindAllStringSubmatchIndex(text, -1) {
		line := 1 + strings.Count(text[:m[2]], "\n")
		found = append(found, docLine{line, strings.Join(strings.Fields(text[m[2]:m[3]]), " ")})
	}
	return found
}

// commands are the arguments of each call of unthrottle in a line of shell: also of one that another program must start, and of one in a
// script in quotes.
func commands(line string) (found [][]string) {
	for _, simple := range shell(line) {
		for i, w := range simple {
			switch {
			case w.quoted && strings.Contains(w.text, "unthrottle "):
				found = append(found, commands(w.text)...)
			case filepath.Base(w.text) == "unthrottle" && isStarted(simple[:i]):
				args := []string{}
				for _, a := range simple[i+1:] {
					args = append(args, a.value())
				}
				found = append(found, args)
			}
		}
	}
	return found
}

// isStarted reports whether the word after these is a command.
func isStarted(before []word) bool {
	n := len(before)
	for n > 0 && assignment.MatchString(before[n-1].text) {
		n--
	}
	return n == 0 || slices.Contains([]string{"--", "sudo", "do", "{"}, before[n-1].text) ||
		n > 1 && before[n-2].text == "go" && before[n-1].text == "run"
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// A word is one of a command line.
type word struct {
	text   string
	quoted bool
}

// placeholders are values for what a synopsis names. Others are taken unchanged.
var placeholders = map[string]string{"SLO": "p99=50ms", "R": "1", "N": "1", "D": "1s", "URL": "http://localhost/"}

func (w word) value() string {
	if v, ok := placeholders[w.text]; ok {
		return v
	}
	return w.text
}

// shell cuts a line into its simple commands, as much as documents need it. A substitution counts as 1. In a synopsis the brackets are left
// out, and what comes after three spaces is an explanation.
func shell(line string) (found [][]word) {
	var simple []word
	var text strings.Builder
	inWord, quoted, optional := false, false, 0
	endWord := func() {
		if s := strings.TrimSuffix(text.String(), "..."); inWord && s != "" && s != "…" && s != "FLAGS" {
			simple = append(simple, word{s, quoted})
		}
		text.Reset()
		inWord, quoted = false, false
	}
	endCommand := func() {
		endWord()
		if len(simple) > 0 {
			found = append(found, simple)
		}
		simple = nil
	}
	rest := strings.TrimSpace(line)
	for rest != "" {
		c := rest[0]
		switch end := 1; {
		case c == '\'' || c == '"':
			if n := strings.IndexByte(rest[1:], c); n >= 0 {
				text.WriteString(rest[1 : n+1])
				end = n + 2
			}
			rest, inWord, quoted = rest[end:], true, true
			continue
		case strings.HasPrefix(rest, "$(") && strings.Contains(rest, ")"):
			text.WriteByte('1')
			rest, inWord = rest[strings.Index(rest, ")")+1:], true
			continue
		case variable.MatchString(rest):
			text.WriteByte('1')
			rest, inWord = rest[len(variable.FindString(rest)):], true
			continue
		case strings.HasPrefix(rest, "   ") || c == '#' && !inWord:
			rest = ""
			continue
		case c == '[' && !inWord:
			optional++
		case c == ']' && optional > 0:
			optional--
		case c == ' ' || c == '|' && optional > 0:
			endWord()
		case strings.IndexByte("|&;<>()", c) >= 0:
			endCommand()
			if c == '>' || c == '<' && !strings.HasPrefix(rest, "<(") { // a file, which is not an argument
				rest = ">" + strings.TrimLeft(rest[1:], "<> ")
				end = max(1, strings.IndexAny(rest+" ", " ;|&"))
			}
			rest = rest[min(end, len(rest)):]
			continue
		default:
			text.WriteByte(c)
			inWord = true
		}
		rest = rest[1:]
	}
	endCommand()
	return found
}

var variable = regexp.MustCompile(`^\$[a-zA-Z]+`)

// goPaths are the directories that a call of the go command names, those after -C DIR as seen from here.
func goPaths(line string) (paths []string) {
	for _, simple := range shell(line) {
		at := slices.IndexFunc(simple, func(w word) bool { return !assignment.MatchString(w.text) })
		if at < 0 || simple[at].text != "go" || at+1 == len(simple) {
			continue
		}
		args, in := simple[at+1:], ""
		if len(args) > 2 && args[0].text == "-C" {
			in, args = args[1].text+"/", args[2:]
			paths = append(paths, in)
		}
		for _, w := range args[1:] {
			if strings.HasPrefix(w.text, "./") || strings.HasPrefix(w.text, "../") {
				paths = append(paths, in+w.text)
			}
		}
	}
	return paths
}

// isDir reports whether a directory is there, as seen from a module or from the document.
func isDir(path, document string) bool {
	for _, from := range []string{checkout, checkout + "/cmd", checkout + "/bench", document} {
		if info, err := os.Stat(filepath.Join(from, path)); err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

// TestShell holds what the documents' commands are read by.
func TestShell(t *testing.T) {
	for line, want := range map[string]string{
		"unthrottle ps                         # every program": `[[ps]]`,
		"unthrottle tune [FLAGS] [--url URL] -- SERVER [ARGS]":  `[[tune --url http://localhost/ -- SERVER ARGS]]`,
		"unthrottle ps [FLAGS] [PID | NAME ...]":                `[[ps PID NAME]]`,
		"unthrottle watch $(pgrep -o myserver)":                 `[[watch 1]]`,
		"GOMAXPROCS=1 unthrottle run -- unthrottle serve &":     `[[run -- unthrottle serve] [serve]]`,
		"unthrottle load 'http://h/?a=1&b=2' -c 8 >load.txt &":  `[[load http://h/?a=1&b=2 -c 8]]`,
		"sh -c 'true & unthrottle watch; unthrottle ps --json'": `[[watch] [ps --json]]`,
		"cd bench && go run ./cmd/unthrottle explain":           `[[explain]]`,
		"source <(unthrottle completion bash)":                  `[[completion bash]]`,
		"kubectl exec mypod -- unthrottle watch | less":         `[[watch]]`,
		"docker build -t unthrottle . && docker run unthrottle": `[]`,
		"unthrottle tune --cpus 1 -- SERVER    which limit?":    `[[tune --cpus 1 -- SERVER]]`,
		"unthrottle, pid 14794":                                 `[]`,
	} {
		if got := fmt.Sprint(commands(line)); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
	if got := fmt.Sprint(goPaths("GOWORK=off go test ./... ./cmd/... -run X")); got != "[./ ./cmd/]" {
		t.Errorf("got %s", got)
	}
	for _, wrong := range [][]string{{"tnue"}, {"tune", "--speed"}, {"load", "--for", "fast"}, {"hey", "--zz"}} {
		if err := cli.Check(wrong); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
}
