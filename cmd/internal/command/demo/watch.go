package demo

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A watch keeps the strip while someone looks at it, and a while longer. Its sampler is one goroutine, which costs a percent of a CPU or
// so.
type watch struct {
	linger time.Duration
	each   func() // called about once a second while it samples
	idle   func() // called before it stops because no one looks

	mu       sync.Mutex
	watchers int
	left     time.Time // when it was last needed
	cancel   func()    // of the sampler; nil: none
	done     chan struct{}
	ended    bool
	strip    strip
	limits   cgroup.Limits

	now atomic.Pointer[sampler] // nil: none
}

// A sampler is what is known between two beats.
type sampler struct {
	mu     sync.Mutex
	start  time.Time
	pulse  pulse
	before reading
	limits cgroup.Limits
}

func (s *sampler) clock() time.Duration { return time.Since(s.start) }

func newWatch(linger time.Duration) *watch {
	return &watch{linger: linger, each: func() {}, idle: func() {}}
}

// enter is called by a viewer, and fails if there are most of them already; leave is called when the viewer goes.
func (w *watch) enter(most int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers >= most || w.ended {
		return false
	}
	w.watchers++
	w.sample()
	return true
}

func (w *watch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers--
	w.left = time.Now()
}

// touch makes it sample as if someone had looked just now.
func (w *watch) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = time.Now()
	w.sample()
}

// deserted reports whether no one has looked for some time.
func (w *watch) deserted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.desertedLocked()
}

func (w *watch) desertedLocked() bool { return w.watchers == 0 && time.Since(w.left) > w.linger }

// end stops the sampler and waits for it.
func (w *watch) end() {
	w.mu.Lock()
	w.ended = true
	cancel, done := w.cancel, w.done
	w.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
		w.now.Store(nil)
	}
}

// sample starts the sampler if it isn't running. It is called with the lock held.
func (w *watch) sample() {
	if w.cancel != nil || w.ended {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan struct{})
	w.limits = cgroup.Read(cgroup.Source{})
	w.strip.cells = nil // those of an earlier time do not join on
	now := &sampler{start: time.Now(), before: read(0, w.limits), limits: w.limits}
	w.now.Store(now)
	go w.run(ctx, w.done, now)
}

// run beats, and now and then does what is not for every beat.
func (w *watch) run(ctx context.Context, done chan struct{}, now *sampler) {
	defer close(done)
	beats := time.NewTicker(beatEvery)
	defer beats.Stop()
	var looked, limitsRead time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
		}
		w.beat()
		at := now.clock()
		if at-looked >= time.Second {
			looked = at
			w.each()
		}
		if at-limitsRead >= 5*time.Second { // limits may change, and the process may be moved
			limitsRead = at
			w.follow(now)
		}
		if w.deserted() && w.stop() {
			return
		}
	}
}

// beat is the heartbeat of the sampler, if it runs. Requests call it too: in a process with much to do the sampler's own
// goroutine waits for its turn for a long time, but then there are many requests that have theirs.
func (w *watch) beat() {
	now := w.now.Load()
	if now == nil {
		return
	}
	at, l, isDue := now.beat()
	if !isDue {
		return
	}
	after := read(at, l)
	w.take(now, after, now.clock()-at)
}

// beat returns the time, and whether a reading is due.
func (s *sampler) beat() (at time.Duration, l cgroup.Limits, isDue bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = s.clock()
	s.pulse.beat(at)
	return at, s.limits, due(s.before.at, at)
}

// take makes cells of a reading, unless another one was faster. One that took long was interrupted, so that its time and
// its counts are not of one moment: the next beat reads again, as long as there is hope of a better one.
func (w *watch) take(now *sampler, after reading, took time.Duration) {
	now.mu.Lock()
	defer now.mu.Unlock()
	if !due(now.before.at, after.at) || early(now.before, after) {
		return
	}
	if took > beatEvery && after.at-now.before.at < 10*cellSpan {
		return
	}
	w.add(cells(now.before, after, now.pulse.silent(now.before.at, after.at), usable(now.limits)), now.limits)
	now.before = after
}

// follow reads the limits again.
func (w *watch) follow(now *sampler) {
	now.mu.Lock()
	defer now.mu.Unlock()
	l := cgroup.Read(cgroup.Source{})
	if l.From == now.limits.From && l.Path == now.limits.Path {
		now.limits = l // the counts go on
		return
	}
	now.limits = l
	now.before = read(now.clock(), l) // these are another group's
}

// stop ends the sampler, if no one has come in the meantime, and reports whether it did.
func (w *watch) stop() bool {
	w.idle()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.desertedLocked() {
		return false
	}
	w.cancel()
	w.cancel = nil
	w.now.Store(nil)
	return true
}

func (w *watch) add(more []cell, l cgroup.Limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.strip.add(more...)
	w.limits = l
}

// since returns the cells from a number on, what the last ten seconds show, and the limit.
func (w *watch) since(number int64) (first int64, cells []cell, s summary, l cgroup.Limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, cells = w.strip.since(number)
	_, newest := w.strip.since(w.strip.next - 100)
	return first, cells, summarise(newest, w.limits.CPUs), w.limits
}

func read(now time.Duration, l cgroup.Limits) reading {
	r := reading{at: now, procs: runtime.GOMAXPROCS(0)}
	r.cpu = procs.OwnCPU()
	r.cpuKnown = r.cpu > 0
	r.counted(l, cgroup.ReadThrottling(cgroup.Source{}, l))
	return r
}

// usable is how many CPUs the process can use at once.
func usable(l cgroup.Limits) int {
	have := l.Affinity
	if have == 0 {
		have = runtime.NumCPU()
	}
	return min(runtime.GOMAXPROCS(0), have)
}
