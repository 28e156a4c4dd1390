package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Where a plan leaves it open.
const (
	defaultWorkers = 50
	defaultConns   = 1000
	defaultGrace   = 30 * time.Second // where there is no timeout either
)

// A Run is a load that goes on.
type Run struct {
	plan     Plan
	engine   Engine
	requests []request
	shared   []*http.Transport // that requests take in turn, each with connections of its own; none: the lean engine
	asked    atomic.Uint64     // requests of these, or of the places
	places   []*place          // the lean engine's, for calls: each has a connection that they share
	loops    *loops            // nil: each connection has a goroutine
	rec      *recorder

	began   time.Time // zero of all times: after the warm-up
	until   time.Duration
	choice  *choice
	timer   *timer
	early   time.Duration   // how late the timer wakes, usually; the pacer's own
	dozes   bool            // the pacer waits for short times without the scheduler's help; its own, too
	last    time.Duration   // when the pacer turned to a request last; its own as well
	ctx     context.Context // ends when connections must end
	abandon context.CancelFunc
	running sync.WaitGroup // connections
	ended   chan struct{}
	opened  atomic.Int64

	elsewhere atomic.Pointer[string]

	mu       sync.Mutex
	conns    map[conn]struct{}
	idle     []conn // the one used last is used next: few are busy then, as in a client with a pool
	due      queue
	open     int   // requests that were begun and are not done
	turn     int64 // closed loop: requests that were begun
	planned  int64 // that were due so far
	most     int
	allConns bool
	allDue   bool // no others will be due
	drained  chan struct{}
	over     bool // nothing is counted any longer
	stopped  bool
	lastDone int64
	lastLook time.Duration

	before, used usage // until the sending began, and while it went on
}

// A job is a request that is due.
type job struct {
	request int
	ready   time.Duration
	due     time.Duration
	caught  bool          // up with: see Sample.CaughtUp
	sent    time.Duration // -1: not yet
}

// A conn does one request after the other. Its goroutine is run; the pacer calls start and the end abort.
type conn interface {
	own() *slot
	run()
	start() // the slot has got a job while run was idle; it must not block
	abort() // ends any wait
}

// A slot is what the engine keeps of a connection, under its lock while the connection is idle.
type slot struct {
	job  job
	busy bool
	turn int64 // closed loop: how many requests its worker has turned to
	tick int64 // and the tick of its clock
}

func (s *slot) own() *slot { return s }

// Start begins to send. An error means that the plan is invalid. When ctx is done, no more requests are sent, those
// open are no longer waited for, and the result is of what there was.
func Start(ctx context.Context, p Plan) (*Run, error) {
	requests, err := compile(&p)
	if err != nil {
		return nil, err
	}
	if err := check(&p); err != nil {
		return nil, err
	}
	r := &Run{
		requests: requests, choice: newChoice(p.Targets, p.Seed), conns: map[conn]struct{}{},
		ended: make(chan struct{}), drained: make(chan struct{}),
	}
	refused := leanRefused(&p, requests)
	switch {
	case (p.Client.Engine == Lean || p.Client.Engine == Goroutines) && refused != nil:
		return nil, fmt.Errorf("the lean engine can't be used: %w", refused)
	case p.Client.Engine == NetHTTP || refused != nil:
		r.engine = NetHTTP
		for range max(1, p.Client.Shared) {
			t, err := newTransport(p.Client, p.Conns)
			if err != nil {
				return nil, err
			}
			r.shared = append(r.shared, t)
		}
	default:
		r.engine = Lean
	}
	r.plan = p
	if r.engine == Lean && p.Client.HTTP2 == HTTP2Only {
		for range max(1, p.Client.Shared) {
			r.places = append(r.places, &place{load: r})
		}
		for i := range r.requests {
			if r.requests[i].h2, err = r.requests[i].h2request(p.Client); err != nil {
				return nil, err
			}
		}
	} else if r.engine == Lean && p.Client.Engine != Goroutines {
		if r.loops, err = newLoops(r); err != nil {
			return nil, err
		}
	}
	if r.loops == nil {
		if r.timer, err = newTimer(); err != nil {
			return nil, err
		}
	}
	r.until = time.Duration(math.MaxInt64)
	if p.Duration > 0 {
		r.until = p.Duration
	}
	r.ctx, r.abandon = context.WithCancel(context.Background())
	r.began = time.Now().Add(p.WarmUp)
	r.rec = newRecorder(&r.plan)
	r.rec.began = r.began
	r.before = readUsage()
	go r.run(ctx)
	return r, nil
}

