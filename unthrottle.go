// Package unthrottle gives a Go program the GOMAXPROCS that fits the CPU limit it is really held to, and says why. You need none of this if
// you build with Go 1.25 or later, your go.mod says go 1.25 or later, and the limit is on the process's own cgroup, as it is in most
// containers: the runtime does it on its own. You need it where the limit is on a cgroup above (a systemd slice, a pod that is limited as a
// whole), with an older Go, for CPU requests, to know the limit and its changes in your own code, or for one P at a limit of 1 CPU or less:
// Go has two there, and so has the policy [Go], which is the default; [Ceil] and [Floor] give one.
//
// [Set] reads the limit, decides and applies the decision:
//
//	d, undo := unthrottle.Set(unthrottle.Options{})
//	defer undo()
//	log.Print(d)
//
// [Watch] does the same and then follows changes of the limit, of the CPU affinity and of the cgroup itself. [Decide] is the decision
// alone, a pure function. Importing package auto for its effect is Set with a policy from the environment; importing auto/watch is Watch
// with one.
//
// The limit is the smallest quota from the process's own cgroup up to the root of the mount. The Go runtime of 1.25 and
// later reads only the process's own cgroup; earlier ones, and programs whose go.mod says go 1.24 or earlier, read none.
// Where the runtime's own answer is right already, this package touches nothing: any call of runtime.GOMAXPROCS(n)
// would end the runtime's automatic updates.
//
// The package has no dependencies, prints nothing unless it is given a Logger, starts no goroutine, and leaves a GOMAXPROCS that the user
// has set in the environment alone. Before version 1.0 a minor version may change the API; CHANGELOG.md says what breaks.
package unthrottle

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/fromenv"
)

// Options configure Set and Watch. The zero value is usable; [FromEnv] makes those that the environment asks for.
type Options struct {
	Policy   Policy        // zero: the policy Go
	Interval time.Duration // between two looks of Watch; 0 means a second

	// Logger and Logf each get a line for each decision, and one for each warning. Without them nothing is logged. Logf is for loggers that
	// have no Info and Warn with attributes: log.Printf, or the Infof of zap's SugaredLogger and of logrus.
	Logger Logger
	Logf   func(format string, args ...any)

	warnings []error // about the variables that Policy is from
}

// FromEnv returns Options with the policy that the environment asks for, as package auto has it; see [ParsePolicy]. What is
// wrong with the variables becomes warnings in the Decision.
func FromEnv() Options {
	p, errs := ParsePolicy(os.Getenv)
	return Options{Policy: p, warnings: errs}
}

// A Logger takes a line for each decision, and one for each warning. *slog.Logger is one. It is an
// interface here because importing log/slog makes a program some 300 KB larger.
type Logger interface {
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
}

// Set reads the limit of this process, decides on GOMAXPROCS and applies it. The undo function restores what was there before; where that
// was the Go runtime's own choice, it hands GOMAXPROCS back to the runtime with its automatic updates. Several Sets may be undone in any
// order: the newest that is left counts. Set never fails: what it could not find out is in the Decision, and then it leaves GOMAXPROCS
// unchanged.
//
// The person who runs the program has the last word: a GOMAXPROCS in the environment stays, and with UNTHROTTLE=off nothing is set,
// whatever the policy. A lower GOMAXPROCS that the program itself has set, or a library in it, is not raised.
//
// Where the runtime's own number is right, Set leaves it to the runtime, which keeps following the process's own cgroup,
// and no other. Use Watch where a limit above it may change, or where the process may be moved.
func Set(o Options) (d Decision, undo func()) {
	now := decide(o.Policy, o.warnings)
	undo = now.set()
	now.log(&o)
	return *now, undo
}

func init() { fromenv.Set = setFromEnv }

// setFromEnv is Set for package auto: with the policy that the environment asks for, without logging and without an undo.
func setFromEnv() {
	p, errs := ParsePolicy(os.Getenv)
	procs.Lock()
	defer procs.Unlock()
	decide(p, errs).apply()
}

