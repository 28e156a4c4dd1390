package trial

import (
	"context"
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// Benchmarks are all benchmarks of a GoBench as one job. The first run finds out how often each operation fits into the
// window; after that all settings do the same work.
type Benchmarks struct {
	*GoBench
	Limit runner.Limit
	With  runner.With
}

// Command is the program that they are.
func (g *GoBench) Command() []string { return []string{g.tests[Build{}][g.Names[0]].File} }

// Run does one run of each. Times of operations are their geometric mean.
func (b *Benchmarks) Run(ctx context.Context, s lab.Setting) (lab.Run, error) {
	r := &Runner{Limit: b.Limit, With: b.With, Programs: b.Program}
	first := b.Times == nil
	times := map[string]int64{}
	var all lab.Run
	var wall, cpu, used, periods float64
	for i, name := range b.Names {
		s.Workload = name
		run, err := r.Run(ctx, s)
		if err != nil || ctx.Err() != nil {
			return run, err
		}
		if run.Error != "" {
			run.Error = name + ": " + run.Error
			return run, nil
		}
		if run.Ops == 0 {
			run.Error = name + ": others whose names go on from it run with it, so that its CPU time is not known"
			return run, nil
		}
		n := float64(len(b.Names))
		wall += math.Log(lab.OpTime.In(run.Metrics)) / n
		cpu += math.Log(lab.CPUTime.In(run.Metrics)/float64(run.Ops)) / n
		used += lab.CPUTime.In(run.Metrics)
		periods += lab.ThrottledShare.In(run.Metrics) / n
		times[name] = run.Ops
		if i == 0 {
			all = run
			continue
		}
		all.Seconds += run.Seconds
		all.Marks = append(all.Marks, run.Marks...)
	}
	if first {
		b.Times = times
	}
	all.Ops = 0
	all.Metrics = map[string]float64{}
	lab.OpTime.Set(all.Metrics, math.Exp(wall))
	lab.CPUPerOp.Set(all.Metrics, math.Exp(cpu))
	lab.CPUTime.Set(all.Metrics, used)
	if periods > 0 {
		lab.ThrottledShare.Set(all.Metrics, periods)
	}
	return all, nil
}
