package golive

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A memory is a process's memory, by address.
type memory interface {
	io.ReaderAt
	// readSpans reads several places at once into buf, one after the other.
	readSpans(buf []byte, spans []span) error
}

// A span is a place in memory.
type span struct {
	addr uint64
	size int
}

// maxProcs bounds GOMAXPROCS: four times the CPUs that Linux can have.
const maxProcs = 1 << 15

// A layout is where things are in runtime.schedt and runtime.work, taken from the debug information of programs of each version. No patch
// release changed one. It is the same on all 64-bit architectures.
type layout struct {
	npidle, nmspinning, timeToRun uint64
	custom                        uint64 // customGOMAXPROCS; 0: there isn't one
	stats                         uint64 // work.cpuStats, from work.cycles on
}

var layouts = map[int]layout{
	21: {npidle: 88, nmspinning: 92, timeToRun: 320, stats: 88},
	22: {npidle: 88, nmspinning: 92, timeToRun: 320, stats: 80},
	23: {npidle: 88, nmspinning: 92, timeToRun: 320, stats: 80},
	24: {npidle: 88, nmspinning: 92, timeToRun: 320, stats: 80},
	25: {npidle: 96, nmspinning: 100, timeToRun: 344, custom: 328, stats: 80},
	26: {npidle: 112, nmspinning: 116, timeToRun: 360, custom: 344, stats: 80},
	27: {npidle: 112, nmspinning: 116, timeToRun: 360, custom: 344, stats: 80},
}

// A code is what a program's file says about the runtime in it. One that is remembered serves many: each process works with one of its own,
// see on.
type code struct {
	m      *image
	tab    pclntab
	hasTab bool
	funcs  map[string]function
	syms   map[string]uint64
	layout layout // zero where the version isn't known

	// What was found out from the file with the help of a live process is true for the next one as well.
	text    uint64          // runtime.text, 0 before it is known
	decoded map[string]uses // functions
}

// on is the code, read from the same file opened again. What is found out with it does not go into c.
func (c *code) on(file io.ReaderAt) *code {
	own := *c
	own.m = c.m.on(file)
	own.tab.m = own.m
	own.decoded = maps.Clone(c.decoded)
	return &own
}

// learned reports whether c, which was made of before, knows more by now.
func (c *code) learned(before *code) bool {
	return c.text != before.text || len(c.decoded) != len(before.decoded) || (c.syms == nil) != (before.syms == nil)
}

const (
	procresize = "runtime.procresize" // always in a program, as the start calls it; runtime.GOMAXPROCS need not be
	pidleput   = "runtime.pidleput"
	gcStart    = "runtime.gcStart" // counts work.cycles up
)

// readCode reads a file. If err is ErrNotGo, it is not a Go program.
func readCode(m *image) (*code, error) {
	if m.Sectioned && !m.isGo() {
		return nil, ErrNotGo
	}
	c := &code{m: m}
	c.tab, c.hasTab = m.findPclntab(procresize)
	if !c.hasTab && !m.Sectioned {
		return nil, ErrNotGo
	}
	if c.hasTab {
		c.funcs = c.tab.find(procresize, pidleput, gcStart)
	}
	if m.Word == 8 && !strings.Contains(m.version, "staticlockranking") { // an experiment that makes each lock larger
		c.layout = layouts[minor(m.version)]
	}
	return c, nil
}

// variables is where variables may be in the live process.
type variables struct {
	how        string
	gomaxprocs uint64   // 0 when allp alone says the number
	allp       []uint64 // places that may be it
	sched      uint64   // 0 when it isn't known
	cycles     uint64   // work.cycles; 0 when it isn't known
	collector  []uint64 // places that may be gcController
}

// locate finds the variables: in the code, else by their symbols, else by a search of the data.
func (c *code) locate(live io.ReaderAt, bias uint64) (variables, error) {
	if v, ok := c.byCode(live, bias); ok {
		return v, nil
	}
	if v, ok := c.bySymbol(bias); ok {
		return v, nil
	}
	return c.bySearch(live, bias)
}

// usesOf decodes a function from the file.
func (c *code) usesOf(name string, text uint64) (uses, bool) {
	const maxFunction = 64 << 10
	if u, ok := c.decoded[name]; ok {
		return u, true
	}
	f, ok := c.funcs[name]
	if !ok || f.end-f.start > maxFunction || !c.m.inCode(text+f.start) {
		return uses{}, false
	}
	buf := make([]byte, f.end-f.start)
	if _, err := c.m.ReadAt(buf, int64(text+f.start)); err != nil {
		return uses{}, false
	}
	u, ok := decode(c.m.Machine, buf, text+f.start)
	if ok {
		if c.decoded == nil {
			c.decoded = map[string]uses{}
		}
		c.decoded[name] = u
	}
	return u, ok
}

