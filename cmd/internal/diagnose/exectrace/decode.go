package exectrace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/exp/trace"
)

// An event is what the analysis needs of an event in the trace: small, and without a reference to its generation.
type event struct {
	at   int64 // ns
	id   int64 // of the goroutine or P; the value of a metric; Unix ns of a clock
	name int32 // a number given by names
	kind kind
	to   state
	net  bool // it waits for the network
}

type kind uint8

const (
	other kind = iota // something moved
	goroutine
	proc
	procs  // GOMAXPROCS is id
	sample // by the CPU profiler, of goroutine id
	label  // the goroutine id is called name, such as GC (dedicated)
	begin  // of the phase called name: it may have begun before
	end
	clock // the wall clock shows id
	heard // the program has logged name, which is what the kernel has counted
)

type state uint8

const (
	gone state = iota
	waiting
	runnable
	running
	syscalled
	idle // a P
)

// A frame is what is kept of a stack.
type frame struct {
	function string // the innermost that isn't of the runtime
	root     string // the outermost: what the goroutine was started with
	serves   bool   // a request of a network server is served, or waited for
}

// names gives numbers to frames, and to the names of labels and phases. 0 is none, and what there is no room for.
type names struct {
	mu      sync.Mutex
	numbers map[frame]int32
	frames  []frame
	bytes   int
	full    bool
}

func newNames() *names { return &names{numbers: map[frame]int32{}, frames: make([]frame, 1)} }

func (n *names) number(f frame) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, ok := n.numbers[f]
	if !ok {
		size := len(f.function) + len(f.root)
		if n.full = n.full || len(n.frames) > mostNames || n.bytes+size > mostNameBytes; n.full {
			return 0
		}
		n.bytes += size
		i = int32(len(n.frames))
		f.function, f.root = strings.Clone(f.function), strings.Clone(f.root)
		n.numbers[f] = i
		n.frames = append(n.frames, f)
	}
	return i
}

func (n *names) frame(i int32) frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frames[i]
}

// chunk is how many events go from the decoder to the analysis at once.
const chunk = 4096

var chunks = sync.Pool{New: func() any { events := make([]event, 0, chunk); return &events }}

// A decoder reads one generation.
type decoder struct {
	names  *names
	stacks map[trace.Stack]int32
	texts  map[string]int32
	out    chan<- []event
	quit   <-chan struct{}
	events []event
	live   live
}

// decode sends the events of a generation. Its error is what makes the rest unreadable.
func decode(generation []byte, n *names, out chan<- []event, quit <-chan struct{}) (err error) {
	d := &decoder{names: n, stacks: map[trace.Stack]int32{}, texts: map[string]int32{}, out: out, quit: quit, live: live{nested: map[trace.ResourceID]int{}}}
	defer func() {
		if p := recover(); p != nil { // the reader panics on some damaged traces
			err = fmt.Errorf("damaged: %v", firstLine(fmt.Sprint(p)))
		}
		d.flush()
	}()
	r, err := trace.NewReader(bytes.NewReader(generation))
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if i%64 == 0 && d.over() { // one event may take a millisecond of a trace that is made for it
			return nil
		}
		e, err := r.ReadEvent()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("damaged: %s", firstLine(err.Error()))
		}
		if err := d.live.add(e); err != nil {
			return err
		}
		d.add(e)
		if len(d.events) == chunk && !d.flush() {
			return nil
		}
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), 200)]
}

func (d *decoder) flush() bool {
	select {
	case d.out <- d.events:
		d.events = nil
		return true
	case <-d.quit:
		return false
	}
}

// over reports whether the events are no longer waited for.
func (d *decoder) over() bool {
	select {
	case <-d.quit:
		return true
	default:
		return false
	}
}

// live is how much the reader remembers, to know in which state everything is.
type live struct {
	goroutines, procs, tasks int
	nested                   map[trace.ResourceID]int // phases
}

func (l *live) add(e trace.Event) error {
	switch e.Kind() {
	case trace.EventStateTransition:
		return l.transition(e.StateTransition())
	case trace.EventTaskBegin, trace.EventRegionBegin:
		if l.tasks++; l.tasks > mostTasks {
			return tooMany(mostTasks, "tasks and regions")
		}
	case trace.EventTaskEnd, trace.EventRegionEnd:
		l.tasks = max(0, l.tasks-1)
	case trace.EventRangeBegin, trace.EventRangeActive:
		scope := e.Range().Scope
		if l.nested[scope]++; l.nested[scope] > mostNested {
			return tooMany(mostNested, "phases in one another")
		}
	case trace.EventRangeEnd:
		if scope := e.Range().Scope; l.nested[scope] > 1 {
			l.nested[scope]--
		} else {
			delete(l.nested, scope)
		}
	}
	return nil
}

func (l *live) transition(t trace.StateTransition) error {
	switch t.Resource.Kind {
	case trace.ResourceGoroutine:
		switch from, to := t.Goroutine(); {
		case to == trace.GoNotExist:
			l.goroutines = max(0, l.goroutines-1)
		case from == trace.GoNotExist, from == trace.GoUndetermined:
			if l.goroutines++; l.goroutines > mostGoroutines {
				return tooMany(mostGoroutines, "goroutines")
			}
		}
	case trace.ResourceProc:
		if from, _ := t.Proc(); from == trace.ProcUndetermined || from == trace.ProcNotExist {
			if l.procs++; l.procs > mostProcs {
				return tooMany(mostProcs, "Ps")
			}
		}
	}
	return nil
}

