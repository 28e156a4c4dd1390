package binary

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// Program is the program that a container of this image runs, with the container's command and args in place of the image's
// entry point and command, as Kubernetes has it. Small starters such as tini, and shell scripts that end in exec, are looked
// through where that is simple.
func (m *Image) Program(command, args []string) Binary {
	argv := append(slices.Clone(m.entrypoint), m.cmd...)
	switch {
	case len(command) > 0:
		argv = append(slices.Clone(command), args...)
	case len(args) > 0:
		argv = append(slices.Clone(m.entrypoint), args...)
	}
	b := m.run(argv, 0)
	b.Env = m.env
	if b.From == "" {
		b.From = m.file
	}
	return b
}

func unknown(format string, args ...any) Binary { return Binary{Unknown: fmt.Sprintf(format, args...)} }

// run follows a command to its program.
func (m *Image) run(argv []string, depth int) Binary {
	if len(argv) == 0 || argv[0] == "" {
		return unknown("no entry point")
	}
	if depth > 8 {
		return unknown("its starters start each other")
	}
	name := argv[0]
	if strings.Contains(name, "$") {
		return unknown("%.80q is made from variables", name)
	}
	switch path.Base(name) {
	case "tini", "tini-static", "docker-init", "catatonit", "dumb-init":
		return m.run(afterOptions(argv[1:], "-p", "-e", "--rewrite"), depth+1)
	case "su-exec", "gosu":
		return m.run(argv[min(2, len(argv)):], depth+1)
	case "sh", "bash", "ash", "dash":
		return m.shell(argv, depth)
	}
	c, real := m.content(name)
	switch {
	case c.err != nil:
		return unknown("%v", c.err)
	case c.script == "":
		return Binary{Known: true, Program: c.program, From: real + " in " + m.file}
	}
	first, text, _ := strings.Cut(c.script, "\n")
	interpreter := strings.Fields(strings.TrimPrefix(first, "#!"))
	if len(interpreter) > 1 && path.Base(interpreter[0]) == "env" {
		interpreter = afterOptions(interpreter[1:])
	}
	if len(interpreter) == 0 {
		return unknown("%s has no interpreter", real)
	}
	switch path.Base(interpreter[0]) {
	case "sh", "bash", "ash", "dash":
		return m.script(text, argv[1:], depth)
	}
	return m.run(append(interpreter, real), depth+1)
}

// afterOptions are the words after options, some of which take a value.
func afterOptions(words []string, valued ...string) []string {
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		switch w := words[0]; {
		case w == "--":
			return words[1:]
		case slices.Contains(valued, w):
			words = words[min(2, len(words)):]
		default:
			words = words[1:]
		}
	}
	return words
}

// shell follows what a shell runs: sh -c "exec app", or sh script.
func (m *Image) shell(argv []string, depth int) Binary {
	if len(argv) > 2 && strings.HasPrefix(argv[1], "-") && strings.HasSuffix(argv[1], "c") {
		return m.script(argv[2], argv[min(4, len(argv)):], depth)
	}
	words := afterOptions(argv[1:])
	if len(words) == 0 {
		return unknown("its entry point is a shell")
	}
	c, real := m.content(words[0])
	switch {
	case c.err != nil:
		return unknown("%v", c.err)
	case c.script == "":
		return unknown("%s is not a script", real)
	}
	return m.script(c.script, words[1:], depth)
}

// script follows the last command of a shell script, if it replaces the shell, or is the only one.
func (m *Image) script(text string, args []string, depth int) Binary {
	const complicated = "its entry point is a shell script"
	if strings.Contains(text, "GOMAXPROCS") {
		return unknown("%s that speaks of GOMAXPROCS", complicated)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 || strings.Contains(text, "set --") {
		return unknown(complicated)
	}
	last := lines[len(lines)-1]
	command, execs := strings.CutPrefix(last, "exec ")
	if !execs && len(lines) > 1 || strings.ContainsAny(command, ";|&<>`\\(") {
		return unknown(complicated)
	}
	var argv []string
	for i, word := range strings.Fields(command) {
		switch bare := strings.Trim(word, `"'`); {
		case bare == "$@" || bare == "${@}":
			argv = append(argv, args...)
		case i == 0 && (strings.ContainsAny(bare, "$=*?[") || bare == "" || strings.HasPrefix(bare, "-")):
			return unknown(complicated)
		default:
			argv = append(argv, bare)
		}
	}
	if len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		return unknown(complicated)
	}
	return m.run(argv, depth+1)
}

// A content is a program or a script.
type content struct {
	program *procs.Program
	script  string
	err     error
}

// content reads what a command's name stands for.
func (m *Image) content(name string) (c content, real string) {
	real, f, ok := m.find(name)
	if !ok {
		return content{err: fmt.Errorf("%.80q is not in the image", name)}, ""
	}
	c, known := m.programs[real]
	if !known {
		c = m.load(real, f)
		m.programs[real] = c
	}
	return c, real
}

// find looks for a command as a container runtime does: by PATH, unless there is a slash in it.
func (m *Image) find(name string) (real string, f file, ok bool) {
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join("/", m.dir, name)
		}
		return m.lookup(name)
	}
	for _, dir := range m.path[:min(len(m.path), maxPath)] {
		if real, f, ok = m.lookup(path.Join("/", dir, name)); ok {
			return real, f, ok
		}
	}
	return "", file{}, false
}

// load reads a file from its layer.
func (m *Image) load(name string, f file) (c content) {
	if f.kind == hardlink {
		name = f.link
	}
	found := false
	m.headers = maxHeaders
	err := m.walk(f.layer, func(h *tar.Header, r io.Reader) (bool, error) {
		if clean(h.Name) != name || h.Typeflag != tar.TypeReg || sparse(h) {
			return false, nil
		}
		found = true
		var err error
		c, err = parse(m.ctx, h.Size, r)
		return true, err
	})
	switch {
	case err != nil:
		c.err = fmt.Errorf("%s can't be read: %w", name, err)
	case !found:
		c.err = fmt.Errorf("%s is a link to nothing", name)
	}
	return c
}

// parse reads a script, or a program by way of a file: its sections are read here and there.
func parse(ctx context.Context, size int64, r io.Reader) (content, error) {
	head := make([]byte, 2)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return content{}, err
	}
	r = io.MultiReader(bytes.NewReader(head[:n]), r)
	if string(head[:n]) == "#!" {
		if size > maxScript {
			return content{}, errors.New("a long script")
		}
		text, err := io.ReadAll(io.LimitReader(r, maxScript))
		return content{script: string(text)}, err
	}
	if size > maxProgram {
		return content{}, errTooLarge
	}
	f, err := ours.TempFile("program")
	if err != nil {
		return content{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := fill(ctx, f, r, maxProgram); err != nil {
		return content{}, err
	}
	p, err := procs.ReadProgram(f.Name())
	if err != nil && !errors.Is(err, procs.ErrNotGo) {
		return content{}, err
	}
	return content{program: p}, nil
}
