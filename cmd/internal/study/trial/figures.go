package trial

import (
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
)

// ofRun are the figures of a program that ends on its own.
func ofRun(res runner.Result) map[string]float64 {
	m := ofProcess(res)
	lab.WallTime.Set(m, res.Wall.Seconds())
	lab.CPUTime.Set(m, res.CPU.Seconds())
	if res.Periods > 0 {
		lab.ThrottledShare.Set(m, float64(res.Throttled)/float64(res.Periods))
		lab.Standstill.Set(m, res.Standstill.Seconds())
	}
	return m
}

// ofProcess are those of a whole process, a server as well: all others of a server are of a window.
func ofProcess(res runner.Result) map[string]float64 {
	m := map[string]float64{}
	if res.PeakMemory > 0 && res.PeakOf != runner.AtMost {
		lab.PeakMemory.Set(m, float64(res.PeakMemory))
	}
	return m
}

// ofWindow are those of some requests, or units of work, while the server's group counted c.
func ofWindow(c cgroup.Counters, requests, failed float64) map[string]float64 {
	m := map[string]float64{}
	if requests > 0 {
		lab.ErrorShare.Set(m, failed/requests)
		if c.CPU > 0 && requests > failed { // what failed did no work
			lab.CPUPerRequest.Set(m, c.CPU.Seconds()/(requests-failed))
		}
	}
	if c.Periods > 0 {
		lab.ThrottledShare.Set(m, float64(c.Throttled)/float64(c.Periods))
		lab.ThrottledTime.Set(m, c.ThrottledTime.Seconds())
	}
	return m
}

// served are the figures of a window. Latencies are from when requests were ready to be sent, which is what the server was
// asked: what the generator was late by is not in them, nor what the machine stood still. A request that failed is slower than all others.
func served(g loadtest.Summary, c cgroup.Counters) map[string]float64 {
	m := ofWindow(c, float64(g.Requests), float64(g.Failed))
	lab.RequestRate.Set(m, g.Goodput)
	if l, tail, _ := g.Compared(); l.P50 > 0 {
		lab.P50.Set(m, l.P50)
		lab.P90.Set(m, l.P90)
		lab.P99.Set(m, l.P99)
		lab.P999.Set(m, l.P999)
		lab.ReadyTail.Set(m, tail)
	}
	return m
}

// addGC adds what the garbage collector did while the server used that much CPU time. It reports for how long Ps were held, which may be
// more than the server got under its limit: then its share is not known.
func (w *Window) addGC(used, seen time.Duration) {
	if w.GC.Collections == 0 {
		return
	}
	lab.GCRate.Set(w.Metrics, float64(w.GC.Collections)/seen.Seconds())
	if used > 0 && w.GC.CPU <= used {
		lab.GCShare.Set(w.Metrics, float64(w.GC.CPU)/float64(used))
	}
}

// addRuntime adds what a server reports about its Go runtime, unless its lines of trace have said it.
func addRuntime(m map[string]float64, f goself.Figures, seconds float64) {
	for measure, v := range map[lab.Measure]float64{
		lab.GCRate: f.Collections / seconds, lab.GCShare: f.GCShare, lab.WaitP50: f.SchedP50, lab.WaitP99: f.SchedP99,
	} {
		if _, known := measure.Of(m); v >= 0 && !known {
			measure.Set(m, v)
		}
	}
}
