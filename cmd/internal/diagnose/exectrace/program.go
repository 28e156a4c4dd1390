package exectrace

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// A silence is a stretch without an event. Times are ns since the first event.
type silence struct {
	start, end int64
	could      bool  // something could run: a goroutine is running or runnable, or a P is busy
	proof      bool  // it is a freeze and not computing: something waited for a P although a P was free
	alone      bool  // one goroutine was running and none waited
	gc         bool  // the collector was marking
	busy       int32 // Ps
	ran        int64 // Σ of the time of busy Ps until start
	samples    int64 // CPU samples until start
}

func (s silence) length() int64 { return s.end - s.start }

const (
	shortSilence = int64(time.Millisecond)
	maxSilences  = 100_000 // beyond that the short ones are left out
	maxStretches = 200_000
	keptMoments  = 100
	sane         = int64(24 * time.Hour) // between two events; more is a damaged trace
)

// A worker is a goroutine of the program.
type worker struct {
	id    int64
	state state
	net   bool  // the last thing it waited for is the network
	seen  bool  // in this generation
	name  int32 // of its last stack
	root  int32 // of its first
	title int32 // a label
	since int64 // it is in its state
	begin int64 // of its stretch, if net
	place int   // in the program's active, if it is there
}

// A stretch is the time in which a goroutine that waited for the network did something.
type stretch struct {
	start, end int64
}

// A program is what the events so far say about it.
type program struct {
	names *names

	first, last int64
	events      int64
	clockAt     int64 // of the trace
	clock       time.Time

	goroutines map[int64]*worker
	active     []*worker // that run or are runnable, in no order
	running    int
	runnable   int
	procState  map[int64]state
	busy       int // Ps
	procs      int64
	settings   []Setting
	changes    int // that are not among them
	lost       int // goroutines and Ps that there was no room for

	heard *Heard

	marking   bool
	marks     int64 // ns
	collected int

	ran         int64 // Σ of the time of busy Ps
	executed    int64 // Σ of the time of running goroutines
	samples     int64
	sampleFirst int64 // executed, at the first sample
	sampleLast  int64

	silences []silence
	floor    int64 // shorter silences are not kept
	dropped  int
	moments  []moment // of the longest silences
	shortest int      // the place of the shortest of them, when there are as many as are kept
	steps    int      // goroutines that were looked at for them
	unseen   int      // moments for which that was too much
	quiet    sums

	serving, networked []stretch
	servedQuick        spread // that had no silence in them, so are not kept
	networkedQuick     spread
	stretchesLost      int
	lastSilence        int64 // when the last silence that counts ended
}

func newProgram(n *names) *program {
	return &program{
		names: n, first: -1, floor: shortSilence, lastSilence: math.MinInt64,
		goroutines: map[int64]*worker{}, procState: map[int64]state{},
	}
}

// take processes the next event.
func (p *program) take(e event) {
	if e.kind == clock {
		if p.clock.IsZero() {
			p.clock, p.clockAt = e.unix(), e.at
		}
		return
	}
	if p.first < 0 {
		p.first, p.last = e.at, e.at
	}
	if step := e.at - p.last; step > 0 && step < sane {
		p.pass(p.last-p.first, e.at-p.first)
		p.last = e.at
	} else if step >= sane {
		p.first += step // so that it does not count
		p.last = e.at
	}
	p.events++
	now := p.last - p.first
	switch e.kind {
	case goroutine:
		p.move(e, now)
	case proc:
		p.moveProc(e)
	case procs:
		if e.id != p.procs {
			p.procs = e.id
			p.set(Setting{At: time.Duration(now), Procs: int(min(e.id, math.MaxInt32))})
		}
	case sample:
		p.sample(e)
	case label:
		if g := p.goroutines[e.id]; g != nil {
			g.title = e.name
		}
	case begin, end:
		p.phase(e)
	case heard:
		p.hear(e.name, now)
	}
}

// set keeps a GOMAXPROCS: where there are too many the last takes the place of the one before.
func (p *program) set(s Setting) {
	if len(p.settings) == mostSettings {
		p.settings = p.settings[:mostSettings-1]
		p.changes++
	}
	p.settings = append(p.settings, s)
}

