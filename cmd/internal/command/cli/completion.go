package cli

import (
	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
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
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				root := cmd.Root()
				switch args[0] {
				case "bash":
					return root.GenBashCompletionV2(stdio.Out, true)
				case "zsh":
					return root.GenZshCompletion(stdio.Out)
				case "fish":
					return root.GenFishCompletion(stdio.Out, true)
				case "powershell":
					return root.GenPowerShellCompletionWithDesc(stdio.Out)
				}
			}
			return hint.Usage("unthrottle completion bash, zsh, fish or powershell", "name one shell")
		},
	}
}
