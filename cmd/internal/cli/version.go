package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
)

const versionHelp = `Which unthrottle this is.

Usage:
  unthrottle version

Example:
  unthrottle version
`

func newVersion(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use:  "version",
		Long: versionHelp,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(stdio.Out, versionText())
			return err
		},
	}
}

func versionText() string {
	text := fmt.Sprintf("unthrottle %s, %s, %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if buildVersion() == unstamped {
		text += "The commit is not recorded: in a workspace go does that with go build -buildvcs=true ./cmd/unthrottle.\n"
	}
	return text
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return hint.Usage(cmd.CommandPath()+" --help shows how to call it", "%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
