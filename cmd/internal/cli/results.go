package cli

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/render"
)

// A writer writes a document of type D in some format.
type writer[D any] func(io.Writer, D, render.Style) error

// results are where a verb's document is to be written: the files of -o, and stdout.
type results[D any] []result[D]

type result[D any] struct {
	out   *output
	write writer[D]
}

// open opens all files before anything is measured. Formats have a "text", which is for stdout only; format is that of
// stdout. Of --json -o FILE with another ending the file is meant: then nothing goes to stdout.
func (r *results[D]) open(formats map[string]writer[D], names []string, format string, stdout io.Writer) error {
	for _, name := range names {
		ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
		if formats[ending] == nil || ending == "text" {
			if format == "text" || len(names) > 1 {
				return usage("end its name in .json, .html or .md", "-o %s: its name does not tell its format", name)
			}
			ending, format = format, ""
		}
		out, err := newOutput(name, stdout)
		if err != nil {
			return err
		}
		*r = append(*r, result[D]{out, formats[ending]})
	}
	if format != "" {
		*r = append(*r, result[D]{&output{w: stdout}, formats[format]})
	}
	return nil
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
			return "", usage("leave out one of them", "--json and --format=%s exclude each other", format)
		}
		format = "json"
	}
	if formats[format] == nil {
		return "", usage("write --format=text, json, html or md", "--format=%s is none of its values", format)
	}
	return format, nil
}

// plainly makes a writer of what knows no style.
func plainly[D any](write func(io.Writer, D) error) writer[D] {
	return func(w io.Writer, doc D, _ render.Style) error { return write(w, doc) }
}
