package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A Tracer takes an execution trace: of a program that it starts, of a process, or from a URL.
type Tracer struct {
	Program []string // to start; nil: it runs
	Limit   runner.Limit
	With    runner.With
	Output  io.Writer // of the program

	Process int      // pid of what runs; 0: none was given
	URL     *url.URL // of the page; it is found where there is a program or a process
	Far     *Far     // nil: what answers at the URL may run here

	Seconds   int
	NoSamples bool              // no CPU profile meanwhile
	Save      io.Writer         // nil: it isn't kept
	Note      func(text string) // is called with what takes a while; may be nil
	Late      func(text string) // is called with what takes longer than it should; may be nil

	// Take sets these, even if it fails.
	Beside
	Saved  bool
	Quotas freeze.Quotas // by the limit
	NoCPU  error         // why there was no CPU profile meanwhile
	Asked  time.Duration // how long it should have been
	Took   time.Duration // until it was there

	emulated bool // the limit is emulated with signals
}

// Take takes the trace. What it returns is gone when it is closed.
func (t *Tracer) Take(ctx context.Context) (io.ReadCloser, error) {
	if t.Program != nil {
		return t.record(ctx)
	}
	if t.URL == nil {
		base, err := Trace.find(ctx, t.Process)
		if err != nil {
			return nil, err
		}
		t.URL = Trace.At(base, t.Seconds)
	}
	return t.take(ctx)
}

// lateAfter is how much longer than was asked for a trace may take without a word.
const lateAfter = time.Second

func (t *Tracer) late(text string) {
	if t.Late != nil {
		t.Late(text)
	}
}

// record starts the program, takes a trace of it as soon as its pprof answers, and ends it.
func (t *Tracer) record(ctx context.Context) (_ io.ReadCloser, err error) {
	server, err := service.Start(ctx, service.Spec{
		Args: t.Program, Limit: t.Limit, With: t.With,
		Each: func(line []byte) bool {
			t.Output.Write(append(line[:len(line):len(line)], '\n'))
			return false
		},
	})
	if err != nil {
		return nil, recordError(err)
	}
	defer server.Stop()
	for _, note := range server.Notes {
		t.Warnings = append(t.Warnings, errors.New(note))
	}
	u, err := awaitPprof(ctx, server, filepath.Base(t.Program[0]), pprofTimeout, t.late)
	if err != nil {
		return nil, err
	}
	t.Process = server.PID()
	t.URL = Trace.At(u, t.Seconds)
	t.setEmulated(server.Kind())
	file, err := t.take(ctx)
	if over := server.Check(); over != nil && ctx.Err() == nil {
		if err == nil {
			file.Close()
		}
		return nil, hint.With(over, fmt.Sprintf("--record %v takes a trace for that long: the program has to run for longer than that", time.Duration(t.Seconds)*time.Second))
	}
	return file, err
}

// setEmulated sets the limit of a program that is held to it by signals, which no cgroup shows.
func (t *Tracer) setEmulated(kind runner.Kind) {
	l := t.Limit
	if t.emulated = kind == runner.Emulated; !t.emulated || l.CPUs == 0 {
		return
	}
	const from = "--cpus, emulated by signals"
	quota := cgroup.Quota{QuotaMicros: l.Quota().Microseconds(), PeriodMicros: l.PeriodInForce().Microseconds()}
	t.Limits = &cgroup.Limits{State: cgroup.Limited, CPUs: l.CPUs, From: from, Levels: []cgroup.Level{{Dir: from, Quota: quota}}}
}

// recordError says what to do about a program that could not be started.
func recordError(err error) error {
	var missing *runner.CommandError
	var ended *service.Error
	switch {
	case errors.As(err, &missing):
		return hint.With(err, "is it in the PATH, and executable?")
	case errors.As(err, &ended):
		return hint.With(err, "--record wants a program that goes on running, with net/http/pprof")
	}
	return err
}

