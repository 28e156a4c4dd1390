package load

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loops are the lean engine where there is epoll. Each loop has a thread of its own that waits for two things at once, for the
// time at which its next request is due and for answers, and does all there is to do when it wakes: it is woken once to send
// a request and once for its answer, and the fewer times the busier it is. Goroutines would be woken twice as often, by way
// of the runtime's poller, and a generator's waking is most of what it takes from a server on the same CPUs.
//
// What may take its time, which is looking up names and connecting, is left to goroutines.
type loops struct {
	run      *Run
	all      []*loop
	sending  atomic.Int64 // loops that have not sent all
	turns    atomic.Int64 // closed loop: requests that were begun
	halted   atomic.Bool
	finished sync.WaitGroup
	release  chan struct{} // closed when threads may end
}

// What a loop can do.
const (
	rateEach  = 30_000 // requests a second, with some room
	connsEach = 32     // connections of a closed loop that one serves without being a bottleneck
	burst     = 16     // requests that are sent before answers are looked for
	dialsEach = 8      // connections are opened at once, and an eighth of those that there are
	maxEvents = 128    // answers that are looked for at once
	readAll   = 64 << 10
	maxSpin   = 0.1 // of a CPU may go into looking at the clock for the time at which a request is due
)

// Marks of what isn't a connection among a loop's events.
const (
	timerEvent = -1
	wakeEvent  = -2
)

// newLoops makes the loops of a run; nil: it has something that they can't do.
func newLoops(r *Run) (*loops, error) {
	p := &r.plan
	if p.EachRate > 0 { // each worker has a clock
		return nil, nil
	}
	n := (p.Conns + connsEach - 1) / connsEach
	if p.Rate > 0 {
		n = 1 + int(p.Highest()/rateEach)
	}
	n = max(1, min(n, p.Conns, runtime.GOMAXPROCS(0)))
	s := &loops{run: r, release: make(chan struct{})}
	s.sending.Store(int64(n))
	for i := range n {
		l, err := newLoop(s, i, n)
		if err != nil {
			s.close()
			return nil, err
		}
		s.all = append(s.all, l)
	}
	return s, nil
}

// send sends what the plan says, and returns when all is done.
func (s *loops) send() {
	r := s.run
	begin := time.AfterFunc(max(0, -r.now()), func() {
		used := readUsage()
		r.mu.Lock()
		r.before = used
		r.mu.Unlock()
	})
	defer begin.Stop()
	if ps := runtime.GOMAXPROCS(0); ps <= len(s.all) { // the loops keep theirs, and something must connect
		runtime.GOMAXPROCS(len(s.all) + 1)
		defer runtime.GOMAXPROCS(ps)
	}
	s.finished.Add(len(s.all))
	for _, l := range s.all {
		r.running.Go(l.run)
	}
	s.finished.Wait()
	if s.sending.Load() > 0 { // it was stopped, or is a closed loop
		s.sent()
	}
	r.mu.Lock()
	r.over = true
	for _, l := range s.all {
		r.most += l.most
		r.planned += l.planned.Load()
		r.allConns = r.allConns || l.allConns
	}
	r.mu.Unlock()
	r.abandon()
	close(s.release)
	r.running.Wait()
	s.close()
}

// sent reads what the generator has used by the time all is sent.
func (s *loops) sent() {
	used := readUsage()
	s.run.mu.Lock()
	s.run.used = used.since(s.run.before)
	s.run.mu.Unlock()
}

// stop ends the loops.
func (s *loops) stop() {
	s.halted.Store(true)
	for _, l := range s.all {
		l.wake()
	}
}

// number is how many CPUs they can use.
func (s *loops) number() int { return len(s.all) }

// now is what Live reports.
func (s *loops) now() (planned int64, open, conns int) {
	for _, l := range s.all {
		planned += l.planned.Load()
		open += int(l.open.Load())
		conns += int(l.count.Load())
	}
	return planned, open, conns
}

func (s *loops) close() {
	for _, l := range s.all {
		l.close()
	}
}

