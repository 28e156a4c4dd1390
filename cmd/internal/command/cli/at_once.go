package cli

import (
	"runtime"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// sides are copies of a server that can run at the same time, n at most, each in a network of its own. Where that is not possible there are
// none, and settings take turns.
func (s *study) sides(served *trial.Served, client load.Client, n int) (sides []*trial.Served, err error) {
	if s.atOnce == tune.AtOnceNo || client.Unix != "" || client.Proxy != "" {
		return nil, nil
	}
	for range min(lab.MostAtOnce, n) {
		net, err := runner.NewNetwork()
		if err != nil {
			if s.atOnce == tune.AtOnceYes {
				return nil, hint.With(err, "--at-once yes takes Linux and root: each server has a network of its own")
			}
			return nil, nil
		}
		s.Cleanup = append(s.Cleanup, func() { net.Close() })
		sides = append(sides, served.In(net))
	}
	return sides, nil
}

// mayShare says how many settings may run at the same time: benchmarks and our own programs, which are made to be run repeatedly; servers,
// each of which has a network of its own; other programs if the user says that it does no harm.
func (b *bench) mayShare(job bool) (most int) {
	if b.atOnce == tune.AtOnceNo {
		return 0
	}
	switch r := b.runner.(type) {
	case *trial.Loaded:
		return len(r.Sides)
	default:
		if job && b.atOnce != tune.AtOnceYes {
			return 0
		}
		b.runner = trial.Together{Runner: r}
		return lab.MostAtOnce
	}
}

// serverSides makes what servers of a bench need to run at the same time.
func (b *bench) serverSides(l *trial.Loaded) (err error) {
	const no = "--at-once yes: two of the server can't run at the same time "
	n := 0
	for _, cpus := range b.cpus {
		switch {
		case cpus > 0:
			n = max(n, int(float64(runtime.NumCPU())/cpus))
		case b.atOnce == tune.AtOnceYes:
			return hint.Usage("--cpus 0.5", no+"without a limit, as what others use can't be seen")
		default:
			return nil
		}
	}
	l.Safe = b.atOnce == tune.AtOnceYes
	if l.Sides, err = b.sides(l.Served, b.server.requests.Client, n); err == nil && l.Safe && len(l.Sides) < 2 {
		return hint.Usage("leave --at-once out", no+"here")
	}
	return err
}
