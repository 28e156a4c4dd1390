package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
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

// completes has a shell complete the names of pods, or of what is typed as deployment/. It asks the cluster that the flags before it name.
func completes(where *live) cobra.CompletionFunc {
	const patience = 3 * time.Second
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		names, err := cluster.Names(ctx, where.Options, typed)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