// A loop sends each nth of the requests, over connections of its own. All but what others look at is its thread's.
type loop struct {
	*loops
	index, of int

	poll, timer, wakeup int // descriptors
	events              [maxEvents]unix.EpollEvent
	buf                 [readAll]byte

	schedules []timetable
	choice    *choice
	next      time.Duration // when the next request is due
	more      bool          // there is one
	last      time.Duration // when it turned to the last one
	early     time.Duration // how late the timer wakes, usually
	mostEarly time.Duration // that it may be set before the time
	slack     time.Duration // Plan.Slack, where it takes in more than one request; 0: it is of no use
	armed     time.Duration // what the timer is set to; never: it is not
	end       time.Duration // when those that are open are given up

	maxConns int
	conns    map[*socket]struct{}
	byFD     map[int32]*socket
	idle     []*socket // the one used last is used next
	due      queue
	check    time.Duration // when a request may have taken too long
	made     int32         // connections so far
	dials    int           // that are under way

	planned, open, count atomic.Int64
	most                 int
	allConns             bool

	mu     sync.Mutex
	dialed []dialed // that the loop has not taken yet
}

const never = time.Duration(1<<63 - 1)

// A timetable is a schedule that begins at a time.
type timetable struct {
	*schedule
	from time.Duration
}

// A socket is a connection, or what will become one.
type socket struct {
	slot
	fd      int // -1: not connected
	number  int32
	network string
	address net.Addr
	out     []byte // of the request, what is still to be written
	writing bool   // the loop waits for room to write
	used    bool   // an answer has come over it
	again   bool   // the job was tried before, over a connection that the server had just closed
	answer  answer
	first   time.Duration // when the answer began; 0: it has not
	begun   bool
	wrote   time.Duration // how long writing took
	connect Phases
}

// dialed is what came of connecting.
type dialed struct {
	c       *socket
	fd      int
	address net.Addr
	err     error
	phases  Phases
}

func newLoop(s *loops, index, of int) (l *loop, err error) {
	r := s.run
	p := &r.plan
	l = &loop{
		loops: s, index: index, of: of, poll: -1, timer: -1, wakeup: -1, armed: never, end: never, check: never,
		choice: newChoice(p.Targets, p.Seed+uint64(index)<<32), conns: map[*socket]struct{}{}, byFD: map[int32]*socket{},
		maxConns: (p.Conns + of - 1 - index) / of,
	}
	if p.Rate > 0 {
		l.mostEarly = min(maxEarly, time.Duration(maxSpin*float64(of)/p.Rate*float64(time.Second)))
		if p.Slack.Seconds()*p.Rate >= float64(of) {
			l.slack = p.Slack
		}
		if p.WarmUp > 0 {
			l.schedules = append(l.schedules, timetable{p.warmUp(), -p.WarmUp})
		}
		l.schedules = append(l.schedules, timetable{p.main(), 0})
	}
	if l.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		l.close()
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	if l.wakeup, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		l.close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	for _, x := range []struct {
		fd     int
		events uint32
		mark   int32
	}{{l.timer, unix.EPOLLIN | unix.EPOLLET, timerEvent}, {l.wakeup, unix.EPOLLIN, wakeEvent}} {
		if err := unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, x.fd, &unix.EpollEvent{Events: x.events, Fd: x.mark}); err != nil {
			l.close()
			return nil, os.NewSyscallError("epoll_ctl", err)
		}
	}
	return l, nil
}

func (l *loop) close() {
	for _, fd := range []int{l.poll, l.timer, l.wakeup} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	for _, d := range l.dialed { // too late
		if d.err == nil {
			unix.Close(d.fd)
		}
	}
}

// wake lets the loop look at what others have for it.
func (l *loop) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(l.wakeup, one[:])
}

// run is the thread. It ends with the goroutine, for it has a timer slack of its own.
func (l *loop) run() {
	runtime.LockOSThread()
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	l.begin()
	for {
		l.sendDue()
		l.expire()
		if l.over() {
			break
		}
		l.wait()
	}
	l.giveUp()
	l.finished.Done()
	<-l.release
}

// begin finds what to do first.
func (l *loop) begin() {
	p := &l.loops.run.plan
	if p.Rate > 0 {
		l.advance()
		return
	}
	if p.Duration > 0 {
		l.end = p.Duration + p.Grace
	}
	workers := p.Conns
	if n := p.Requests; n > 0 && n < int64(workers) && p.WarmUp == 0 {
		workers = int(n)
	}
	for i := l.index; i < workers; i += l.of {
		l.takeTurn(l.newSocket(), false)
	}
}

// over reports whether there is nothing left to do.
func (l *loop) over() bool {
	switch {
	case l.halted.Load():
		return true
	case l.loops.run.plan.Rate > 0 && !l.more && l.open.Load() == 0:
		return true
	case l.loops.run.plan.Rate == 0 && len(l.conns) == 0:
		return true
	}
	return l.end != never && l.loops.run.now() >= l.end
}

