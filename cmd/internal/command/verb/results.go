package verb

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/ci"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A Writer writes a document of type D in some format.
type Writer[D any] func(io.Writer, D, render.Style) error

// Results are where a verb's document goes: the screen, and the files of -o. They have the flags that say so.
type Results[D any] struct {
	formats map[string]Writer[D]
	words   []string // formats that -o takes by their names, for the screen
	stdio   IO       // its Out is the screen

	Path   string   // of -o in place of the screen; "": the screen
	paths  []string // of -o alongside the screen
	Format string   // of the screen
	JSON   bool     // it is json
	Color  string

	Style  render.Style // of the screen, when they are open
	opened []result[D]
}

type result[D any] struct {
	out    *Output
	format string
	write  Writer[D]
}

// NewResults are results in some of these formats, on the screen unless flags say otherwise.
func NewResults[D any](stdio IO, formats map[string]Writer[D]) *Results[D] {
	return &Results[D]{formats: formats, stdio: stdio, Format: "text"}
}

// JSONFlag adds --json.
func (r *Results[D]) JSONFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&r.JSON, "json", false, "print the JSON document instead of text")
}

// TakenFlags adds the flags of a verb whose source is read or taken. share is the share of the time that --fail-share is about; "": none.
func (r *Results[D]) TakenFlags(flags *pflag.FlagSet, fail *Threshold, share string) {
	r.FilesFlag(flags)
	flags.Var(OneOf(&r.Format, "text", "json", "html", "md", "junit", "sarif"), "format", "F\ttext, json, html, md, junit or sarif (text)")
	r.JSONFlag(flags)
	fail.FailOn(flags)
	if share != "" {
		fail.FailShare(flags, share)
	}
	r.ColorFlag(flags)
}

// FileFlag adds -o for a file in place of the screen.
func (r *Results[D]) FileFlag(flags *pflag.FlagSet) {
	flags.StringVarP(&r.Path, "output", "o", "", "F\twrite to file F, in the format of its ending: "+endings(r.formats)+"; any other is text")
}

// FilesFlag adds -o for files alongside the screen.
func (r *Results[D]) FilesFlag(flags *pflag.FlagSet, more ...string) {
	about := "F\talso write file F: " + endings(r.formats, more...) + "; may be repeated"
	if len(r.words) > 0 {
		about += "; as kubectl has it, a bare " + quantity.Either(r.words) + " is printed"
	}
	flags.StringArrayVarP(&r.paths, "output", "o", nil, about)
}

// Words lets -o take some formats by their names, as kubectl's does: then they are on the screen. A file has an ending, so -o json is a
// format, and -o out.json a file. more are formats besides those of the document.
func (r *Results[D]) Words(words []string, more map[string]Writer[D]) {
	r.words = words
	for _, name := range words {
		if write := more[name]; write != nil {
			r.formats[name] = write
		}
	}
}

// takeWord takes a format's name out of the values of -o.
func (r *Results[D]) takeWord() error {
	isWord := func(value string) bool { return slices.Contains(r.words, value) }
	i := slices.IndexFunc(r.paths, isWord)
	if i < 0 {
		return nil
	}
	word := r.paths[i]
	r.paths = slices.Delete(slices.Clone(r.paths), i, i+1)
	if j := slices.IndexFunc(r.paths, isWord); j >= 0 {
		return hint.Usage("-o "+word+" -o FILE."+r.paths[j], "-o %s and -o %s cannot be printed together", word, r.paths[j])
	}
	if r.JSON && word != "json" {
		return hint.Usage("use one of them", "--json and -o %s cannot be used together", word)
	}
	r.JSON, r.Format = word == "json", word
	return nil
}

func (r *Results[D]) ColorFlag(flags *pflag.FlagSet) { ColorFlag(flags, &r.Color) }

// Inherit takes what another command line says of them, or the same one about another document. Where its own says that they go to is forgotten: it comes from a file.
func Inherit[D, E any](r *Results[D], from *Results[E]) {
	r.JSON, r.Color, r.Path, r.paths = from.JSON, from.Color, from.Path, from.paths
}

