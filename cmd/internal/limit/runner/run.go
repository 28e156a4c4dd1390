package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// A Run is a command that was started.
type Run struct {
	Notes []string // why the limit is not of a better kind

	place   place
	limited bool
	limit   Limit
	net     *Network
	cmd     *exec.Cmd
	begin   time.Time
	ended   chan struct{}
	result  Result // complete when ended is closed
}

// processConfig is what a place may change of a command.
type processConfig struct {
	name string
	args []string
	attr *syscall.SysProcAttr
}

// start starts the command in a place.
func start(p place, l Limit, c Command) (*Run, error) {
	conf := processConfig{name: c.Args[0], args: c.Args, attr: processAttr()}
	if _, err := exec.LookPath(c.Args[0]); err != nil && !errors.Is(err, exec.ErrDot) {
		p.finish(&Result{})
		return nil, &CommandError{c.Args[0], hint.Cause(err)}
	}
	p.command(&conf)
	cmd := exec.Command(conf.name)
	cmd.Args, cmd.Env, cmd.Dir, cmd.SysProcAttr = conf.args, c.Env, c.Dir, conf.attr
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.WaitDelay = time.Second
	r := &Run{place: p, limited: l.CPUs != 0, limit: l, net: c.Net, cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go r.run(l, started)
	if err := <-started; err != nil {
		p.finish(&Result{})
		return nil, err
	}
	return r, nil
}

// run has a thread of its own from the start of the process to its end. It is the thread's cgroup, network and affinity that the
// process inherits, and the thread's end that would kill it: so the process does not outlive us.
func (r *Run) run(l Limit, started chan<- error) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if err := r.begins(l); err != nil {
		started <- err
		return
	}
	stop := make(chan struct{})
	longest := make(chan time.Duration, 1)
	if r.limited {
		go func() { longest <- watchStandstill(r.place, l.PeriodInForce(), stop) }()
	}
	needed := make(chan int64, 1)
	if l.countsMemory() {
		go func() { needed <- watchMemory(r.place, stop) }()
	}
	started <- nil
	awaitExit(r.cmd.Process.Pid) // its group can still be read: it is not yet reaped
	r.result.Wall = time.Since(r.begin)
	r.result.Counters = r.place.counters()
	close(stop)
	if r.limited {
		r.result.Standstill = <-longest
	}
	if l.countsMemory() {
		r.result.PeakNeeded = <-needed
	}
	r.place.finish(&r.result) // before Wait: what is left of the command may hold its output open
	r.exit(r.cmd.Wait())
	close(r.ended)
}

func (r *Run) begins(l Limit) error {
	if err := setAffinity(l.Cpuset); err != nil {
		return err
	}
	if err := r.net.Enter(); err != nil {
		return err
	}
	if err := r.place.enter(); err != nil {
		return err
	}
	r.begin = time.Now()
	err := r.cmd.Start()
	r.place.leave()
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) && path.Op != "fork/exec" { // a file for its output, for one
			return err
		}
		return &CommandError{r.cmd.Args[0], hint.Cause(err)}
	}
	if err := r.place.started(r.cmd.Process.Pid); err != nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
		return err
	}
	if r.place.kind() == Scope {
		r.begin = time.Now() // until now it was systemd-run
	}
	return nil
}

// exit notes how the process ended.
func (r *Run) exit(err error) {
	state := r.cmd.ProcessState
	res := &r.result
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		res.Warnings = append(res.Warnings, err) // of copying its output, for one
	}
	if escaped := outside(r.place.kind(), r.limit, *res, state.UserTime()+state.SystemTime()); r.limited && res.Escaped == nil {
		res.Escaped = escaped
	}
	if res.Escaped != nil {
		res.Warnings = append(res.Warnings, res.Escaped)
	}
	if res.CPU == 0 {
		res.CPU = state.UserTime() + state.SystemTime()
	}
	res.ExitCode = state.ExitCode()
	exitDetails(state, res)
}

// What a process and those it waited for may have used beyond what their group counts without having left it: a tenth, and a tenth of
// a second. Both are the scheduler's sums, which differ by a tick a process at most.
const (
	looseShare = 0.1
	looseTime  = 100 * time.Millisecond
)

// outside is the error of a command that used CPU time where its limit does not count it, or more than the limit gives: on version 1
// the time may be counted by another group than the one that limits it. A scope of systemd is gone before its last figures can be read.
func outside(kind Kind, l Limit, res Result, used time.Duration) error {
	if kind != V1 && kind != V2 {
		return nil
	}
	tell := func(format string, of time.Duration) error {
		return fmt.Errorf("the program left its limit: it used %v of CPU time, and "+format, used.Round(time.Millisecond), of.Round(time.Millisecond))
	}
	beyond := func(counted time.Duration) bool {
		more := used - counted
		return float64(more) > looseShare*float64(used) && more > looseTime
	}
	periods := res.Wall/l.PeriodInForce() + 2 // that it has begun in, and ended in
	switch given := periods*l.Quota() + l.Burst; {
	case res.CPUKnown && beyond(res.CPU):
		return tell("its group only %v of that", res.CPU)
	case beyond(given):
		return tell("its limit gives no more than %v", given)
	}
	return nil
}

// Kind says what holds the command.
func (r *Run) Kind() Kind { return r.place.kind() }

// PID is the process's number.
func (r *Run) PID() int { return r.cmd.Process.Pid }

// Counters reads what the limit has done so far; they are not Known if nothing counts. Call it while the command runs.
func (r *Run) Counters() cgroup.Counters { return r.place.counters() }

// Signal sends the process a signal.
func (r *Run) Signal(sig os.Signal) error { return r.cmd.Process.Signal(sig) }

// Forward passes signals on to the command until it has ended.
func (r *Run) Forward(signals <-chan os.Signal) {
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				r.Signal(sig) // an error means that it has just ended
			}
		case <-r.ended:
			return
		}
	}
}

// Ended is closed when the command has ended and its place is removed.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Wait waits for the end of the command and returns what is known of it.
func (r *Run) Wait() Result {
	<-r.ended
	return r.result
}

// plain runs a command without any limit.
type plain struct{}

func (plain) kind() Kind                { return None }
func (plain) command(*processConfig)    {}
func (plain) enter() error              { return nil }
func (plain) leave()                    {}
func (plain) started(int) error         { return nil }
func (plain) counters() cgroup.Counters { return cgroup.Counters{} }
func (plain) needs() int64              { return 0 }
func (plain) finish(*Result)            {}