// advance finds the next request of the loop's. Every loop goes through the whole schedule, for it is known to all.
func (l *loop) advance() {
	for len(l.schedules) > 0 {
		t := &l.schedules[0]
		others := l.of - 1 // requests that are other loops', before the next of this one
		if t.sent == 0 {
			others = l.index
		}
		at, ok := t.next()
		for ; others > 0 && ok; others-- {
			at, ok = t.next()
		}
		if ok {
			l.next, l.more = t.from+at, true
			return
		}
		l.schedules = l.schedules[1:]
	}
	l.more = false
	l.end = l.loops.run.now() + l.loops.run.plan.Grace
	if l.sending.Add(-1) == 0 {
		l.sent()
	}
}

// sendDue sends what is due, but looks for answers now and then.
func (l *loop) sendDue() {
	for range burst {
		if !l.more || l.next > l.loops.run.now() {
			return
		}
		l.dispatch()
		l.advance()
	}
}

// dispatch gives the request that is due to a connection, or lets it wait for one.
func (l *loop) dispatch() {
	r := l.loops.run
	j := job{request: l.choice.next(), due: l.next, ready: r.now(), caught: l.next < l.last, sent: -1}
	l.last = j.ready
	l.open.Add(1)
	if j.due >= 0 {
		l.planned.Add(1)
	}
	if last := len(l.idle) - 1; last >= 0 {
		c := l.idle[last]
		l.idle = l.idle[:last]
		l.give(c, j, true)
		return
	}
	l.due.push(j)
	l.connectMore()
}

// connectMore opens connections for the requests that wait for one. A request takes what comes first, a new one or one that is
// free again. Few are opened at once: that costs much more than a request, the server too, and where requests wait because
// it is short of CPU time it would be shorter still.
func (l *loop) connectMore() {
	for l.dials < min(l.due.len(), max(dialsEach, len(l.conns)/dialsEach)) {
		if len(l.conns) == l.maxConns {
			l.allConns = true
			return
		}
		l.dial(l.newSocket())
	}
}

func (l *loop) newSocket() *socket {
	c := &socket{fd: -1}
	l.conns[c] = struct{}{}
	l.count.Add(1)
	l.most = max(l.most, len(l.conns))
	return c
}

// drop forgets a connection.
func (l *loop) drop(c *socket) {
	l.disconnect(c)
	delete(l.conns, c)
	l.count.Add(-1)
}

func (l *loop) disconnect(c *socket) {
	if c.fd >= 0 {
		delete(l.byFD, int32(c.fd))
		unix.Close(c.fd)
		c.fd, c.writing, c.out = -1, false, nil
	}
}

// give makes a job the connection's, which sends it if it is alive, and else is made first.
func (l *loop) give(c *socket, j job, alive bool) {
	c.job, c.busy = j, true
	if alive {
		l.write(c)
		return
	}
	l.dial(c)
}

// take finds a connection its next job. One that has lost its server can't be idle: it is recreated when it is needed.
func (l *loop) take(c *socket, alive bool) {
	if !alive {
		l.disconnect(c)
	}
	if l.loops.run.plan.Rate == 0 {
		l.takeTurn(c, alive)
		return
	}
	if !alive {
		l.drop(c)
		l.connectMore()
		return
	}
	if j, ok := l.due.pop(); ok {
		l.give(c, j, true)
		return
	}
	l.idle = append(l.idle, c)
}

// takeTurn gives a worker of a closed loop its next request, or lets it go home.
func (l *loop) takeTurn(c *socket, alive bool) {
	r := l.loops.run
	now := r.now()
	counted := now >= 0
	if now >= r.until || l.halted.Load() || counted && r.plan.Requests > 0 && l.turns.Add(1) > r.plan.Requests {
		l.drop(c)
		return
	}
	if counted {
		l.planned.Add(1)
	}
	l.open.Add(1)
	l.give(c, job{request: l.choice.next(), due: now, ready: now, sent: -1}, alive)
}

// dial connects, in a goroutine.
func (l *loop) dial(c *socket) {
	r := l.loops.run
	req := &r.requests[0] // all go to the same address
	c.network = req.network
	l.dials++
	r.running.Go(func() {
		nc, phases, err := r.dial(req)
		d := dialed{c: c, err: err, phases: phases}
		if err == nil {
			d.address = nc.RemoteAddr()
			d.fd, d.err = detach(nc)
		}
		l.mu.Lock()
		l.dialed = append(l.dialed, d)
		l.mu.Unlock()
		l.wake()
	})
}

