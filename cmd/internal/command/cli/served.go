package cli

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// serverOptions are what tune and bench are given about a server: how it is started, and what is sent to it.
type serverOptions struct {
	ready        service.Ready
	readyTimeout time.Duration
	requests     loadtest.Requests
	requestFlags *pflag.FlagSet
	otherwise    string // what a program that is not a server needs
}

const readyExample = "http://localhost:8080/healthz, --ready 8080, --ready 'listening on', --ready 3s"

// register adds the flags; in has the URL already.
func (o *serverOptions) register(l *verb.Flags, in *pflag.FlagSet) {
	in.Var(quantity.Value(&o.ready, service.ParseReady, readyExample), "ready", "R\tthe server is ready when this URL answers, this port listens, a line matches, or after a time (the URL)")
	o.readyTimeout = time.Minute
	verb.Duration(in, &o.readyTimeout, "ready-timeout", time.Millisecond, "D\thow long that may take (1m); if given, never give up earlier")
	o.requestFlags = l.Like("unthrottle load")
	conduct.Requests(l, o.requestFlags, &o.requests)
}

// names are the flags, besides that of the URL.
func (o *serverOptions) names() []string {
	names := []string{"ready", "ready-timeout"}
	o.requestFlags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// readsStdin refuses what can be read only once.
func (o *serverOptions) readsStdin(verb string) error {
	if o.requests.File == "-" || o.requests.Data == "@-" {
		return hint.Usage("write it to a file, and name that", "%s sends it many times, and can't read it from stdin each time", verb)
	}
	return nil
}

// serve says how a program is started as a server, and how it is loaded. Without a URL it is started once to see where it
// listens, under a limit. The URL is handed back; it is empty if a file says what to send.
func (s *study) serve(ctx context.Context, o *serverOptions, program []string, at string, l *limitOptions, limit runner.Limit) (served *trial.Served, found string, err error) {
	var late sync.Once // each run starts it
	spec := o.spec(program, o.ready, l, s.Flags)
	spec.Limit = limit
	spec.Late = func(text string) { late.Do(func() { s.Progress.Note(text) }) }
	if at == "" && o.requests.File == "" {
		s.Progress.Note("starting it to see where it listens; --url would say")
		switch at, err = service.FindURL(ctx, spec); {
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case err != nil:
			return nil, "", hint.With(err, "--url http://localhost:8080/ says what to load; "+o.otherwise)
		}
		s.Progress.Note("it listens on " + at)
	}
	spec.Limit = l.Limit
	generator := []string{s.stdio.Self, "load"}
	if at != "" {
		if !strings.Contains(at, "://") {
			at = "http://" + at
		}
		generator = append(generator, at)
	}
	generator = append(generator, conduct.RequestArgs(o.requestFlags)...)
	generator = append(generator, "--grace", "3s", "--realtime=true")
	if !s.Flags.Given("timeout") {
		generator = append(generator, "--timeout", "10s")
	}
	first, err := o.requests.First(ctx, at, s.stdio.In)
	if err != nil {
		return nil, "", err
	}
	u, err := url.Parse(first)
	switch {
	case err != nil:
		return nil, "", hint.Usage("--url http://localhost:8080/", "--url: %w", err)
	case spec.Ready != service.Ready{}:
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "", hint.Usage("--url http://localhost:8080/", "the URL %q does not begin with http:// or https://", u)
	case o.requests.Client.Unix != "":
		return nil, "", hint.Usage("--ready 1s, or --ready 'a line that it writes'", "with --unix there is no port to ask whether the server is ready")
	case u.Scheme == "https" || o.requests.GRPC != "": // its certificate, or its protocol, is the generator's affair
		spec.Ready.Address = net.JoinHostPort(u.Hostname(), strconv.Itoa(procs.Port(u)))
	default:
		spec.Ready.URL = u.String()
	}
	served = &trial.Served{Service: spec, Generator: generator}
	if c := o.requests.Client; u.Scheme == "http" && c.Unix == "" && c.Proxy == "" { // its metrics can be asked for as well
		served.Metrics = "http://" + u.Host + "/metrics"
	}
	return served, at, nil
}

// checkForeign refuses flags that are for our own generator: those of requests, and others.
func (o *serverOptions) checkForeign(flags *verb.Flags, others ...string) error {
	own := slices.DeleteFunc(o.names(), func(name string) bool { return strings.HasPrefix(name, "ready") })
	name := flags.FirstGiven(append(own, others...)...)
	switch {
	case name == "":
		return nil
	case !flags.Given("load"):
		return hint.Usage("leave it out", "--%s is for our own generator, and with --units the work comes by itself", name)
	case name == "slo" || name == "rates": // they can't be passed on to a command
		return hint.Usage("leave it out; --vary tries several settings under the load of --load", "--%s is for our own generator, and --load is another", name)
	}
	return hint.Usage("say it in the command of --load", "--%s is for our own generator, and --load is another", name)
}

// checkTurns refuses what a load that is not ours can't do. That settings take turns is what it does anyway.
func (s *study) checkTurns(flags *verb.Flags) error {
	if s.atOnce != tune.AtOnceYes {
		return nil
	}
	if !flags.Given("load") {
		return hint.Usage("leave it out: settings then take turns", "--at-once yes: the work of --units goes to one program at a time, as two would share it")
	}
	return hint.Usage("leave it out: settings then take turns; with --rate in place of --load they can run at the same time",
		"--at-once yes: settings take turns under --load, as two of its command would disturb each other unseen, and may not find a server in a network of its own")
}

// spec is a server under a limit.
func (o *serverOptions) spec(program []string, ready service.Ready, l *limitOptions, flags *verb.Flags) service.Spec {
	return service.Spec{Args: program, Limit: l.Limit, With: l.with, Timeout: o.readyTimeout, Patient: flags.Given("ready-timeout"), Ready: ready}
}

// foreignURL is where a server listens that another program loads. If its work comes on its own, its counter is all that must be known.
func foreignURL(url, command, units string) string {
	if command == "" {
		return cmp.Or(url, strings.Split(units, "#")[0])
	}
	return url
}

// listens says when a server is ready and where it listens, by --url or by --ready.
func (o *serverOptions) listens(at, example string) (ready service.Ready, address string, err error) {
	ready, address = o.ready, o.ready.Address
	if text := cmp.Or(at, ready.URL); text != "" {
		if !strings.Contains(text, "://") {
			text = "tcp://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Port() == "" {
			return ready, "", hint.Usage("--url localhost:6379", "--url: %q does not say which port it listens on", text)
		}
		address = net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), u.Port())
	}
	if address == "" {
		return ready, "", hint.Usage(example, "nothing says where the server listens")
	}
	if ready == (service.Ready{}) {
		ready.Address = address
	}
	return ready, address, nil
}

// findProgram finds a program's file.
func findProgram(name string) (file string, err error) {
	if file, err = exec.LookPath(name); err != nil {
		return "", hint.With(&runner.CommandError{Name: name, Err: hint.Cause(err)}, executable)
	}
	return file, nil
}
