package exectrace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// How a freeze is distinguished from computing, which makes no events either.
//
// The runtime takes a goroutine that runs for more than 10 ms from its P, which is an event; its monitor looks at least every 10 ms. A CPU
// profiler makes an event every 10 ms of CPU time. So no goroutine computes in silence for longer than that. In a dense trace a much
// shorter silence is a freeze, unless one goroutine alone was running: then it is not sure. Measured: two busy loops without samples make
// 230 events a second, and no silence of theirs without a freeze or other programs was above 22 ms; HTTP servers made 1,300 to 500,000.
const (
	computing        = 24 * time.Millisecond // the longest silence of a program that computes
	computingSampled = 14 * time.Millisecond // with CPU samples; the kernel looks at its timers every 4 ms
	denseFreeze      = 3 * time.Millisecond
	densestFreeze    = time.Millisecond // for periods below shortPeriod
	shortPeriod      = 20 * time.Millisecond
	sparse           = 5 * time.Millisecond // a P99 of the silences above this one

	clearRhythm = 0.6

	littleGap = 0.01 // of wall time, of silences that can't be computing

	maxFreezes = 20_000
	longest    = 10
)

// analyse fills t with what p saw.
func analyse(t *Trace, p *program, o Options) {
	a := &analysis{t: t, p: p, rate: o.SampleRate, quotas: o.Quotas, kernel: o.Kernel, limit: o.Limit, unseen: o.Unseen}
	if a.rate <= 0 {
		a.rate = 100
	}
	a.basics()
	if t.Heard = p.heard; t.Heard != nil && a.quotas.Period == 0 {
		a.quotas.Period = t.Heard.Period
	}
	a.find()
	if !a.kernel.Counts {
		a.kernel = t.Heard.kernel(t.Wall, p.procs)
	}
	a.kernel.Far = a.farFromLimit()
	a.judge()
	a.freezes()
	a.quota()
	t.Longest = a.longest()
	t.Handlers = a.handlers()
	if p.dropped > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%d silences shorter than %s are left out: there are too many", p.dropped, quantity.Duration(t.Silence.Floor)))
	}
	if p.lost > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%d changes of goroutines and Ps are left out: there are more than %d goroutines, or %d Ps, at a time", p.lost, mostGoroutines, mostProcs))
	}
	if p.unseen > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("who was there is not known of %d of the longest silences: too many goroutines were running or runnable in too many of them", p.unseen))
	}
}

type analysis struct {
	t      *Trace
	p      *program
	rate   int
	quotas freeze.Quotas
	kernel freeze.Kernel
	limit  float64
	unseen bool

	ordinary int64 // the mean time since the last event, where that says something
	gaps     []silence
}

func (a *analysis) basics() {
	t, p := a.t, a.p
	t.Wall = time.Duration(p.last - p.first)
	t.Events = p.events
	t.Procs, t.Changes = p.settings, p.changes
	if !p.clock.IsZero() {
		t.Start = p.clock.Add(time.Duration(p.first - p.clockAt)).UTC()
	}
	seconds := max(t.Wall.Seconds(), 1e-9)
	t.Silence = Silence{EventsPerSecond: float64(p.events) / seconds, Floor: time.Duration(p.floor)}
	t.GC = GC{Cycles: p.collected, Marking: a.share(p.marks)}
	if p.samples > 1 {
		s := &Samples{Count: p.samples, CPU: time.Duration(p.samples) * time.Second / time.Duration(a.rate)}
		s.Running = time.Duration(p.sampleLast - p.sampleFirst)
		if s.Running > 0 {
			s.Starved = max(0, 1-float64(s.CPU)/float64(s.Running))
		}
		t.Samples = s
	}
}

func (a *analysis) share(ns int64) float64 {
	if a.t.Wall <= 0 {
		return 0
	}
	return float64(ns) / float64(a.t.Wall)
}

