package loadtest

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// A Summary is what came of a load. Its JSON is the generator's half of a load's document: report adds a header to it, and
// trial, which starts the generator as a process of its own, reads it back. Both use this type, so that no field can mean
// one thing here and another there. It is described in docs/report-format.md.
type Summary struct {
	Began string `json:"began"` // what is counted, after the warm-up; RFC 3339, to the millisecond

	Targets   []Target `json:"targets"`
	Loop      string   `json:"loop"`                // open or closed
	RateAsked *float64 `json:"rate_asked"`          // requests a second, on average; null: a closed loop
	RateFrom  float64  `json:"rate_from,omitempty"` // the rate at the beginning, where it changes evenly to RateTo; 0: it stays the same
	RateTo    float64  `json:"rate_to,omitempty"`
	Arrivals  string   `json:"arrivals"`            // poisson, const or recorded; "": a closed loop
	Burst     int      `json:"burst,omitempty"`     // requests that are due at once; 0: one
	RateFile  string   `json:"rate_file,omitempty"` // of recorded arrivals
	RateSum   string   `json:"rate_file_sha256,omitempty"`
	Seed      uint64   `json:"seed"`
	MaxConns  int      `json:"max_connections"` // of a closed loop its workers
	Engine    string   `json:"engine"`          // lean or net/http
	WarmUp    float64  `json:"warm_up_seconds"`
	Planned   float64  `json:"planned_seconds"` // 0: until the number of requests was sent
	Most      int64    `json:"requests_asked"`  // 0: as many as there was time for
	Elapsed   float64  `json:"elapsed_seconds"`
	Timeout   float64  `json:"timeout_seconds"` // 0: none

	Requests   int64         `json:"requests"` // that were due and are counted, regardless of their outcome
	Sent       int64         `json:"sent"`
	Errors     int64         `json:"errors"`     // without a complete answer, or with a gRPC status that is not OK
	Timeouts   int64         `json:"timeouts"`   // of errors
	Unfinished int64         `json:"unfinished"` // of errors
	Failed     int64         `json:"failed"`     // errors, and statuses of 400 and more
	Good       int64         `json:"good"`       // successes within the SLO's time
	Statuses   []StatusCount `json:"statuses"`
	Causes     []CauseCount  `json:"error_causes"`
	Bytes      int64         `json:"bytes"` // of bodies
	Rate       float64       `json:"rate"`  // requests a second, regardless of their outcome
	Goodput    float64       `json:"goodput"`

	Response Latencies `json:"response"`      // from when a request was due to the end of its answer
	Service  Latencies `json:"service"`       // from when it was sent
	Lag      Latencies `json:"lag"`           // until it was sent
	Pacer    Latencies `json:"pacer_late"`    // of lag: the generator's own fault
	NoConn   Latencies `json:"no_connection"` // of lag: waiting for a connection

	// From when the pacer turned to a request to the end of its answer, where one that failed is slower than all others: it has
	// the timeout, or two hours without one. This is what settings are compared by.
	FromReady     Latencies `json:"from_ready"`
	FromReadyTail float64   `json:"from_ready_tail"` // geometric mean of the steps' p99s, by their requests

	Machine *Machine `json:"machine"` // null: it is not known when it stood still

	Axis []Step `json:"axis"`

	Connections  int     `json:"connections"` // most at once
	AllInUse     bool    `json:"all_connections_in_use"`
	Opened       int64   `json:"connections_opened"`
	GeneratorCPU float64 `json:"generator_cpu_seconds"`
	GeneratorOf  int     `json:"generator_cpus"` // that it may use
	CPUShare     float64 `json:"generator_cpu_share"`
	MachineShare float64 `json:"generator_machine_share"` // of all CPUs that there are
	Wait         float64 `json:"generator_wait_seconds"`  // for a CPU, with each request
	BurstShare   float64 `json:"burst_share"`             // of the requests were sent in bursts, to catch up
	Realtime     bool    `json:"generator_realtime"`      // its threads had real-time priority
	// LateBecause is whose fault it was that the generator was late, where that shows in the responses.
	LateBecause []string `json:"late_because"`

	Valid    bool     `json:"valid"`
	Invalid  []string `json:"invalid"`            // why not
	OurFault bool     `json:"generator_at_fault"` // and that is its own doing
	Warnings []string `json:"warnings"`
	Stopped  bool     `json:"stopped"`  // before the plan was done
	Hopeless string   `json:"hopeless"` // what all requests came to: refused, no host or not found; "": any other load

	overworked bool // the generator was at its limit

	SLO    *SLO    `json:"slo"`
	Server *Server `json:"server"` // null: not known
}