func (c *code) byCode(live io.ReaderAt, bias uint64) (variables, bool) {
	v := variables{how: "decoded"}
	if c.m.Machine != elf.EM_X86_64 && c.m.Machine != elf.EM_AARCH64 || len(c.funcs) == 0 {
		return v, false
	}
	if c.text == 0 {
		c.text, _ = c.tab.text(live, bias)
	}
	if c.text == 0 {
		return v, false
	}
	u, ok := c.usesOf(procresize, c.text)
	// The first load and a store name the same variable. Without optimisation the store is in a function of its own.
	if !ok || !c.m.inData(u.load) || len(u.stores) > 0 && !slices.Contains(u.stores, u.load) {
		return v, false
	}
	v.gomaxprocs = u.load + bias
	for _, addr := range u.all {
		if c.m.inData(addr) {
			v.allp = append(v.allp, addr+bias)
		}
	}
	if put, ok := c.usesOf(pidleput, c.text); ok && c.m.inData(put.add) && c.layout.npidle > 0 {
		v.sched = put.add - c.layout.npidle + bias
	} else if c.layout.npidle > 0 {
		v.sched = c.symbol("runtime.sched", bias)
	}
	start, _ := c.usesOf(gcStart, c.text)
	if c.m.inData(start.add) && c.layout.npidle > 0 {
		v.cycles = start.add + bias
	}
	for _, addr := range start.all {
		if c.m.inData(addr) {
			v.collector = append(v.collector, addr+bias)
		}
	}
	return v, true
}

// symbol returns where a symbol is in the live process, 0 when the file has none.
func (c *code) symbol(name string, bias uint64) uint64 {
	if c.syms == nil {
		if c.syms = c.m.symbols("runtime.gomaxprocs", "runtime.allp", "runtime.sched", "runtime.gcController"); c.syms == nil {
			c.syms = map[string]uint64{}
		}
	}
	if addr := c.syms[name]; c.m.inData(addr) {
		return addr + bias
	}
	return 0
}

func (c *code) bySymbol(bias uint64) (variables, bool) {
	v := variables{how: "symbol", gomaxprocs: c.symbol("runtime.gomaxprocs", bias)}
	allp := c.symbol("runtime.allp", bias)
	v.allp = []uint64{allp}
	if c.layout.npidle > 0 {
		v.sched = c.symbol("runtime.sched", bias)
	}
	if collector := c.symbol("runtime.gcController", bias); collector != 0 {
		v.collector = []uint64{collector}
	}
	return v, v.gomaxprocs != 0 && allp != 0
}

// bySearch looks in all variables for a slice whose elements are Ps. The number of a P and its state would be too weak a
// sign of a single one. A strong one is its deferpool, a slice of 32 that begins just after itself.
func (c *code) bySearch(live io.ReaderAt, bias uint64) (variables, error) {
	m := c.m
	v := variables{how: "scan"}
	tries := 1 << 18 // of things that may be a P
	word := m.Word
	left := uint64(maxScan)
	lens := map[uint64]bool{}
	head := make([]byte, 40*word) // deferpool is at word 13 or so
	for _, p := range m.Loads {
		if p.Flags&elf.PF_W == 0 {
			continue
		}
		size := min(p.Memsz, left)
		left -= size
		from := p.Vaddr + bias
		scan(live, from, from+size, 3*word-1, func(at uint64, piece []byte) bool {
			skip := int((uint64(word) - at%uint64(word)) % uint64(word))
			for i := skip; i+3*word <= len(piece); i += word {
				n, limit := m.Uint(piece[i+word:]), m.Uint(piece[i+2*word:])
				if n == 0 || n > maxProcs || limit < n || limit > 2*maxProcs {
					continue
				}
				array := m.Uint(piece[i:])
				if array < pageSize || array%uint64(word) != 0 {
					continue
				}
				if m.hasPs(live, array, n, head, &tries) && len(v.allp) < maxUses && !slices.Contains(v.allp, at+uint64(i)) {
					v.allp = append(v.allp, at+uint64(i))
					lens[n] = true
				}
				if tries <= 0 {
					return true
				}
			}
			return false
		})
	}
	switch {
	case len(v.allp) == 0 || tries <= 0:
		return v, errUnproven
	case len(lens) > 1:
		return v, fmt.Errorf("%d different values could be GOMAXPROCS: %w", len(lens), errUnproven)
	}
	return v, nil
}