// detach takes the descriptor out of a connection, away from the runtime's poller.
func detach(nc net.Conn) (fd int, err error) {
	defer nc.Close()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	failed := raw.Control(func(own uintptr) {
		if fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			err = os.NewSyscallError("fcntl", err)
		}
	})
	return fd, errors.Join(failed, err)
}

// takeDialed goes on with what was connected.
func (l *loop) takeDialed() {
	var count [8]byte
	unix.Read(l.wakeup, count[:])
	l.mu.Lock()
	dialed := l.dialed
	l.dialed = nil
	l.mu.Unlock()
	for _, d := range dialed {
		l.connected(d)
	}
}

func (l *loop) connected(d dialed) {
	c, r := d.c, l.loops.run
	l.dials--
	c.connect = d.phases
	if d.err == nil {
		l.made++
		c.fd, c.address, c.number, c.used = d.fd, d.address, l.made, false
		r.opened.Add(1)
		l.byFD[int32(c.fd)] = c
		if err := l.watch(c, unix.EPOLL_CTL_ADD, unix.EPOLLIN); err != nil {
			d.err = os.NewSyscallError("epoll_ctl", err)
		}
	}
	if !c.busy && d.err != nil { // the request that has waited the longest has none
		c.job, c.busy = l.due.pop()
	}
	switch {
	case d.err == nil && c.busy:
		l.write(c)
	case d.err == nil:
		l.take(c, true)
		l.connectMore()
	default:
		if c.busy {
			l.done(c, outcome{at: r.now(), err: d.err, phases: c.connect})
		}
		l.take(c, false)
	}
}

func (l *loop) watch(c *socket, op int, events uint32) error {
	return unix.EpollCtl(l.poll, op, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.fd), Pad: c.number})
}

// write sends the job's request. That it failed will be seen by reading.
func (l *loop) write(c *socket) {
	r := l.loops.run
	req := &r.requests[c.job.request]
	c.job.sent = r.now()
	if timeout := r.plan.Client.Timeout; timeout > 0 {
		l.check = min(l.check, c.job.sent+timeout)
	}
	c.answer.reset(req.method == "HEAD")
	c.begun, c.out = false, req.raw
	l.flush(c)
	if r.plan.Phases && len(c.out) == 0 {
		c.wrote = r.now() - c.job.sent
	}
}

// flush writes as much as there is room for, and waits for more room if there must be.
func (l *loop) flush(c *socket) {
	for len(c.out) > 0 {
		n, errno := write(c.fd, c.out)
		switch errno {
		case 0:
			c.out = c.out[n:]
			continue
		case unix.EINTR:
			continue
		case unix.EAGAIN:
		default:
			return
		}
		if !c.writing {
			c.writing = true
			l.watch(c, unix.EPOLL_CTL_MOD, unix.EPOLLIN|unix.EPOLLOUT)
		}
		return
	}
	if c.writing {
		c.writing = false
		l.watch(c, unix.EPOLL_CTL_MOD, unix.EPOLLIN)
	}
}

// read reads what has come.
func (l *loop) read(c *socket) {
	r, a := l.loops.run, &c.answer
	for {
		n, errno := read(c.fd, l.buf[:])
		at := r.now()
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			l.fail(c, &net.OpError{Op: "read", Net: c.network, Addr: c.address, Err: os.NewSyscallError("read", errno)})
			return
		case n > 0 && !c.busy:
			l.fail(c, errUnexpected)
			return
		case n > 0:
			if !c.begun {
				c.begun, c.first = true, at
			}
			used, err := a.feed(l.buf[:n])
			switch {
			case err != nil:
				l.fail(c, err)
				return
			case used < n:
				l.fail(c, errSurplus)
				return
			case a.state == done:
				l.complete(c, at)
				return
			case n < len(l.buf): // there is nothing further for now
				return
			}
		case c.busy && a.eof():
			l.complete(c, at)
			return
		case a.begun():
			l.fail(c, errTruncated)
			return
		default:
			l.fail(c, errNoAnswer)
			return
		}
	}
}

// complete counts an answer, and goes on with the connection if it can be used again: not if the server closes it, or has answered before
// it had the whole request, the rest of which would be taken for the next one.
func (l *loop) complete(c *socket, at time.Duration) {
	o := outcome{at: at, status: c.answer.status, bytes: c.answer.body, phases: c.connect}
	if l.loops.run.plan.Phases {
		o.phases.Write = c.wrote
		o.phases.Wait, o.phases.Read = max(0, c.first-c.job.sent-c.wrote), at-c.first
	}
	reusable := !c.answer.close && len(c.out) == 0
	c.again, c.used, c.connect = false, true, Phases{}
	l.done(c, o)
	l.take(c, reusable)
}

