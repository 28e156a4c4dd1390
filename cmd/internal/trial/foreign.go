package trial

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/generator"
	"github.com/unthrottle/unthrottle/cmd/internal/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/lab"
)

// A Foreign load is that of a generator which somebody else has written: any command, for any protocol. It runs beside the server, and not
// in its limit, until it ends.
type Foreign struct {
	Command string // for a shell; {addr}, {host} and {port} are where the server listens
	Address string
	Metrics []generator.Metric // that are to be found in what it prints
	Tail    lab.Measure        // which it has to tell; "": none
}

// NewForeign is a command for servers at an address, with metrics as they are written.
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

// A loadError is that of a load which told nothing: the run has no figures.
type loadError struct{ why string }

func (e *loadError) Error() string { return e.why }

// loadBy lets a foreign generator load the server, once more before where there is a warm-up.
func (x *Session) loadBy(ctx context.Context, s Shot) (Window, error) {
	if s.WarmUp > 0 {
		if w, err := x.loadOnceBy(ctx, s.By); err != nil || w.Metrics == nil {
			return w, err
		}
	}
	return x.loadOnceBy(ctx, s.By)
}

// loadOnceBy lets it load the server. CPU time is the server's, by what the generator says that was done.
func (x *Session) loadOnceBy(ctx context.Context, f *Foreign) (Window, error) {
	before := x.begins(ctx)
	cmd := exec.CommandContext(ctx, "sh", "-c", f.line())
	cmd.Cancel = func() error { return endGroup(cmd) }
	cmd.WaitDelay = grace
	cmd.SysProcAttr = groupWithUs()
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	failed := onThread(cmd.Run)
	lasted := time.Since(before.at)
	if ctx.Err() != nil {
		return Window{}, ctx.Err()
	}
	if cmd.ProcessState != nil {
		x.used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	c, _ := x.counted(before)
	if x.server.Check() != nil {
		return Window{}, nil // Close says why
	}
	if failed != nil {
		return Window{}, &loadError{fmt.Sprintf("the load: %v: %s", failed, complaint(bytes.Join([][]byte{stdout.Bytes(), stderr.Bytes()}, []byte("\n"))))}
	}
	r, err := generator.Read(append(stdout.Bytes(), stderr.Bytes()...), f.Metrics)
	if err != nil {
		return Window{}, &loadError{err.Error()}
	}
	units := cmp.Or(r.Units, r.Rate*lasted.Seconds())
	switch {
	case f.Tail != "" && r.Latencies[f.Tail] == 0:
		return Window{}, &loadError{fmt.Sprintf("what the load printed tells no %s: --metric says where it is, or --figure %s what else is compared", tailName(f.Tail), lab.CPUPerRequest)}
	case units-r.Failed <= 0:
		return Window{}, &loadError{"what the load printed tells nothing that was done: --metric 'units=RE' or 'rate=RE' says where it is"}
	}
	w := Window{
		Metrics: map[string]float64{}, Requests: int64(units), SLOHeld: true, Valid: true, Lasted: lasted,
		GC: x.log.Since(before.mark), Used: c.CPU.Seconds() / lasted.Seconds(),
	}
	w.addGC(c.CPU, lasted)
	for measure, v := range r.Latencies {
		measure.Set(w.Metrics, v)
	}
	lab.RequestRate.Set(w.Metrics, (units-r.Failed)/lasted.Seconds())
	lab.ErrorShare.Set(w.Metrics, r.Failed/units)
	if c.CPU > 0 {
		lab.CPUPerRequest.Set(w.Metrics, c.CPU.Seconds()/(units-r.Failed))
	}
	if c.Periods > 0 {
		lab.ThrottledShare.Set(w.Metrics, float64(c.Throttled)/float64(c.Periods))
		lab.ThrottledTime.Set(w.Metrics, c.ThrottledTime.Seconds())
	}
	if v, err := golive.Read(x.server.PID()); err == nil {
		w.Procs = v.Procs
	} else {
		w.Procs = w.GC.Procs
	}
	return w, nil
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

// tailName is a percentile as people write it: p99.9.
func tailName(m lab.Measure) string {
	digits := strings.TrimSuffix(strings.TrimPrefix(string(m), "p"), "-latency-ns")
	if n, err := strconv.Atoi(digits); err == nil && n > 100 {
		return fmt.Sprintf("p%d.%d", n/10, n%10)
	}
	return "p" + digits
}
