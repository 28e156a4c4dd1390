package trial

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/generator"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// A Foreign load comes from another program's generator: any command, for any protocol. It runs alongside the server, and not in its limit,
// until it ends.
type Foreign struct {
	Command string // for a shell; {addr}, {host} and {port} are where the server listens. "": the work comes on its own
	Address string
	Metrics []generator.Metric // to find in what it prints
	Tail    lab.Measure        // which it must report; "": none
	Else    string             // what else to do if it doesn't

	Lasting time.Duration // how long to look if there is no command
	Counter Counter       // that shows what was done, instead of the command
}

// A Counter is one of a server, on its page of metrics for Prometheus: the sum of all series that have the name.
type Counter struct{ URL, Name string }

// ParseCounter reads URL#NAME; "" is none.
func ParseCounter(text string) (c Counter, err error) {
	if text == "" {
		return c, nil
	}
	var ok bool
	c.URL, c.Name, ok = strings.Cut(text, "#")
	u, err := url.Parse(c.URL)
	if err == nil && (!ok || c.Name == "" || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = errors.New("want a page of metrics and the name of a counter on it")
	}
	return c, err
}

// NewForeign is a command for servers at an address, with metrics as one writes them.
func NewForeign(command, address string, metrics []string) (*Foreign, error) {
	f := &Foreign{Command: command, Address: address}
	for _, text := range metrics {
		m, err := generator.ParseMetric(text)
		if err != nil {
			return nil, fmt.Errorf("--metric %q: %w", text, err)
		}
		f.Metrics = append(f.Metrics, m)
	}
	return f, nil
}

// line is the command, for a server.
func (f *Foreign) line() string {
	host, port := f.Address, ""
	if i := strings.LastIndexByte(f.Address, ':'); i >= 0 {
		host, port = f.Address[:i], f.Address[i+1:]
	}
	return strings.NewReplacer("{addr}", f.Address, "{host}", strings.Trim(host, "[]"), "{port}", port).Replace(f.Command)
}

// A loadError is that of a load which reported nothing: the run has no figures.
type loadError struct{ why string }

func (e *loadError) Error() string { return e.why }

// loadBy lets a foreign generator load the server, once more before where there is a warm-up.
func (x *Session) loadBy(ctx context.Context, s Shot) (Window, error) {
	switch {
	case s.WarmUp == 0:
	case s.By.Command == "":
		if err := sleep(ctx, s.WarmUp); err != nil {
			return Window{}, err
		}
	default:
		if w, err := x.loadOnceBy(ctx, s.By); err != nil || w.Metrics == nil {
			return w, err
		}
	}
	return x.loadOnceBy(ctx, s.By)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// count reads the server's counter.
func (x *Session) count(ctx context.Context, c Counter) (float64, error) {
	if c.URL == "" {
		return 0, nil
	}
	const patience = 5 * time.Second
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := x.page(within, c.URL)
	n, ok := goself.Counter(page, c.Name)
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, &loadError{fmt.Sprintf("reading how much was done: %v", err)}
	case !ok:
		return 0, &loadError{fmt.Sprintf("%s has no %s, which should say how much was done", c.URL, c.Name)}
	}
	return n, nil
}

// loadOnceBy lets it load the server. CPU time is the server's, by what the generator says that was done.
func (x *Session) loadOnceBy(ctx context.Context, f *Foreign) (Window, error) {
	done, err := x.count(ctx, f.Counter)
	before := x.begins(ctx)
	var said string
	if err == nil {
		said, err = x.send(ctx, f)
	}
	lasted := time.Since(before.at)
	c, _ := x.counted(before)
	now := done
	if err == nil {
		now, err = x.count(ctx, f.Counter)
	}
	switch {
	case ctx.Err() != nil:
		return Window{}, ctx.Err()
	case x.server.Check() != nil:
		return Window{}, nil // Close says why
	case err != nil:
		return Window{}, err
	}
	r, err := generator.Read([]byte(said), f.Metrics)
	if err != nil {
		return Window{}, &loadError{err.Error()}
	}
	units := cmp.Or(r.Units, r.Rate*lasted.Seconds())
	if f.Counter.URL != "" {
		units = now - done
	}
	switch {
	case f.Tail != "" && r.Latencies[f.Tail] == 0:
		return Window{}, &loadError{fmt.Sprintf("the load's output has no %s: --metric says where it is%s", f.Tail.Name(), f.Else)}
	case units-r.Failed <= 0 && f.Counter.URL != "":
		return Window{}, &loadError{fmt.Sprintf("%s has not grown in %v, so that nothing was done", f.Counter.Name, lasted.Round(100*time.Millisecond))}
	case units-r.Failed <= 0:
		return Window{}, &loadError{"the load's output does not say how much was done: --metric 'units=RE' or 'rate=RE' says where it is"}
	}
	w := Window{
		Metrics: ofWindow(c, units, r.Failed), Requests: int64(units), SLOHeld: true, Valid: true, Lasted: lasted,
		GC: x.log.Since(before.mark), Used: c.CPU.Seconds() / lasted.Seconds(),
	}
	w.addGC(c.CPU, lasted)
	for measure, v := range r.Latencies {
		measure.Set(w.Metrics, v)
	}
	lab.RequestRate.Set(w.Metrics, (units-r.Failed)/lasted.Seconds())
	if v, err := golive.Read(x.server.PID()); err == nil {
		w.Procs = v.Procs
	} else {
		w.Procs = w.GC.Procs
	}
	return w, nil
}

// send runs the command, or waits while the work comes on its own, and returns what was printed.
func (x *Session) send(ctx context.Context, f *Foreign) (said string, err error) {
	if f.Command == "" {
		return "", sleep(ctx, f.Lasting)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", f.line())
	cmd.Cancel = func() error { return endGroup(cmd) }
	cmd.WaitDelay = lingering
	cmd.SysProcAttr = groupWithUs()
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	failed := onThread(func() (err error) {
		left, err := runGroup(cmd)
		x.used += left
		return err
	})
	if errors.Is(failed, exec.ErrWaitDelay) { // it has ended, and what it has started has now
		failed = nil
	}
	if cmd.ProcessState != nil {
		x.used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if failed != nil {
		return "", &loadError{fmt.Sprintf("the load: %v: %s", failed, complaint(bytes.Join([][]byte{stdout.Bytes(), stderr.Bytes()}, []byte("\n"))))}
	}
	return string(append(stdout.Bytes(), stderr.Bytes()...)), nil
}

// lingering is how long what a command has started may hold its output after its end.
const lingering = 100 * time.Millisecond

// runGroup runs a command, and ends what it has started. left is the CPU time of what it has not waited for.
func runGroup(cmd *exec.Cmd) (left time.Duration, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	stop, err := guardGroup(cmd.Process.Pid)
	if err != nil {
		endGroup(cmd)
		return 0, errors.Join(err, cmd.Wait())
	}
	defer stop()
	err = cmd.Wait()
	left = procs.GroupCPUTime("", cmd.Process.Pid)
	endGroup(cmd)
	return left, err
}

// onThread does something on a thread that nothing else has, for what is started there ends with it.
func onThread(do func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		err = do()
	}()
	<-done
	return err
}
