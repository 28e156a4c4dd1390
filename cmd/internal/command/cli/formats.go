package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload/program"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
)

const reportHelp = `Show a saved result again, without measuring again.

Usage:
  unthrottle report [FLAGS] FILE
  unthrottle report --schema VERB      the JSON Schema of what a verb writes

FILE is what a verb wrote with --json or -o FILE.json, or the file of runs of a bench or tune, even if that was interrupted;
- is stdin.

{{flags}}

Exit codes:
  0 done   1 failed   2 usage

Example:
  unthrottle report --format html -o fib.html fib.json
`

func newReport(stdio IO) *cobra.Command {
	return verb.New("report", reportHelp, func(l *verb.Flags) func(context.Context, []string) error {
		flags, color, ofVerb := l.Section("Flags:"), "", ""
		name := flags.String("format", "text", "F\ttext, json, html, md, junit or sarif; for a bench or tune also csv and bench (for benchstat), for a bench classic, for a load hgrm (text)")
		path := flags.StringP("output", "o", "", "F\twrite to file F; without --format its ending sets the format: .json, .html, .md, …")
		flags.StringVar(&ofVerb, "schema", "", "VERB\tprint the JSON Schema of a verb's document")
		verb.ColorFlag(flags, &color)
		l.Words["format"], l.Words["schema"] = verb.FormatNames, report.Verbs()
		l.Cmd.ValidArgsFunction = cobra.FixedCompletions([]cobra.Completion{"json", "jsonl"}, cobra.ShellCompDirectiveFilterFileExt)
		return func(ctx context.Context, args []string) error {
			if l.Given("schema") {
				return writeSchema(stdio.Out, ofVerb, args)
			}
			if len(args) != 1 {
				return hint.Usage("unthrottle report FILE", "report takes one file, got %d", len(args))
			}
			data, err := input.ReadAll(ctx, args[0], stdio.In, report.MostBytes)
			if err != nil {
				return hint.With(fmt.Errorf("reading the result: %w", err), "-o FILE.json of a verb writes one; bench and tune name their file of runs when they end")
			}
			ending := verb.EndingOf(*path)
			switch named := slices.Contains(verb.FormatNames, ending) && !verb.OnScreen(ending) && ending != "bench"; { // .txt is text
			case named && !l.Given("format"):
				*name = ending
			case named && ending != *name:
				return hint.Usage("leave --format out", "--format=%s and -o %s do not go together", *name, *path)
			}
			write, err := openReport(data, *name)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			out, err := verb.NewOutput(*path, stdio.Out)
			if err != nil {
				return err
			}
			return out.Finish(write(out.W, verb.StyleOf(color, stdio.IO, *path != "")))
		}
	})
}

// writeSchema writes the schema of a verb's document.
func writeSchema(w io.Writer, of string, args []string) error {
	s := report.Schema(of)
	if s == nil || len(args) > 0 {
		return hint.Usage("unthrottle report --schema "+quantity.Either(report.Verbs()), "--schema takes a verb that writes a document, and no file")
	}
	return s.Write(w)
}

// openReport reads a saved document and returns what writes it in a format.
func openReport(data []byte, name string) (func(io.Writer, render.Style) error, error) {
	doc, err := report.Read(data)
	if err != nil {
		return nil, hint.With(err, "report reads what --json or -o FILE.json has written, or the file of runs of a bench or tune")
	}
	switch d := doc.(type) {
	case *report.Explain:
		return shown(d, verb.SheetFormats(view.Explain), name)
	case *report.Ps:
		return shown(d, verb.SheetFormats(view.Ps), name)
	case *report.Run:
		return shown(d, verb.SheetFormats(view.Run), name)
	case *report.Bench:
		return shown(d, benchFormats(), name)
	case *report.Tune:
		return shown(d, conduct.TuneFormats(), name)
	case *report.Load:
		return shown(d, loadFormats(), name)
	case *report.Profile:
		return shown(d, verb.SheetFormats(view.Profile), name)
	case *report.Trace:
		return shown(d, verb.SheetFormats(view.Trace), name)
	case *report.Watch:
		return shown(d, verb.SheetFormats(view.Watch), name)
	}
	return nil, fmt.Errorf("%T can't be shown", doc)
}

func shown[D any](doc D, formats map[string]verb.Writer[D], name string) (func(io.Writer, render.Style) error, error) {
	write, err := verb.FormatNamed(formats, name)
	if err != nil {
		return nil, err
	}
	return func(w io.Writer, s render.Style) error { return write(w, doc, s) }, nil
}

// newWorkload is the verb that runs one built-in workload once. It is not for people: bench calls it.
func newWorkload(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use: "workload", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := program.Main(args, stdio.Out, stdio.Err); code != 0 {
				return verb.ExitCode{Code: code}
			}
			return nil
		},
	}
}