// pass is the time between two events.
func (p *program) pass(from, to int64) {
	length := to - from
	could := p.running > 0 || p.runnable > 0 || p.busy > 0
	if could {
		p.quiet.add(length)
	}
	if length >= p.floor {
		p.keep(silence{
			start: from, end: to, could: could, gc: p.marking,
			proof: p.runnable > 0 && p.procs > 0 && int64(p.busy) < p.procs,
			alone: p.running == 1 && p.runnable == 0,
			busy:  int32(p.busy), ran: p.ran, samples: p.samples,
		})
	}
	p.ran += length * int64(p.busy)
	p.executed += length * int64(p.running)
	if p.marking {
		p.marks += length
	}
}

func (p *program) keep(s silence) {
	p.lastSilence = s.end
	p.silences = append(p.silences, s)
	if s.could {
		p.remember(s)
	}
	for len(p.silences) > maxSilences {
		p.floor *= 2
		before := len(p.silences)
		p.silences = slices.DeleteFunc(p.silences, func(s silence) bool { return s.length() < p.floor })
		p.dropped += before - len(p.silences)
	}
}

func (p *program) move(e event, now int64) {
	g := p.goroutines[e.id]
	if g == nil {
		if e.to == gone {
			return
		}
		if len(p.goroutines) >= mostGoroutines { // of several generations, or it would have been left out
			p.lost++
			return
		}
		g = &worker{id: e.id, since: now, begin: -1}
		p.goroutines[e.id] = g
	}
	g.seen = true
	if e.name != 0 {
		g.name = e.name
		if g.root == 0 {
			g.root = e.name
		}
	}
	from := g.state
	if from == e.to {
		return
	}
	switch from {
	case running:
		p.running--
	case runnable:
		p.runnable--
	}
	switch e.to {
	case running:
		p.running++
	case runnable:
		p.runnable++
	case gone:
		delete(p.goroutines, e.id)
	}
	switch was, is := from == running || from == runnable, e.to == running || e.to == runnable; {
	case is && !was:
		g.place = len(p.active)
		p.active = append(p.active, g)
	case was && !is:
		p.rest(g)
	}
	g.state, g.since = e.to, now
	p.network(g, from, e, now)
}

// rest takes a goroutine out of those that are active.
func (p *program) rest(g *worker) {
	last := len(p.active) - 1
	p.active[g.place] = p.active[last]
	p.active[g.place].place = g.place
	p.active[last] = nil
	p.active = p.active[:last]
}

// network follows goroutines that wait for the network: what they do between two waits is a stretch.
func (p *program) network(g *worker, from state, e event, now int64) {
	switch {
	case e.to == waiting && e.net, e.to == gone:
		if g.begin >= 0 {
			p.stretch(g, stretch{g.begin, now})
		}
		g.net, g.begin = e.to == waiting, -1
	case e.to == waiting && g.begin < 0:
		g.net = false
	case from == waiting && e.to == runnable && g.net && g.begin < 0:
		g.begin = now
	}
}

func (p *program) stretch(g *worker, s stretch) {
	list, quick := &p.networked, &p.networkedQuick
	if p.names.frame(g.name).serves {
		list, quick = &p.serving, &p.servedQuick
	}
	switch {
	case p.lastSilence <= s.start:
		quick.add(s.end - s.start)
	case len(*list) >= maxStretches:
		p.stretchesLost++
	default:
		*list = append(*list, s)
	}
}

func (p *program) moveProc(e event) {
	if p.procState[e.id] == running {
		p.busy--
	}
	if e.to == gone {
		delete(p.procState, e.id)
		return
	}
	if _, known := p.procState[e.id]; !known && len(p.procState) >= mostProcs {
		p.lost++
		return
	}
	p.procState[e.id] = e.to
	if e.to == running {
		p.busy++
	}
}