func (d *decoder) add(e trace.Event) {
	out := event{at: int64(e.Time())}
	switch e.Kind() {
	case trace.EventSync:
		snapshot := e.Sync().ClockSnapshot
		if snapshot == nil {
			return
		}
		out.at, out.kind, out.id = int64(snapshot.Trace), clock, snapshot.Wall.UnixNano()
	case trace.EventStateTransition:
		d.transition(e.StateTransition(), &out)
	case trace.EventMetric:
		if m := e.Metric(); m.Name == "/sched/gomaxprocs:threads" && m.Value.Kind() == trace.ValueUint64 {
			out.kind, out.id = procs, int64(m.Value.Uint64())
		}
	case trace.EventLog:
		if l := e.Log(); l.Category == heardAs {
			out.kind, out.name = heard, d.text(l.Message)
		}
	case trace.EventStackSample:
		out.kind, out.id, out.name = sample, int64(e.Goroutine()), d.stack(e.Stack())
	case trace.EventLabel:
		if l := e.Label(); l.Resource.Kind == trace.ResourceGoroutine {
			out.kind, out.id, out.name = label, int64(l.Resource.Goroutine()), d.text(l.Label)
		}
	case trace.EventRangeBegin, trace.EventRangeActive:
		out.kind, out.name = begin, d.text(e.Range().Name)
	case trace.EventRangeEnd:
		out.kind, out.name = end, d.text(e.Range().Name)
	}
	if d.events == nil {
		d.events = (*chunks.Get().(*[]event))[:0]
	}
	d.events = append(d.events, out)
}

func (d *decoder) transition(t trace.StateTransition, out *event) {
	switch t.Resource.Kind {
	case trace.ResourceGoroutine:
		_, to := t.Goroutine()
		out.kind, out.id = goroutine, int64(t.Resource.Goroutine())
		out.to = goroutineState(to)
		out.net = t.Reason == "network"
		if t.Stack != trace.NoStack {
			out.name = d.stack(t.Stack)
		}
	case trace.ResourceProc:
		_, to := t.Proc()
		out.kind, out.id, out.to = proc, int64(t.Resource.Proc()), idle
		switch to {
		case trace.ProcRunning:
			out.to = running
		case trace.ProcNotExist:
			out.to = gone
		}
	}
}

func goroutineState(s trace.GoState) state {
	switch s {
	case trace.GoRunnable:
		return runnable
	case trace.GoRunning:
		return running
	case trace.GoSyscall:
		return syscalled
	case trace.GoNotExist:
		return gone
	}
	return waiting
}

func (d *decoder) text(s string) int32 {
	i, ok := d.texts[s]
	if !ok {
		i = d.names.number(frame{function: s})
		d.texts[s] = i
	}
	return i
}

func (d *decoder) stack(s trace.Stack) int32 {
	if s == trace.NoStack {
		return 0
	}
	i, ok := d.stacks[s]
	if !ok {
		if f := summary(s); f != (frame{}) {
			i = d.names.number(f)
		}
		d.stacks[s] = i
	}
	return i
}

func summary(s trace.Stack) frame {
	var f frame
	for at := range s.Frames() {
		if at.Func == "runtime.asyncPreempt" {
			return frame{} // all that there is for a goroutine that was stopped while it computed
		}
		if f.function == "" && !inside(at.Func) {
			f.function = at.Func
		}
		f.root = at.Func
		f.serves = f.serves || serves(at.Func)
	}
	if f.function == "" {
		f.function = f.root
	}
	return f
}

// inside are functions that say little about a program.
func inside(function string) bool {
	for _, prefix := range []string{"runtime.", "internal/", "syscall.", "sync."} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// serves are the functions in which a goroutine takes a connection's requests, one after the other.
func serves(function string) bool {
	return function == "net/http.(*conn).serve" || function == "github.com/valyala/fasthttp.(*Server).serveConn"
}

// workers is how many generations are decoded at once, ahead of the analysis.
const workers = 2

// A part is a generation that is being decoded.
type part struct {
	events chan []event
	err    error // when events is closed
}

// decodeAll decodes the generations that next returns, several at once, and calls take with their events in the order of
// the trace, and done after each generation, with what made the rest of it unreadable. It returns early when ctx ends.
func decodeAll(ctx context.Context, next func() ([]byte, error), n *names, take func([]event), done func(error)) {
	parts := make(chan *part, workers-1)
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Add(1)
	go func() {
		defer running.Done()
		defer close(parts)
		for {
			g, err := next()
			if err == io.EOF {
				return
			}
			p := &part{events: make(chan []event, 64)}
			select {
			case parts <- p:
			case <-quit:
				return
			}
			running.Add(1)
			go func() {
				defer running.Done()
				defer close(p.events)
				if g != nil {
					p.err = decode(g, n, p.events, quit)
				}
				if err != nil {
					p.err = err
				}
			}()
			var left *leftOut
			if err != nil && !errors.As(err, &left) {
				return
			}
		}
	}()
	defer running.Wait()
	defer close(quit)
	for {
		p, more := receive(ctx, parts)
		if !more {
			return
		}
		for {
			events, more := receive(ctx, p.events)
			if !more {
				break
			}
			take(events)
			chunks.Put(&events)
		}
		if ctx.Err() != nil {
			return
		}
		done(p.err)
	}
}

// receive returns what comes next, until the channel is closed or ctx ends.
func receive[T any](ctx context.Context, from <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-from:
		return v, ok && ctx.Err() == nil
	case <-ctx.Done():
		return v, false
	}
}

// unix is the wall clock of a clock event.
func (e event) unix() time.Time { return time.Unix(0, e.id) }
