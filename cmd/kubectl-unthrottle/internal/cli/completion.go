package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

const completionHelp = `The script that completes the verbs and flags of kubectl unthrottle.

Usage:
  kubectl unthrottle completion                              for kubectl's own completion
  kubectl unthrottle completion bash|zsh|fish|powershell     for the command kubectl-unthrottle by itself

kubectl runs the first script if it finds it in the PATH under the name kubectl_complete-unthrottle. kubectl's own completion has
to be on: see kubectl completion --help. The others are for those who type kubectl-unthrottle; they do nothing for kubectl.

Examples:
  kubectl unthrottle completion | sudo install -m 755 /dev/stdin /usr/local/bin/kubectl_complete-unthrottle
  source <(kubectl unthrottle completion bash)
`

func newCompletion(stdio verb.IO) *cobra.Command {
	return &cobra.Command{
		Use:       "completion",
		Long:      completionHelp,
		ValidArgs: verb.Shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return verb.WriteCompletion(stdio.Out, cmd.Root(), args)
			}
			_, err := io.WriteString(stdio.Out, "#!/bin/sh\nexec kubectl unthrottle __complete \"$@\"\n")
			return err
		},
	}
}
