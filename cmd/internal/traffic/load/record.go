package load

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What a histogram can hold, in nanoseconds. What is longer counts as the longest.
const (
	longest = int64(2 * time.Hour)
	digits  = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, digits) }

func put(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(int64(d), 0), longest))
}

// maxErrors bounds how many causes are distinguished.
const maxErrors = 50

const otherErrors = "other errors"

// A recorder counts what is done. The whole of it is behind one lock: what is done under it takes a quarter of a
// microsecond, a request fifty times that.
type recorder struct {
	mu       sync.Mutex
	plan     *Plan
	open     bool // loop: there is a lag
	res      Result
	statuses [600]int64
	errors   map[string]int64
	axis     axis

	began     time.Time   // Run.began, for the witnesses
	undecided []undecided // in the order in which they were done
	decided   int         // how many of these are, from the first on
}

// An undecided request is one of which it is not yet known whether the machine ran when it was due.
type undecided struct{ due, fromReady time.Duration }

func newRecorder(p *Plan) *recorder {
	r := &recorder{plan: p, open: p.Rate > 0, errors: map[string]int64{}, axis: newAxis(p.Step, p.FailedAs()), res: Result{
		Response: newHistogram(), Service: newHistogram(), Lag: newHistogram(), PacerLate: newHistogram(), NoConnection: newHistogram(),
		Successes: newHistogram(), FromReady: newHistogram(), CaughtUp: newHistogram(),
	}}
	if len(p.Witnesses) > 0 {
		r.res.Calm, r.res.LeftOut = newHistogram(), make([]int64, len(p.Witnesses))
	}
	return r
}

// add counts a request that is done.
func (r *recorder) add(s *Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := &r.res
	res.Requests++
	res.Bytes += s.Bytes
	timed := true
	switch {
	case answered(s.Err):
		r.statuses[min(s.Status, len(r.statuses)-1)]++
	case s.Err == ErrTimeout:
		res.Timeouts++
	case s.Err == ErrUnfinished:
		res.Unfinished++
		if s.Sent < 0 {
			res.Unsent++
		}
	default:
		timed = false
	}
	if s.Err != nil {
		if exhausted(s.Err) {
			res.Exhausted++
		}
		if refused(s.Err) {
			res.Refused++
		}
		if noHost(s.Err) {
			res.NoHost++
		}
		text := errorText(s.Err)
		if _, known := r.errors[text]; !known && len(r.errors) >= maxErrors {
			text = otherErrors
		}
		r.errors[text]++
	}
	fromReady := s.FromReady()
	if s.OK() {
		put(res.Successes, s.Response())
		if r.plan.Within == 0 || s.Response() <= r.plan.Within {
			res.Good++
		}
	} else {
		res.Failed++
		fromReady = max(fromReady, r.axis.failedAs)
	}
	put(res.FromReady, fromReady)
	if s.Sent >= 0 {
		res.Sent++
		res.Sending = max(res.Sending, s.Sent)
		if timed {
			put(res.Service, s.Service())
		}
	}
	if r.open {
		r.addLag(s)
	}
	if timed {
		put(res.Response, s.Response())
	}
	res.Elapsed = max(res.Elapsed, s.Done)
	r.axis.add(s, fromReady, timed)
	if len(r.plan.Witnesses) > 0 {
		r.undecided = append(r.undecided, undecided{s.Intended, fromReady})
		r.decide(false)
	}
	if r.plan.Each != nil {
		r.plan.Each(s)
	}
}

// decide counts the requests of which it is known by now whether the machine ran, or all of them: one for which that will never be known
// counts.
func (r *recorder) decide(all bool) {
	for ; r.decided < len(r.undecided); r.decided++ {
		u := r.undecided[r.decided]
		by, known := r.leftOut(r.began.Add(u.due))
		if !known && !all && len(r.undecided)-r.decided <= maxUndecided {
			break
		}
		if by >= 0 {
			r.res.LeftOut[by]++
			continue
		}
		put(r.res.Calm, u.fromReady)
		r.axis.addCalm(u.due, u.fromReady)
	}
	if r.decided > len(r.undecided)/2 {
		r.undecided, r.decided = slices.Delete(r.undecided, 0, r.decided), 0
	}
}

// leftOut is the first witness for whom the machine did not run around a time, -1: none that knows. As long as one does not know, known is
// false.
func (r *recorder) leftOut(at time.Time) (by int, known bool) {
	by, known = -1, true
	for i, w := range r.plan.Witnesses {
		ran, knows := w.Ran(at)
		if known = known && knows; by < 0 && knows && !ran {
			by = i
		}
	}
	return by, known
}

// maxUndecided is a second of the most that can be sent: a witness is no later than some hundredths, unless it is kept from running.
const maxUndecided = 1 << 18

// addLag splits what a request waited before it was sent. One that was never sent has waited all the time.
func (r *recorder) addLag(s *Sample) {
	sent := s.Sent
	if sent < 0 {
		sent = s.Done
	}
	put(r.res.Lag, sent-s.Intended)
	put(r.res.PacerLate, s.Ready-s.Intended)
	if s.CaughtUp {
		put(r.res.CaughtUp, s.Ready-s.Intended)
	}
	put(r.res.NoConnection, sent-s.Ready)
}