// find chooses how long a silence must be to be a gap, and finds the rhythm of the gaps.
func (a *analysis) find() {
	t := a.t
	if a.choose(denseFreeze); a.quotas.Period > 0 && a.quotas.Period < shortPeriod {
		a.choose(densestFreeze)
	} else if a.quotas.Period == 0 && !t.Rhythm.LikeQuota(t.Wall) {
		a.choose(densestFreeze)
		if !t.Rhythm.LikeQuota(t.Wall) || t.Rhythm.Period >= shortPeriod {
			a.choose(denseFreeze)
		}
	}
	if t.Silence.Sparse = t.Silence.P99 > sparse; t.Silence.Sparse {
		a.choose(a.computing())
		a.ordinary = int64(t.Silence.Ordinary)
	}
}

// choose makes the silences of a length the gaps.
func (a *analysis) choose(threshold time.Duration) {
	a.t.Threshold = max(threshold, a.t.Silence.Floor)
	a.gaps = a.silences(a.t.Threshold, true)
	a.t.Rhythm = freeze.Find(gaps(a.gaps), a.quotas)
	a.density()
}

func (a *analysis) computing() time.Duration {
	if a.t.Samples != nil {
		return computingSampled
	}
	return computing
}

// silences are those of a length in which something could run, or not.
func (a *analysis) silences(least time.Duration, could bool) []silence {
	var list []silence
	for _, s := range a.p.silences {
		if s.could == could && s.length() >= int64(least) {
			list = append(list, s)
		}
	}
	return list
}

func gaps(list []silence) []freeze.Gap {
	out := make([]freeze.Gap, len(list))
	for i, s := range list {
		out[i] = gap(s)
	}
	return out
}

func gap(s silence) freeze.Gap {
	return freeze.Gap{Start: time.Duration(s.start), End: time.Duration(s.end)}
}

// density measures the silences without the gaps that end with a refill. Ordinary is the mean time since the last event
// at any time, Σ s² ÷ 2 Σ s over the silences s: a freeze begins so long after its silence began.
func (a *analysis) density() {
	q, out := a.p.quiet, &a.t.Silence
	// Computing has a rhythm, too: the monitor's, the profiler's. Then all is silence, and no quota's period is so short.
	own := a.t.Rhythm.Period < computing && a.share(total(a.gaps)) > 0.9
	var long []int64
	for _, s := range a.silences(0, true) {
		l := s.length()
		refill := !own && l >= int64(a.t.Threshold) && a.t.Rhythm.Ends(gap(s))
		if refill || l >= int64(a.computing()) {
			q.sum -= float64(l)
			q.squares -= float64(l) * float64(l)
		}
		if refill {
			q.n--
		} else {
			long = append(long, l)
		}
	}
	if out.Ordinary = 0; q.sum > 0 && q.squares > 0 {
		out.Ordinary = time.Duration(q.squares / 2 / q.sum)
	}
	slices.Sort(long)
	out.P99 = out.Floor // or less
	if rank := len(long) - 1 - int(q.n/100); rank >= 0 && rank < len(long) {
		out.P99 = time.Duration(long[rank])
	}
}

