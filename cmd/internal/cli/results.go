package cli

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// A writer writes a document of type D in some format.
type writer[D any] func(io.Writer, D, render.Style) error

// results are where a verb's document is to be written: the files of -o, and stdout.
type results[D any] []result[D]

type result[D any] struct {
	out    *output
	format string
	write  writer[D]
}

// open opens all files before anything is measured. A file's ending is the name of its format; .txt is what benchstat
// reads. format is that of stdout, "" for nothing. Of --json -o FILE with another ending the file is meant: then nothing goes
// to stdout.
func (r *results[D]) open(formats map[string]writer[D], names []string, format string, stdout io.Writer) error {
	for _, name := range names {
		ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
		if ending == "txt" {
			ending = "bench"
		}
		if formats[ending] == nil || onScreen(ending) {
			if format == "" || format == "text" || len(names) > 1 {
				return hint.Usage("end its name in "+endings(formats), "-o %s: its name does not tell its format", name)
			}
			ending, format = format, ""
		}
		out, err := newOutput(name, stdout)
		if err != nil {
			return err
		}
		*r = append(*r, result[D]{out, ending, formats[ending]})
	}
	if format != "" {
		*r = append(*r, result[D]{&output{w: stdout}, format, formats[format]})
	}
	return nil
}

// onScreen reports whether a format is for people at a terminal: no file has its name for an ending.
func onScreen(format string) bool { return format == "text" || format == "classic" }

// formatNames are all formats' names, in the order in which they are told.
var formatNames = []string{"text", "classic", "json", "html", "md", "csv", "hgrm", "bench"}

// endings tells what a file's name may end in.
func endings[D any](formats map[string]writer[D]) string {
	var all []string
	for _, name := range formatNames {
		switch {
		case formats[name] == nil || onScreen(name):
		case name == "bench":
			all = append(all, ".txt")
		default:
			all = append(all, "."+name)
		}
	}
	return quantity.Either(all)
}

// formatNamed is the format of a name.
func formatNamed[D any](formats map[string]writer[D], name string) (writer[D], error) {
	if write := formats[name]; write != nil {
		return write, nil
	}
	var all []string
	for _, n := range formatNames {
		if formats[n] != nil {
			all = append(all, n)
		}
	}
	return nil, hint.Usage("write --format="+quantity.Either(all), "--format=%s is none of its values", name)
}

// write writes the document to all of them.
func (r results[D]) write(doc D, style render.Style) error {
	for _, f := range r {
		if err := f.write(f.out.w, doc, style); err != nil {
			return err
		}
	}
	return nil
}

// save writes the document to each of them and closes it. One that can't be written does not keep the others from it.
func (r results[D]) save(doc D) (err error) {
	for _, f := range r {
		if e := f.out.finish(f.write(f.out.w, doc, render.Style{})); err == nil {
			err = e
		}
	}
	return err
}

// finish closes all files; what is written is kept unless err says that the work failed, which comes back as it is.
func (r results[D]) finish(err error) error {
	for _, f := range r {
		err = f.out.finish(err)
	}
	return err
}

// screenFormat settles what --format and --json ask for.
func screenFormat[D any](formats map[string]writer[D], format string, json, given bool) (string, error) {
	if json {
		if given && format != "json" {
			return "", hint.Usage("leave out one of them", "--json and --format=%s exclude each other", format)
		}
		format = "json"
	}
	_, err := formatNamed(formats, format)
	return format, err
}

// plainly makes a writer of what knows no style.
func plainly[D any](write func(io.Writer, D) error) writer[D] {
	return func(w io.Writer, doc D, _ render.Style) error { return write(w, doc) }
}

// asJSON writes any document.
func asJSON[D any](w io.Writer, doc D, _ render.Style) error { return report.WriteJSON(w, doc) }

// sheetFormats are what every document can be written as: itself, and what its sheet looks like.
func sheetFormats[D any](sheetOf func(D) *sheet.Sheet) map[string]writer[D] {
	return map[string]writer[D]{
		"json": asJSON[D],
		"text": func(w io.Writer, doc D, style render.Style) error {
			return render.Text(w, sheetOf(doc), style)
		},
		"md":   plainly(func(w io.Writer, doc D) error { return render.Markdown(w, sheetOf(doc)) }),
		"html": plainly(func(w io.Writer, doc D) error { return render.HTML(w, sheetOf(doc)) }),
	}
}

// openOne opens what a verb with one result writes to: the file of -o, whose ending is the name of its format if there is
// one of that name, or the screen.
func openOne[D any](formats map[string]writer[D], path string, json bool, screen io.Writer) (r result[D], err error) {
	format := "text"
	if json {
		format = "json"
	}
	if ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."); formats[ending] != nil {
		format = ending
	}
	r.write = formats[format]
	r.out, err = newOutput(path, screen)
	return r, err
}