// Open opens all files before anything is measured.
func (r *Results[D]) Open() error {
	if err := r.openAll(); err != nil {
		return r.Drop(err)
	}
	return nil
}

// openAll opens them. A file's ending is the name of its format; .txt is what benchstat reads.
func (r *Results[D]) openAll() error {
	if err := r.takeWord(); err != nil {
		return err
	}
	if r.JSON {
		if r.Format != "text" && r.Format != "json" {
			return hint.Usage("use one of them", "--json and --format=%s cannot be used together", r.Format)
		}
		r.Format = "json"
	}
	if _, err := FormatNamed(r.formats, r.Format); err != nil {
		return err
	}
	r.Style = StyleOf(r.Color, r.stdio, r.Path != "")
	screen := r.Format
	switch ending := EndingOf(r.Path); {
	case r.formats[ending] != nil:
		screen = ending
	case slices.Contains(FormatNames, ending) && ending != "bench": // .txt is text
		return hint.Usage("end its name in "+endings(r.formats)+"; any other ending is text", "-o %s: this can't be written as .%s", r.Path, ending)
	}
	for _, path := range r.paths {
		format := r.formatOf(path)
		if r.formats[format] == nil || OnScreen(format) {
			// With --json -o FILE and another ending, JSON is for the file: then nothing goes to the screen.
			if screen == "" || OnScreen(screen) || len(r.paths) > 1 {
				instead := "end its name in " + endings(r.formats)
				if len(r.words) > 0 {
					instead += "; or, to print it, -o " + quantity.Either(r.words)
				}
				return hint.Usage(instead, "-o %s: its name does not tell its format", path)
			}
			format, screen = screen, ""
		}
		if err := r.add(path, format); err != nil {
			return err
		}
	}
	if screen == "" {
		return nil
	}
	return r.add(r.Path, screen)
}

// gitLab is the format of files that GitLab collects: gl-code-quality-report.json. Their ending is another format's.
const gitLab = "gitlab"

// formatOf is the format that the name of a file alongside the screen asks for.
func (r *Results[D]) formatOf(path string) string {
	if ending := EndingOf(path); ending != "json" || r.formats[gitLab] == nil || !strings.HasPrefix(filepath.Base(path), "gl-code-quality") {
		return ending
	}
	return gitLab
}

// Annotates adds what verbs write that find things in files: a report for GitLab, and annotations for GitHub's runner, which reads
// both streams of a command, so that stdout stays the result.
func Annotates[D Checked](r *Results[D]) (annotate func(D) error) {
	r.formats[gitLab] = Plainly(func(w io.Writer, doc D) error { return ci.GitLab(w, doc.Checks()) })
	return func(doc D) error { return ci.GitHub(r.stdio.Err, doc.Checks()) }
}

// Also adds a format that the help distinguishes from the others.
func (r *Results[D]) Also(format string, write Writer[D]) { r.formats[format] = write }

// Stream takes what writes a format from the work as it goes on, and not from the document: start gets each of the open files of
// that format, and returns what ends it.
func (r *Results[D]) Stream(format string, start func(io.Writer) Writer[D]) {
	for i, f := range r.opened {
		if f.format == format {
			r.opened[i].write = start(f.out.W)
		}
	}
}

// Silence leaves out the screen.
func (r *Results[D]) Silence() { r.opened = nil }

// add opens a file, "" being the screen.
func (r *Results[D]) add(path, format string) error {
	out, err := NewOutput(path, r.stdio.Out)
	if err == nil {
		r.opened = append(r.opened, result[D]{out, format, r.formats[format]})
	}
	return err
}

// Finish writes the document to all of them and closes them. If err says that there is no document they are closed, and what was written is
// removed.
func (r *Results[D]) Finish(doc D, err error) error {
	first := err
	for _, f := range r.opened {
		e := err
		if e == nil {
			e = f.write(f.out.W, doc, r.Style)
		}
		if e = f.out.Finish(e); first == nil {
			first = e
		}
	}
	r.opened = nil
	return first
}