// judge asks freeze for the cause, and doubts it where the silences may be computing.
func (a *analysis) judge() {
	t := a.t
	v := t.Rhythm.Judge(t.Wall, a.kernel)
	t.Cause, t.Why, t.Throttled, t.Contended, t.Neighbour, t.Doubt = v.Cause, v.Why, v.Throttled, v.Contended, v.Neighbour, v.Doubt
	if t.Cause == freeze.Unsure {
		t.Doubt = v.Why
	}
	t.Sure = t.Doubt == ""
	if t.Cause == freeze.Throttled && t.Rhythm.R < clearRhythm {
		t.Sure, t.Doubt = false, fmt.Sprintf("other programs disturb the rhythm (R %.2f): the shares are estimates", t.Rhythm.R)
	}
	if t.Neighbour && v.Doubt != "" && t.Silence.Sparse && t.Samples == nil {
		a.unsure(v.Why + "; but with so few events the edges may be those of the runtime's own rhythm")
	}
	if t.Cause == freeze.Throttled && a.unseen && !a.kernel.Counts {
		t.Sure, t.Doubt = false, "no quota that can be seen has throttled it, and what those of groups above did is not counted here"
	}
	if t.Cause == freeze.Contended && t.Rhythm.Luck < 0.01 && !t.Neighbour && !a.kernel.Never() {
		t.Sure, t.Doubt = false, fmt.Sprintf("a rhythm of %s (R %.2f) is hardly chance: a part may be a quota", quantity.Duration(t.Rhythm.Period), t.Rhythm.R)
	}
	if t.Cause == freeze.Throttled || t.Cause == freeze.Contended {
		a.shorten()
	}
	if t.Cause == freeze.Contended || t.Rhythm.LikeQuota(t.Wall) {
		a.doubtComputing()
	}
	if t.Silence.Sparse {
		a.doubtSparse()
	}
	if t.Idle = a.share(total(a.silences(t.Threshold, false))); t.Cause == freeze.None {
		a.doubtIdle()
	}
	if t.Cause == freeze.Throttled {
		t.Hidden = min(a.hidden(), max(0, a.kernel.Share(t.Wall)-t.Throttled))
		t.Throttled += t.Hidden
	}
	// A limit that took that much is a cause, even if others disturb its rhythm so that hardly any of it is left.
	if t.Cause == freeze.Contended && !t.Neighbour && a.kernel.Counts && a.kernel.Share(t.Wall) >= t.Contended/2 {
		a.unsure(v.Why + "; but the kernel counted about as much throttling: others may disturb the rhythm of that")
	}
	if t.Cause == freeze.Unsure || t.Cause == freeze.None {
		t.Throttled, t.Contended, t.Neighbour = 0, 0, false
	}
	t.Frozen = t.Throttled + t.Contended
}

// shorten takes from the frozen shares what is ordinary silence: before each freeze, and after it if the silence did not
// end with the refill.
func (a *analysis) shorten() {
	t := a.t
	var extra, all int64
	for _, s := range a.gaps {
		all += s.length()
		extra += a.ordinary
		if !t.Rhythm.Ends(gap(s)) {
			extra += a.ordinary
		}
	}
	if all == 0 {
		return
	}
	left := max(0, 1-float64(extra)/float64(all))
	if t.Cause == freeze.Throttled && t.Silence.Sparse {
		// The first event after a refill may come late: what is not at the phase isn't a sign of other programs.
		t.Throttled, t.Contended = a.share(int64(t.Rhythm.Time)), 0
	}
	t.Throttled, t.Contended = t.Throttled*left, t.Contended*left
}

// doubtComputing: gaps in which no goroutine waited, and that are no longer than a goroutine computes, may be a program that computes, even
// with a rhythm, if it is that of a ticker.
func (a *analysis) doubtComputing() {
	t := a.t
	rhythm := t.Rhythm.LikeQuota(t.Wall)
	own := rhythm && !t.Rhythm.Given && t.Rhythm.Period < computing/2 // it may be the monitor's
	var all, soft int64
	for _, s := range a.gaps {
		if rhythm && !t.Rhythm.Ends(gap(s)) {
			continue
		}
		all += s.length()
		if (s.alone || own) && !s.proof && s.length() < int64(a.computing()) {
			soft += s.length()
		}
	}
	if all == 0 || float64(soft)/float64(all) < 0.5 {
		return
	}
	if s := t.Samples; s != nil {
		frozen := (t.Throttled + t.Contended) * float64(t.Wall)
		if t.Cause == freeze.Unsure {
			frozen = float64(all)
		}
		if s.Starved*float64(s.Running) < frozen/2 {
			t.Cause, t.Sure, t.Doubt, t.Why = freeze.None, true, "", "its silences are computing: the CPU samples account for them"
		}
		return
	}
	doubt := fmt.Sprintf("%.0f %% of the silent time is in silences below %s that may be computing: only CPU samples in the trace would tell",
		100*float64(soft)/float64(all), quantity.Duration(a.computing()))
	if rhythm || all-soft > int64(littleGap*float64(t.Wall)) {
		a.unsure(doubt)
		return
	}
	t.Cause, t.Sure, t.Doubt = freeze.None, false, doubt
	t.Why = "no silence is longer than computing may be, and they have no rhythm"
}

