// Package trial answers: what does one run of one setting give? In goes a setting of a lab and the program that it is
// about; the program is run once, in a fresh process, under the setting's limit and with its GOMAXPROCS. Out come its
// figures: what it said itself, what the limit counted, and what the host did meanwhile.
package trial

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// A Program is what is run.
type Program struct {
	Args []string
	Env  []string // in addition to ours
	Dir  string
	Copy string // a directory, where each run has a copy of the file of its own; "": all have the file
	// Read takes the figures from its output; nil: it says nothing.
	Read func(stdout []byte) (Reading, error)
}

// A Reading is what a program says about its run.
type Reading struct {
	GOMAXPROCS int    // 0: unknown
	Go         string // "": unknown
	Ops        int64
	Metrics    map[string]float64
	Activity   [][2]float64 // seconds
}

// Runner runs the settings of a lab.
type Runner struct {
	Limit    runner.Limit // what all settings have in common; the number of CPUs is the setting's
	With     runner.With
	Programs func(lab.Setting) (Program, error)
	FindGo   bool // mark the first run if neither the program nor what it starts is a Go program
}

// grace is how long a program may take to end when the lab is interrupted.
const grace = 2 * time.Second

// Run does one run.
func (r *Runner) Run(ctx context.Context, s lab.Setting) (lab.Run, error) {
	p, err := r.Programs(s)
	if err != nil {
		return lab.Run{}, err
	}
	limit := r.Limit.WithCPUs(s.CPUs)
	limit.CountMemory = true
	filled, _ := s.Vary.Fill(p.Args)
	args, done, err := ownCopy(filled, p.Copy)
	if err != nil {
		return lab.Run{}, err
	}
	defer done()
	var stdout, stderr tail
	env := environ(s, p)
	if r.FindGo {
		env = withGODEBUG(env, "inittrace=1") // a Go program says that it starts, however soon it is over
	}
	before, begin := procs.HostNow(), time.Now()
	run, err := runner.Start(limit, r.With, runner.Command{
		Args: args, Env: env, Dir: p.Dir, Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil {
		return lab.Run{}, err
	}
	noGo := func() bool { return false }
	if r.FindGo {
		r.FindGo, noGo = false, startsNoGo(run)
	}
	res := wait(ctx, run)
	out := lab.Run{
		Start: begin.UTC().Round(time.Millisecond), Seconds: res.Wall.Seconds(), LimitKind: string(run.Kind()),
		GOMAXPROCS: s.Procs, Go: s.Go, Metrics: ofRun(res),
	}
	Disturb(&out, before, procs.HostNow(), res.CPU)
	if noGo() && !bytes.Contains(stderr.Bytes(), []byte("init runtime @")) {
		out.Marks = append(out.Marks, lab.MarkNoGo)
	}
	switch {
	case res.OOMKills > 0: // of the program, or of one that it has started
		out.Error, out.Killed = limit.OutOfMemory(), true
		return out, nil
	case res.ExitCode != 0:
		out.Error = failure(res, stderr.Bytes())
		return out, nil
	}
	if res.Escaped != nil { // its figures are not those of the limit
		out.Error = res.Escaped.Error()
		return out, nil
	}
	if p.Read == nil {
		return out, nil
	}
	said, err := p.Read(stdout.Bytes())
	if err != nil {
		out.Error = err.Error()
		return out, nil
	}
	for unit, v := range said.Metrics {
		out.Metrics[unit] = v
	}
	if said.GOMAXPROCS != 0 {
		out.GOMAXPROCS = said.GOMAXPROCS
	}
	if said.Go != "" {
		out.Go = said.Go
	}
	out.Ops, out.Activity = said.Ops, said.Activity
	return out, nil
}

// ownCopy is a command line with a copy of its program, which done removes; see workload.Copy.
func ownCopy(args []string, dir string) (own []string, done func(), err error) {
	if dir == "" {
		return args, func() {}, nil
	}
	file, done, err := workload.Copy(args[0], dir)
	if err != nil {
		return nil, nil, fmt.Errorf("a copy of the program for this run: %w", err)
	}
	return append([]string{file}, args[1:]...), done, nil
}

// startsNoGo looks at a run's processes until one of them is a Go program or can't be looked into, or the run has ended. The
// answer waits for that. On a busy machine a short one may not be seen.
func startsNoGo(run *runner.Run) (none func() bool) {
	const often = 2 * time.Millisecond
	answer := make(chan bool, 1)
	go func() {
		tick := time.NewTicker(often)
		defer tick.Stop()
		for programs := new(procs.Programs); ; {
			if found, blind := programs.StartsGo("", run.PID()); found || blind {
				answer <- false
				return
			}
			select {
			case <-run.Ended():
				answer <- true
				return
			case <-tick.C:
			}
		}
	}()
	return func() bool { return <-answer }
}

// wait waits for the end of a run, or ends it when the lab must end.
func wait(ctx context.Context, run *runner.Run) runner.Result {
	select {
	case <-run.Ended():
		return run.Wait()
	case <-ctx.Done():
	}
	run.Signal(syscall.SIGTERM)
	select {
	case <-run.Ended():
	case <-time.After(grace):
		run.Signal(os.Kill)
	}
	return run.Wait()
}

// environ is our environment with what the setting sets. Our own GOMAXPROCS is taken out: where the setting leaves it open,
// the program's runtime decides.
func environ(s lab.Setting, p Program) []string {
	_, variables := s.Vary.Fill(p.Args)
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GOMAXPROCS=") })
	env = slices.DeleteFunc(append(env, p.Env...), func(e string) bool {
		return slices.ContainsFunc(variables, func(v lab.Pair) bool { return strings.HasPrefix(e, v.Name+"=") })
	})
	for _, v := range variables {
		if v.Value != "" {
			env = append(env, v.Name+"="+v.Value)
		}
	}
	if s.Procs > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(s.Procs))
	}
	if s.GOGC > 0 {
		env = append(env, "GOGC="+strconv.Itoa(s.GOGC))
	}
	if s.GOMEMLIMIT != "" {
		env = append(env, "GOMEMLIMIT="+s.GOMEMLIMIT)
	}
	return env
}

