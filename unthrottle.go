// Package unthrottle gives a Go program the GOMAXPROCS that fits the CPU limit it is really held to, and says why. You need
// none of this if you build with Go 1.25 or later, your go.mod says go 1.25 or later, and the limit is on the process's own
// cgroup, as it is in most containers: the runtime does it by itself. You need it where the limit is on a cgroup above (a
// systemd slice, a pod that is limited as a whole), with an older Go, for one P at a limit of 1 CPU or less, where Go has
// two, for CPU requests, or to know the limit and its changes in your own code.
//
// [Set] reads the limit, decides and applies the decision:
//
//	d, undo := unthrottle.Set(unthrottle.Options{})
//	defer undo()
//	log.Print(d)
//
// [Watch] does the same and then follows changes of the limit, of the CPU affinity and of the cgroup itself. [Decide] is
// the decision alone, a pure function. Importing package auto for its effect calls Set with a policy from the
// environment.
//
// The limit is the smallest quota from the process's own cgroup up to the root of the mount. The Go runtime of 1.25 and
// later reads only the process's own cgroup; earlier ones, and programs whose go.mod says go 1.24 or earlier, read none.
// Where the runtime's own answer is right already, this package touches nothing: any call of runtime.GOMAXPROCS(n)
// would end the runtime's automatic updates.
//
// The package has no dependencies, prints nothing unless it is given a Logger, starts no goroutine, and leaves a
// GOMAXPROCS that the user has set in the environment as it is.
package unthrottle

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/fromenv"
)

// Options configure Set and Watch. The zero value is usable.
type Options struct {
	Policy   Policy        // zero: the policy Go
	Interval time.Duration // between two looks of Watch; 0 means a second
	Logger   Logger        // nil: silent
}

// A Logger takes a line for each decision, and one for each warning. *slog.Logger is one. It is an
// interface here because importing log/slog makes a program some 300 KB larger.
type Logger interface {
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
}

// Set reads the limit of this process, decides on GOMAXPROCS and applies it. The undo function puts back what was there
// before; where that was the Go runtime's own choice, it hands GOMAXPROCS back to the runtime with its automatic
// updates. Set never fails: what it could not find out is in the Decision, and then it leaves GOMAXPROCS as it is.
//
// Where the runtime's own number is right, Set leaves it to the runtime, which keeps following the process's own cgroup,
// and no other. Use Watch where a limit above it may change, or where the process may be moved.
func Set(o Options) (d Decision, undo func()) {
	e := env{get: os.Getenv}
	now := e.decide(&o.Policy)
	runtimes := now.apply()
	now.log(o.Logger)
	if !now.Changed {
		return *now, func() {}
	}
	return *now, undoTo(now.Before, runtimes)
}

func init() { fromenv.Set = setFromEnv }

// setFromEnv is Set for package auto: with the policy that the environment asks for, and without words.
func setFromEnv() {
	e := env{get: os.Getenv}
	p := new(Policy)
	e.policy(p)
	e.decide(p).apply()
}

// Watch sets GOMAXPROCS like Set and follows changes until ctx is done: of any quota from the process's own cgroup up,
// of the affinity, and of the cgroup the process is in. It calls onChange, which may be nil, with the first Decision
// and again whenever the wanted GOMAXPROCS, the limit or the number of CPUs changes, so that pools can be resized. If
// something else sets GOMAXPROCS in the meantime, such as the runtime, which sees only part of the limit, that lasts
// until the next look. When ctx is done, GOMAXPROCS stays as it is.
//
// Watch blocks; give it a goroutine of its own.
func Watch(ctx context.Context, o Options, onChange func(Decision)) {
	interval := o.Interval
	if interval <= 0 {
		interval = time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	w := watcher{
		decide: func() *Decision {
			e := env{get: os.Getenv}
			return e.decide(&o.Policy)
		},
		procs: func() int { return runtime.GOMAXPROCS(0) },
		apply: func(d *Decision) { d.apply() },
		notify: func(d *Decision) {
			d.log(o.Logger)
			if onChange != nil {
				onChange(*d)
			}
		},
	}
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
	last   *Decision
}

func (w *watcher) look() {
	d := w.decide()
	news := w.last == nil || !w.last.same(d)
	if !news && d.holds(w.procs()) {
		return
	}
	w.last = d
	w.apply(d)
	if news {
		w.notify(d)
	}
}

// holds reports whether d asks for nothing but the GOMAXPROCS that there is.
func (d *Decision) holds(procs int) bool {
	return d.Procs == 0 || d.Procs == procs || d.By == ByEnvironment
}

// same reports whether two decisions agree in all that a pool's size could depend on.
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

// decide is Decide for this process as it is now.
func (e *env) decide(p *Policy) *Decision {
	d := &Decision{Policy: *p}
	p = &d.Policy
	p.User = userProcs(e.get("GOMAXPROCS"))
	if p.Request == 0 && p.RequestEnv != "" {
		p.Request = e.cpus(p.RequestEnv)
	}
	if p.User == 0 && !p.Off {
		d.Limits = *cgroup.Self()
	}
	d.decide(d.take)
	d.Warnings = e.errs
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

// applying keeps two decisions from being applied at the same time.
var applying sync.Mutex

// apply puts d into effect, notes in d what that took, and keeps it for Last. Nobody may change d afterwards.
//
// It asks the runtime for its own choice before it sets another. That shows whether the runtime had chosen the number
// that was there, which is what apply returns; and if its choice is the wanted one, its automatic updates stay on or
// come back.
func (d *Decision) apply() (runtimes bool) {
	applying.Lock()
	d.Before = runtime.GOMAXPROCS(0)
	if !d.holds(d.Before) {
		d.Changed = true
		runtimes = setDefault() == d.Before
		if runtime.GOMAXPROCS(0) != d.Procs {
			runtime.GOMAXPROCS(d.Procs)
		}
	}
	last.Store(d)
	applying.Unlock()
	return runtimes
}

// undoTo returns a function that puts GOMAXPROCS back once, to a number or to the runtime's own choice.
func undoTo(before int, runtimes bool) func() {
	var once sync.Once
	return func() {
		once.Do(func() {
			applying.Lock()
			defer applying.Unlock()
			if !runtimes || setDefault() == 0 {
				runtime.GOMAXPROCS(before)
			}
		})
	}
}

// log writes one line about d.
func (d *Decision) log(l Logger) {
	if l == nil {
		return
	}
	for _, w := range d.Warnings {
		l.Warn("unthrottle: " + w.Error())
	}
	for _, w := range d.Limits.Warnings {
		l.Warn("unthrottle: " + w.Error())
	}
	l.Info("unthrottle: "+d.String(), "gomaxprocs", runtime.GOMAXPROCS(0), "before", d.Before)
}
