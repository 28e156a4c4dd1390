// Package inspect answers: what does explain have to know of a process? In go a root and a pid, and for how long to look; out come
// the facts that its document is made from. It writes no sentence.
package inspect

import (
	"context"
	"runtime"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Known is what is known of a process by a caller who has watched it for longer. The zero value is nothing.
type Known struct {
	Adjust func(*host.Process) // corrects its limits before it is looked at; nil: there is nothing to correct
	Stale  *rule.Stale         // its limit was changed while it ran
}

// Process reads all that explain needs of a process below root, 0 meaning this one. It looks at it for a time; at 0 it takes one
// reading.
func Process(ctx context.Context, root string, pid int, look time.Duration) (report.Facts, error) {
	return ProcessKnown(ctx, root, pid, look, Known{})
}

// ProcessKnown is [Process] for a caller who knows more of it.
func ProcessKnown(ctx context.Context, root string, pid int, look time.Duration, k Known) (report.Facts, error) {
	return foreign.Within(ctx, look+2*foreign.Patience, func() (report.Facts, error) { return read(ctx, root, pid, look, k) })
}

func read(ctx context.Context, root string, pid int, look time.Duration, k Known) (report.Facts, error) {
	f := report.Facts{Self: pid == 0 && root == "", Procs: runtime.GOMAXPROCS(0)}
	source := cgroup.Source{Root: root, PID: pid}
	p, warnings, err := host.Read(root, pid)
	if err != nil {
		return f, err
	}
	if k.Adjust != nil {
		k.Adjust(&p)
	}
	f.Process, f.Rules, f.Warnings = p, p.System.Rules(), warnings
	f.Throttling = cgroup.ReadThrottling(source, p.System.Limits)
	before, start := f.Throttling, time.Now()
	if pid != 0 { // what is wrong with a running Go program; what can't be read stays as it was predicted
		system, ok, err := host.Look(ctx, root, &f.Process, look)
		if err != nil {
			return f, err
		}
		if ok {
			facts := rule.OfProcess(&f.Process, system)
			facts.Stale = k.Stale
			f.Findings = rule.Check(facts)
		}
	}
	if look > 0 {
		select { // what isn't a Go program is not looked at that long
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(look - time.Since(start)):
		}
		f.Throttling = cgroup.ReadThrottling(source, p.System.Limits)
		f.Before, f.Between = &before, time.Since(start)
	}
	return f, nil
}
