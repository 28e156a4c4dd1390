package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

const versionHelp = `Which version of unthrottle this is.

Usage:
  unthrottle version

Example:
  unthrottle version
`

func newVersion(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use:  "version",
		Long: versionHelp,
		Args: verb.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(stdio.Out, verb.VersionText("unthrottle"))
			return err
		},
	}
}