// hasPs reports whether the array at an address holds n Ps.
func (m *image) hasPs(live io.ReaderAt, array, n uint64, head []byte, tries *int) bool {
	pointer := make([]byte, m.Word)
	for i := range n {
		if *tries--; *tries <= 0 {
			return false
		}
		if _, err := live.ReadAt(pointer, int64(array+i*uint64(m.Word))); err != nil {
			return false
		}
		p := m.Uint(pointer)
		if p < pageSize || p%uint64(m.Word) != 0 {
			return false
		}
		if _, err := live.ReadAt(head, int64(p)); err != nil {
			return false
		}
		if uint64(m.Order.Uint32(head)) != i || m.Order.Uint32(head[4:]) > pDead || !m.hasDeferpool(p, head) {
			return false
		}
	}
	return true
}

func (m *image) hasDeferpool(p uint64, head []byte) bool {
	for at := 8; at+3*m.Word <= len(head); at += m.Word {
		if m.Uint(head[at:]) == p+uint64(at+3*m.Word) && m.Uint(head[at+2*m.Word:]) == 32 {
			return true
		}
	}
	return false
}

// States of a P, runtime._Pidle and so on.
const (
	pIdle = iota
	pRunning
	pSyscall
	pGCStop
	pDead
)

// A reader reads a runtime whose variables were found. It keeps the addresses of the Ps, so that a sample is one read.
type reader struct {
	m      *image
	mem    memory
	v      variables
	layout layout

	array uint64   // of allp as read last
	procs []uint64 // addresses of the Ps
}

// A sample is what is read at once. It is lent to one reader after the other: a node has many programs.
type sample struct {
	spans []span
	buf   []byte
}

var samples = sync.Pool{New: func() any { return new(sample) }}

// pauses are slept between tries while the value can't be proven. GOMAXPROCS is changed with the world stopped, which is short unless the
// process is frozen by its quota meanwhile.
var pauses = []time.Duration{0, 0, 100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}

// patience is for a program that was made to be slow to read.
const patience = 2 * time.Second

// newReader finds the variables of a live runtime and proves them.
func newReader(c *code, mem memory, bias uint64) (*reader, error) {
	last := errUnproven
	end := time.Now().Add(patience)
	for _, pause := range pauses {
		time.Sleep(pause)
		if time.Now().After(end) {
			break
		}
		v, err := c.locate(mem, bias)
		if err != nil {
			last = err
			continue
		}
		r := &reader{m: c.m, mem: mem, v: v, layout: c.layout}
		for _, allp := range v.allp {
			r.v.allp = []uint64{allp}
			if last = r.try(nil); last == nil {
				return r, nil
			}
			if errors.Is(last, ErrExited) || time.Now().After(end) {
				return nil, last
			}
		}
	}
	return nil, last
}

// sample reads until what it read agrees. It goes into s, unless that is nil.
func (r *reader) sample(s *Sched) error {
	var err error
	for _, pause := range pauses {
		time.Sleep(pause)
		if err = r.try(s); err == nil || !errors.Is(err, errUnproven) || errors.Is(err, ErrExited) {
			return err
		}
	}
	return err
}

// try reads once with the addresses from last time, and again if they are no longer right.
func (r *reader) try(s *Sched) error {
	if len(r.procs) > 0 {
		if err := r.read(s); err == nil {
			return nil
		}
	}
	if err := r.refresh(); err != nil {
		return err
	}
	return r.read(s)
}

// refresh reads where the Ps are.
func (r *reader) refresh() error {
	word := r.m.Word
	r.procs = r.procs[:0]
	header := make([]byte, 3*word)
	if err := r.mem.readSpans(header, []span{{r.v.allp[0], len(header)}}); err != nil {
		return err
	}
	array, n, limit := r.m.Uint(header), r.m.Uint(header[word:]), r.m.Uint(header[2*word:])
	if n == 0 || n > maxProcs || limit < n || array < pageSize || array%uint64(word) != 0 {
		return errUnproven
	}
	pointers := make([]byte, int(n)*word)
	if err := r.mem.readSpans(pointers, []span{{array, len(pointers)}}); err != nil {
		return fmt.Errorf("%w: %w", errUnproven, err)
	}
	r.array = array
	for i := range int(n) {
		r.procs = append(r.procs, r.m.Uint(pointers[i*word:]))
	}
	return nil
}

// schedFrom is the first byte read of schedt, the list of idle Ps just before their count.
func (r *reader) schedFrom() uint64 { return r.layout.npidle - 8 }

// latencies is how many counts a runtime.timeHistogram has: four for each of 40 powers of two, and two for what is outside.
const latencies = 4*40 + 2

