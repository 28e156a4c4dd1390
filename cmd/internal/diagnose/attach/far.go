package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// A Far is a program on another machine: how to reach it, and what reports the kernel's counts there. No process of this machine is looked
// at. Without a Far, the program is reached from here like any other.
type Far struct {
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Count func(ctx context.Context) (*Counted, error) // nil: nothing counts
}

// Counted is what is known of a far program's process at a time.
type Counted struct {
	PID        int // on its machine
	Name       string
	Live       int           // GOMAXPROCS; 0: not known
	Set        choice.Source // its environment, if that has its GOMAXPROCS
	Limits     cgroup.Limits
	OutOfSight bool // the limit can't be seen from inside its container
	Reading    host.Reading
	Programs   int // Go programs of its group; if there are several, it is not known which this is
}

// get asks by the environment's proxy, or through what reaches a far program. The answer has no more than most bytes, unpacked.
func (f *Far) get(ctx context.Context, u *url.URL, most int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	o := web.Options{Of: "it", Most: most, Redirects: mostRedirects, Proxy: true, Once: true}
	if f != nil {
		o.Proxy, o.Dial = false, f.Dial
	}
	res, err := web.New(o).Do(req)
	var why *Unreachable
	if errors.As(err, &why) {
		return nil, why
	}
	return res, err
}

// Unreachable is why a connection to a far program failed. net/http puts varying words of its own before what a connection says: this is
// reported without them.
type Unreachable struct{ Err error }

func (u *Unreachable) Error() string { return u.Err.Error() }
func (u *Unreachable) Unwrap() error { return u.Err }

// Find finds on which of its ports a far program serves net/http/pprof. Late are those where nothing has answered in time; if no port
// could be asked at all, the first error says why.
func (f *Far) Find(ctx context.Context, ports []int) (pprof *url.URL, late []int, err error) {
	asked, refused, err := askPorts(ctx, ports, func(ctx context.Context, u *url.URL) (*http.Response, error) { return f.get(ctx, u, mostIndex) })
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	var of *url.Error
	switch {
	case refused < len(ports):
		err = nil
	case errors.As(err, &of):
		err = of.Err
	}
	return asked.pprof, asked.late, err
}

// findFar looks at a far process for the first time.
func (b *Beside) findFar(ctx context.Context, far *Far) {
	if far.Count == nil {
		return
	}
	c, err := far.Count(ctx)
	if err != nil {
		b.Warnings = append(b.Warnings, fmt.Errorf("what the kernel counts of it is not known: %w", err))
		return
	}
	b.Limits, b.OutOfSight, b.Readings = &c.Limits, c.OutOfSight, []host.Reading{c.Reading}
	if c.Programs > 1 {
		b.Warnings = append(b.Warnings, fmt.Errorf("%d Go programs run in its container: which of them this is can't be told, and the kernel counts all of them together", c.Programs))
		return
	}
	b.PID, b.Name, b.Live, b.Set = c.PID, c.Name, c.Live, c.Set
}

// againFar looks at it again, when something is done. What is counted only says something about the same process under the same limit.
func (b *Beside) againFar(ctx context.Context, far *Far) {
	if len(b.Readings) == 0 {
		return
	}
	first := b.Readings[0]
	c, err := far.Count(ctx)
	b.Readings = nil
	switch {
	case err != nil:
		b.Warnings = append(b.Warnings, fmt.Errorf("what the kernel counted of it is not known: %w", err))
		return
	case b.PID != 0 && c.PID != b.PID || !sameLimit(c.Limits, *b.Limits):
		b.Warnings = append(b.Warnings, errors.New("its limit was changed meanwhile, or it was started again: what the kernel counted is not known"))
		return
	}
	b.Readings = []host.Reading{first, c.Reading}
	b.Kernel = freeze.Counted(c.Limits.State, freeze.Seen(c.Limits).Levels, c.Reading.Groups.Since(first.Groups))
}