// failure says how a program failed, with the last it said.
func failure(res runner.Result, stderr []byte) string {
	text := "exit code " + strconv.Itoa(res.ExitCode)
	if res.Signal != "" {
		text = "ended by " + res.Signal
	}
	lines := bytes.Split(bytes.TrimSpace(stderr), []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		text += ": " + string(last[:min(len(last), 300)])
	}
	return text
}

// tail keeps the last megabyte of what is written to it.
type tail struct{ buf []byte }

const tailSize = 1 << 20

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*tailSize {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) Bytes() []byte { return t.buf }

// own is what we need ourselves to start a run.
const own = 30 * time.Millisecond

// Disturb notes on a run, which itself used that much CPU time, what else the host did that may have disturbed it.
func Disturb(run *lab.Run, before, after procs.HostMoment, used time.Duration) {
	stolen, others := after.Since(before, used+own)
	if run.Stolen = stolen; stolen > 0 {
		run.Marks = append(run.Marks, fmt.Sprintf("%s %.0f %% of the CPU time", lab.MarkSteal, 100*stolen))
	}
	if run.Others = others; others > 0 {
		run.Marks = append(run.Marks, fmt.Sprintf("%s %.1f CPUs", lab.MarkOthers, others))
	}
}

// Busy says what a host that should be idle does in some time; nothing where that is little.
func Busy(ctx context.Context, lasting time.Duration) []string {
	before := procs.HostNow()
	select {
	case <-ctx.Done():
	case <-time.After(lasting):
	}
	var idle lab.Run
	Disturb(&idle, before, procs.HostNow(), 0)
	return idle.Marks
}

// Environment is where we are. The limit's kind is found out by the caller.
func Environment() lab.Environment {
	e := lab.Environment{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	e.Kernel, e.CPU, e.Memory = machine()
	return e
}
