package program

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"
)

// warmUp is how long a workload that is not of a fixed size runs before it is measured: connections are open then, maps
// have grown, and the heap has its usual size.
const warmUp = 100 * time.Millisecond

// A meter measures a window.
type meter struct {
	start   time.Time
	cpu     time.Duration
	cpuOK   bool
	runtime runtimeState
}

// startMeter starts the window. The collection before it puts every run at the same point of the collector's cycle and
// brings the runtime's CPU figures up to date, for only a collection does that.
func startMeter() *meter {
	runtime.GC()
	m := &meter{runtime: readRuntime()}
	m.cpu, m.cpuOK = cpuTime()
	m.start = time.Now()
	return m
}

// stop ends the window, in which ops operations were finished.
func (m *meter) stop(ops int64) Result {
	elapsed := time.Since(m.start)
	cpu, ok := cpuTime()
	end := readRuntime()

	if elapsed <= 0 {
		elapsed = 1 // a clock too coarse for a tiny run: figures must stay finite
	}
	r := Result{Seconds: elapsed.Seconds(), Ops: ops, Metrics: map[string]float64{}}
	if m.cpuOK && ok {
		seconds := (cpu - m.cpu).Seconds()
		r.CPUSeconds = &seconds
	}
	r.GCCPUShare = gcShare(m.runtime, end)
	r.SchedLatencyP50 = percentile(m.runtime.latencies, end.latencies, 0.50)
	r.SchedLatencyP99 = percentile(m.runtime.latencies, end.latencies, 0.99)
	if ops > 0 {
		r.Metrics["ns/op"] = float64(elapsed.Nanoseconds()) / float64(ops)
	}
	return r
}

// runtimeState is what the runtime counts about itself. cpu is nil before Go 1.20.
type runtimeState struct {
	cpu       *cpuClasses
	latencies *metrics.Float64Histogram
}

// cpuClasses are seconds of CPU time as the runtime sees it, from its start to the end of the last collection.
type cpuClasses struct {
	assist, dedicated, idleMark float64 // marking: by allocating goroutines, by workers, by workers on idle Ps
	scavenge, user              float64
}

func readRuntime() runtimeState {
	samples := []metrics.Sample{
		{Name: "/sched/latencies:seconds"},
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		{Name: "/cpu/classes/scavenge/total:cpu-seconds"},
		{Name: "/cpu/classes/user:cpu-seconds"},
	}
	metrics.Read(samples)
	var s runtimeState
	if samples[0].Value.Kind() == metrics.KindFloat64Histogram {
		s.latencies = samples[0].Value.Float64Histogram()
	}
	seconds := make([]float64, 0, 5)
	for _, sample := range samples[1:] {
		if sample.Value.Kind() != metrics.KindFloat64 {
			return s
		}
		seconds = append(seconds, sample.Value.Float64())
	}
	s.cpu = &cpuClasses{seconds[0], seconds[1], seconds[2], seconds[3], seconds[4]}
	return s
}

// gcShare is the time that the collector marked, divided by all the time that Ps did something.
//
// Marking on idle Ps counts. The runtime thinks of it as free, but a quota does not. Pauses don't count: the runtime
// books a pause on every P, whether it had work or not, so that at 192 Ps they would outweigh all the rest. Both sides
// are time that Ps were held, which is more than CPU time where threads wait for a CPU; they grow together then, which
// is why the time of the process is not the divisor. Sweeping is not seen.
//
// The runtime updates these figures at the end of a collection only. So this is the share from the collection before
// the window to the last one inside it: whole cycles, and nothing is disturbed to learn it. Without one in the window
// it is 0.
func gcShare(start, end runtimeState) *float64 {
	if start.cpu == nil || end.cpu == nil {
		return nil
	}
	a, b := start.cpu, end.cpu
	gc := b.assist - a.assist + b.dedicated - a.dedicated + b.idleMark - a.idleMark
	used := gc + b.scavenge - a.scavenge + b.user - a.user
	share := 0.0
	if gc > 0 && used > 0 {
		share = math.Min(gc/used, 1) // user time is a remainder and may come out below zero in a tiny window
	}
	return &share
}

// percentile returns the bucket's upper bound below which the part p of what was counted between two histograms lies, or
// nil when nothing was counted. For the last bucket, which has no upper bound, it returns the lower one.
func percentile(start, end *metrics.Float64Histogram, p float64) *float64 {
	if start == nil || end == nil || len(start.Counts) != len(end.Counts) {
		return nil
	}
	var total uint64
	for i := range end.Counts {
		total += end.Counts[i] - start.Counts[i]
	}
	if total == 0 {
		return nil
	}
	rank := uint64(math.Ceil(p * float64(total)))
	var seen uint64
	for i := range end.Counts {
		seen += end.Counts[i] - start.Counts[i]
		if seen >= rank {
			bound := end.Buckets[i+1]
			if math.IsInf(bound, 0) {
				bound = end.Buckets[i]
			}
			return &bound
		}
	}
	return nil
}