// Watch sets GOMAXPROCS like Set and follows changes until ctx is done: of any quota from the process's own cgroup up, of the affinity, and
// of the cgroup the process is in. It calls onChange, which may be nil, with the first Decision and again whenever the wanted GOMAXPROCS,
// the limit or the number of CPUs changes, so that pools can be resized by Decision.Now. If something else sets GOMAXPROCS in the meantime,
// such as the runtime, which sees only part of the limit, that lasts until the next look; a lower one that the program sets itself stays.
// When ctx is done, GOMAXPROCS stays unchanged.
//
// If several run at the same time, the one that began last sets GOMAXPROCS. The others say so, and go on reporting changes.
//
// Watch blocks; give it a goroutine of its own. Package auto/watch is the same by a blank import.
func Watch(ctx context.Context, o Options, onChange func(Decision)) {
	interval := o.Interval
	if interval <= 0 {
		interval = time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	w := &watcher{
		decide: func() *Decision { return decide(o.Policy, o.warnings) },
		procs:  func() int { return runtime.GOMAXPROCS(0) },
		notify: func(d *Decision) {
			d.log(&o)
			if onChange != nil {
				onChange(*d)
			}
		},
	}
	w.apply = func(d *Decision) { d.lead(w) }
	begin(w)
	defer end(w)
	for w.look(); ; w.look() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// watcher is what Watch does at each look, apart from the clock.
type watcher struct {
	decide func() *Decision
	procs  func() int
	apply  func(*Decision)
	notify func(*Decision)

	wanted *Decision // of the last look, before it was applied
	now    int       // GOMAXPROCS as that left it
}

func (w *watcher) look() {
	d := w.decide()
	news := w.wanted == nil || !w.wanted.same(d)
	if !news && d.holds(w.procs()) {
		return
	}
	wanted := *d
	w.apply(d)
	if w.wanted = &wanted; news || d.Now != w.now {
		w.now = d.Now
		w.notify(d)
	}
}

// same reports whether two decisions agree in everything that a pool's size could depend on.
func (d *Decision) same(e *Decision) bool {
	return d.Procs == e.Procs && d.Limits.State == e.Limits.State && d.Limits.CPUs == e.Limits.CPUs &&
		d.Limits.From == e.Limits.From && d.Limits.Affinity == e.Limits.Affinity
}

var last atomic.Pointer[Decision]

// Last returns the newest Decision of Set or Watch in this process, however it was asked for, package auto included.
func Last() (d Decision, ok bool) {
	if p := last.Load(); p != nil {
		return *p, true
	}
	return Decision{}, false
}

// decide is Decide for the current state of this process.
func decide(p Policy, warnings []error) *Decision {
	d := &Decision{Policy: p, Warnings: warnings}
	d.Policy.operator = operator{procs: userProcs(os.Getenv("GOMAXPROCS")), off: os.Getenv("UNTHROTTLE") == Off.Name}
	if d.Policy.operator.off {
		d.Policy.Off = true
	}
	if d.Policy.operator.procs == 0 && !d.Policy.Off {
		d.Limits = *cgroup.Self()
	}
	d.decide(d.take)
	return d
}

// userProcs returns the GOMAXPROCS that the text of the environment variable sets, or 0 if the runtime would ignore it:
// the runtime accepts only a whole number from 1 to 2147483647.
func userProcs(env string) int {
	n, err := strconv.ParseInt(env, 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return int(n)
}

// log writes a line for each warning, and one about d.
func (d *Decision) log(o *Options) {
	if o.Logger == nil && o.Logf == nil {
		return
	}
	for _, w := range append(d.Warnings[:len(d.Warnings):len(d.Warnings)], d.Limits.Warnings...) {
		o.line(func(l Logger, line string) { l.Warn(line) }, w.Error())
	}
	o.line(func(l Logger, line string) { l.Info(line, "gomaxprocs", d.Now, "before", d.Before) }, d.String())
}

// line writes a line. A logger that panics, as a nil *slog.Logger does, must not end a program that only wants its GOMAXPROCS.
func (o *Options) line(write func(Logger, string), text string) {
	defer func() { _ = recover() }()
	text = "unthrottle: " + text
	if o.Logf != nil {
		o.Logf("%s", text)
	}
	if o.Logger != nil {
		write(o.Logger, text)
	}
}
