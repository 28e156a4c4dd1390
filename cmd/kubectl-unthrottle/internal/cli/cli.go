// Package cli answers: what does the command line of kubectl unthrottle ask for? One file a verb; what verbs of any command
// share is in package verb.
package cli

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const rootHelp = `kubectl unthrottle finds what is wrong with GOMAXPROCS in Kubernetes manifests and in clusters.

Usage:
  kubectl unthrottle VERB [FLAGS] [ARGS]

Verbs, before a program runs:
  lint        what is wrong with GOMAXPROCS in manifests; which one each program will get: --explain
  fix         fix what lint finds: a diff, patches, or the files themselves
  policy      admission policies with which the API server repairs GOMAXPROCS and warns about it
  webhook     an admission webhook that warns about GOMAXPROCS, or repairs it

While it runs:
  audit       what is wrong in a whole cluster, what it costs, and what would help
  tune        the best GOMAXPROCS for a workload, by trials on the cluster
  explain     a pod's CPU limit, its program's GOMAXPROCS, and why
  watch       a pod's throttling as it happens
  trace       when a pod's program stood still, from an execution trace
  profile     which part of a pod's CPU time grows with GOMAXPROCS
  alerts      rules for Prometheus: which programs are throttled, and why
  install     install agents on the nodes, rules and a dashboard
  uninstall   remove them again
  agent       report a node's Go programs to audit and Prometheus; install puts it on the nodes

Also:
  version     which build this is
  completion  the script with which kubectl completes all this
  help VERB   more about a verb, or a rule's page: help K004

Exit codes:
  0 done   1 failed   2 usage   3 --fail-on   130 interrupted

Example:
  helm template ./chart | kubectl unthrottle lint -
`

const helpHelp = `More about a verb, or a page of the documentation, such as a rule's.

Usage:
  kubectl unthrottle help [VERB | PAGE]
  kubectl unthrottle help --schema VERB

Flags:
      --schema VERB  print the JSON Schema of the document that a verb writes with -o json

Examples:
  kubectl unthrottle help lint
  kubectl unthrottle help K004
`

// Main runs the command and returns its exit code.
func Main(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == renders {
		if serveRenders(stdin, stdout) != nil {
			return 1
		}
		return 0
	}
	stdio := verb.IO{In: stdin, Out: stdout, Err: stderr, Env: env, Args: args}
	stdio.OwnEnd = ownEnd
	ours.SweepTemp()
	root := newRoot(stdio)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completeClusters(root)
	}
	return verb.Run(ctx, stdio, root, "webhook", "agent")
}

// ownEnd reports whether a command line is of a verb that ends in its own time: tune and audit --once remove what they have made in the
// cluster, and servers finish the answers they have begun.
func ownEnd(args []string) bool {
	if len(args) == 0 || args[0] != "audit" {
		return len(args) > 0 && slices.Contains([]string{"tune", "webhook", "agent"}, args[0])
	}
	return slices.ContainsFunc(args[1:], func(arg string) bool {
		value, ok := strings.CutPrefix(arg, "--once=")
		on, err := strconv.ParseBool(value)
		return arg == "--once" || ok && on && err == nil
	})
}

func newRoot(stdio verb.IO) *cobra.Command {
	root := verb.NewRoot("kubectl-unthrottle", rootHelp, newLint(stdio), newForecast(stdio), newFix(stdio), newPolicy(stdio), newWebhook(stdio),
		newAudit(stdio), newTune(stdio), newAlerts(stdio), newInstall(stdio), newUninstall(stdio), newAgent(stdio),
		newExplainPod(stdio), newWatchPod(stdio), newTracePod(stdio), newProfilePod(stdio), newVersion(stdio), newCompletion(stdio))
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl unthrottle"}
	root.SetHelpCommand(newHelp(stdio))
	return root
}

// newHelp is the help of any command, and the schemas, as there is no verb report to print them.
func newHelp(stdio verb.IO) *cobra.Command {
	help := verb.NewHelp(helpHelp)
	of := help.Flags().String("schema", "", "")
	page := help.RunE
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("schema") {
			return page(cmd, args)
		}
		s := result.Schema(*of)
		if s == nil || len(args) > 0 {
			return hint.Usage("kubectl unthrottle help --schema "+quantity.Either(result.Verbs()), "--schema takes a verb that writes a document, and nothing else")
		}
		return s.Write(stdio.Out)
	}
	return help
}

func newVersion(stdio verb.IO) *cobra.Command {
	return &cobra.Command{
		Use:  "version",
		Long: "Which build this is.\n\nUsage:\n  kubectl unthrottle version\n",
		Args: verb.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(stdio.Out, verb.VersionText("kubectl-unthrottle"))
			return err
		},
	}
}
