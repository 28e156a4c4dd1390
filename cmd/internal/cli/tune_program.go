package cli

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
)

// prepare finds out which limit can be had and what the program will do under it, and makes ready what runs it.
func (t *tuner) prepare(ctx context.Context) error {
	p, e := &t.study.Plan, &t.study.Environment
	limit := t.common.WithCPUs(p.CPUs)
	kind, notes, err := runner.Check(limit, t.with, t.stdio.Self, "version")
	if err != nil {
		return startError(err)
	}
	e.LimitKind, e.Notes = string(kind), notes
	for _, busy := range trial.Busy(ctx, time.Second/2) {
		t.progress.note("this machine is not idle: " + busy)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.lab.Clock, t.lab.Memory = time.Now, t.common.Memory
	switch p.Kind {
	case tune.ServerKind:
		err = t.prepareServer(ctx, limit)
	case tune.JobKind:
		err = t.findFile()
		t.lab.Job = &trial.Runner{Limit: t.common, With: t.with, Programs: trial.Command{Args: p.Program}.Program}
	default:
		err = t.prepareGoBench(ctx)
	}
	if err != nil {
		return err
	}
	t.lab.Foresee = func(cpus float64) tune.Foresight { return t.foresee(cpus, kind) }
	if t.study.Defaults != nil { // it goes on
		return nil
	}
	for _, cpus := range p.Limits {
		t.study.Defaults = append(t.study.Defaults, t.foresee(cpus, kind).GoDefault)
	}
	return nil
}

func (t *tuner) prepareGoBench(ctx context.Context) error {
	dir, remove, err := trial.TempDir()
	if err != nil {
		return err
	}
	t.cleanup = append(t.cleanup, remove)
	lasting := t.o.plan.Window
	if lasting == 0 {
		lasting = time.Second
	}
	g := &trial.GoBench{Package: t.o.gobench, Regexp: t.o.regexp, For: lasting.String(), Dir: dir}
	if err := g.Prepare(ctx, []string{""}, t.progress.note); err != nil {
		return hint.With(err, "--gobench wants a package, --run the name of a benchmark")
	}
	t.lab.Job = &trial.Benchmarks{GoBench: g, Limit: t.common, With: t.with}
	t.file = g.Command()[0]
	t.study.Plan.Name = g.Path
	t.study.Plan.Program = []string{"go", "test", "-run=^$", "-bench=" + t.o.regexp, g.Path}
	return nil
}

// findFile finds the program's file, before anything is started.
func (t *tuner) findFile() (err error) {
	name := t.study.Plan.Program[0]
	if t.file, err = exec.LookPath(name); err != nil {
		return hint.With(&runner.CommandError{Name: name, Err: trimExec(err)}, "is it in the PATH, and may it be executed?")
	}
	return nil
}

const readyExample = "--ready http://localhost:8080/healthz, --ready 8080, --ready 'listening on', --ready 3s"

// prepareServer says how the server is started and how it is loaded.
func (t *tuner) prepareServer(ctx context.Context, limit runner.Limit) (err error) {
	p, r := &t.study.Plan, &t.o.request
	if len(p.Program) == 0 {
		if err := t.builtin(); err != nil {
			return err
		}
	}
	if err := t.findFile(); err != nil {
		return err
	}
	spec := service.Spec{Args: p.Program, Limit: t.common, With: t.with, Timeout: t.o.readyTimeout}
	if t.o.ready != "" {
		if spec.Ready, err = service.ParseReady(t.o.ready); err != nil {
			return hint.Usage(readyExample, "--ready: %w", err)
		}
	}
	if p.URL == "" && r.targets == "" {
		t.progress.note("starting it to see where it listens; --url says it")
		look := spec
		look.Limit = limit
		switch p.URL, err = service.FindURL(ctx, look); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return hint.With(err, "--url http://localhost:8080/ says what to load; --batch is for a program that runs to its end")
		}
		t.progress.note("it listens on " + p.URL)
	}
	args := []string{t.stdio.Self, "load"}
	if p.URL != "" {
		if !strings.Contains(p.URL, "://") {
			p.URL = "http://" + p.URL
		}
		args = append(args, p.URL)
	}
	args = append(args, requestArgs(t.flags)...)
	args = append(args, "--grace", "3s", "--realtime=true")
	if !t.flags.Changed("timeout") {
		args = append(args, "--timeout", "10s")
	}
	targets, err := checkRequests(args[2:])
	if err != nil {
		return err
	}
	if spec.Ready == (service.Ready{}) {
		if spec.Ready, err = readyBy(targets[0].URL, r); err != nil {
			return err
		}
	}
	t.lab.Server = servers{&trial.Served{Service: spec, Generator: args, Metrics: metricsURL(targets[0].URL, r)}}
	return nil
}

