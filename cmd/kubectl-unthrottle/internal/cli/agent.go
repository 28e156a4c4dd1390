package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agent"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/certs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/once"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/permit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
)

const agentHelp = `Reports all Go programs of a node: their GOMAXPROCS, their limit, and what is wrong. It changes nothing; what is wrong
now it writes as events of the pods.

Usage:
  kubectl unthrottle agent [FLAGS]

It runs as a DaemonSet with hostPID; deploy/agent in the repository has everything it needs.

{{flags}}

At --listen, with TLS, it serves /metrics, /api/v1/processes and /api/v1/explain?pid=N to callers that the API server allows
to get the nonResourceURLs /metrics, /unthrottle/processes and /unthrottle/explain. At --probes it serves /healthz and
/readyz to anybody.

Example:
  kubectl apply -k https://github.com/unthrottle/unthrottle/deploy/agent
`

// Who is asked for a node's pods.
const (
	askAPI     = "api"
	askKubelet = "kubelet"
	askNobody  = "none"
)

type agentVerb struct {
	stdio             verb.IO
	options           agent.Options
	listen, probes    string
	certFile, keyFile string
	insecure, events  bool
	once              bool
	ask               string
	kubelet           pods.KubeletOptions
}

func newAgent(stdio verb.IO) *cobra.Command {
	return verb.New("agent", agentHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &agentVerb{stdio: stdio, ask: askAPI}
		o.options = agent.Options{Interval: 30 * time.Second, For: 2 * time.Second, CPUs: 0.005, MaxContainers: 500}
		flags := l.Section("What it looks at:")
		flags.StringVar(&o.options.Node, "node", "", "NAME\tthe node's name ($NODE_NAME, or else the host's name)")
		verb.Duration(flags, &o.options.Interval, "interval", time.Second, "D\ttime between two scans (30s)")
		verb.Duration(flags, &o.options.For, "for", 100*time.Millisecond, "D\thow long a scan looks, less than the interval (2s)")
		flags.Var(quantity.Value(&o.options.CPUs, quantity.ParseCPUs, "10m"), "cpus", "N\tCPUs to use on average; to keep to it, scans get up to four times as far apart (5m)")
		flags.StringVar(&o.options.Root, "root", "", "DIR\tread /proc and /sys below DIR")

		flags = l.Section("\nWhose programs they are:")
		flags.Var(verb.OneOf(&o.ask, askAPI, askKubelet, askNobody), "pods", "WHO\twhom to ask for the node's pods: api, kubelet or none (api)")
		flags.StringVar(&o.kubelet.Host, "kubelet", "", "HOST\tthe kubelet's host, for --pods kubelet ($HOST_IP)")
		flags.BoolVar(&o.kubelet.Insecure, "kubelet-insecure", false, "accept any certificate of the kubelet: most sign their own")

		flags = l.Section("\nWhat it reports:")
		flags.BoolVar(&o.once, "once", false, "look once, write what /api/v1/processes has to standard output, and end; with --pods none")
		flags.StringVar(&o.listen, "listen", ":9435", "ADDR\twhere it serves its reports (:9435)")
		flags.StringVar(&o.probes, "probes", ":9436", "ADDR\twhere it answers probes, without TLS (:9436)")
		verb.Number(flags, &o.options.MaxContainers, "max-containers", "", 1, "N\tat most N containers have metrics, those that use the most CPU (500)")
		flags.BoolVar(&o.events, "events", true, "write an event of the pod for what is wrong now, with severity warning or worse, once an hour; --events=false: none")
		flags.BoolVar(&o.options.PProf, "pprof", false, "serve its own profiles at /debug/pprof/, to callers that may get that nonResourceURL")

		flags = l.Section("\nWho may ask:")
		flags.StringVar(&o.certFile, "cert-file", "", "FILE\tits certificate, as PEM, read again when it changes (one that it makes itself)")
		flags.StringVar(&o.keyFile, "key-file", "", "FILE\tits key")
		flags.BoolVar(&o.insecure, "insecure", false, "answer anyone who can reach it, without TLS: for one machine, with --listen 127.0.0.1:9435, or a test")
		return func(ctx context.Context, args []string) error {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			if o.options.For >= o.options.Interval {
				return hint.Usage("--interval 30s --for 2s", "--for=%v leaves no time between scans: --interval is %v", o.options.For, o.options.Interval)
			}
			if (o.certFile == "") != (o.keyFile == "") {
				return hint.Usage("--cert-file tls.crt --key-file tls.key", "--cert-file and --key-file go together")
			}
			if o.insecure && o.certFile != "" {
				return hint.Usage("leave one of them out", "--insecure is without TLS, and --cert-file is for it")
			}
			if o.once {
				return o.look(ctx)
			}
			return o.run(ctx)
		}
	})
}