// MostBurst is how many requests may be due at once.
const MostBurst = 100_000

func check(p *Plan) error {
	switch {
	case p.Rate < 0 || p.Rate != p.Rate || p.Rate > 1e7:
		return fmt.Errorf("bad rate: %v a second", p.Rate)
	case p.EachRate < 0 || p.EachRate != p.EachRate || p.EachRate > 1e7:
		return fmt.Errorf("bad rate: %v a second for each worker", p.EachRate)
	case p.Rate > 0 && p.EachRate > 0:
		return errors.New("a rate for all and a rate for each worker exclude each other")
	case p.Duration < 0 || p.Requests < 0 || p.WarmUp < 0 || p.Conns < 0 || p.Grace < 0 || p.Slack < 0 || p.Client.Timeout < 0:
		return errors.New("negative numbers are not allowed")
	case p.Burst < 0 || p.Burst > MostBurst || p.Burst > 1 && (p.Rate == 0 || p.Arrivals == Recorded):
		return fmt.Errorf("bursts of %d requests: they need a rate, and %d at once are the most", p.Burst, MostBurst)
	case p.Rush < 0 || p.Rush > MostBurst || p.Rush > 0 && (p.Rate == 0 || p.WarmUp == 0):
		return fmt.Errorf("a warm-up that begins with %d requests at once: want a rate, a warm-up and at most %d at once", p.Rush, MostBurst)
	case p.From < 0 || p.From != p.From || p.From > 0 && p.From >= 2*p.Rate:
		return fmt.Errorf("the rate can't change from %v and be %v a second on average", p.From, p.Rate)
	case p.From > 0 && (p.Arrivals == Recorded || p.Duration == 0 && p.Requests == 0):
		return errors.New("a rate that changes needs an end")
	case p.Arrivals == Recorded && (len(p.Times) == 0 || p.Rate == 0 || !slices.IsSorted(p.Times) || p.Times[0] < 0):
		return errors.New("recorded arrivals are times in order")
	case p.Rate > 0 && p.planned() == 0:
		return fmt.Errorf("nothing would be sent: %v a second for %v", p.Rate, p.Duration)
	}
	switch p.Arrivals {
	case Poisson, Constant, Recorded:
	case "":
		p.Arrivals = Poisson
	default:
		return fmt.Errorf("unknown arrivals %q", p.Arrivals)
	}
	if p.Conns == 0 {
		p.Conns = defaultConns
		if p.Rate == 0 {
			p.Conns = defaultWorkers
		}
	}
	if p.Grace == 0 {
		p.Grace = defaultGrace
		if p.Client.Timeout > 0 {
			p.Grace = p.Client.Timeout + time.Second // so that the last of them ends by its timeout
		}
	}
	return nil
}

// now is the time since what is counted began.
func (r *Run) now() time.Duration { return time.Since(r.began) }

// run sends all, waits for what is open, and makes the result.
func (r *Run) run(ctx context.Context) {
	defer close(r.ended)
	stop := context.AfterFunc(ctx, r.stop)
	defer stop()
	if r.loops != nil {
		r.loops.send()
		return
	}
	if r.plan.Rate > 0 {
		r.pace()
	} else {
		r.startWorkers()
	}
	grace := time.NewTimer(r.graceLeft())
	defer grace.Stop()
	select {
	case <-r.drained:
	case <-ctx.Done():
	case <-grace.C:
	}
	r.end()
}

// graceLeft is how long to wait for the end from now on.
func (r *Run) graceLeft() time.Duration {
	if r.plan.Rate > 0 {
		return r.plan.Grace
	}
	if r.plan.Duration == 0 {
		return math.MaxInt64
	}
	return max(0, r.plan.Duration-r.now()) + r.plan.Grace
}

// stop ends the sending.
func (r *Run) stop() {
	r.mu.Lock()
	r.stopped, r.allDue = true, true
	r.mu.Unlock()
	if r.loops != nil {
		r.loops.stop()
		return
	}
	r.timer.close()
}

// pace gives out requests when they are due.
func (r *Run) pace() {
	if r.dozes = len(r.places) > 0; r.dozes {
		defer dozing()()
	}
	p := &r.plan
	if p.WarmUp > 0 {
		if !r.follow(p.warmUp(), -p.WarmUp) {
			return
		}
		r.before = readUsage()
	}
	r.follow(p.main(), 0)
	r.sent()
}