// doubtSparse: in a trace with few events a short freeze is not seen, so that only CPU samples make it sure.
func (a *analysis) doubtSparse() {
	t := a.t
	few := fmt.Sprintf("there are only %.0f events a second", t.Silence.EventsPerSecond)
	if t.Samples == nil {
		if t.Cause == freeze.None {
			a.unsure(few + ", so that a freeze below " + quantity.Duration(computing) + " is not seen: record the trace with CPU samples")
		} else if why, ok := a.vouches(); t.Cause == freeze.Throttled && t.Sure && ok {
			t.Why += "; " + why
		} else {
			t.Sure, t.Doubt = false, few+" and no CPU samples: the shares are estimates"
		}
		return
	}
	starved := t.Samples.Starved
	switch {
	case (t.Cause == freeze.None || t.Cause == freeze.Unsure) && starved >= 0.1 && a.share(total(a.gaps)) < starved/2:
		// A quota stops all threads at once, and would have made more gaps.
		t.Cause, t.Contended, t.Sure, t.Doubt = freeze.Contended, starved, true, ""
		t.Why = fmt.Sprintf("by the CPU samples, running goroutines had no CPU for %.0f %% of the time, and seldom all at once", 100*starved)
	case t.Cause == freeze.Throttled, t.Cause == freeze.Contended:
		// Other programs may have one CPU while the program has the other: that isn't a silence.
		off := starved - t.Throttled - t.Contended
		if !t.Sure {
			break
		}
		if t.Sure = math.Abs(off) < 0.15 || off > 0 && t.Cause == freeze.Contended; !t.Sure {
			t.Doubt = fmt.Sprintf("%s, and by the CPU samples running goroutines had no CPU for %.0f %% of the time", few, 100*starved)
		}
	}
}

// doubtIdle: a thread that should wake, and is late because of a quota or of other programs, is not in the trace; it looks
// as if there was nothing to do.
func (a *analysis) doubtIdle() {
	t := a.t
	if t.Idle < 0.2 {
		return
	}
	t.Why += fmt.Sprintf("; for %.0f %% it had nothing to do as far as a trace can tell, which does not show a late wake-up", 100*t.Idle)
	r := freeze.Find(gaps(a.silences(t.Threshold, false)), a.quotas)
	if t.Sure && r.LikeQuota(t.Wall) && !a.kernel.Never() {
		t.Sure = false
		t.Doubt = fmt.Sprintf("the silences with nothing to do end at one phase of %s: it may be a ticker of the program, or a quota that makes it wake late", quantity.Duration(r.Period))
	}
}

func (a *analysis) unsure(doubt string) {
	a.t.Cause, a.t.Sure, a.t.Why, a.t.Doubt = freeze.Unsure, false, doubt, doubt
}

// hidden is the share of silences with nothing to do that ended with a refill more often than by chance: the thread that would have noticed
// the next request was frozen. Before that it was idle for as long as it is when it isn't frozen.
func (a *analysis) hidden() float64 {
	r := a.t.Rhythm
	var all, locked, n int64
	var sum, squares float64 // of those that did not end with a refill
	for _, s := range a.silences(a.t.Threshold, false) {
		l := min(s.length(), int64(r.Period))
		all += l
		if r.Ends(gap(s)) {
			locked += l
			n++
		} else {
			sum, squares = sum+float64(l), squares+float64(l)*float64(l)
		}
	}
	byRefill := max(0, a.share(locked)-r.Chance()*a.share(all)) / (1 - r.Chance())
	if locked > 0 && sum > 0 {
		byRefill *= max(0, 1-squares/2/sum*float64(n)/float64(locked))
	}
	return byRefill
}

