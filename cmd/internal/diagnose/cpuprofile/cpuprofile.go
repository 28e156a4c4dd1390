// Package cpuprofile answers: what did a Go program spend its CPU time on that depends on GOMAXPROCS? In goes a CPU profile as
// runtime/pprof writes it; out come its CPU time by class (Class), with the functions that ran, and its stacks as a tree. It judges
// nothing: a profile does not show when a program stood still, since its clock stands still too, and how much scheduling is too much
// depends on the program. Labels of goroutines are ignored.
package cpuprofile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// A Profile is what a CPU profile says.
type Profile struct {
	Program  string // file name of the main binary; "": unknown
	Began    time.Time
	Duration time.Duration // wall time; 0: unknown
	CPU      time.Duration // of all samples
	Period   time.Duration // CPU time between two samples; 0: unknown
	Samples  int64
	Classes  []Use // one for each of Classes, in the same order
	Root     *Frame

	// Interrupted is the CPU time of samples that were due while their thread was not on a CPU. Go's runtime interrupts what
	// seems to run for more than 10 ms, by a signal (SIGURG). A thread that is frozen or waits for a CPU gets it when it runs
	// again, together with the signal of the sample, and the kernel delivers the lower number first: so the sample finds
	// runtime.asyncPreempt. That function takes less than a microsecond; the sample is counted for what it interrupted.
	// A loop of arithmetic had a share of 0 at GOMAXPROCS 1 without a limit, 10 % at GOMAXPROCS 1 and 45 % at 8 under a limit
	// of half a CPU, and its CPU time a turn of the loop was the same in all of them.
	Interrupted time.Duration

	// NoIdle means that marking by idle Ps can't be distinguished from other marking: Go 1.21 and before.
	NoIdle bool
}

// A Use is what a class took.
type Use struct {
	CPU     time.Duration
	Samples int64
	Top     []Function // those that ran, the largest first
}

// A Function is one that was running.
type Function struct {
	Name string
	CPU  time.Duration
}

// A Frame is a function in the tree of stacks.
type Frame struct {
	Name     string
	Class    int // place in Classes of a stack that ends here
	CPU      time.Duration
	Children []*Frame // the largest first
}

// Excess is the CPU time of the classes that grow with GOMAXPROCS.
func (p *Profile) Excess() (cpu time.Duration) {
	for i, u := range p.Classes {
		if classes[i].Excess {
			cpu += u.CPU
		}
	}
	return cpu
}

// Work is the CPU time of the program's own code.
func (p *Profile) Work() time.Duration { return p.Classes[program].CPU }

// A KindError means that the input is something other than a CPU profile.
type KindError struct{ Kind string }

func (e *KindError) Error() string { return "this is " + e.Kind + ", not a CPU profile" }

// Kinds that callers have advice for.
const (
	Heap    = "a profile of memory"
	Trace   = "an execution trace"
	Text    = "a profile as text"
	HTML    = "a page of HTML"
	NoGo    = "a CPU profile of a program that is not Go"
	Empty   = "empty"
	JSON    = "JSON"
	Program = "a program"
)

// Read reads a profile. Its memory is bounded: see bounds.go.
func Read(r io.Reader) (*Profile, error) {
	data, err := readBounded(r)
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseUncompressed(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the profile: %w", err)
	}
	return convert(p)
}