// schedSize is how much of schedt is read: up to the end of that.
func (r *reader) schedSize() int { return int(r.layout.timeToRun-r.schedFrom()) + latencies*8 }

const pHead = 8 // bytes of a P: u32 id · u32 status

// plan lays out a sample: gomaxprocs · allp · its array · the head of each P, and with the scheduler's state also schedt · work.cycles.
func (r *reader) plan(m *sample, sched bool) {
	word := r.m.Word
	m.spans = append(m.spans[:0], span{r.v.gomaxprocs, 4}, span{r.v.allp[0], 3 * word}, span{r.array, len(r.procs) * word})
	if r.v.gomaxprocs == 0 {
		m.spans[0].addr = r.v.allp[0] // to have the same plan; it isn't looked at
	}
	for _, p := range r.procs {
		m.spans = append(m.spans, span{p, pHead})
	}
	if sched {
		m.spans = append(m.spans, span{r.v.sched + r.schedFrom(), r.schedSize()})
		if r.v.cycles != 0 {
			m.spans = append(m.spans, span{r.v.cycles, 4})
		}
	}
	size := 0
	for _, s := range m.spans {
		size += s.size
	}
	m.buf = slices.Grow(m.buf[:0], size)[:size]
}

// read takes a sample by plan, and checks that it is one. It goes into s, unless that is nil.
func (r *reader) read(s *Sched) error {
	m := samples.Get().(*sample)
	defer samples.Put(m)
	r.plan(m, s != nil)
	if err := r.mem.readSpans(m.buf, m.spans); err != nil {
		if errors.Is(err, ErrExited) {
			return err
		}
		return fmt.Errorf("%w: %w", errUnproven, err)
	}
	word, n := r.m.Word, len(r.procs)
	header, pointers := m.buf[4:], m.buf[4+3*word:]
	heads := pointers[n*word:]
	if r.v.gomaxprocs != 0 && r.m.Order.Uint32(m.buf) != uint32(n) ||
		r.m.Uint(header) != r.array || r.m.Uint(header[word:]) != uint64(n) {
		return errUnproven
	}
	for i, p := range r.procs {
		head := heads[i*pHead:]
		if r.m.Uint(pointers[i*word:]) != p || r.m.Order.Uint32(head) != uint32(i) || r.m.Order.Uint32(head[4:]) > pDead {
			return errUnproven
		}
	}
	if s == nil {
		return nil
	}
	sched := heads[n*pHead:]
	if !r.schedAgrees(sched) {
		return errUnproven
	}
	r.decode(s, heads, sched)
	return nil
}

// schedAgrees reports whether schedt is where it is thought to be: before the count of idle Ps is one of them or none.
func (r *reader) schedAgrees(part []byte) bool {
	first, idle, spinning := r.m.Uint(part), r.m.Order.Uint32(part[8:]), r.m.Order.Uint32(part[r.layout.nmspinning-r.schedFrom():])
	if r.layout.custom != 0 && part[r.layout.custom-r.schedFrom()] > 1 {
		return false
	}
	return (first == 0 || slices.Contains(r.procs, first)) && idle <= uint32(len(r.procs)) && spinning <= uint32(len(r.procs))
}

// schedule takes a sample of the scheduler, with patience or without.
func (r *reader) schedule(patient bool) (s Sched, err error) {
	if r.v.sched == 0 || r.layout.npidle == 0 {
		return s, ErrNoSched
	}
	if patient {
		err = r.sample(&s)
	} else {
		err = r.try(&s)
	}
	return s, err
}

// decode takes the scheduler's state from a sample: from the heads of the Ps, and from schedt and what follows it.
func (r *reader) decode(s *Sched, heads, part []byte) {
	order := r.m.Order
	*s = Sched{Procs: len(r.procs)}
	for i := range r.procs {
		switch order.Uint32(heads[i*pHead+4:]) {
		case pIdle:
			s.Idle++
		case pRunning:
			s.Running++
		case pSyscall:
			s.Syscall++
		case pGCStop:
			s.GCStop++
		}
	}
	s.IdleProcs = int(order.Uint32(part[8:]))
	s.Spinning = int(order.Uint32(part[r.layout.nmspinning-r.schedFrom():]))
	if r.layout.custom != 0 {
		s.Custom, s.CustomKnown = part[r.layout.custom-r.schedFrom()] == 1, true
	}
	counts := part[r.layout.timeToRun-r.schedFrom():]
	for k := range latencies {
		s.Waits += order.Uint64(counts[k*8:])
	}
	if r.v.cycles != 0 {
		s.Collections, s.CollectionsKnown = order.Uint32(part[r.schedSize():]), true
	}
}
