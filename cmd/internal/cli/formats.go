package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/workload/program"
)

// A format is a way to write a bench's document.
type format struct {
	name, ext string
	write     func(io.Writer, *report.Bench, render.Style) error
}

func formats() []format {
	plain := func(f func(io.Writer, *report.Bench) error) func(io.Writer, *report.Bench, render.Style) error {
		return func(w io.Writer, b *report.Bench, _ render.Style) error { return f(w, b) }
	}
	return []format{
		{"text", "", render.BenchText},
		{"classic", "", render.BenchClassic},
		{"json", ".json", func(w io.Writer, b *report.Bench, _ render.Style) error { return report.WriteJSON(w, b) }},
		{"html", ".html", plain(render.BenchHTML)},
		{"md", ".md", plain(render.BenchMarkdown)},
		{"csv", ".csv", plain(render.BenchCSV)},
		{"bench", ".txt", plain(render.BenchGo)},
	}
}

// document is a file that a bench's document is to be written to.
type document struct {
	out   *output
	write func(io.Writer, *report.Bench, render.Style) error
}

// newDocument opens a file of -o; its name's end says what it is.
func newDocument(path string, stdio IO) (*document, error) {
	all := formats()
	i := slices.IndexFunc(all, func(f format) bool { return f.ext != "" && f.ext == strings.ToLower(filepath.Ext(path)) })
	if i < 0 {
		return nil, usage("end its name in .json, .html, .md, .csv or .txt", "-o %s: its name does not tell its format", path)
	}
	out, err := newOutput(path, stdio.Out)
	return &document{out, all[i].write}, err
}

const reportHelp = `Show a saved result again, without measuring again.

Usage:
  unthrottle report [FLAGS] FILE

FILE is what --json or -o FILE.json of a verb has written, or the file of runs of a bench or a tune, also of one that was
interrupted.

Flags:
      --format F    text, json, html or md; of a bench or tune also csv and bench (for benchstat), of a bench classic,
                    of a load hgrm (text)
  -o, --output F    write to file F
      --color WHEN  auto, always or never

Example:
  unthrottle report --format html -o fib.html fib.json
`

func newReport(stdio IO) *cobra.Command {
	cmd := &cobra.Command{Use: "report", Long: reportHelp}
	name := cmd.Flags().String("format", "text", "")
	path := cmd.Flags().StringP("output", "o", "", "")
	color := colorFlag(cmd, stdio)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("unthrottle report FILE", "report wants one file, got %d", len(args))
		}
		style, err := color(*path != "")
		if err != nil {
			return err
		}
		data, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		write, err := openReport(data, *name)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		out, err := newOutput(*path, stdio.Out)
		if err != nil {
			return err
		}
		return out.finish(write(out.w, style))
	}
	return cmd
}

// openReport reads a saved document and returns what writes it in a format.
func openReport(data []byte, name string) (func(io.Writer, render.Style) error, error) {
	doc, err := report.Read(data)
	if err != nil {
		return nil, withHint(err, "report wants what --json or -o FILE.json has written, or the file of runs of a bench or tune")
	}
	if b, ok := doc.(*report.Bench); ok {
		all := formats()
		i := slices.IndexFunc(all, func(f format) bool { return f.name == name })
		if i < 0 {
			return nil, usage("write --format=text, classic, json, html, md, csv or bench", "--format=%s is none of its values", name)
		}
		return func(w io.Writer, s render.Style) error { return all[i].write(w, b, s) }, nil
	}
	if d, ok := doc.(*report.Tune); ok {
		write := tuneFormats()[name]
		if write == nil {
			return nil, usage("write --format=text, json, html, md, csv or bench", "--format=%s is none of its values", name)
		}
		return func(w io.Writer, s render.Style) error { return write(w, d, s) }, nil
	}
	if d, ok := doc.(*report.Load); ok {
		write := loadFormats()[name]
		if write == nil {
			return nil, usage("write --format=text, json, html, md or hgrm", "--format=%s: this document has no such form", name)
		}
		return func(w io.Writer, s render.Style) error { return write(w, d, s) }, nil
	}
	if d, ok := doc.(*report.Profile); ok {
		write := profileFormats()[name]
		if write == nil {
			return nil, usage("write --format=text, json, html or md", "--format=%s: this document has no such form", name)
		}
		return func(w io.Writer, s render.Style) error { return write(w, d, s) }, nil
	}
	if d, ok := doc.(*report.Trace); ok {
		write := traceFormats()[name]
		if write == nil {
			return nil, usage("write --format=text, json, html or md", "--format=%s: this document has no such form", name)
		}
		return func(w io.Writer, s render.Style) error { return write(w, d, s) }, nil
	}
	if d, ok := doc.(*report.Watch); ok {
		write := watchFormats()[name]
		if write == nil {
			return nil, usage("write --format=text, json, html or md", "--format=%s: this document has no such form", name)
		}
		return func(w io.Writer, s render.Style) error { return write(w, d, s) }, nil
	}
	text := func(w io.Writer, s render.Style) error {
		switch d := doc.(type) {
		case *report.Explain:
			return render.ExplainText(w, d, s)
		case *report.Ps:
			return render.PsText(w, d, s)
		case *report.Run:
			return render.RunText(w, d, s)
		}
		return fmt.Errorf("%T can't be shown", doc)
	}
	switch name {
	case "text":
		return text, nil
	case "json":
		return func(w io.Writer, _ render.Style) error { return report.WriteJSON(w, doc) }, nil
	case "html", "md":
		return func(w io.Writer, _ render.Style) error {
			var b strings.Builder
			if err := text(&b, render.Style{}); err != nil {
				return err
			}
			return render.Wrapped(w, name, b.String())
		}, nil
	}
	return nil, usage("write --format=text, json, html or md", "--format=%s: this document has no such form", name)
}

// newWorkload is the verb that runs one built-in workload once. It is not for people: bench calls it.
func newWorkload(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use: "workload", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := program.Main(args, stdio.Out, stdio.Err); code != 0 {
				return exitCode{code, nil}
			}
			return nil
		},
	}
}
