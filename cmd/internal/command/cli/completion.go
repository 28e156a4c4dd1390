package cli

import (
	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

const completionHelp = `A script that completes verbs and flags in your shell.

Usage:
  unthrottle completion bash|zsh|fish|powershell

Examples:
  source <(unthrottle completion bash)
  unthrottle completion zsh > "${fpath[1]}/_unthrottle"
  unthrottle completion fish > ~/.config/fish/completions/unthrottle.fish
`

func newCompletion(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use:       "completion",
		Long:      completionHelp,
		ValidArgs: verb.Shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			return verb.WriteCompletion(stdio.Out, cmd.Root(), args)
		},
	}
}