// sent notes that no further requests will be due.
func (r *Run) sent() {
	used := readUsage()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = used.since(r.before)
	r.allDue = true
	r.noteDrained()
}

// noteDrained signals when nothing is left to wait for. r.mu is held.
func (r *Run) noteDrained() {
	if r.allDue && r.open == 0 {
		select {
		case <-r.drained:
		default:
			close(r.drained)
		}
	}
}

const (
	tooShort = 5 * time.Microsecond   // a wait that is over before a timer would be set
	maxEarly = 200 * time.Microsecond // by which a timer is set before the time
)

// await waits until a request is due. A timer wakes late, by an amount that is much the same from one time to the next: so
// it is set earlier by that, and what is left is waited for by looking at the clock. It returns false if it was stopped.
func (r *Run) await(at time.Duration) bool {
	for {
		now := r.now()
		wait := at - now - r.early
		if wait <= tooShort {
			break
		}
		if r.dozes && wait <= mostDoze {
			doze(wait)
		} else if !r.timer.sleep(wait) {
			return false
		}
		late := min(r.now()-now-wait, maxEarly)
		r.early = max(0, r.early+(late-r.early)/8)
	}
	for r.now() < at {
	}
	return true
}

// follow gives out what a schedule says. It returns false if it was stopped.
func (r *Run) follow(s *schedule, from time.Duration) bool {
	for {
		at, ok := s.next()
		if !ok {
			return true
		}
		at += from
		if !r.await(at) || !r.dispatch(at) {
			return false
		}
	}
}

// dispatch gives a request that is due to a connection, or lets it wait for one.
func (r *Run) dispatch(at time.Duration) bool {
	r.mu.Lock()
	if r.allDue {
		r.mu.Unlock()
		return false
	}
	j := job{request: r.choice.next(), due: at, ready: r.now(), caught: at < r.last, sent: -1}
	r.last = j.ready
	r.open++
	if at >= 0 {
		r.planned++
	}
	if last := len(r.idle) - 1; last >= 0 {
		c := r.idle[last]
		r.idle = r.idle[:last]
		r.give(c, j, true)
		r.mu.Unlock()
		c.start()
		return true
	}
	if len(r.conns) < r.plan.Conns {
		c := r.newConn()
		r.give(c, j, false)
		r.mu.Unlock()
		go func() {
			defer r.running.Done()
			c.run()
		}()
		return true
	}
	r.allConns = true
	r.due.push(j)
	r.mu.Unlock()
	return true
}

// give makes a job the connection's. One that is alive sends it now; but where requests share connections, that is not known before there
// is room on one. r.mu is held.
func (r *Run) give(c conn, j job, alive bool) {
	if alive && len(r.shared) == 0 && len(r.places) == 0 {
		j.sent = r.now()
	}
	s := c.own()
	s.job, s.busy = j, true
}

// newConn makes a connection. r.mu is held.
func (r *Run) newConn() conn {
	var c conn
	switch {
	case len(r.shared) > 0:
		c = newHTTPConn(r)
	case len(r.places) > 0:
		c = newCallConn(r)
	default:
		c = &leanConn{load: r}
	}
	r.conns[c] = struct{}{}
	r.most = max(r.most, len(r.conns))
	r.running.Add(1)
	return c
}

// What a connection does next.
type next uint8

const (
	work next = iota // its slot has a job
	wait             // it is idle, and start will be called
	quit             // there is nothing left for it
)

