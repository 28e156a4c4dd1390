package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/certs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/webhook"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

const webhookHelp = `Admission webhook: warns about a wrong GOMAXPROCS in pods as they are created, or repairs it. It refuses nothing.

Usage:
  kubectl unthrottle webhook [FLAGS]
  kubectl unthrottle webhook --check [-n NAME]

It runs in the cluster; deploy/webhook and deploy/charts/unthrottle-webhook in the repository have everything it needs.

{{flags}}

With --mode fix a pod is changed only if that is right for any program. A pod, or a namespace, with the label
unthrottle.dev/ignore=all is left alone; a pod's annotation of that name may also name rules: K004, K007.

With --check it is a client: it tries out a wrong pod on the server's side, which is never made, and prints what the webhook
that is installed says of it. Exit code 1 if it says nothing, with the reason.

At --operations it serves /healthz, /readyz and /metrics.

Examples:
  kubectl apply -k https://github.com/unthrottle/unthrottle/deploy/webhook
  kubectl unthrottle webhook --check -n shop
`

type webhookVerb struct {
	stdio             verb.IO
	options           webhook.Options
	warnOn            string
	listen, operate   string
	drain             time.Duration
	certFile, keyFile string
	keeper            certs.Keeper
	service           string
	dnsNames          []string
	credentials       string
	callers           webhook.Callers
	verbose           bool

	check bool // one that is installed
	live  live
}

func newWebhook(stdio verb.IO) *cobra.Command {
	return verb.New("webhook", webhookHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &webhookVerb{stdio: stdio, warnOn: finding.Warning.String(), drain: 5 * time.Second}
		o.options.Mode = webhook.Warn

		flags := l.Section("What it does:")
		flags.Var(verb.OneOf(&o.options.Mode, webhook.Warn, webhook.Fix), "mode", "M\twarn, or fix: also change pods (warn)")
		flags.Var(verb.OneOf(&o.warnOn, finding.Info.String(), finding.Warning.String(), finding.Critical.String()),
			"warn-on", "S\tlowest severity that produces a warning: info, warning or critical (warning)")
		flags.Var(goFlag{&o.options.Go}, "go", goUsage)
		flags.StringSliceVar(&o.options.ExemptNamespaces, "exempt-namespace", nil, "NS,…\tleave the pods of these namespaces alone")
		flags.StringSliceVar(&o.options.ExemptContainers, "exempt-container", nil, "NAME,…\tleave these containers alone, such as istio-proxy")

		flags = l.Section("\nWhere it listens:")
		flags.StringVar(&o.listen, "listen", ":8443", "ADDR\tfor reviews, with TLS (:8443)")
		flags.StringVar(&o.callers.File, "client-ca", "", "FILE\tanswer only clients with a certificate of this authority (anybody)")
		flags.StringSliceVar(&o.callers.Names, "client-name", nil, "NAME,…\tand only those with these common names")
		flags.StringVar(&o.operate, "operations", ":8080", "ADDR\tfor probes and metrics, without TLS (:8080)")
		verb.Duration(flags, &o.drain, "drain", 0, "D\thow long it keeps serving after it reports that it is shutting down (5s)")
		flags.BoolVar(&o.verbose, "verbose", false, "log every review, not only those with something to report")

		flags = l.Section("\nIts certificate, which it makes and renews itself and keeps in a Secret of its namespace:")
		flags.StringVar(&o.keeper.Secret, "secret", "unthrottle-webhook-certificate", "NAME\tthat Secret (unthrottle-webhook-certificate)")
		flags.StringVar(&o.keeper.Configuration, "configuration", "unthrottle-webhook",
			"NAME\tMutatingWebhookConfiguration whose caBundle it maintains (unthrottle-webhook)")
		flags.StringVar(&o.service, "service", "unthrottle-webhook", "NAME\tService that the certificate is for (unthrottle-webhook)")
		flags.StringSliceVar(&o.dnsNames, "dns-name", nil, "NAME,…\tmore names or addresses that the certificate is for")
		flags.StringVar(&o.credentials, "credentials", certs.ServiceAccount, "DIR\tthe service account's token, ca.crt and namespace (as in any pod)")

		flags = l.Section("\nOr one from elsewhere, which is read again when it changes:")
		flags.StringVar(&o.certFile, "cert-file", "", "FILE\tthe certificate, as PEM")
		flags.StringVar(&o.keyFile, "key-file", "", "FILE\tits key")

		flags = l.Section("\nWhether the one that is installed is asked:")
		flags.BoolVar(&o.check, "check", false, "try out a pod, and print what the webhook says of it")
		o.live.connection(l, flags)
		return func(ctx context.Context, args []string) error {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			if o.check {
				if given := l.FirstGiven(serving...); given != "" {
					return hint.Usage("kubectl unthrottle webhook --check -n NAME", "--%s is for a webhook that serves, and --check asks one", given)
				}
				return o.ask(ctx)
			}
			if given := o.live.given(l); given != "" {
				return hint.Usage("kubectl unthrottle webhook --check --"+given+" …", "--%s is for --check", given)
			}
			if (o.certFile == "") != (o.keyFile == "") {
				return hint.Usage("--cert-file tls.crt --key-file tls.key", "--cert-file and --key-file go together")
			}
			if len(o.callers.Names) > 0 && o.callers.File == "" {
				return hint.Usage("--client-ca ca.crt --client-name kube-apiserver", "--client-name is for certificates, and none is asked for without --client-ca")
			}
			return o.run(ctx)
		}
	})
}