// fail deals with a connection that is lost. A request that an idle connection could no longer take is tried again.
func (l *loop) fail(c *socket, err error) {
	l.disconnect(c)
	if !c.busy {
		for i, other := range l.idle {
			if other == c {
				l.idle = append(l.idle[:i], l.idle[i+1:]...)
				break
			}
		}
		l.drop(c)
		return
	}
	if c.used && !c.again && !c.answer.begun() && l.loops.run.requests[c.job.request].again && err != ErrTimeout {
		c.again = true
		l.dial(c)
		return
	}
	c.again = false
	l.done(c, outcome{at: l.loops.run.now(), bytes: c.answer.body, err: err})
	l.take(c, false)
}

// done counts what came of a connection's job.
func (l *loop) done(c *socket, o outcome) {
	c.busy = false
	l.open.Add(-1)
	if j := c.job; j.due >= 0 { // else it belongs to the warm-up
		s := j.sample(o)
		l.loops.run.rec.add(&s)
	}
}

// expire ends the requests that have taken too long. It looks at all connections, but no sooner than when one that was open
// the last time may have: all requests have the same timeout, and so those that were sent since end later.
func (l *loop) expire() {
	if l.check == never {
		return
	}
	timeout, now := l.loops.run.plan.Client.Timeout, l.loops.run.now()
	if now < l.check {
		return
	}
	l.check = never
	var late []*socket
	for c := range l.conns {
		if !c.busy || c.fd < 0 {
			continue
		}
		if ends := c.job.sent + timeout; ends <= now {
			late = append(late, c)
		} else {
			l.check = min(l.check, ends)
		}
	}
	for _, c := range late {
		l.fail(c, ErrTimeout)
	}
}

// wait waits until there is something to do, and does the reading part of it. A timer wakes late, by an amount that is much
// the same from one time to the next: so it is set earlier by that, and what is left is waited for with an eye on the answers.
func (l *loop) wait() {
	r := l.loops.run
	now := r.now()
	until := min(l.end, l.check)
	forTimer := l.more && l.next-l.early < until
	if forTimer {
		until = l.next - l.early
	}
	patience := 0
	switch {
	case until <= now+tooShort:
	case l.more && l.slack > 0:
		doze(l.slack) // requests that are due and answers gather: a waking for each would take as much from a server as all that is done then
	default:
		patience = -1
		if until != l.armed && until != never {
			spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(until - now))}
			unix.TimerfdSettime(l.timer, 0, &spec, nil)
			l.armed = until
		}
	}
	n, errno := l.pollEvents(patience)
	if errno != 0 {
		return // interrupted by a signal
	}
	for i := range n {
		switch e := &l.events[i]; e.Fd {
		case timerEvent:
			if forTimer && l.armed == until && n == 1 && patience < 0 {
				late := r.now() - until
				l.early = min(max(0, l.early+(late-l.early)/8), l.mostEarly)
			}
			l.armed = never
		case wakeEvent:
			l.takeDialed()
		default:
			l.answered(e)
			l.sendDue()
		}
	}
}

// answered looks at a connection on which something happened. The event may be of one that was closed meanwhile.
func (l *loop) answered(e *unix.EpollEvent) {
	c := l.byFD[e.Fd]
	if c == nil || c.number != e.Pad {
		return
	}
	if e.Events&unix.EPOLLOUT != 0 && c.writing {
		l.flush(c)
	}
	if e.Events&^unix.EPOLLOUT != 0 {
		l.read(c)
	}
}

// giveUp lets go of everything. What is still open counts with the time that it has had.
func (l *loop) giveUp() {
	r := l.loops.run
	now := r.now()
	for c := range l.conns {
		if c.busy {
			c.busy = false
			r.unfinished(c.job, now)
		}
		l.disconnect(c)
	}
	for {
		j, ok := l.due.pop()
		if !ok {
			return
		}
		r.unfinished(j, now)
	}
}

// pollEvents waits for events. The scheduler does not learn of it, and the loop's P waits as well: else the runtime takes the P
// away after 20 µs, and must wake a thread of its own each time to do that, which takes more than all that the loop does.
// When it wants the loop to stop it interrupts it by a signal.
func (l *loop) pollEvents(patience int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.poll), uintptr(unsafe.Pointer(&l.events[0])), maxEvents, uintptr(patience), 0, 0)
	return int(n), errno
}

// read and write never block, and so the scheduler need not know of them.
func read(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

func write(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}
