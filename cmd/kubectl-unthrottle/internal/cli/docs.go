package cli

import (
	"fmt"
	"io"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

// Check reports what is wrong with a command line's verb and flags, without running it. Tests hold documents to it.
func Check(args []string) error {
	root := newRoot(verb.IO{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }})
	root.InitDefaultHelpCmd()
	if cmd, _, err := root.Find(args); err == nil && cmd.Hidden {
		return fmt.Errorf("%s is a name that is going", cmd.Name())
	}
	return verb.Check(root, args)
}