// Drop closes them without a document.
func (r *Results[D]) Drop(err error) error {
	var none D
	return r.Finish(none, err)
}

// EndingOf is the format that a file's name asks for.
func EndingOf(path string) string {
	ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	switch ending {
	case "txt":
		return "bench"
	case "xml":
		return "junit"
	}
	return ending
}

// OnScreen reports whether a format is for people at a terminal: no file has its name for an ending.
func OnScreen(format string) bool {
	return slices.Contains([]string{"text", "classic", "wide", "name"}, format)
}

// FormatNames are all formats' names, in the order in which they are listed.
var FormatNames = []string{"text", "classic", "json", "html", "md", "csv", "hgrm", "bench", "junit", "sarif"}

// endings lists what a file's name may end in.
func endings[D any](formats map[string]Writer[D], more ...string) string {
	var all []string
	for _, name := range FormatNames {
		switch {
		case formats[name] == nil || OnScreen(name):
		case name == "bench":
			all = append(all, ".txt (for benchstat)")
		case name == "junit":
			all = append(all, ".xml (JUnit)")
		default:
			all = append(all, "."+name)
		}
	}
	return quantity.Either(append(all, more...))
}

// FormatNamed is the format of a name.
func FormatNamed[D any](formats map[string]Writer[D], name string) (Writer[D], error) {
	if write := formats[name]; write != nil {
		return write, nil
	}
	all := slices.DeleteFunc(slices.Clone(FormatNames), func(n string) bool { return formats[n] == nil })
	return nil, hint.Usage("write --format="+quantity.Either(all), "--format=%s is not one of its values", name)
}

// Plainly makes a writer of what knows no style.
func Plainly[D any](write func(io.Writer, D) error) Writer[D] {
	return func(w io.Writer, doc D, _ render.Style) error { return write(w, doc) }
}

// A Checked is a document, whichever it is.
type Checked interface {
	Head() report.Header
	Checks() []report.Check
}

// SheetFormats are what every document can be written as: itself, what its sheet looks like, and what it answers for systems that run
// builds.
func SheetFormats[D Checked](sheetOf func(D) *sheet.Sheet) map[string]Writer[D] {
	formats := Shown(sheetOf)
	formats["junit"] = Plainly(func(w io.Writer, doc D) error { return ci.JUnit(w, doc.Head().Verb, doc.Head().Time, doc.Checks()) })
	formats["sarif"] = Plainly(func(w io.Writer, doc D) error { return ci.SARIF(w, doc.Head().MadeBy, doc.Checks()) })
	return formats
}

// Shown are what a document can be written as that finds nothing wrong or right.
func Shown[D any](sheetOf func(D) *sheet.Sheet) map[string]Writer[D] {
	return map[string]Writer[D]{
		"text": func(w io.Writer, doc D, style render.Style) error { return render.Text(w, sheetOf(doc), style) },
		"json": Plainly(func(w io.Writer, doc D) error { return report.WriteJSON(w, doc) }),
		"md":   Plainly(func(w io.Writer, doc D) error { return render.Markdown(w, sheetOf(doc)) }),
		"html": Plainly(func(w io.Writer, doc D) error { return render.HTML(w, sheetOf(doc)) }),
	}
}

// ColorFlag adds --color.
func ColorFlag(flags *pflag.FlagSet, when *string) {
	*when = "auto"
	flags.Var(OneOf(when, "auto", "always", "never"), "color", "WHEN\tauto, always or never (auto)")
}

// StyleOf is what text may look like that goes to the screen, or to a file instead.
func StyleOf(color string, stdio IO, toFile bool) (style render.Style) {
	f, ok := stdio.Out.(*os.File)
	onTerminal := ok && !toFile && term.IsTerminal(int(f.Fd()))
	if onTerminal {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			style.Width = width
		}
	}
	style.Color = color == "always" || color == "auto" && onTerminal && stdio.Env("NO_COLOR") == "" && stdio.Env("TERM") != "dumb"
	return style
}
