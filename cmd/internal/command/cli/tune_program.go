package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// Prepare finds out which limit can be had and what the program will do under it, and makes ready what runs it.
func (t *tuner) Prepare(ctx context.Context) error {
	p, e := &t.soFar.Plan, &t.soFar.Environment
	limit := t.limit.WithCPUs(p.CPUs)
	if p.LimitsMemory() {
		limit.Memory = slices.Max(p.Memories) // what is tried here must start
	}
	kind, notes, err := runner.Check(limit, t.limit.with, t.stdio.Self, "version")
	if err != nil {
		return startError(err)
	}
	e.LimitKind, e.Notes = string(kind), notes
	for _, busy := range trial.Busy(ctx, time.Second/2) {
		t.Progress.Note("this machine is not idle: " + busy)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.lab.Clock, t.lab.Memory, t.lab.OwnGOMEMLIMIT = time.Now, t.limit.Memory, t.stdio.Env("GOMEMLIMIT") != ""
	if err := t.prepareProgram(ctx, limit); err != nil {
		return err
	}
	hidden := kind == runner.Emulated || kind == runner.None
	t.lab.Foresee = func(cpus float64) tune.Foresight { return tune.Foresee(t.file, cpus, e.CPUs, hidden) }
	if t.soFar.Defaults != nil { // it goes on
		return nil
	}
	for _, cpus := range p.Limits {
		t.soFar.Defaults = append(t.soFar.Defaults, t.lab.Foresee(cpus).GoDefault)
	}
	if p.LimitsMemory() {
		t.soFar.Defaults = []int{t.lab.Foresee(p.CPUs).GoDefault}
		p.GOMEMLIMIT = t.isGo && !t.lab.OwnGOMEMLIMIT
	}
	return nil
}

// rehearse starts a server once, and ends it.
func (t *tuner) rehearse(ctx context.Context) error {
	p := t.soFar.Plan
	if p.Kind != tune.ServerKind {
		return nil
	}
	if err := t.prepareServer(ctx, t.limit.WithCPUs(p.CPUs)); err != nil {
		return err
	}
	session, err := t.lab.Server.Open(ctx, lab.Setting{CPUs: p.CPUs, Vary: lab.NewPairs(p.Varied(0))}, false)
	if err != nil {
		return t.explain(err)
	}
	session.Close()
	return nil
}

// prepareProgram says how the program is run.
func (t *tuner) prepareProgram(ctx context.Context, limit runner.Limit) error {
	p := t.soFar.Plan
	switch p.Kind {
	case tune.ServerKind:
		return t.prepareServer(ctx, limit)
	case tune.JobKind:
		if err := t.findFile(); err != nil {
			return err
		}
		program := trial.One(p.Program...).Program
		t.lab.Job = &trial.Runner{Limit: t.limit.Limit, With: t.limit.with, Programs: program, FindGo: t.noGo}
		t.jobsAtOnce(t.atOnce == tune.AtOnceYes) // it is not known what it writes
		return nil
	}
	begin := time.Now()
	defer func() { t.lab.Begin = t.lab.Begin.Add(time.Since(begin)) }() // building is not measuring
	return t.prepareGoBench(ctx)
}

func (t *tuner) prepareGoBench(ctx context.Context) error {
	dir, err := t.tempDir()
	if err != nil {
		return err
	}
	g := &trial.GoBench{Package: t.gobench, Regexp: t.regexp, Dir: dir}
	if err := g.Prepare(ctx, t.Progress.Note); err != nil {
		return hint.With(err, "--gobench takes a package, --run the name of a benchmark")
	}
	g.For = benchWindow(t.asked.Plan, len(g.Names)).String()
	t.lab.Job = &trial.Benchmarks{GoBench: g, Limit: t.limit.Limit, With: t.limit.with}
	t.jobsAtOnce(t.atOnce != tune.AtOnceNo)
	t.file = g.Command()[0]
	t.soFar.Plan.Name = g.Path
	t.soFar.Plan.Program = []string{"go", "test", "-run=^$", "-bench=" + t.regexp, g.Path}
	return nil
}

// jobsAtOnce lets several of the job run at the same time, if they may.
func (t *tuner) jobsAtOnce(may bool) {
	if may {
		t.lab.Jobs = trial.Together{Runner: trial.Alike{Runner: t.lab.Job}}
	}
}

// benchWindow is how long each of the benchmarks runs: a second, or less where a budget must have room for some blocks.
func benchWindow(p tune.Plan, benchmarks int) time.Duration {
	if p.Window > 0 || p.Budget == 0 {
		return cmp.Or(p.Window, time.Second)
	}
	const least, most, overhead, runs = 100 * time.Millisecond, time.Second, 200 * time.Millisecond, 16
	each := p.Budget/time.Duration(runs*benchmarks) - overhead
	return min(max(each, least), most).Round(10 * time.Millisecond)
}

// findFile finds the program's file, before anything is started.
func (t *tuner) findFile() (err error) {
	if t.file, err = findProgram(t.soFar.Plan.Program[0]); err != nil {
		return err
	}
	program, err := procs.ReadProgram(t.file)
	t.isGo = err == nil
	if t.isGo && program.HeapFloor && t.soFar.Pilot == nil && t.stdio.Env(tune.HeapFloor) == "" {
		t.soFar.Plan.TryFloor(t.limit.Memory)
	}
	t.noGo = errors.Is(err, procs.ErrNotGo) && !t.any && t.soFar.Plan.ByGo()
	return nil
}

// prepareServer says how the server is started and how it is loaded.
func (t *tuner) prepareServer(ctx context.Context, limit runner.Limit) (err error) {
	p := &t.soFar.Plan
	program, url := p.Program, p.URL
	if t.demo {
		if program, url, err = demoServer(t.stdio.Self, cmp.Or(t.asked.Plan.URL, "/work?cpu=1ms")); err != nil {
			return err
		}
		if p.Program == nil { // one that goes on keeps the port that is in its file
			p.Program, p.URL = program, url
		}
	}
	if err := t.findFile(); err != nil {
		return err
	}
	if err := t.checkTimes(ctx); err != nil {
		return err
	}
	var served *trial.Served
	at := url
	if p.Foreign() {
		served, err = t.serveForeign()
	} else {
		now, _ := lab.NewPairs(p.Varied(0)).Fill(program)
		if served, at, err = t.serve(ctx, &t.server, now, url, t.limit, limit); err == nil {
			served.Service.Args = program
		}
	}
	if err != nil {
		return err
	}
	if !t.demo {
		p.URL = at
	}
	served.FindGo = t.noGo && !p.AsksLimit()
	if b := p.Budget; b > 0 { // a server is not waited for longer than all of it
		left := max(time.Second, (b - time.Since(t.lab.Begin)).Round(time.Second))
		served.Service.Timeout = min(served.Service.Timeout, left)
	}
	t.lab.Server = tune.Served{Served: served}
	return t.prepareSides(served)
}

// serveForeign says how to start the server that another generator loads.
func (t *tuner) serveForeign() (*trial.Served, error) {
	p := t.soFar.Plan
	ready, address, err := t.foreignAt(p)
	if err != nil {
		return nil, err
	}
	if t.lab.By, err = trial.NewForeign(p.Load, address, p.Figures); err != nil {
		return nil, err
	}
	if t.lab.By.Counter, err = trial.ParseCounter(p.Units); err != nil {
		return nil, err
	}
	t.lab.By.Lasting = cmp.Or(p.Window, tune.UsualWindow)
	return &trial.Served{Service: t.server.spec(p.Program, ready, t.limit, t.Flags)}, nil
}

// prepareSides makes networks in which several of the server can run at the same time.
func (t *tuner) prepareSides(served *trial.Served) error {
	p := t.soFar.Plan
	if p.Foreign() || p.AsksLimit() || p.CPUs == 0 {
		return nil
	}
	sides, err := t.sides(served, t.server.requests.Client, int(float64(t.soFar.Environment.CPUs)/p.CPUs))
	for _, side := range sides {
		t.lab.Sides = append(t.lab.Sides, tune.Served{Served: side})
	}
	return err
}
