package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
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

// patience is how long a shell waits for a cluster.
const patience = 3 * time.Second

// completes has a shell complete the names of pods, or of what is typed as deployment/. It asks the cluster that the flags before it name.
func completes(where *live) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		return offered(cluster.Names(ctx, where.Options, typed))
	}
}

// completeClusters has a shell complete the flags of all verbs that name a context or a namespace. Cobra keeps what is registered for as
// long as the process lives, so it is registered when a shell asks.
func completeClusters(root *cobra.Command) {
	for _, verb := range root.Commands() {
		for name, complete := range map[string]cobra.CompletionFunc{"context": contexts, "contexts": contexts, "namespace": namespaces} {
			if verb.Flags().Lookup(name) == nil {
				continue
			}
			if err := verb.RegisterFlagCompletionFunc(name, complete); err != nil {
				panic(err) // it has been registered before
			}
		}
	}
}

// contexts completes the last of several names.
func contexts(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, err := cluster.Contexts(chosen(cmd))
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	for i := range names {
		names[i] = before + plain.Line(names[i])
	}
	return offered(names, err)
}

func namespaces(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	return offered(cluster.Namespaces(ctx, chosen(cmd), typed))
}

// chosen is the cluster that the flags before what is typed name.
func chosen(cmd *cobra.Command) cluster.Options {
	value := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return cluster.Options{Kubeconfig: value("kubeconfig"), Context: value("context")}
}

func offered(names []string, err error) ([]string, cobra.ShellCompDirective) {
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