// serving are the flags of a webhook that serves, but for --configuration.
var serving = []string{
	"mode", "warn-on", "go", "exempt-namespace", "exempt-container", "listen", "client-ca", "client-name", "operations", "drain", "verbose",
	"secret", "service", "dns-name", "credentials", "cert-file", "key-file",
}

// ask tries out a pod.
func (o *webhookVerb) ask(ctx context.Context) error {
	place, client, err := cluster.Connect(o.live.Options)
	if err != nil {
		return err
	}
	said, err := probeWebhook(ctx, client, o.keeper.Configuration, place.Namespace)
	if err == nil {
		fmt.Fprintf(o.stdio.Out, "The webhook works: of a pod with a wrong GOMEMLIMIT in namespace %s, which was not made, it said:\n%s\n", place.Namespace, plain.Line(said))
	}
	return err
}

func (o *webhookVerb) run(ctx context.Context) error {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(o.stdio.Err, &slog.HandlerOptions{Level: level}))
	if err := o.options.WarnOn.UnmarshalText([]byte(o.warnOn)); err != nil {
		return err
	}
	o.options.Log = log
	source, err := o.source(log)
	if err != nil {
		return err
	}
	if o.callers.Log = log; o.callers.File != "" {
		if err := o.callers.Load(); err != nil {
			return err
		}
	}
	reviews, err := listen("--listen", o.listen)
	if err != nil {
		return err
	}
	operations, err := listen("--operations", o.operate)
	if err != nil {
		reviews.Close()
		return err
	}
	var callers *webhook.Callers
	if o.callers.File != "" {
		callers = &o.callers
	}
	s := &webhook.Server{Callers: callers, Handler: webhook.New(o.options), Source: source, Drain: o.drain, Log: log}
	return s.Serve(ctx, reviews, operations)
}

// source is where the certificate comes from.
func (o *webhookVerb) source(log *slog.Logger) (certs.Source, error) {
	if o.certFile != "" {
		f := &certs.Files{Cert: o.certFile, Key: o.keyFile, Log: log}
		return f, f.Load()
	}
	k := &o.keeper
	client, namespace, err := certs.InCluster(o.stdio.Env, o.credentials)
	if err != nil {
		return nil, err
	}
	name := o.service + "." + namespace
	k.Client, k.Namespace, k.Log = client, namespace, log
	k.Names = append([]string{name + ".svc", name, name + ".svc.cluster.local"}, o.dnsNames...)
	if i := slices.Index(k.Names, ""); i >= 0 {
		return nil, hint.Usage("--dns-name webhook.example.com", "--dns-name: an empty name")
	}
	return k, nil
}

func listen(flag, address string) (net.Listener, error) {
	if !strings.Contains(address, ":") {
		return nil, hint.Usage(flag+" :8443", "%s: %q has no port", flag, address)
	}
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	err = fmt.Errorf("%s: listening on %s: %w", flag, address, err)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, hint.With(err, "another program listens there; "+flag+" takes another address, such as 127.0.0.1:0 for any port that is free")
	}
	return nil, hint.With(err, flag+" takes an address such as :8443")
}
