package cli

import (
	"errors"
	"flag"
	"io"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/hey"
)

// Check says what is wrong with the verb and the flags of a command line, and runs nothing. It holds the documents to the
// commands that there are.
func Check(args []string) error {
	root := newRoot(IO{IO: verb.IO{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}})
	root.InitDefaultHelpCmd()
	args = goFlags(args)
	if cmd, rest, err := root.Find(args); err == nil && cmd.Name() == "hey" && len(rest) > 0 {
		_, err := hey.Parse(rest, func(string) ([]byte, error) { return nil, nil })
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	return verb.Check(root, args)
}

// Show writes a saved document as report does, for a screen of the given width without colour.
func Show(w io.Writer, document []byte, format string, width int) error {
	write, err := openReport(document, format)
	if err != nil {
		return err
	}
	return write(w, render.Style{Width: width})
}
