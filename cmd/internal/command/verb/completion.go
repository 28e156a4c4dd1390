package verb

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// completeWords has cobra complete the flags of all verbs. Cobra keeps what is registered for as long as the process lives, and with that
// the flags and what their values point to, so this is called only when a shell asks.
func completeWords(root *cobra.Command) {
	for _, verb := range root.Commands() {
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			words, ok := f.Annotations[valueWords]
			if !ok {
				return
			}
			if err := verb.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
				panic(err) // it has been registered before
			}
		})
	}
}