// freezes lists the gaps, without the ordinary silence before them, and the hidden ones.
func (a *analysis) freezes() {
	t := a.t
	for _, s := range a.gaps {
		t.Freezes = append(t.Freezes, a.freeze(s))
	}
	if t.Hidden > 0 {
		for _, s := range a.silences(t.Threshold, false) {
			if t.Rhythm.Ends(gap(s)) && s.length() <= int64(t.Rhythm.Period) {
				t.Freezes = append(t.Freezes, a.freeze(s))
			}
		}
	}
	if len(t.Freezes) > maxFreezes {
		slices.SortFunc(t.Freezes, func(a, b Freeze) int { return cmp.Compare(b.Length(), a.Length()) })
		t.Left = len(t.Freezes) - maxFreezes
		t.Freezes = t.Freezes[:maxFreezes]
	}
	slices.SortFunc(t.Freezes, func(a, b Freeze) int { return cmp.Compare(a.Start, b.Start) })
	var marked, all int64
	for _, s := range a.gaps {
		all += s.length()
		if s.gc {
			marked += s.length()
		}
	}
	if all > 0 {
		t.GC.Frozen = float64(marked) / float64(all)
	}
}

func (a *analysis) freeze(s silence) Freeze {
	f := Freeze{Start: time.Duration(s.start), End: time.Duration(s.end), Refill: a.t.Cause == freeze.Throttled && a.t.Rhythm.Ends(gap(s)), Idle: !s.could}
	if !f.Idle {
		f.Start += time.Duration(min(a.ordinary, s.length()/2))
	}
	return f
}

// outside is the time of busy Ps outside the gaps: no less than the CPU time that they got.
func (a *analysis) outside() int64 {
	outside := a.p.ran
	for _, s := range a.gaps {
		outside -= s.length() * int64(s.busy)
	}
	return outside
}

// farFromLimit reports whether a limit for which nothing is counted is too high to have stopped the program: each freeze takes all of the
// quota of its period.
func (a *analysis) farFromLimit() bool {
	ended := 0
	for _, s := range a.gaps {
		if a.t.Rhythm.Ends(gap(s)) {
			ended++
		}
	}
	quota := a.limit * float64(a.t.Rhythm.Period)
	return !a.kernel.Counts && float64(ended)*quota > 2*float64(a.outside())
}

// quota is the CPU that the program got from one refill to the next freeze, in periods that ended with one. A profile may begin late in a
// program that stands still a lot, and its samples show only the periods in it.
func (a *analysis) quota() {
	t, p := a.t, a.p
	if awake := int64(t.Wall) - total(a.gaps); awake > 0 {
		t.Busy = float64(a.outside()) / float64(awake)
	}
	if t.Cause != freeze.Throttled {
		return
	}
	var ran, still, periods, samples, sampled int64
	var last *silence
	for i := range a.gaps {
		s := &a.gaps[i]
		if !t.Rhythm.EndsFirst(gap(*s)) {
			if t.Rhythm.Ends(gap(*s)) { // that of a second quota, in the middle of the period
				still += s.length() * int64(s.busy)
			}
			continue
		}
		if last != nil {
			if between := s.end - last.end; between > int64(t.Rhythm.Period/2) && between < int64(t.Rhythm.Period*3/2) {
				ran += s.ran - last.ran - still + min(a.ordinary, s.length())*int64(s.busy)
				periods++
				if last.samples > 0 && s.samples < p.samples {
					samples += s.samples - last.samples
					sampled++
				}
			}
		}
		last, still = s, s.length()*int64(s.busy)
	}
	if periods == 0 {
		return
	}
	t.CPUs, t.CPUsBy = float64(ran)/(float64(periods)*float64(t.Rhythm.Period)), "procs"
	if samples >= 20 {
		t.CPUs, t.CPUsBy = float64(samples)/float64(a.rate)/(float64(sampled)*t.Rhythm.Period.Seconds()), "samples"
	}
}

func total(list []silence) (ns int64) {
	for _, s := range list {
		ns += s.length()
	}
	return ns
}