// convert makes our facts of a profile.
func convert(p *profile.Profile) (*Profile, error) {
	at, scale, err := cpuValue(p)
	if err != nil {
		return nil, err
	}
	out := &Profile{Classes: make([]Use, len(classes))}
	if p.DurationNanos > 0 {
		out.Duration = time.Duration(p.DurationNanos)
	}
	if p.TimeNanos > 0 {
		out.Began = time.Unix(0, p.TimeNanos)
	}
	if p.Period > 0 && isCPU(p.PeriodType) {
		out.Period = time.Duration(p.Period)
	}
	if len(p.Mapping) > 0 {
		if file := p.Mapping[0].File; file != "" {
			out.Program = path.Base(strings.ReplaceAll(file, `\`, "/"))
		}
	}
	c := newCollector(p)
	for _, s := range p.Sample {
		v := s.Value[at]
		if v < 0 || v > most/scale || int64(out.CPU) > most-v*scale {
			return nil, fmt.Errorf("reading the profile: a value of %d can't be CPU time", v)
		}
		cpu, n := time.Duration(v*scale), int64(1)
		if i := slices.IndexFunc(p.SampleType, isCount); i >= 0 {
			n = min(max(0, s.Value[i]), most-out.Samples)
		} else if out.Period > 0 {
			n = int64(cpu / out.Period)
		}
		out.CPU += cpu
		out.Samples += n
		if err := c.add(s, cpu, n, out); err != nil {
			return nil, err
		}
	}
	if !c.isGo && out.CPU > 0 {
		return nil, &KindError{NoGo}
	}
	c.finish(out)
	return out, nil
}

// most is more nanoseconds than any profile has: 146 years.
const most = int64(1) << 62

func isCPU(t *profile.ValueType) bool {
	return t != nil && t.Type == "cpu" && t.Unit == "nanoseconds"
}

func isCount(t *profile.ValueType) bool { return t.Type == "samples" && t.Unit == "count" }

// cpuValue finds which value of a sample is its CPU time: Go writes samples/count and cpu/nanoseconds. Other profilers
// write only the count, and say how much CPU time a sample is.
func cpuValue(p *profile.Profile) (at int, scale int64, err error) {
	if i := slices.IndexFunc(p.SampleType, isCPU); i >= 0 {
		return i, 1, nil
	}
	if i := slices.IndexFunc(p.SampleType, isCount); i >= 0 && isCPU(p.PeriodType) && p.Period > 0 {
		return i, p.Period, nil
	}
	var names []string
	for _, t := range p.SampleType {
		names = append(names, t.Type)
	}
	for _, k := range []struct{ has, kind string }{
		{"inuse_space", Heap},
		{"alloc_space", Heap},
		{"contentions", "a profile of contention (block or mutex)"},
		{"goroutine", "a profile of goroutines"},
		{"goroutineleak", "a profile of goroutines"},
		{"threadcreate", "a profile of threads"},
	} {
		if slices.Contains(names, k.has) {
			return 0, 0, &KindError{k.kind}
		}
	}
	if len(names) == 0 {
		return 0, 0, errors.New("reading the profile: no values")
	}
	return 0, 0, &KindError{fmt.Sprintf("a profile of %q", strings.Join(names, ", "))}
}

// A collector adds up samples.
type collector struct {
	marks         map[*profile.Function]marks
	root          *node
	top           []map[string]time.Duration
	isGo          bool
	nodes, frames int

	drains, byWorker bool // marking was seen; and by workers whose kind is known
}

// A node is a Frame that is being made.
type node struct {
	Frame
	children map[string]*node
}

// Bounds of the tree: what is beyond is added to the frame that it is in.
const (
	deepest   = 256
	nodesMost = 1 << 18
)

// framesMost is how many frames all stacks may have together: a small file can name a location of many lines many times.
const framesMost = 1 << 27

func newCollector(p *profile.Profile) *collector {
	c := &collector{marks: map[*profile.Function]marks{}, root: &node{Frame: Frame{Class: other}}, top: make([]map[string]time.Duration, len(classes))}
	for i := range c.top {
		c.top[i] = map[string]time.Duration{}
	}
	for _, f := range p.Function {
		c.marks[f] = marksOf(f.Name)
		switch {
		case f.Name == "runtime.mcall", f.Name == "runtime.main", f.Name == "runtime.mstart", f.Name == "runtime.goexit",
			f.Name == "runtime.systemstack", strings.HasPrefix(f.Name, "runtime.malloc"), c.marks[f].any != 0:
			c.isGo = true
		case strings.HasPrefix(f.Filename, "runtime/"), strings.Contains(f.Filename, "/src/runtime/"), strings.HasSuffix(f.Filename, ".go"):
			c.isGo = true
		}
		if strings.HasPrefix(f.Name, "runtime.gcDrainMarkWorker") {
			c.byWorker = true
		}
	}
	return c
}

// add adds a sample. Its locations begin with the one that ran, and so do the lines of a location, which are functions
// that were inlined.
func (c *collector) add(s *profile.Sample, cpu time.Duration, n int64, out *Profile) error {
	var where stack
	name, worker, drain := "", false, false
	at := c.root
	at.CPU += cpu
	depth := 0
	for i, l := range slices.Backward(s.Location) {
		if c.frames += len(l.Line); c.frames > framesMost {
			return errLarge
		}
		for _, line := range slices.Backward(orUnknown(l)) {
			f := line.Function
			if f != nil && f.Name == "runtime.asyncPreempt" && i == 0 {
				out.Interrupted += cpu
				continue
			}
			m := marks{runtime: true} // no name: the frames around it decide
			if name = "?"; f != nil && f.Name != "" {
				name, m = f.Name, c.marks[f]
			}
			where = where.add(m)
			worker = worker || strings.HasPrefix(name, "runtime.gcBgMarkWorker")
			drain = drain || name == "runtime.gcDrain"
			if depth++; depth <= deepest {
				at = c.child(at, name, where.class())
				if at != nil {
					at.CPU += cpu
				}
			}
		}
	}
	c.drains = c.drains || worker && drain
	i := where.class()
	use := &out.Classes[i]
	use.CPU += cpu
	use.Samples += n
	if name != "" {
		c.top[i][name] += cpu
	}
	return nil
}

// child is the frame of a function within another; nil if there are too many.
func (c *collector) child(of *node, name string, class int) *node {
	if of == nil {
		return nil
	}
	if n := of.children[name]; n != nil {
		return n
	}
	if c.nodes++; c.nodes > nodesMost {
		return nil
	}
	if of.children == nil {
		of.children = map[string]*node{}
	}
	n := &node{Frame: Frame{Name: name, Class: class}}
	of.children[name] = n
	return n
}

// orUnknown are the lines of a location, or one without a function where it has none.
func orUnknown(l *profile.Location) []profile.Line {
	if len(l.Line) == 0 {
		return []profile.Line{{}}
	}
	return l.Line
}

// topMost is how many functions of a class are kept.
const topMost = 8

func (c *collector) finish(out *Profile) {
	for i, functions := range c.top {
		for name, cpu := range functions {
			out.Classes[i].Top = append(out.Classes[i].Top, Function{name, cpu})
		}
		slices.SortFunc(out.Classes[i].Top, func(a, b Function) int {
			return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Name, b.Name))
		})
		out.Classes[i].Top = out.Classes[i].Top[:min(topMost, len(out.Classes[i].Top))]
	}
	out.Root = c.root.done()
	out.NoIdle = c.drains && !c.byWorker
}

func (n *node) done() *Frame {
	for _, child := range n.children {
		n.Children = append(n.Children, child.done())
	}
	n.children = nil
	slices.SortFunc(n.Children, func(a, b *Frame) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Name, b.Name))
	})
	return &n.Frame
}

// Prune returns the tree without the frames that have less than a share of the CPU time, the smallest first, until at most count are left.
func (p *Profile) Prune(share float64, count int) *Frame {
	least := time.Duration(share * float64(p.CPU))
	var sizes []time.Duration
	var walk func(f *Frame)
	walk = func(f *Frame) {
		if f.CPU > 0 && f.CPU >= least {
			sizes = append(sizes, f.CPU)
			for _, child := range f.Children {
				walk(child)
			}
		}
	}
	walk(p.Root)
	if len(sizes) > count {
		slices.SortFunc(sizes, func(a, b time.Duration) int { return cmp.Compare(b, a) })
		least = max(least, sizes[count]+1)
	}
	return p.Root.prune(max(least, 1))
}

func (f *Frame) prune(least time.Duration) *Frame {
	out := *f
	out.Children = nil
	for _, child := range f.Children {
		if child.CPU >= least {
			out.Children = append(out.Children, child.prune(least))
		}
	}
	return &out
}