// take fetches the trace from the URL into a file, and what else is known.
func (t *Tracer) take(ctx context.Context) (_ io.ReadCloser, err error) {
	file, err := newScratch()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	t.findProcess(ctx)
	if t.Note != nil {
		t.Note(fmt.Sprintf("taking a trace of %s for %s s", t.URL.Host, t.URL.Query().Get("seconds")))
	}
	t.Asked, _ = Trace.Time(t.URL)
	begin := time.Now()
	told := make(chan struct{})
	late := time.AfterFunc(t.Asked+lateAfter, func() {
		defer close(told)
		t.late(fmt.Sprintf("%s was asked for %v, and has not handed the trace over: waiting for up to %v longer", t.URL.Host, t.Asked, patience))
	})
	err = t.while(ctx, t.Far, func() error { return t.fetch(ctx, file) })
	if !late.Stop() {
		<-told
	}
	t.Took = time.Since(begin)
	if t.emulated {
		t.Readings, t.Kernel = nil, freeze.Kernel{} // they are of a group that has nothing to do with the limit
	}
	if n := len(t.Readings); n > 1 {
		t.Quotas = t.Quotas.With(t.Readings[n-1].Groups.Since(t.Readings[0].Groups))
	}
	if err != nil {
		return nil, err
	}
	if t.Save != nil {
		if _, err := file.WriteTo(t.Save); err != nil {
			return nil, fmt.Errorf("saving the trace: %w", err)
		}
		t.Saved = true
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the trace again: %w", err)
	}
	return file, nil
}

// scratch is a file that is gone when it is closed.
type scratch struct {
	*os.File
	path string // "": it is in memory
}

func newScratch() (scratch, error) {
	f, err := ours.TempFile("trace")
	if err != nil {
		if memory, inMemory := memoryFile(); inMemory == nil {
			return scratch{memory, ""}, nil // an image that holds nothing else has no directory for it
		}
		return scratch{}, hint.With(fmt.Errorf("a file for the trace: %w", err), "TMPDIR names a directory that can be written")
	}
	return scratch{f, f.Name()}, nil
}

func (s scratch) Close() error {
	err := s.File.Close()
	if s.path != "" {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}

// WriteTo copies all of the file.
func (s scratch) WriteTo(w io.Writer) (int64, error) {
	if _, err := s.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(w, s.File)
}

// findProcess looks for the process that the trace is of, and takes the period from its limit.
func (t *Tracer) findProcess(ctx context.Context) {
	if t.Far != nil {
		if t.findFar(ctx, t.Far); t.Limits != nil {
			t.Quotas = freeze.Seen(*t.Limits)
		}
		return
	}
	pid := t.Process
	if found := procs.Serving("", t.URL); found != 0 {
		pid = found // a descendant of the one that was given
	}
	if t.find(pid) {
		t.Quotas = freeze.Seen(*t.Limits)
	}
}

// traceMost is more than a trace should have. A busy program writes some 5 MB a second.
const traceMost = 2 << 30

// fetch takes the trace, and a CPU profile meanwhile: while it is taken the runtime writes its samples into the trace.
func (t *Tracer) fetch(ctx context.Context, to io.Writer) error {
	stopSamples := t.sample(ctx)
	body, err := Trace.open(ctx, t.Far, t.URL)
	if err != nil {
		stopSamples(false)
		return err
	}
	defer body.Close()
	n, err := io.Copy(to, io.LimitReader(body, traceMost))
	stopSamples(err == nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case n == traceMost:
		return hint.With(fmt.Errorf("taking a trace from %s: more than %d GiB", t.URL.Redacted(), traceMost>>30), "--for 1s takes a shorter one")
	case err != nil && n == 0:
		return Trace.failed(ctx, t.URL, err)
	case err != nil:
		t.Warnings = append(t.Warnings, fmt.Errorf("the trace broke off: %w", err))
	}
	return nil
}

// samplesLate is how long a profile may take after the trace has ended.
const samplesLate = 2 * time.Second

// sample begins a CPU profile of the same program. What it returns ends that, and waits for it if it went on well.
func (t *Tracer) sample(ctx context.Context) (stop func(wait bool)) {
	if t.NoSamples {
		return func(bool) {}
	}
	length, _ := Trace.Time(t.URL)
	u := *t.URL
	u.Path = CPUProfile.path
	if before, ok := strings.CutSuffix(t.URL.Path, Trace.path); ok { // there may be a prefix
		u.Path = path.Join("/", before, CPUProfile.path)
	}
	u.RawQuery = "seconds=" + strconv.Itoa(int((length+time.Second-1)/time.Second))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		body, err := CPUProfile.open(ctx, t.Far, &u)
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(body, profileMost))
			body.Close()
		}
		done <- err
	}()
	return func(wait bool) {
		if wait {
			select {
			case t.NoCPU = <-done:
				cancel()
				return
			case <-time.After(samplesLate):
			}
		}
		cancel()
		<-done // it was cancelled: the samples are in the trace
	}
}
