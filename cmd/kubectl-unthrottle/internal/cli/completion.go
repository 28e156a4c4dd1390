package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

const completionHelp = `The script with which kubectl completes the verbs and flags of kubectl unthrottle.

Usage:
  kubectl unthrottle completion

kubectl runs the script if it finds it in the PATH under the name kubectl_complete-unthrottle. kubectl's own completion has to
be on: see kubectl completion --help.

Example:
  kubectl unthrottle completion | sudo install -m 755 /dev/stdin /usr/local/bin/kubectl_complete-unthrottle
`

func newCompletion(stdio verb.IO) *cobra.Command {
	return &cobra.Command{
		Use:  "completion",
		Long: completionHelp,
		Args: verb.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(stdio.Out, "#!/bin/sh\nexec kubectl unthrottle __complete \"$@\"\n")
			return err
		},
	}
}
