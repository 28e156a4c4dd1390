package cli

import (
	"io"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

// Check reports what is wrong with a command line's verb and flags, without running it. Tests hold documents to it.
func Check(args []string) error {
	root := newRoot(verb.IO{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }})
	root.InitDefaultHelpCmd()
	return verb.Check(root, args)
}
