package procs

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/process/executable"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

var (
	// ErrNotGo means that a file was read and is not a Go program.
	ErrNotGo = errors.New("not a Go program")
	// ErrOdd means that a file was not looked into, as it is not one that Go's linker makes.
	ErrOdd = executable.ErrOdd
	// ErrStuck means that the kernel says nothing about a process.
	ErrStuck = foreign.ErrStuck
)

// A Program is a Go program's file.
type Program struct {
	GoVersion string // such as "go1.26.8"
	Path      string // import path of package main
	Module    string // main module
	Version   string // its version, "(devel)" when it was built from a checkout

	// Defaults are the GODEBUG settings that were built in because of the main module's go line or a go:debug
	// directive.
	Defaults map[string]string

	Automaxprocs Link
	Unthrottle   Link
	HeapFloor    bool // it imports package auto/heapfloor, which does what the environment says

	file FileID
}

// Link says how a library is part of a program.
type Link uint8

const (
	NotLinked Link = iota
	Required       // the module is among the dependencies, but the function that sets GOMAXPROCS is not in the program
	Linked         // the function is in the program
	Imported       // so is the package that calls it when it is imported
)

var links = [...]string{"no", "required only", "linked", "blank import"}

// String returns the link in words, as reports show it.
func (l Link) String() string { return links[l] }

// ParseLink reads those words; others mean that it is not linked.
func ParseLink(words string) Link { return Link(max(0, slices.Index(links[:], words))) }

// The functions to look for. Names survive stripping; the list of modules alone does not say what was linked.
const (
	automaxprocs = "go.uber.org/automaxprocs"
	unthrottle   = "github.com/unthrottle/unthrottle"
)

// ReadProgram reads a Go program's file.
func ReadProgram(path string) (*Program, error) {
	f, err := os.Open(path) // the caller's own choice, by any link
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readProgram(f, info.Size(), true)
}

// Programs remembers files, so that many processes of one program cost little more than one. The zero value remembers
// nothing yet. Several may read at a time.
type Programs struct{ memo Memo[look] }

// A look is what came of looking into a file.
type look struct {
	program *Program
	err     error // why it isn't there: ErrNotGo, or that the file is odd
}

// Forget drops the files that were not read since it was called last.
func (programs *Programs) Forget() { programs.memo.Forget() }

// Keep remembers a program that was read before as if it were read again.
func (programs *Programs) Keep(p *Program) {
	if p != nil {
		programs.memo.Keep(p.file, look{program: p})
	}
}

// file reads the program of a process. One that is known is not even opened.
func (programs *Programs) file(root, path string, others bool) (*Program, error) {
	file, err := foreign.Look(root, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found, ok := programs.memo.Get(file.ID)
	if !ok {
		f, err := file.Open()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if found.program, found.err = readProgram(f, file.ID.Size(), others); found.program != nil {
			found.program.file = file.ID
		}
		programs.memo.Keep(file.ID, found)
	}
	return found.program, found.err
}

// maxOther is how much of a file of another system is read, where debug/buildinfo reads it: programs for macOS and Windows have
// tables of symbols that it reads whole, of some 10 MB in large ones.
const maxOther = 64 << 20

// readProgram reads an open file. Files of other systems are read if others is true: a process of Linux has none.
func readProgram(r io.ReaderAt, size int64, others bool) (*Program, error) {
	file, err := executable.Read(r, size)
	if errors.Is(err, executable.ErrFormat) && others {
		info, err := buildinfo.Read(executable.NewBudget(r, maxOther))
		if err != nil {
			return nil, ErrNotGo
		}
		p, err := newProgram(info)
		if err != nil {
			return nil, err
		}
		p.findLibraries(nil, info)
		return p, nil
	}
	if err != nil {
		return nil, notGo(err)
	}
	info, err := file.BuildInfo()
	if err != nil {
		return nil, notGo(err)
	}
	p, err := newProgram(info)
	if err != nil {
		return nil, err
	}
	p.findLibraries(file, info)
	return p, nil
}

// notGo is ErrNotGo for any error that isn't ErrOdd: the file was opened, so it holds no build information.
func notGo(err error) error {
	if errors.Is(err, executable.ErrOdd) {
		return err
	}
	return ErrNotGo
}

// Bounds on what is kept of a program.
const (
	maxWord     = 512     // bytes of a module's path or version, or of Go's; real ones have up to 200
	maxDefaults = 4 << 10 // bytes of the GODEBUG settings that were built in; those of go 1.20 have some 700
)

func newProgram(info *debug.BuildInfo) (*Program, error) {
	p := &Program{GoVersion: kept(info.GoVersion), Path: kept(info.Path), Module: kept(info.Main.Path), Version: kept(info.Main.Version)}
	p.Defaults = map[string]string{}
	for _, s := range info.Settings {
		if s.Key == "DefaultGODEBUG" {
			if len(s.Value) > maxDefaults {
				return nil, fmt.Errorf("%w: its settings of GODEBUG have %d bytes", executable.ErrOdd, len(s.Value))
			}
			p.Defaults = ParseGODEBUG(strings.Clone(s.Value))
		}
	}
	return p, nil
}

// kept is a copy of a word, so that it does not keep the text that it is part of. A word that is too long is cut.
func kept(word string) string { return cut(strings.Clone(word[:min(len(word), maxWord+1)]), maxWord) }

// cut marks what is too long.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return beginning(text[:most]) + more
}