// longest are the moments of the longest gaps.
func (a *analysis) longest() []Moment {
	moments := slices.Clone(a.p.moments)
	slices.SortFunc(moments, func(a, b moment) int { return cmp.Compare(b.length(), a.length()) })
	var out []Moment
	for _, m := range moments {
		if m.length() < int64(a.t.Threshold) || len(out) == longest {
			break
		}
		out = append(out, Moment{
			Freeze: a.freeze(m.silence), Running: m.running, Runnable: m.runnable, Waiting: m.waiting,
			Procs: int(m.busy), Serving: m.serving, GC: m.gc,
		})
	}
	return out
}

// handlers compares the stretches of goroutines with the freezes.
func (a *analysis) handlers() *Handlers {
	h := &Handlers{What: "net/http", Lost: a.p.stretchesLost}
	list, quick := a.p.serving, a.p.servedQuick
	if len(list) == 0 && quick.n == 0 {
		h.What = "network"
		list, quick = a.p.networked, a.p.networkedQuick
	}
	h.Count = int64(len(list)) + quick.n
	if h.Count == 0 {
		return nil
	}
	var took, added, rest times
	took.quick, rest.quick, added.zeros = quick, quick, quick.n
	frozen := newFrozen(a.t.Freezes)
	for _, s := range list {
		in := frozen.overlap(time.Duration(s.start), time.Duration(s.end))
		if in > 0 {
			h.Frozen++
		}
		took.add(s.end - s.start)
		added.add(int64(in))
		rest.add(s.end - s.start - int64(in))
	}
	h.Took, h.Added, h.Rest = took.latency(), added.latency(), rest.latency()
	return h
}

// frozen are freezes in their order, which don't overlap, with what they add up to, so that it takes few steps to find how much of
// a stretch is in them.
type frozen struct {
	freezes []Freeze
	sums    []time.Duration // of those before each, and of all
}

func newFrozen(freezes []Freeze) frozen {
	f := frozen{sums: make([]time.Duration, 1, len(freezes)+1)}
	for _, one := range freezes {
		if !one.Idle {
			f.freezes = append(f.freezes, one)
			f.sums = append(f.sums, f.sums[len(f.sums)-1]+one.Length())
		}
	}
	return f
}

// overlap is how much of the time from start to end is in them.
func (f frozen) overlap(start, end time.Duration) time.Duration {
	from := sort.Search(len(f.freezes), func(i int) bool { return f.freezes[i].End > start })
	to := sort.Search(len(f.freezes), func(i int) bool { return f.freezes[i].Start >= end })
	if from >= to {
		return 0
	}
	in := f.sums[to] - f.sums[from]
	return in - max(0, start-f.freezes[from].Start) - max(0, f.freezes[to-1].End-end)
}

// times are some that are known and some in a spread.
type times struct {
	known []int64
	quick spread
	zeros int64
}

func (t *times) add(ns int64) { t.known = append(t.known, ns) }

func (t *times) latency() Latency {
	slices.Sort(t.known)
	l := Latency{P50: t.quantile(0.5), P99: t.quantile(0.99), Max: time.Duration(t.quick.max)}
	if n := len(t.known); n > 0 {
		l.Max = max(l.Max, time.Duration(t.known[n-1]))
	}
	return l
}

// quantile goes up through the known times and the steps of the spread together.
func (t *times) quantile(q float64) time.Duration {
	var steps []int
	for step := range t.quick.counts {
		steps = append(steps, step)
	}
	slices.Sort(steps)
	n := int64(len(t.known)) + t.quick.n + t.zeros
	want := int64(math.Ceil(q * float64(n)))
	seen := t.zeros
	if seen >= want {
		return 0
	}
	known := t.known
	for _, step := range steps {
		value := int64(math.Exp2((float64(step) + 0.5) / 16))
		for len(known) > 0 && known[0] < value {
			if seen++; seen >= want {
				return time.Duration(known[0])
			}
			known = known[1:]
		}
		if seen += t.quick.counts[step]; seen >= want {
			return time.Duration(min(value, t.quick.max))
		}
	}
	if left := want - seen; left >= 1 && left <= int64(len(known)) {
		return time.Duration(known[left-1])
	}
	return 0
}