// look looks once. Its reader names the containers: kubectl unthrottle audit --once.
func (o *agentVerb) look(ctx context.Context) error {
	if o.ask != askNobody {
		return hint.Usage("kubectl unthrottle agent --once --pods none", "--once does not ask for the pods")
	}
	if err := o.begin(); err != nil {
		return err
	}
	o.options.Unnamed = true
	ctx, cancel := context.WithTimeout(ctx, mostOfLook)
	defer cancel()
	s, err := agent.New(o.options).Scan(ctx)
	if err != nil {
		return err
	}
	if err := s.Fit(once.MostLog); err != nil {
		return err
	}
	return report.WriteJSONLine(o.stdio.Out, s.Doc)
}

// mostOfLook is how long one look may take.
const mostOfLook = time.Minute

// begin says which node it is.
func (o *agentVerb) begin() error {
	if err := agent.Supported(); err != nil {
		return err
	}
	host, _ := os.Hostname()
	if o.options.Node = cmp.Or(o.options.Node, o.stdio.Env("NODE_NAME"), host); o.options.Node == "" {
		return hint.Usage("--node NAME", "the node has no name")
	}
	return nil
}

func (o *agentVerb) run(ctx context.Context) error {
	if err := o.begin(); err != nil {
		return err
	}
	o.options.Log = slog.New(slog.NewTextHandler(o.stdio.Err, nil))
	l, err := listen("--listen", o.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	probes, err := listen("--probes", o.probes)
	if err != nil {
		return err
	}
	defer probes.Close()
	if o.options.Pods, err = o.source(ctx); err != nil {
		return err
	}
	if err := o.guard(); err != nil {
		return err
	}
	if o.stdio.Env("GOGC") == "" {
		debug.SetGCPercent(25) // it is on every node, and its heap is small: memory matters more than the CPU time of a collection
	}
	if !o.options.PProf {
		runtime.MemProfileRate = 0 // the profile can't be requested, and its tables take a megabyte
	}
	go unthrottle.Watch(ctx, unthrottle.Options{Interval: o.options.Interval}, nil) // it behaves under a limit of its own
	o.options.Log.Info("agent", "node", o.options.Node, "listens", l.Addr().String(), "probes", probes.Addr().String(), "insecure", o.insecure, "pods", o.ask, "interval", o.options.Interval.String())
	return agent.New(o.options).Serve(ctx, l, probes)
}

// guard says whom it answers, and with which certificate, and whether it writes events.
func (o *agentVerb) guard() error {
	if o.insecure {
		return nil
	}
	p, err := cluster.Locate(cluster.Options{Timeout: 10 * time.Second})
	if err != nil {
		return hint.With(fmt.Errorf("looking for the API server, which says who may ask: %w", err), append(hint.Of(err), "without a cluster: --insecure --listen 127.0.0.1:9435")...)
	}
	client, err := p.Client()
	if err != nil {
		return err
	}
	o.options.Guard = permit.New(client, o.options.Log)
	if o.events && o.options.Pods != nil {
		o.options.Events = agent.ToServer(client)
	}
	if o.certFile != "" {
		f := &certs.Files{Cert: o.certFile, Key: o.keyFile, Log: o.options.Log}
		o.options.Certificate = f
		return f.Load()
	}
	own := &certs.Own{Name: "unthrottle-agent", Log: o.options.Log}
	o.options.Certificate = own
	return own.Load()
}

// source is who is asked for the pods; nil: no one.
func (o *agentVerb) source(ctx context.Context) (pods.Source, error) {
	switch o.ask {
	case askAPI:
		p, err := cluster.Locate(cluster.Options{})
		if err != nil {
			return nil, hint.With(fmt.Errorf("looking for the API server: %w", err), append(hint.Of(err), "without a cluster: --pods none")...)
		}
		return pods.Watch(ctx, p.Config, o.options.Node)
	case askKubelet:
		o.kubelet.Host = cmp.Or(o.kubelet.Host, o.stdio.Env("HOST_IP"))
		if o.kubelet.Host == "" {
			return nil, hint.With(errors.New("--pods kubelet: the kubelet's address is not known"), "--kubelet HOST, or HOST_IP by a fieldRef of status.hostIP")
		}
		return pods.Kubelet(ctx, o.kubelet)
	}
	return nil, nil
}