func (p *program) sample(e event) {
	if p.samples == 0 {
		p.sampleFirst = p.executed
	}
	p.samples++
	p.sampleLast = p.executed
	if g := p.goroutines[e.id]; g != nil && e.name != 0 {
		g.name = e.name
	}
}

func (p *program) phase(e event) {
	switch name := p.names.frame(e.name).function; {
	case name == "GC concurrent mark phase":
		if e.kind == begin && !p.marking {
			p.collected++
		}
		p.marking = e.kind == begin
	}
}

// lose forgets what may have changed in a part of the trace that could not be read.
func (p *program) lose() {
	clear(p.goroutines)
	clear(p.active)
	clear(p.procState)
	p.active = p.active[:0]
	p.running, p.runnable, p.busy, p.marking = 0, 0, 0, false
}

// generation ends a generation: all goroutines that live had an event in it.
func (p *program) generation() {
	for id, g := range p.goroutines {
		if !g.seen && g.state != running && g.state != runnable {
			delete(p.goroutines, id)
		}
		g.seen = false
	}
}

// A moment is the goroutines in a silence.
type moment struct {
	silence
	running  []Goroutine
	runnable []Goroutine // the longest first
	waiting  int         // how many are runnable
	serving  bool
}

const keptGoroutines = 8

// remember keeps the moment of one of the longest silences.
func (p *program) remember(s silence) {
	if len(p.moments) < keptMoments {
		p.moments = append(p.moments, p.moment(s))
	} else {
		if p.moments[p.shortest].length() >= s.length() {
			return
		}
		p.moments[p.shortest] = p.moment(s)
	}
	p.shortest = 0
	for i, m := range p.moments {
		if m.length() < p.moments[p.shortest].length() {
			p.shortest = i
		}
	}
}

// moment looks at which goroutines are there, unless too many were looked at before: then only how many waited is known of the silence.
func (p *program) moment(s silence) moment {
	m := moment{silence: s, waiting: p.runnable}
	if p.steps+len(p.active) > mostSteps {
		p.unseen++
		return m
	}
	p.steps += len(p.active)
	var ran, waits []*worker
	for _, g := range p.active {
		if g.state == running {
			ran = first(ran, g, func(a, b *worker) int { return cmp.Compare(a.id, b.id) })
		} else {
			waits = first(waits, g, func(a, b *worker) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id)) })
		}
		m.serving = m.serving || p.names.frame(g.name).serves
	}
	for _, g := range ran {
		m.running = append(m.running, p.goroutine(g, s.end))
	}
	for _, g := range waits {
		m.runnable = append(m.runnable, p.goroutine(g, s.end))
	}
	return m
}

// first puts a goroutine among the first by an order; it keeps only as many as are shown.
func first(kept []*worker, g *worker, order func(a, b *worker) int) []*worker {
	if len(kept) == keptGoroutines && order(g, kept[len(kept)-1]) >= 0 {
		return kept
	}
	at, _ := slices.BinarySearchFunc(kept, g, order)
	kept = slices.Insert(kept, at, g)
	return kept[:min(len(kept), keptGoroutines)]
}

func (p *program) goroutine(g *worker, now int64) Goroutine {
	top, root := p.names.frame(g.name), p.names.frame(g.root).root
	return Goroutine{
		ID: g.id, Function: top.function, Started: root, Label: p.names.frame(g.title).function,
		For: time.Duration(now - g.since), Serves: top.serves || strings.HasPrefix(root, "net/http.(*conn).serve"),
	}
}

// sums are sums of times.
type sums struct {
	n       int64
	sum     float64
	squares float64
}

func (s *sums) add(ns int64) {
	s.n++
	s.sum += float64(ns)
	s.squares += float64(ns) * float64(ns)
}

// A spread counts stretches that had no silence in them: 16 steps to each power of two.
type spread struct {
	counts map[int]int64
	n      int64
	max    int64
}

func (s *spread) add(ns int64) {
	if s.counts == nil {
		s.counts = map[int]int64{}
	}
	s.n++
	s.max = max(s.max, ns)
	s.counts[int(math.Log2(float64(max(ns, 1)))*16)]++
}