// Machine is what the machine itself did meanwhile, and what the latencies are without that. Which requests are left out depends on when
// they were due alone.
type Machine struct {
	Pauses   int       `json:"pauses"` // in which a CPU of it stood still, regardless of what the programs did
	Paused   float64   `json:"paused_seconds"`
	Longest  float64   `json:"longest_pause_seconds"`
	Stood    int64     `json:"left_out"`  // requests that were due in one, or shortly before or after
	Others   *Others   `json:"others"`    // null: not known
	Calm     Latencies `json:"calm"`      // from_ready of the requests that nothing left out
	CalmTail float64   `json:"calm_tail"` // and from_ready_tail
}

// Others is what other programs did meanwhile, see package disturbance.
type Others struct {
	CPUs float64 `json:"mean_cpus"`
	Busy float64 `json:"busy_seconds"` // in slices in which they used more than a fifth of a CPU
	Left int64   `json:"left_out"`     // requests that were due in one, or shortly before or after, and in no pause
}

// LeftOut are the requests that are not calm.
func (m *Machine) LeftOut() int64 {
	if m.Others == nil {
		return m.Stood
	}
	return m.Stood + m.Others.Left
}

// quietLeast is how many requests must be calm for settings to be compared by these: a third.
const quietLeast = 3

// Quiet reports whether settings are compared by the calm requests: there are enough, and there is no SLO. An SLO is of all requests, and
// what is reported about one load must fit together.
func (d *Summary) Quiet() bool {
	return d.Machine != nil && d.SLO == nil && quietLeast*d.Machine.Calm.Count >= d.FromReady.Count
}

// Compared are the latencies by which settings are compared, and their tail. left is the share of the requests that are not in them.
func (d *Summary) Compared() (l Latencies, tail, left float64) {
	if d.Quiet() {
		return d.Machine.Calm, d.Machine.CalmTail, float64(d.Machine.LeftOut()) / float64(max(1, d.Requests))
	}
	return d.FromReady, d.FromReadyTail, 0
}

// Kept is the share of the requests that are calm; 0: not known.
func (d *Summary) Kept() float64 {
	if d.Machine == nil {
		return 0
	}
	return float64(d.Machine.Calm.Count) / float64(max(1, d.FromReady.Count))
}

// Target is what was asked for.
type Target struct {
	Method string  `json:"method"`
	URL    string  `json:"url"`
	Weight float64 `json:"weight"`
}

// StatusCount is a status and how often it came.
type StatusCount struct {
	Status int   `json:"status"`
	Count  int64 `json:"count"`
}

// CauseCount is why there was no complete answer, and how often.
type CauseCount struct {
	Cause string `json:"cause"`
	Count int64  `json:"count"`
}

// Latencies are a distribution, in seconds.
type Latencies struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	P9999 float64 `json:"p9999"`
	Max   float64 `json:"max"`
	// Curve has more points, for drawing: to the percentile, ever closer to 100, belongs the time.
	Curve []CurvePoint `json:"curve"`
	Hist  string       `json:"hdr_v2"` // the whole histogram in HdrHistogram's own format, nanoseconds
}

// BeyondLeast is how many requests must be beyond a percentile for it to be reported: with fewer it is chance.
const BeyondLeast = 10

// Needs is how many requests a percentile takes. The median and the third quartile are reported for any number.
func Needs(percentile float64) int64 {
	if percentile < 90 {
		return 1
	}
	return int64(math.Round(BeyondLeast / (1 - percentile/100)))
}

// Tell reports whether there are enough of them for a percentile.
func (l Latencies) Tell(percentile float64) bool { return l.Count >= Needs(percentile) }

// Carried is the percentile up to which there are enough of them.
func (l Latencies) Carried() float64 {
	return 100 * (1 - BeyondLeast/float64(max(l.Count, BeyondLeast)))
}

