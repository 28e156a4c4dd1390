package ci

import (
	"bytes"
	"io"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// printable are checks whose texts can be printed: names of processes, files and objects come from outside, and so does what errors say. A
// name stays on its line; a sentence may have several, which every format here keeps within what it is part of. Keys and places are data
// and stay unchanged; the writer of a place cleans it.
func printable(checks []report.Check) []report.Check {
	out := make([]report.Check, len(checks))
	for i, c := range checks {
		c.About, c.Name, c.Unknown = plain.Line(c.About), plain.Line(c.Name), plain.Line(c.Unknown)
		if c.Found != nil {
			f := *c.Found
			f.Rule, f.Verdict, f.Summary, f.Fix = plain.Line(f.Rule), plain.Line(f.Verdict), plain.Lines(f.Summary, ""), plain.Lines(f.Fix, "")
			f.Evidence = nil
			for _, text := range c.Found.Evidence {
				f.Evidence = append(f.Evidence, plain.Lines(text, ""))
			}
			c.Found = &f
		}
		out[i] = c
	}
	return out
}

// jsonTo writes what write makes, which is JSON, so that a terminal can show it.
func jsonTo(w io.Writer, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	_, err := w.Write(plain.JSON(b.Bytes()))
	return err
}
