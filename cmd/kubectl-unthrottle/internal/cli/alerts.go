package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/alert"
)

const alertsHelp = `Rules for Prometheus: which Go programs are throttled by their CPU limit, why, and what to do about it.

Usage:
  kubectl unthrottle alerts [FLAGS]

The rules use the metrics of the agents that kubectl unthrottle install puts on the nodes. Writing the rules needs no cluster.
Prometheus must scrape the agents with honor_labels: true. kubectl unthrottle help docs/runbook.md says what each alert means.
Where no agent may run, --from programs goes by what programs, the kubelet and kube-state-metrics export as they are.

{{flags}}

To mute alerts, put the annotation unthrottle.dev/mute on a pod: the names of rules, or all.

Example:
  kubectl unthrottle alerts --as prometheusrule --label release=prometheus | kubectl apply -f -
`

type alertsVerb struct {
	stdio   verb.IO
	options alert.Options
	labels  []string
	file    string
}

func newAlerts(stdio verb.IO) *cobra.Command {
	return verb.New("alerts", alertsHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &alertsVerb{stdio: stdio, options: alert.Default()}
		a := &o.options

		flags := l.Section("What is reported:")
		flags.Var(verb.OneOf(&a.From, alert.Agents, alert.Programs), "from", "F\twhose metrics the rules use: agents; programs: what is exported without agents (agents)")
		flags.Var(quantity.Value(&a.Throttled, quantity.ParseShare, "25%"), "throttled", "S\tthe share of throttled periods from which throttling alone is reported (25%)")
		flags.Var(quantity.Value(&a.WithCause, quantity.ParseShare, "10%"), "with-cause", "S\tthe same if its cause is known (10%)")
		verb.Duration(flags, &a.For, "for", 0, "D\thow long it must last (15m)")
		verb.Duration(flags, &a.Window, "window", time.Second, "D\tthe window of rates: at least four times the scrape interval (5m)")
		flags.StringSliceVar(&a.Exempt, "exempt-namespace", nil, "NS,…\tleave out these namespaces")
		flags.StringSliceVar(&a.KeepLabels, "keep-label", nil, "L,…\tlabels that tell clusters apart, if one Prometheus has several: cluster")
		flags.StringVar(&a.Runbook, "runbook", a.Runbook, "URL\tyour own page about what the alerts mean, with their names as headings")

		flags = l.Section("\nHow it is written:")
		flags.Var(verb.OneOf(&a.As, alert.File, alert.Object), "as", "F\tfile: for rule_files; prometheusrule: an object for Prometheus' operator (file)")
		flags.StringVarP(&a.Namespace, "namespace", "n", a.Namespace, "NAME\tthe object's namespace (unthrottle)")
		flags.StringVar(&a.Name, "name", a.Name, "NAME\tthe object's name (unthrottle-agent, or unthrottle-programs)")
		flags.StringSliceVar(&o.labels, "label", nil, "KEY=VALUE,…\tthe object's labels, by which the operator finds it")
		flags.StringVarP(&o.file, "output", "o", "", "FILE\twrite to this file")
		return func(ctx context.Context, args []string) error {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			return o.run(l)
		}
	})
}

func (o *alertsVerb) run(l *verb.Flags) error {
	a := &o.options
	if given := l.FirstGiven("namespace", "name", "label"); given != "" && a.As != alert.Object {
		return hint.Usage("add --as prometheusrule", "--%s is for an object of Prometheus' operator", given)
	}
	if a.From == alert.Programs {
		if l.Given("throttled") {
			return hint.Usage("--with-cause is the share that counts there", "--throttled is for --from agents")
		}
		if !l.Given("name") {
			a.Name = alert.NameOfPrograms
		}
	}
	for _, text := range o.labels {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return hint.Usage("--label release=prometheus", "--label %s: there is no value", text)
		}
		if a.Labels == nil {
			a.Labels = map[string]string{}
		}
		a.Labels[key] = value
	}
	if err := a.Check(); err != nil {
		return hint.Usage("kubectl unthrottle alerts --help shows what the flags take", "%w", err)
	}
	out, err := verb.NewOutput(o.file, o.stdio.Out)
	if err != nil {
		return err
	}
	return out.Finish(alert.Write(out.W, *a))
}