// A LatencyValue is a value of a distribution.
type LatencyValue struct {
	Name       string
	Percentile float64 // 0: it is none
	Seconds    float64
	Known      bool // there are enough of them
}

// Values are the values that people look at.
func (l Latencies) Values() []LatencyValue {
	values := []LatencyValue{
		{"p50", 50, l.P50, true},
		{"p75", 75, l.P75, true},
		{"p90", 90, l.P90, true},
		{"p95", 95, l.P95, true},
		{"p99", 99, l.P99, true},
		{"p99.9", 99.9, l.P999, true},
		{"p99.99", 99.99, l.P9999, true},
		{"max", 0, l.Max, true},
		{"mean", 0, l.Mean, true},
	}
	for i, v := range values {
		values[i].Known = l.Count > 0 && (v.Percentile == 0 || l.Tell(v.Percentile))
	}
	return values
}

// Tail is the p99, or the maximum of what is too few for it.
func (l Latencies) Tail() LatencyValue {
	if !l.Tell(99) {
		return LatencyValue{"max", 0, l.Max, true}
	}
	return LatencyValue{"p99", 99, l.P99, true}
}

// Above counts those that took longer than a time.
func (l Latencies) Above(seconds float64) (n int64, err error) {
	if l.Count == 0 {
		return 0, nil
	}
	h, err := hdrhistogram.Decode([]byte(l.Hist))
	if err != nil {
		return 0, fmt.Errorf("reading a histogram: %w", err)
	}
	for _, b := range h.Distribution() {
		if float64(b.From) > seconds*1e9 {
			n += b.Count
		}
	}
	return n, nil
}

// CurvePoint is a point of a curve of percentiles.
type CurvePoint struct {
	Percentile float64 `json:"percentile"`
	Seconds    float64 `json:"latency_seconds"`
	Count      int64   `json:"count"` // of all values up to this
}

// Step is a piece of the time axis.
type Step struct {
	At           float64 `json:"at_seconds"`
	Length       float64 `json:"length_seconds"`
	Sent         int64   `json:"sent"`
	Failed       int64   `json:"failed"`
	P50          float64 `json:"p50"`
	P99          float64 `json:"p99"`
	Max          float64 `json:"max"`
	ServiceP50   float64 `json:"service_p50"`
	ServiceP99   float64 `json:"service_p99"`
	FromReadyP99 float64 `json:"from_ready_p99"`
	// Of the server's group, if known.
	Periods    *int64   `json:"periods,omitempty"`
	Throttled  *int64   `json:"throttled_periods,omitempty"`
	CPUSeconds *float64 `json:"server_cpu_seconds,omitempty"`
}

// SLO is what was asked of the server, and whether it held.
type SLO struct {
	Text   string   `json:"text"`
	Held   bool     `json:"held"`
	Missed []Missed `json:"missed"`
	// Without what the generator was late by: if it was missed nevertheless, that was the server.
	HeldFromReady bool `json:"held_from_ready"`

	Latencies []Objective `json:"latencies"`      // that Text sets
	Within    float64     `json:"within_seconds"` // what is good is a success within that time; 0: every success
}

// Objective is a time that a share of the requests may not exceed.
type Objective struct {
	Percentile float64 `json:"percentile"` // 100: all of them
	Seconds    float64 `json:"limit_seconds"`
}

// Missed is an objective that was not held.
type Missed struct {
	Objective string `json:"objective"`
	Was       string `json:"was"`
}

// Server is what the kernel counted of the server's group meanwhile.
type Server struct {
	PID              int      `json:"pid"`
	Name             string   `json:"name"`
	LimitCPUs        *float64 `json:"limit_cpus"` // null: none, or not known
	PeriodSeconds    float64  `json:"period_seconds"`
	Periods          int64    `json:"periods"`
	ThrottledPeriods int64    `json:"throttled_periods"`
	ThrottledShare   *float64 `json:"throttled_periods_share"`
	ThrottledSeconds float64  `json:"throttled_seconds"`       // summed over CPUs
	CPUSeconds       *float64 `json:"cpu_seconds"`             // null: it isn't counted
	CPUPerRequest    *float64 `json:"cpu_seconds_per_request"` // that succeeded
}

