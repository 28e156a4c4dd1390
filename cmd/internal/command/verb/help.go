package verb

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/docs"
)

// NewHelp is the verb that shows the help of a verb, or a page of the documentation.
func NewHelp(long string) *cobra.Command {
	return &cobra.Command{
		Use:               "help",
		Short:             "More about a verb, or a page of the documentation.",
		Long:              long,
		ValidArgsFunction: helpTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) == 0 {
				return found.Help()
			}
			if len(args) > 1 {
				return hint.Usage(cmd.CommandPath()+" "+args[0], "help takes one verb or page, got %d", len(args))
			}
			if page, ok := docs.Page(args[0]); ok {
				_, err := io.WriteString(cmd.OutOrStdout(), page)
				return err
			}
			return Unknown(cmd.Root(), args[0])
		},
	}
}

// helpTopics are the verbs, and the pages that have no verb's name.
func helpTopics(cmd *cobra.Command, args []string, _ string) (topics []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	verbs := map[string]bool{}
	for _, verb := range cmd.Root().Commands() {
		if verbs[verb.Name()] = true; !verb.Hidden {
			topics = append(topics, cobra.CompletionWithDesc(verb.Name(), verb.Short))
		}
	}
	for _, name := range docs.Names() {
		if page, _ := docs.Page(name); !verbs[name] {
			title, _, _ := strings.Cut(strings.TrimPrefix(page, "# "), "\n")
			topics = append(topics, cobra.CompletionWithDesc(name, "the page: "+title))
		}
	}
	return topics, cobra.ShellCompDirectiveNoFileComp
}