// lastWord is how long a witness is waited for at the end.
const lastWord = 500 * time.Millisecond

// result is what was counted. Nothing may be added after that.
func (r *recorder) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := &r.res
	if len(r.plan.Witnesses) > 0 {
		last := time.Duration(0)
		for _, u := range r.undecided {
			last = max(last, u.due)
		}
		for _, w := range r.plan.Witnesses {
			w.Await(r.began.Add(last), lastWord)
		}
		r.decide(true)
	}
	res.Hopeless = r.hopeless()
	res.Statuses = map[int]int64{}
	for status, n := range r.statuses {
		if n > 0 {
			res.Statuses[status] = n
		}
	}
	for text, n := range r.errors {
		res.Errors = append(res.Errors, ErrorCount{text, n})
	}
	slices.SortFunc(res.Errors, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	res.Axis = r.axis.all()
	return res
}

// An axis counts by time. Its steps get longer where there would be too many.
type axis struct {
	step     time.Duration
	failedAs time.Duration
	steps    []axisStep
}

type axisStep struct {
	sent, failed                 int64
	calm                         int64
	response, service, fromReady *hdrhistogram.Histogram // microseconds; nil: nothing yet
	calmFromReady                *hdrhistogram.Histogram // of the calm ones
}

const maxSteps = 300

func newAxis(step, failedAs time.Duration) axis {
	if step <= 0 {
		step = time.Second
	}
	return axis{step: step, failedAs: failedAs}
}

func (a *axis) add(s *Sample, fromReady time.Duration, timed bool) {
	i := a.index(s.Intended)
	for len(a.steps) <= i {
		a.steps = append(a.steps, axisStep{})
	}
	step := &a.steps[i]
	step.sent++
	if !s.OK() {
		step.failed++
	}
	if step.fromReady == nil {
		step.fromReady = newStepHistogram()
	}
	putMicros(step.fromReady, fromReady)
	if !timed {
		return
	}
	if step.response == nil {
		step.response, step.service = newStepHistogram(), newStepHistogram()
	}
	putMicros(step.response, s.Response())
	if s.Sent >= 0 {
		putMicros(step.service, s.Service())
	}
}

// addCalm counts a request that was added before, and was due while the machine ran.
func (a *axis) addCalm(due, fromReady time.Duration) {
	step := &a.steps[a.index(due)]
	if step.calm++; step.calmFromReady == nil {
		step.calmFromReady = newStepHistogram()
	}
	putMicros(step.calmFromReady, fromReady)
}

func newStepHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest/int64(time.Microsecond), 2)
}

func putMicros(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(d.Microseconds(), 0), longest/int64(time.Microsecond)))
}

// index is the step of a time; it makes the steps longer until there are few enough.
func (a *axis) index(at time.Duration) int {
	for max(0, at)/a.step >= maxSteps {
		a.step *= 2
		for i := range a.steps {
			if i%2 == 0 {
				a.steps[i/2] = a.steps[i]
			} else {
				a.steps[i/2].merge(a.steps[i])
			}
		}
		a.steps = a.steps[:(len(a.steps)+1)/2]
	}
	return int(max(0, at) / a.step)
}

func (s *axisStep) merge(t axisStep) {
	s.sent += t.sent
	s.failed += t.failed
	s.calm += t.calm
	if s.calmFromReady == nil {
		s.calmFromReady = t.calmFromReady
	} else if t.calmFromReady != nil {
		s.calmFromReady.Merge(t.calmFromReady)
	}
	if s.fromReady == nil {
		s.fromReady = t.fromReady
	} else if t.fromReady != nil {
		s.fromReady.Merge(t.fromReady)
	}
	if s.response == nil {
		s.response, s.service = t.response, t.service
	} else if t.response != nil {
		s.response.Merge(t.response)
		s.service.Merge(t.service)
	}
}

func (a *axis) all() []Step {
	steps := make([]Step, len(a.steps))
	for i := range a.steps {
		steps[i] = a.at(i)
	}
	return steps
}

func (a *axis) at(i int) Step {
	s := Step{At: time.Duration(i) * a.step, Length: a.step}
	if i < 0 || i >= len(a.steps) {
		return s
	}
	from := &a.steps[i]
	s.Sent, s.Failed, s.Calm = from.sent, from.failed, from.calm
	if from.calmFromReady != nil {
		s.CalmP99 = micros(from.calmFromReady, 99)
	}
	if from.fromReady != nil {
		s.FromReadyP99 = micros(from.fromReady, 99)
	}
	if from.response != nil {
		s.P50, s.P99, s.Max = micros(from.response, 50), micros(from.response, 99), micros(from.response, 100)
		s.ServiceP50, s.ServiceP99 = micros(from.service, 50), micros(from.service, 99)
	}
	return s
}

func micros(h *hdrhistogram.Histogram, percentile float64) time.Duration {
	return time.Duration(h.ValueAtPercentile(percentile)) * time.Microsecond
}

// Quantile is the value of a histogram of nanoseconds below which this many percent lie.
func Quantile(h *hdrhistogram.Histogram, percent float64) time.Duration {
	return time.Duration(h.ValueAtPercentile(percent))
}