// Window is one try of a rate.
type Window struct {
	Phase  string  `json:"phase"`
	Rate   float64 `json:"rate"`
	Held   bool    `json:"held"`
	Valid  bool    `json:"valid"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	Failed int64   `json:"failed"`
	Missed string  `json:"missed"` // the first objective that was not held, and what it was
}

// beganForm is RFC 3339: anyone who reads counters of the server meanwhile needs more than its seconds.
const beganForm = "2006-01-02T15:04:05.000Z07:00"

// Span is what is counted: from the end of the warm-up until the load had ended. ok is false if that is not known.
func (d *Summary) Span() (begin, end time.Time, ok bool) {
	begin, err := time.Parse(time.RFC3339, d.Began)
	lasted := d.Elapsed
	if !d.Stopped {
		lasted = max(lasted, d.Planned)
	}
	return begin, begin.Add(time.Duration(lasted * float64(time.Second))), err == nil && lasted > 0
}

// Summarise sums up a load that has ended.
func Summarise(r *load.Result, slo *load.SLO) Summary {
	p := r.Plan
	d := Summary{
		Began: r.Began.Format(beganForm), Loop: "closed", Seed: p.Seed, MaxConns: p.Conns, Engine: string(r.Engine),
		WarmUp: p.WarmUp.Seconds(), Planned: p.Duration.Seconds(), Most: p.Requests, Elapsed: r.Elapsed.Seconds(), Timeout: p.Client.Timeout.Seconds(),
		Requests: r.Requests, Sent: r.Sent, Timeouts: r.Timeouts, Unfinished: r.Unfinished, Failed: r.Failed, Good: r.Good, Bytes: r.Bytes,
		Response: newLatencies(r.Response), Service: newLatencies(r.Service),
		Lag: newLatencies(r.Lag), Pacer: newLatencies(r.PacerLate), NoConn: newLatencies(r.NoConnection),
		FromReady: newLatencies(r.FromReady), FromReadyTail: r.FromReadyTail().Seconds(),
		Connections: r.MostConns, AllInUse: r.AllConns, Opened: r.Opened,
		GeneratorCPU: r.CPU.Seconds(), GeneratorOf: r.CPUs, CPUShare: r.CPUShare(),
		MachineShare: r.CPUShare() * float64(r.CPUs) / float64(runtime.NumCPU()), Wait: r.WaitEach().Seconds(), BurstShare: r.BurstShare(),
		LateBecause: []string{}, overworked: r.Overworked(),
		OurFault: r.OurFault, Valid: len(r.Invalid) == 0, Invalid: append([]string{}, r.Invalid...), Warnings: []string{}, Stopped: r.Stopped, Hopeless: string(r.Hopeless),
		Statuses: []StatusCount{}, Causes: []CauseCount{}, Axis: []Step{},
	}
	if r.Calm != nil {
		d.Machine = &Machine{Stood: r.LeftOut[0], Calm: newLatencies(r.Calm), CalmTail: r.CalmTail().Seconds()}
	}
	if p.Rate > 0 {
		d.Loop, d.RateAsked, d.Arrivals = "open", &p.Rate, string(p.Arrivals)
		if p.From > 0 {
			d.RateFrom, d.RateTo = p.From, quantity.EndRate(p.Rate, p.From)
		}
		if p.Burst > 1 {
			d.Burst = p.Burst
		}
	}
	for _, t := range p.Targets {
		d.Targets = append(d.Targets, Target{t.MethodOrGet(), t.URL, t.WeightOrOne()})
	}
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		d.Statuses = append(d.Statuses, StatusCount{status, r.Statuses[status]})
	}
	for _, e := range r.Errors {
		d.Causes = append(d.Causes, CauseCount{e.Text, e.Count})
		d.Errors += e.Count
	}
	for _, s := range r.Axis {
		d.Axis = append(d.Axis, Step{
			At: s.At.Seconds(), Length: s.Length.Seconds(), Sent: s.Sent, Failed: s.Failed, P50: s.P50.Seconds(), P99: s.P99.Seconds(),
			Max: s.Max.Seconds(), ServiceP50: s.ServiceP50.Seconds(), ServiceP99: s.ServiceP99.Seconds(),
			FromReadyP99: s.FromReadyP99.Seconds(),
		})
	}
	if took := r.Took().Seconds(); took > 0 {
		d.Rate, d.Goodput = float64(r.Requests)/took, float64(r.Good)/took
	}
	if slo != nil {
		d.SLO = &SLO{Text: slo.String(), Missed: []Missed{}, Latencies: []Objective{}, Within: slo.Within().Seconds()}
		for _, l := range slo.Latencies {
			d.SLO.Latencies = append(d.SLO.Latencies, Objective{l.Percentile, l.Limit.Seconds()})
		}
		for _, m := range slo.Judge(r) {
			d.SLO.Missed = append(d.SLO.Missed, Missed(m))
		}
		d.SLO.Held, d.SLO.HeldFromReady = len(d.SLO.Missed) == 0, slo.HeldFromReady(r)
	}
	return d
}

// newLatencies makes a distribution of a histogram of nanoseconds.
func newLatencies(h *hdrhistogram.Histogram) Latencies {
	at := func(percentile float64) float64 { return load.Quantile(h, percentile).Seconds() }
	l := Latencies{
		Count: h.TotalCount(), P50: at(50), P75: at(75), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: at(100),
		Curve: []CurvePoint{},
	}
	if l.Count == 0 {
		return l
	}
	l.Mean, l.Min = h.Mean()/1e9, float64(h.Min())/1e9
	for _, b := range h.CumulativeDistributionWithTicks(5) {
		l.Curve = append(l.Curve, CurvePoint{b.Quantile, float64(b.ValueAt) / 1e9, b.Count})
	}
	if data, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		l.Hist = string(data)
	}
	return l
}

// window is that of a search: what came of one rate. One whose responses held the SLO, with all that the generator was late by,
// has held it. One that missed it because of that lateness alone says nothing.
func (d *Summary) window(phase string, rate float64) Window {
	valid := d.SLO.Held || !d.SLO.HeldFromReady && !d.overworked
	w := Window{Phase: phase, Rate: rate, Held: d.SLO.Held, Valid: valid, P50: d.Response.P50, P99: d.Response.P99, Failed: d.Failed}
	if len(d.SLO.Missed) > 0 {
		objective, was := d.SLO.Missed[0].words()
		w.Missed = objective + ": " + was
	}
	return w
}

// addServer adds what the kernel counted of the server's group while the load went on, in all and for each step of the
// axis. A step that lasts longer than the readings are apart gets what was counted between those nearest to its ends.
func (d *Summary) addServer(pid int, name string, limit cgroup.Limits, readings []host.Reading, r *load.Result) {
	s := &Server{PID: pid, Name: name}
	if limit.State == cgroup.Limited {
		s.LimitCPUs = &limit.CPUs
	}
	if owner, ok := limit.Owner(); ok {
		s.PeriodSeconds = owner.Quota.Period().Seconds()
	}
	end := r.Began.Add(r.Took())
	first, last := nearest(readings, r.Began), nearest(readings, end)
	if !last.At.After(first.At) {
		return
	}
	counted := last.Since(first.Counters)
	if counted.Known {
		s.Periods, s.ThrottledPeriods = counted.Periods, counted.Throttled
		if s.Periods != 0 {
			share := float64(s.ThrottledPeriods) / float64(s.Periods)
			s.ThrottledShare = &share
		}
		s.ThrottledSeconds = counted.ThrottledTime.Seconds()
	}
	if counted.CPUKnown {
		used := counted.CPU.Seconds()
		s.CPUSeconds = &used
		if good := r.Requests - r.Failed; good > 0 {
			each := used / float64(good)
			s.CPUPerRequest = &each
		}
	}
	d.Server = s
	for i := range d.Axis {
		step := &d.Axis[i]
		from := r.Began.Add(r.Axis[i].At)
		a, b := nearest(readings, from), nearest(readings, from.Add(r.Axis[i].Length))
		if !b.At.After(a.At) {
			continue
		}
		counted := b.Since(a.Counters)
		if counted.Known {
			step.Periods, step.Throttled = &counted.Periods, &counted.Throttled
		}
		if counted.CPUKnown {
			used := counted.CPU.Seconds()
			step.CPUSeconds = &used
		}
	}
}

func nearest(readings []host.Reading, at time.Time) (best host.Reading) {
	for i, r := range readings {
		if i == 0 || r.At.Sub(at).Abs() < best.At.Sub(at).Abs() {
			best = r
		}
	}
	return best
}
