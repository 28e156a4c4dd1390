package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/alert"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
)

const installHelp = `Install the agents in a cluster: a DaemonSet whose service account may read pods and check who may query the agents.

Usage:
  kubectl unthrottle install [FLAGS]

Install applies the objects on the server's side, as kubectl apply --server-side does. Running it again changes what has to
change, and completes a run that broke off. deploy/agent and deploy/charts/unthrottle-agent in the repository have the same
objects for kustomize and Helm.

{{flags}}

Examples:
  kubectl unthrottle install --dry-run
  kubectl unthrottle install --rules --dashboard --operator --wait 2m
  kubectl unthrottle install --rules --from programs
`

const uninstallHelp = `Remove everything that install has put into a cluster.

Usage:
  kubectl unthrottle uninstall [FLAGS]

It finds the objects by their labels, app.kubernetes.io/part-of=unthrottle and app.kubernetes.io/name=unthrottle-agent. The
namespace goes last, if install created it and nothing else is in it.

{{flags}}

Example:
  kubectl unthrottle uninstall --wait 2m
`

type installVerb struct {
	stdio         verb.IO
	live          live
	options       install.Options
	dryRun, force bool
	events        bool
	wait          time.Duration
	file          string
	from          alert.From
}

func newInstall(stdio verb.IO) *cobra.Command {
	return verb.New("install", installHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &installVerb{stdio: stdio, options: install.Options{Namespace: install.Namespace}, from: alert.Agents}

		flags := l.Section("What is installed:")
		flags.StringVar(&o.options.Image, "image", imageOf("kubectl-unthrottle"), "IMAGE\tthis image, instead of the release's own")
		flags.StringVarP(&o.options.Namespace, "namespace", "n", o.options.Namespace, "NAME\tcreated if it does not exist (unthrottle)")
		flags.BoolVar(&o.events, "events", true, "agents write events of pods for what is wrong now; --events=false: they don't, and may not")
		flags.BoolVar(&o.options.Rules, "rules", false, "the rules of kubectl unthrottle alerts, as a ConfigMap")
		flags.Var(verb.OneOf(&o.from, alert.Agents, alert.Programs), "from", "F\tthe rules' metrics. programs: those that programs and the cluster export, and no agents are installed (agents)")
		flags.BoolVar(&o.options.Dashboard, "dashboard", false, "a dashboard for Grafana, as a ConfigMap")
		flags.BoolVar(&o.options.Operator, "operator", false, "for Prometheus' operator: a PodMonitor, and the rules as a PrometheusRule")

		flags = l.Section("\nHow:")
		flags.BoolVar(&o.dryRun, "dry-run", false, "write the objects as YAML, without asking a cluster")
		flags.StringVarP(&o.file, "output", "o", "", "FILE\twrite them to this file")
		verb.Duration(flags, &o.wait, "wait", 0, "D\twait at most this long until an agent is ready on each node")
		flags.BoolVar(&o.force, "force-conflicts", false, "take over fields that another manager has set")
		o.live.server(l, flags)
		return func(ctx context.Context, args []string) error {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			o.options.NoEvents = !o.events
			if o.options.Programs = o.from == alert.Programs; o.options.Programs {
				if given := l.FirstGiven("image", "wait", "events"); given != "" {
					return hint.Usage("leave one of them out", "--%s is about agents, and --from programs installs none", given)
				}
				o.options.Image = ""
				if !o.options.Rules {
					return hint.Usage("kubectl unthrottle install --rules --from programs", "--from is about rules: --rules is missing")
				}
			}
			if err := o.options.Check(); err != nil {
				return hint.Usage("kubectl unthrottle install --help shows what the flags take", "%w", err)
			}
			if o.dryRun {
				if given := cmp.Or(l.FirstGiven("wait", "force-conflicts"), o.live.given(l)); given != "" {
					return hint.Usage("leave one of them out", "--%s is for a cluster, and --dry-run asks none", given)
				}
				return o.write()
			}
			if l.Given("output") {
				return hint.Usage("add --dry-run", "--output is for --dry-run")
			}
			return o.install(ctx)
		}
	})
}

func (o *installVerb) write() error {
	out, err := verb.NewOutput(o.file, o.stdio.Out)
	if err != nil {
		return err
	}
	return out.Finish(install.Write(out.W, o.options))
}

func (o *installVerb) install(ctx context.Context) error {
	c, err := install.Connect(o.live.Options, o.stdio.Out)
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, o.options, o.force); err != nil {
		return err
	}
	if o.options.Programs {
		return nil
	}
	if o.wait > 0 {
		return c.Wait(ctx, o.options.Namespace, o.wait)
	}
	fmt.Fprintf(o.stdio.Out, "kubectl -n %s rollout status daemonset/unthrottle-agent tells when the agents are ready\n", o.options.Namespace)
	return nil
}

func newUninstall(stdio verb.IO) *cobra.Command {
	return verb.New("uninstall", uninstallHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &installVerb{stdio: stdio}
		flags := l.Section("")
		flags.StringVarP(&o.options.Namespace, "namespace", "n", "", "NAME\tthe namespace to remove the agents from, if they are in several")
		verb.Duration(flags, &o.wait, "wait", 0, "D\twait at most this long until the namespace is gone")
		o.live.server(l, flags)
		return func(ctx context.Context, args []string) error {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			c, err := install.Connect(o.live.Options, o.stdio.Out)
			if err != nil {
				return err
			}
			return c.Remove(ctx, o.options.Namespace, o.wait)
		}
	})
}