// checkRequests reads the generator's flags as it will, so that what is wrong is said before anything is started.
func checkRequests(args []string) ([]load.Target, error) {
	var o loadOptions
	list := newFlagList(new(cobra.Command))
	o.register(list)
	list.done()
	flags := list.cmd.Flags()
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	_, err := o.parse(flags, flags.Args())
	return o.plan.Targets, err
}

// requestArgs are the flags of the command line that say what a request is, for the generator.
func requestArgs(flags *pflag.FlagSet) (args []string) {
	flags.Visit(func(f *pflag.Flag) {
		switch values, list := f.Value.(pflag.SliceValue); {
		case !slices.Contains(requestFlags, f.Name):
		case list:
			for _, v := range values.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
		default:
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}

// servers lets a Served be a tune.Server.
type servers struct{ *trial.Served }

func (s servers) Open(ctx context.Context, setting lab.Setting, trace bool) (tune.Session, error) {
	x, err := s.Served.Open(ctx, setting, trace)
	if err != nil {
		return nil, err // not a nil *Session, which would be no nil
	}
	return x, nil
}

// readyBy is how a server is asked whether it is ready, where --ready does not say.
func readyBy(target string, r *loadOptions) (service.Ready, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return service.Ready{}, hint.Usage("--url http://localhost:8080/", "--url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return service.Ready{}, hint.Usage("--url http://localhost:8080/", "the URL %q does not begin with http:// or https://", target)
	case r.plan.Client.Unix != "":
		return service.Ready{}, hint.Usage("--ready 1s, or --ready 'a line that it writes'", "with --unix there is no port to ask whether the server is ready")
	case u.Scheme == "https": // its certificate is the generator's affair
		return service.Ready{Address: net.JoinHostPort(u.Hostname(), strconv.Itoa(procs.Port(u)))}, nil
	}
	return service.Ready{URL: target}, nil
}

// metricsURL is where the server may tell figures of its runtime; "" where that can't be asked.
func metricsURL(target string, r *loadOptions) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" || r.plan.Client.Unix != "" || r.plan.Client.Proxy != "" {
		return ""
	}
	return "http://" + u.Host + "/metrics"
}

// builtin makes the demo server what is tuned.
func (t *tuner) builtin() error {
	p := &t.study.Plan
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	l.Close()
	path := p.URL
	if path == "" {
		path = "/work?cpu=1ms"
	}
	p.Program = []string{t.stdio.Self, "serve", "--listen", address}
	p.URL = "http://" + address + "/" + strings.TrimPrefix(path, "/")
	return nil
}

// foresee says what the program has by itself, as far as its file and our environment tell.
func (t *tuner) foresee(limit float64, kind runner.Kind) (f tune.Foresight) {
	p := procs.Process{Env: map[string]string{}}
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok {
			p.Env[name] = value
		}
	}
	p.Program, p.ProgramErr = procs.ReadProgram(t.file)
	policy, _ := unthrottle.ParsePolicy(func(name string) string { return p.Env[name] })
	s := choice.Under(limit, t.study.Environment.CPUs, policy)
	own := s.Predict(p)
	f = tune.Foresight{
		Procs: own.Procs, Why: own.Why, GoDefault: s.GoDefault(p).Procs,
		Pinned: own.Source == choice.FromEnvironment, // which runs do not inherit
	}
	if f.GoDefault == 0 { // a script, say: then what it starts is likely to be of now
		f.GoDefault = s.Of(choice.Go126).Procs
	}
	if limit > 0 && (kind == runner.Emulated || kind == runner.None) {
		if f.Pinned = true; f.Procs == 0 {
			f.Procs, f.Why = f.GoDefault, "what Go chooses under such a limit"
		}
	}
	return f
}
