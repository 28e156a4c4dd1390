package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cmd/internal/ci"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// A writer writes a document of type D in some format.
type writer[D any] func(io.Writer, D, render.Style) error

// results are where a verb's document goes: the screen, and the files of -o. They have the flags that say so.
type results[D any] struct {
	formats map[string]writer[D]
	stdio   IO // its Out is the screen

	path   string   // of -o in place of the screen; "": the screen
	paths  []string // of -o beside the screen
	format string   // of the screen
	json   bool     // it is json
	color  string

	style  render.Style // of the screen, when they are open
	opened []result[D]
}

type result[D any] struct {
	out    *output
	format string
	write  writer[D]
}

func newResults[D any](stdio IO, formats map[string]writer[D]) *results[D] {
	return &results[D]{formats: formats, stdio: stdio, format: "text"}
}

func (r *results[D]) jsonFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&r.json, "json", false, "print the JSON document instead of text")
}

// takenFlags adds the flags of a verb whose source is read or taken. share is the share of the time that --fail-share is about;
// "": there is none.
func (r *results[D]) takenFlags(flags *pflag.FlagSet, fail *threshold, share string) {
	r.filesFlag(flags)
	flags.Var(oneOf(&r.format, "text", "json", "html", "md", "junit", "sarif"), "format", "F\ttext, json, html, md, junit or sarif (text)")
	r.jsonFlag(flags)
	fail.failOnFlag(flags)
	if share != "" {
		fail.failShareFlag(flags, share)
	}
	r.colorFlag(flags)
}

// fileFlag adds -o for a file in place of the screen.
func (r *results[D]) fileFlag(flags *pflag.FlagSet) {
	flags.StringVarP(&r.path, "output", "o", "", "F\twrite to file F, in the format of its ending: "+endings(r.formats)+"; else as text")
}

// filesFlag adds -o for files beside the screen.
func (r *results[D]) filesFlag(flags *pflag.FlagSet, more ...string) {
	flags.StringArrayVarP(&r.paths, "output", "o", nil, "F\talso write F: "+endings(r.formats, more...)+"; may be repeated")
}

func (r *results[D]) colorFlag(flags *pflag.FlagSet) { colorFlag(flags, &r.color) }

// inherit takes what another command line says of them.
func (r *results[D]) inherit(from *results[D]) {
	r.json, r.color = from.json, from.color
	if len(from.paths) > 0 {
		r.paths = from.paths
	}
}

// open opens all files before anything is measured.
func (r *results[D]) open() error {
	if err := r.openAll(); err != nil {
		return r.drop(err)
	}
	return nil
}

// openAll opens them. A file's ending is the name of its format; .txt is what benchstat reads.
func (r *results[D]) openAll() error {
	if r.json {
		if r.format != "text" && r.format != "json" {
			return hint.Usage("use one of them", "--json and --format=%s cannot be used together", r.format)
		}
		r.format = "json"
	}
	if _, err := formatNamed(r.formats, r.format); err != nil {
		return err
	}
	r.style = styleOf(r.color, r.stdio, r.path != "")
	screen := r.format
	switch ending := endingOf(r.path); {
	case r.formats[ending] != nil:
		screen = ending
	case slices.Contains(formatNames, ending) && ending != "bench": // .txt is text
		return hint.Usage("end its name in "+endings(r.formats)+"; any other ending is text", "-o %s: there is no .%s of this", r.path, ending)
	}
	for _, path := range r.paths {
		format := endingOf(path)
		if r.formats[format] == nil || onScreen(format) {
			// Of --json -o FILE with another ending the file is meant: then nothing goes to the screen.
			if screen == "" || onScreen(screen) || len(r.paths) > 1 {
				return hint.Usage("end its name in "+endings(r.formats), "-o %s: its name does not tell its format", path)
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
	return r.add(r.path, screen)
}

// add opens a file, "" being the screen.
func (r *results[D]) add(path, format string) error {
	out, err := newOutput(path, r.stdio.Out)
	if err == nil {
		r.opened = append(r.opened, result[D]{out, format, r.formats[format]})
	}
	return err
}

// finish writes the document to all of them and closes them. If err says that there is no document they are closed, and what
// was written is taken away.
func (r *results[D]) finish(doc D, err error) error {
	first := err
	for _, f := range r.opened {
		e := err
		if e == nil {
			e = f.write(f.out.w, doc, r.style)
		}
		if e = f.out.finish(e); first == nil {
			first = e
		}
	}
	r.opened = nil
	return first
}

// drop closes them without a document.
func (r *results[D]) drop(err error) error {
	var none D
	return r.finish(none, err)
}

func endingOf(path string) string {
	ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	switch ending {
	case "txt":
		return "bench"
	case "xml":
		return "junit"
	}
	return ending
}

// onScreen reports whether a format is for people at a terminal: no file has its name for an ending.
func onScreen(format string) bool { return format == "text" || format == "classic" }

// formatNames are all formats' names, in the order in which they are told.
var formatNames = []string{"text", "classic", "json", "html", "md", "csv", "hgrm", "bench", "junit", "sarif"}

// endings tells what a file's name may end in.
func endings[D any](formats map[string]writer[D], more ...string) string {
	var all []string
	for _, name := range formatNames {
		switch {
		case formats[name] == nil || onScreen(name):
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

// formatNamed is the format of a name.
func formatNamed[D any](formats map[string]writer[D], name string) (writer[D], error) {
	if write := formats[name]; write != nil {
		return write, nil
	}
	all := slices.DeleteFunc(slices.Clone(formatNames), func(n string) bool { return formats[n] == nil })
	return nil, hint.Usage("write --format="+quantity.Either(all), "--format=%s is not one of its values", name)
}

// plainly makes a writer of what knows no style.
func plainly[D any](write func(io.Writer, D) error) writer[D] {
	return func(w io.Writer, doc D, _ render.Style) error { return write(w, doc) }
}

// A checked is a document, whichever it is.
type checked interface {
	Head() report.Header
	Checks() []report.Check
}

// sheetFormats are what every document can be written as: itself, what its sheet looks like, and what it answers for those who
// run builds.
func sheetFormats[D checked](sheetOf func(D) *sheet.Sheet) map[string]writer[D] {
	return map[string]writer[D]{
		"junit": plainly(func(w io.Writer, doc D) error { return ci.JUnit(w, doc.Head().Verb, doc.Head().Time, doc.Checks()) }),
		"sarif": plainly(func(w io.Writer, doc D) error { return ci.SARIF(w, doc.Head().MadeBy, doc.Checks()) }),
		"text":  func(w io.Writer, doc D, style render.Style) error { return render.Text(w, sheetOf(doc), style) },
		"json":  plainly(func(w io.Writer, doc D) error { return report.WriteJSON(w, doc) }),
		"md":    plainly(func(w io.Writer, doc D) error { return render.Markdown(w, sheetOf(doc)) }),
		"html":  plainly(func(w io.Writer, doc D) error { return render.HTML(w, sheetOf(doc)) }),
	}
}

// colorFlag adds --color.
func colorFlag(flags *pflag.FlagSet, when *string) {
	*when = "auto"
	flags.Var(oneOf(when, "auto", "always", "never"), "color", "WHEN\tauto, always or never (auto)")
}

// styleOf is what text may look like that goes to the screen, or to a file in its place.
func styleOf(color string, stdio IO, toFile bool) (style render.Style) {
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
