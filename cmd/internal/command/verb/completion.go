package verb

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Shells are those for which there is a script that completes a command.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// WriteCompletion writes the script with which the shell that args name completes the command of root.
func WriteCompletion(w io.Writer, root *cobra.Command, args []string) error {
	if len(args) == 1 {
		switch args[0] {
		case "bash":
			return root.GenBashCompletionV2(w, true)
		case "zsh":
			return root.GenZshCompletion(w)
		case "fish":
			return root.GenFishCompletion(w, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(w)
		}
	}
	return hint.Usage(root.CommandPath()+" completion "+quantity.Either(Shells), "name one shell")
}
