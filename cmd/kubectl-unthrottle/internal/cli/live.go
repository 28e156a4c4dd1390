package cli

import (
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
}

// ofCluster are the flags that mean nothing for files.
var ofCluster = []string{"kubeconfig", "context", "namespace", "all-namespaces", "selector", "request-timeout"}

func (c *live) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.on, "cluster", false, "check live objects instead of files")
	c.where(flags)
}

// where are the flags that say which objects of which cluster.
func (c *live) where(flags *pflag.FlagSet) {
	c.connection(flags)
	flags.BoolVarP(&c.AllNamespaces, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&c.Selector, "selector", "l", "", "QUERY\tonly objects with these labels: app=api")
}

// connection are the flags that say where the API server is.
func (c *live) connection(flags *pflag.FlagSet) {
	c.Timeout = 30 * time.Second
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "F\tthis kubeconfig, instead of KUBECONFIG and ~/.kube/config")
	flags.StringVar(&c.Context, "context", "", "NAME\ta context of the kubeconfig")
	flags.StringVarP(&c.Namespace, "namespace", "n", "", "NAME\tthis namespace, instead of the context's")
	verb.Duration(flags, &c.Timeout, "request-timeout", 0, "T\thow long one answer of the API server may take; 0: no limit (30s)")
}

// check refuses what does not go together.
func (c *live) check(l *verb.Flags, files []string) error {
	switch given := l.FirstGiven(ofCluster...); {
	case !c.on && given != "":
		return hint.Usage("kubectl unthrottle lint --cluster --"+given+" …", "--%s is for --cluster", given)
	case c.on && len(files) > 0:
		return hint.Usage("kubectl unthrottle lint --cluster, or kubectl unthrottle lint "+files[0], "--cluster looks at live objects, and %s is a file", files[0])
	case c.on && l.FirstGiven("exclude") != "":
		return hint.Usage("-n NAME or -l QUERY looks at less of a cluster", "--exclude is for files")
	case c.AllNamespaces && c.Namespace != "":
		return hint.Usage("-A, or -n "+c.Namespace, "--all-namespaces and --namespace cannot be used together")
	}
	return nil
}