// take finds a connection its next job. A connection that has lost its server can't be idle: it is recreated when it is
// needed.
func (r *Run) take(c conn, alive bool) next {
	if r.plan.Rate == 0 {
		return r.takeTurn(c, alive)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.stopped {
		delete(r.conns, c)
		return quit
	}
	if j, ok := r.due.pop(); ok {
		r.give(c, j, alive)
		return work
	}
	if !alive {
		delete(r.conns, c)
		return quit
	}
	r.idle = append(r.idle, c)
	return wait
}

// lost notes that a connection's server has gone. It reports whether the connection was idle, and so is no longer needed.
func (r *Run) lost(c conn) (idle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.own().busy {
		return false
	}
	for i, other := range r.idle {
		if other == c {
			r.idle = append(r.idle[:i], r.idle[i+1:]...)
			break
		}
	}
	delete(r.conns, c)
	return true
}

// connected notes that a job has a connection that it can be sent on.
func (r *Run) connected(c conn) {
	r.mu.Lock()
	c.own().job.sent = r.now()
	r.mu.Unlock()
}

// An outcome is what came of a request.
type outcome struct {
	at     time.Duration
	status int
	bytes  int64
	err    error
	phases Phases
}

// done counts what came of a connection's job.
func (r *Run) done(c conn, o outcome) {
	r.mu.Lock()
	s := c.own()
	if r.over || !s.busy { // the end has counted it already
		r.mu.Unlock()
		return
	}
	s.busy = false
	j := s.job
	r.open--
	r.noteDrained()
	r.mu.Unlock()
	if j.due >= 0 { // else it belongs to the warm-up
		sample := j.sample(o)
		r.rec.add(&sample)
	}
}

func (j job) sample(o outcome) Sample {
	s := Sample{Target: j.request, Intended: j.due, Ready: j.ready, CaughtUp: j.caught, Sent: j.sent, Done: o.at, Bytes: o.bytes, Err: o.err, Phases: o.phases}
	if answered(o.err) {
		s.Status = o.status
	}
	return s
}

// end lets go of everything. What is still open counts with the time that it has had.
func (r *Run) end() {
	r.mu.Lock()
	now := r.now()
	if !r.allDue || r.stopped {
		r.used = readUsage().since(r.before)
	}
	r.allDue, r.over = true, true
	for c := range r.conns {
		if s := c.own(); s.busy {
			s.busy = false
			r.unfinished(s.job, now)
		}
	}
	for {
		j, ok := r.due.pop()
		if !ok {
			break
		}
		r.unfinished(j, now)
	}
	conns := make([]conn, 0, len(r.conns))
	for c := range r.conns {
		conns = append(conns, c)
	}
	r.mu.Unlock()
	r.abandon()
	for _, c := range conns {
		c.abort()
	}
	r.timer.close()
	r.running.Wait()
	for _, t := range r.shared {
		t.CloseIdleConnections()
	}
	for _, p := range r.places {
		p.end()
	}
}

func (r *Run) unfinished(j job, now time.Duration) {
	if j.due >= 0 && now >= j.due {
		s := j.sample(outcome{at: now, err: ErrUnfinished})
		r.rec.add(&s)
	}
}

// Wait waits for the end.
func (r *Run) Wait() *Result {
	<-r.ended
	res := r.rec.result()
	res.Plan, res.Engine, res.Began = r.plan, r.engine, r.began
	res.Planned = r.planned
	res.MostConns, res.AllConns, res.Opened = r.most, r.allConns, r.opened.Load()
	if host := r.elsewhere.Load(); host != nil {
		res.Elsewhere = *host
	}
	res.CPU, res.Waited, res.CPUs = r.used.cpu, r.used.waited, min(runtime.GOMAXPROCS(0), runtime.NumCPU())
	if r.loops != nil {
		res.CPUs = min(res.CPUs, r.loops.number())
	}
	res.Stopped = r.stopped
	res.Invalid, res.OurFault = judge(res)
	return res
}

// Ended is closed when the load has ended.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Live looks at the load. The rate is since the last look.
func (r *Run) Live() Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	now, res := r.now(), &r.rec.res
	planned, open, conns := r.planned, r.open, len(r.conns)
	if r.loops != nil {
		planned, open, conns = r.loops.now()
	}
	l := Live{
		Elapsed: now, Planned: planned, Done: res.Requests, Failed: res.Failed, Open: int64(open), Conns: conns,
		Last: r.rec.axis.at(int(now/r.rec.axis.step) - 1),
	}
	if since := now - r.lastLook; since > 0 {
		l.Rate = float64(l.Done-r.lastDone) / since.Seconds()
	}
	r.lastDone, r.lastLook = l.Done, now
	return l
}

// A queue is first in, first out.
type queue struct {
	jobs []job
	head int
}

func (q *queue) push(j job) { q.jobs = append(q.jobs, j) }

func (q *queue) len() int { return len(q.jobs) - q.head }

func (q *queue) pop() (job, bool) {
	if q.head == len(q.jobs) {
		return job{}, false
	}
	j := q.jobs[q.head]
	q.head++
	if q.head > 1024 && q.head*2 > len(q.jobs) {
		q.jobs = append(q.jobs[:0], q.jobs[q.head:]...)
		q.head = 0
	}
	return j, true
}
