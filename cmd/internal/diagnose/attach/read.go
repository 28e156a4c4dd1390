package attach

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// ReadTrace reads a trace, packed or not. Its errors name source, and say what can be done with anything else.
func ReadTrace(ctx context.Context, source string, r io.Reader, o exectrace.Options) (*exectrace.Trace, error) {
	trace, err := readTrace(ctx, r, o)
	switch {
	case err == nil:
		return trace, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, traceHinted(err, source)
}

// ReadProfile reads a CPU profile. Its errors name source, and say what can be done with anything else.
func ReadProfile(source string, data []byte) (*cpuprofile.Profile, error) {
	p, err := cpuprofile.Read(bytes.NewReader(data))
	var kind *cpuprofile.KindError
	if err != nil && strings.Contains(source, "://") && !errors.As(err, &kind) {
		return nil, hint.With(fmt.Errorf("%s: what answers there is not net/http/pprof: %w", source, err), importPprof)
	}
	if err != nil {
		return nil, profileHinted(fmt.Errorf("%s: %w", source, err))
	}
	return p, nil
}

// notTrace is input that is something else.
type notTrace struct{ kind string }

func (e *notTrace) Error() string { return "this is " + e.kind + ", not an execution trace" }

// otherMost is how much is read of other input, to find out what it is.
const otherMost = 8 << 20

func readTrace(ctx context.Context, r io.Reader, o exectrace.Options) (*exectrace.Trace, error) {
	in := bufio.NewReader(contextReader{ctx, r})
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpacking it: %w", err)
		}
		in = bufio.NewReader(&unpacked{from: z, left: traceMost})
	}
	if head, err := in.Peek(5); string(head) != "go 1." {
		if len(head) == 0 && err != io.EOF {
			return nil, err
		}
		return nil, whatElse(in)
	}
	return exectrace.Read(ctx, in, o)
}

// whatElse says what input is that is not a trace.
func whatElse(r io.Reader) error {
	var kind *cpuprofile.KindError
	switch _, err := cpuprofile.Read(io.LimitReader(r, otherMost)); {
	case err == nil:
		return &notTrace{"a CPU profile"}
	case errors.As(err, &kind):
		return &notTrace{kind.Kind}
	}
	return errors.New("this is not an execution trace")
}

// unpacked is what a packed trace holds, up to a bound: a small file can hold anything. What is before the bound is shown.
type unpacked struct {
	from io.Reader
	left int64
}

// errUnpacked comes with the bound.
var errUnpacked = fmt.Errorf("unpacks to more than %d GiB: to have all of it read, unpack it and give that file", traceMost>>30)

func (u *unpacked) Read(p []byte) (int, error) {
	if u.left <= 0 {
		return 0, errUnpacked
	}
	n, err := u.from.Read(p[:min(int64(len(p)), u.left)])
	u.left -= int64(n)
	return n, err
}

// contextReader fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// traceHinted adds what can be done about a trace that can't be read.
func traceHinted(err error, source string) error {
	const take = "curl -o trace.out 'http://HOST:PORT/debug/pprof/trace?seconds=5' takes a trace, and so does go test -trace"
	named := fmt.Errorf("%s: %w", source, err)
	var not *notTrace
	switch {
	case errors.As(err, &not) && not.kind == "a CPU profile":
		return hint.With(named, "unthrottle profile reads it", take)
	case errors.As(err, &not) && not.kind == cpuprofile.JSON:
		return hint.With(named, "unthrottle report shows a document of unthrottle again", take)
	case errors.As(err, &not) && not.kind == cpuprofile.Program:
		return hint.With(named, "unthrottle trace --record 5s -- PROGRAM starts a program and takes its trace")
	case errors.Is(err, exectrace.ErrOld):
		return hint.With(named, "build the program with Go 1.22 or later; unthrottle watch PID sees throttling whatever it was built with")
	}
	return hint.With(named, take)
}

// profileHinted adds what can be done with input that is not a CPU profile.
func profileHinted(err error) error {
	const take = "curl -o cpu.pb.gz 'http://HOST:PORT/debug/pprof/profile?seconds=10' takes a CPU profile, and so does go test -cpuprofile"
	var kind *cpuprofile.KindError
	if !errors.As(err, &kind) {
		return hint.With(err, take)
	}
	switch kind.Kind {
	case cpuprofile.Trace:
		return hint.With(err, "unthrottle trace reads it")
	case cpuprofile.JSON:
		return hint.With(err, "unthrottle report shows a document of unthrottle again")
	case cpuprofile.Text:
		return hint.With(err, "without debug=1 in its URL a profile is in the form that is needed")
	case cpuprofile.Program:
		return hint.With(err, "unthrottle explain -- PROGRAM explains a program", take)
	}
	return hint.With(err, take)
}

// ReadStat reads two copies of a cpu.stat, from before a trace and after it: their names with a comma between them.
func ReadStat(ctx context.Context, names string) (*[2]cgroup.Counters, error) {
	const example = "--cgroup-stat before.txt,after.txt: two copies of the cpu.stat of its cgroup"
	both := strings.Split(names, ",")
	if len(both) != 2 {
		return nil, hint.Usage(example, "--cgroup-stat=%s is not two files with a comma between them", names)
	}
	var stat [2]cgroup.Counters
	for i, name := range both {
		data, err := ReadFile(ctx, name, strings.NewReader(""))
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading cpu.stat: %w", err), example)
		}
		if stat[i], err = exectrace.ParseStat(string(data)); err != nil {
			return nil, hint.With(fmt.Errorf("reading %s: %w", name, err), example)
		}
	}
	return &stat, nil
}