// findLibraries looks in the table of function names for what sets GOMAXPROCS, or keeps a heap from being collected too often.
func (p *Program) findLibraries(f *executable.File, info *debug.BuildInfo) {
	listed := len(info.Deps) == 0 // build systems other than the go command leave the list out
	for _, dep := range append([]*debug.Module{&info.Main}, info.Deps...) {
		listed = listed || dep.Path == automaxprocs || strings.HasPrefix(dep.Path, unthrottle)
		switch dep.Path {
		case automaxprocs:
			p.Automaxprocs = Required
		case unthrottle:
			p.Unthrottle = Required
		}
	}
	if !listed {
		return // searching the names of a large program takes longer than all the rest
	}
	names := []string{
		automaxprocs + "/maxprocs.Set\x00", automaxprocs + ".init.0\x00",
		unthrottle + ".Set\x00", unthrottle + ".Watch\x00", unthrottle + "/auto.init.0\x00",
		unthrottle + "/auto/heapfloor.init.0\x00",
	}
	found := findNames(f, names)
	if found[0] {
		p.Automaxprocs = Linked
	}
	if found[1] {
		p.Automaxprocs = Imported
	}
	if found[2] || found[3] {
		p.Unthrottle = Linked
	}
	if found[4] {
		p.Unthrottle = Imported
	}
	p.HeapFloor = found[5]
}

// findNames says which names are in the file's table of functions. Only ELF files are looked into, and only their
// section of that name: elsewhere in a file a name may be a string of the program's.
func findNames(f *executable.File, names []string) []bool {
	found := make([]bool, len(names))
	if f == nil {
		return found
	}
	if table, ok := f.Functions(); ok {
		scan(io.NewSectionReader(f.Content(), int64(table.Offset), int64(table.Size)), names, found)
	}
	return found
}

// scan reads r in pieces that overlap, so that a table of any size costs the same memory.
func scan(r io.Reader, names []string, found []bool) {
	const overlap = 256
	buf := make([]byte, 1<<20)
	kept := 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		piece := buf[:kept+n]
		for i, name := range names {
			found[i] = found[i] || bytes.Contains(piece, []byte(name))
		}
		if err != nil {
			return
		}
		kept = copy(buf, piece[len(piece)-overlap:])
	}
}

// ParseGODEBUG reads settings such as "containermaxprocs=0,updatemaxprocs=0". The last of two equal names counts, as it
// does for the runtime.
func ParseGODEBUG(text string) map[string]string {
	settings := map[string]string{}
	for _, kv := range strings.Split(text, ",") {
		if name, value, ok := strings.Cut(kv, "="); ok {
			settings[name] = value
		}
	}
	return settings
}

// Minor returns the second number of the program's Go version, 26 for go1.26.8, and 0 when it is not known.
func (p *Program) Minor() int {
	_, rest, ok := strings.Cut(p.GoVersion, "go1.")
	if !ok {
		return 0
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// changes are GODEBUG settings whose default changed in a Go version, one or two for each. A go line that is older than the version makes
// the build write down the old value, regardless of what the program imports. From Go's own table (internal/godebugs).
var changes = []struct {
	minor    int
	settings []string
}{
	{21, []string{"panicnil"}},
	{22, []string{"httplaxcontentlength", "httpmuxgo121"}},
	{23, []string{"winsymlink", "httpservecontentkeepheaders"}},
	{24, []string{"randseednop", "rsa1024min"}},
	{25, []string{"containermaxprocs", "tlssha1"}},
	{26, []string{"urlstrictcolons", "cryptocustomrand"}},
	{27, []string{"tracebacklabels"}},
}

// GoLine returns what is known about the go line in the main module's go.mod. The file does not contain the line itself, but the
// defaults that were built in because of it: "1.24" or, at the ends, "1.20 or older" and "1.26 or later". It is ""
// for a program older than Go 1.21, which had no such defaults. A directive "go:debug default=go1.22" leaves the same in
// the file as that go line.
func (p *Program) GoLine() string {
	version := p.Minor()
	if version < 21 {
		return ""
	}
	for i, c := range changes {
		if c.minor > version || !p.has(c.settings) {
			continue
		}
		if i == 0 {
			return "1.20 or older"
		}
		return fmt.Sprintf("1.%d", c.minor-1)
	}
	return fmt.Sprintf("1.%d or later", version)
}

// SetGoLine adds the defaults that a go line, as GoLine writes it, left in the file: for a program that is known from a report.
func (p *Program) SetGoLine(line string) {
	minor := 0 // of the go line
	if line == "" || strings.HasSuffix(line, " or later") {
		minor = p.Minor()
	} else if _, err := fmt.Sscanf(line, "1.%d", &minor); err != nil {
		return
	}
	if p.Defaults == nil {
		p.Defaults = map[string]string{}
	}
	for _, c := range changes {
		if minor < c.minor && c.minor <= p.Minor() {
			for _, s := range c.settings {
				p.Defaults[s] = "0"
			}
			if c.minor == 25 {
				p.Defaults["updatemaxprocs"] = "0" // it came together with containermaxprocs
			}
		}
	}
}

// has reports whether all the settings are among the defaults. One alone may come from a go:debug line.
func (p *Program) has(settings []string) bool {
	for _, s := range settings {
		if _, ok := p.Defaults[s]; !ok {
			return false
		}
	}
	return true
}

// A Setting is a GODEBUG setting that is on unless it is set to 0 or less.
type Setting struct {
	Built string // built in: "0", "1" or ""
	Env   string // from GODEBUG in the environment: "0", "1", … or ""
	On    bool   // the result
}

// Setting returns containermaxprocs or updatemaxprocs for a program that was started with this environment.
func (p *Program) Setting(name string, env map[string]string) Setting {
	s := Setting{Built: p.Defaults[name], Env: ParseGODEBUG(env["GODEBUG"])[name], On: p.Minor() >= 25}
	for _, text := range []string{s.Built, s.Env} { // the runtime ignores what is not a number
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			s.On = n > 0 && p.Minor() >= 25
		}
	}
	return s
}
