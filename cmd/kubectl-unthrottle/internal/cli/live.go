package cli

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// live are the flags about a cluster, as kubectl has them.
type live struct {
	on bool
	cluster.Options
	names []string // of the flags that mean nothing for files
}

// flags are those of a verb that reads files as well. Its --cluster says that it does not; kubectl's own takes its name there.
func (c *live) flags(l *verb.Flags, flags *pflag.FlagSet) {
	flags.VarPF(liveFlag{c}, "cluster", "", "[=NAME]\tcheck live objects instead of files; NAME is a cluster of the kubeconfig").NoOptDefVal = "true"
	c.where(l, flags, "cluster")
}

// A liveFlag is --cluster, or --cluster=NAME.
type liveFlag struct{ *live }

func (f liveFlag) String() string { return "" }
func (f liveFlag) Type() string   { return "string" }

func (f liveFlag) Set(text string) error {
	switch f.on = text != "false"; text {
	case "true", "false":
	default:
		f.Instead.Context.Cluster = text
	}
	return nil
}

// where are the flags that say which objects of which cluster. taken are names of kubectl's that mean something else to the verb.
func (c *live) where(l *verb.Flags, flags *pflag.FlagSet, taken ...string) {
	flags.BoolVarP(&c.AllNamespaces, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&c.Selector, "selector", "l", "", "QUERY\tonly objects with these labels: app=api")
	c.names = append(c.names, "all-namespaces", "selector")
	c.connection(l, flags, taken...)
}

// connection are the flags that say where the API server is, and as whom it is asked.
func (c *live) connection(l *verb.Flags, flags *pflag.FlagSet, taken ...string) {
	flags.StringVarP(&c.Namespace, "namespace", "n", "", "NAME\tthis namespace, instead of the context's")
	c.names = append(c.names, "namespace")
	c.server(l, flags, taken...)
}

// server are those of a verb that has a namespace of its own.
func (c *live) server(l *verb.Flags, flags *pflag.FlagSet, taken ...string) {
	c.Timeout = 30 * time.Second
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "F\tthis kubeconfig, instead of KUBECONFIG and ~/.kube/config")
	flags.StringVar(&c.Context, "context", "", "NAME\ta context of the kubeconfig")
	verb.Duration(flags, &c.Timeout, "request-timeout", 0, "T\thow long one answer of the API server may take; 0: no limit (30s)")
	c.names = append(c.names, "kubeconfig", "context", "request-timeout")
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Bind(all)
	kubectl := l.Like("kubectl options")
	all.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(taken, f.Name) {
			kubectl.AddFlag(f)
			c.names = append(c.names, f.Name)
		}
	})
	kubectl.VarP(verbosity{l.Cmd}, "v", "v", "level of client-go's log; 6: each request")
}

// given is the first flag about a cluster on the command line; "": none.
func (c *live) given(l *verb.Flags) string { return l.FirstGiven(c.names...) }

// check refuses what does not go together.
func (c *live) check(l *verb.Flags, files []string) error {
	switch given := c.given(l); {
	case !c.on && given != "":
		return hint.Usage("kubectl unthrottle lint --cluster --"+given+" …", "--%s is for --cluster", given)
	case c.on && len(files) > 0:
		return hint.Usage("kubectl unthrottle lint --cluster, or kubectl unthrottle lint "+files[0]+", or --cluster=NAME for a cluster of the kubeconfig", "--cluster looks at live objects, and %s is a file", files[0])
	case c.on && l.FirstGiven("exclude") != "":
		return hint.Usage("-n NAME or -l QUERY looks at less of a cluster", "--exclude is for files")
	case c.AllNamespaces && c.Namespace != "":
		return hint.Usage("-A, or -n "+c.Namespace, "--all-namespaces and --namespace cannot be used together")
	}
	return nil
}
