package rule

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// Facts are what the rules ask about a program, wherever that was seen: by a look at its process, by a heartbeat in its group,
// in its trace or its profile. What is not known is zero or nil, and a rule that lacks its facts says nothing.
type Facts struct {
	Limits cgroup.Limits
	Procs  int            // its GOMAXPROCS
	Source choice.Source  // of its GOMAXPROCS
	Minor  int            // of its Go version: 24 for Go 1.24.3
	Alone  choice.Alone   // what it does if no GOMAXPROCS is in its environment
	Chosen *choice.Choice // what chose its GOMAXPROCS, if that is a rule that looks at the limit

	OutOfSight bool // its limit can't be seen from inside its container, by no runtime and no library

	Wall     time.Duration     // for which it was observed
	CPU      *float64          // CPUs that it used
	Running  *float64          // Ps that had work, on average; their threads may have waited for a CPU
	Spinning float64           // threads that looked for work, on average
	Queue    *Queue            // of its threads
	Counted  cgroup.Throttling // of its groups meanwhile
	Frozen   *Frozen           // by its limit
	Pressure *Pressure         // on its group, from any cause
	Lasting  bool              // it was counted for long: a share of that is not one burst
	Still    freeze.Verdict    // what its standstills come from, if they were searched for a rhythm
	Why      []string          // that is
	Doubt    string            // why that is not sure; "": it is
	Heap     *Heap
	Memory   *Memory
	Host     Host
	Stale    *Stale
}

// Frozen is the share of the time in which a limit made the program's group stand still.
type Frozen struct {
	Share float64
	Exact bool // false: it is at least that much
}

// Pressure are the shares of the time in which threads of a program's group were ready and could not run: all of them, and at least one.
// The kernel counts it for a limit as for neighbours that have the CPUs.
type Pressure struct{ All, Some float64 }

// A Queue is what threads did, in CPUs on average: they ran, or they were ready to run and waited for a CPU.
type Queue struct{ Ran, Waited float64 }

// Heap is how often a heap is collected, and how large it may be.
type Heap struct {
	Collected, Switched float64 // collections, and goroutines that began to run, a second
	Memory              int64   // bytes that belong to no file, including the heap; 0: not known
}

// Host is the system as a whole.
type Host struct {
	host.System
	Others *float64 // CPUs that others than the program's group used
}

// OfProcess are the facts of a look at a process.
func OfProcess(p *host.Process, s host.System) *Facts {
	u := p.Usage
	f := &Facts{
		Limits: p.System.Limits, Procs: p.Procs(), Source: p.Source(), Chosen: chosen(p), Wall: u.Wall, Counted: u.Throttling,
		Spinning: u.Spinning, Host: Host{System: s}, OutOfSight: p.System.OutOfSight(),
	}
	if p.Program != nil {
		f.Minor = p.Program.Minor()
		f.Alone = p.System.Alone(p.Process)
	}
	if u.Wall > 0 {
		cpu := u.CPU.Seconds() / u.Wall.Seconds()
		share, exact := u.FrozenShare(f.Limits.Affinity)
		f.CPU, f.Frozen = &cpu, &Frozen{share, exact}
	}
	if u.Samples > 0 {
		f.Running = &u.Running
	}
	if wall := u.DelayWall.Seconds(); wall > 0 {
		f.Queue = &Queue{u.DelayCPU.Seconds() / wall, u.Delay.Seconds() / wall}
	}
	if u.GCKnown {
		f.Heap = &Heap{u.Collected, u.Switched, u.AnonMemory}
	}
	if p.Collector != nil {
		f.Memory = &Memory{Limit: p.System.Memory, Collector: *p.Collector, Collecting: u.Collecting}
	}
	return f
}

// chosen is what chose a process's GOMAXPROCS, if that is a rule that looks at the limit.
func chosen(p *host.Process) *choice.Choice {
	by := p.Prediction
	if by.Rule == "" || p.Source() != by.Source || p.Procs() != by.Procs || by.Source == choice.FromEnvironment || by.Source == host.FromCall {
		return nil
	}
	c := by.Choice
	if c.Why == "" {
		c.Why = by.Why
	}
	return &c
}

// limited reports whether a limit is in force and known.
func (f *Facts) limited() bool { return f.Limits.State == cgroup.Limited }

// allowed is how many CPUs it may use: its limit or its affinity mask; 0: not known.
func (f *Facts) allowed() float64 {
	cpus := float64(f.Limits.Affinity)
	if f.limited() && (cpus == 0 || f.Limits.CPUs < cpus) {
		return f.Limits.CPUs
	}
	return cpus
}

// right is GOMAXPROCS by Go's own rule, if that knew all; 0: not known.
func (f *Facts) right() int { return unthrottle.Decide(f.Limits, unthrottle.Policy{}).Procs }

// share is the part of the periods that were throttled; 0 if none is counted.
func (f *Facts) share() float64 {
	if o := f.Counted.Owner; o.Known && o.Periods > 0 {
		return float64(o.Throttled) / float64(o.Periods)
	}
	return 0
}

// frozen is the share of the time in which a limit made it stand still; 0 if that is not known.
func (f *Facts) frozen() float64 {
	if f.Frozen == nil {
		return 0
	}
	return f.Frozen.Share
}

// stopped is the share of the periods that were throttled or, where none is counted and the limit is used up, of the time in which no
// thread could run.
func (f *Facts) stopped() float64 {
	if f.pressed() && f.atLimit() {
		return f.Pressure.All
	}
	return f.share()
}

// pressed reports whether pressure is all that is known of what stops it, and is worth saying.
func (f *Facts) pressed() bool {
	return !f.Counted.Owner.Known && f.Frozen == nil && f.Pressure != nil && f.Pressure.All >= 0.05 && f.limited() && f.CPU != nil && !f.idle()
}

// atLimit reports whether it used about all that its limit allows.
func (f *Facts) atLimit() bool { return f.limited() && f.CPU != nil && *f.CPU >= 0.9*f.Limits.CPUs }

// busy reports whether the program is known to do enough for a rule to matter.
func (f *Facts) busy() bool { return f.CPU != nil && *f.CPU >= 0.01 }

// idle reports whether it is known to do nothing.
func (f *Facts) idle() bool { return f.CPU != nil && !f.busy() }

// wanting is how many CPUs its threads would use if they got them: what they used and what they waited for. Its Ps show that,
// or else its threads' run queues.
func (f *Facts) wanting() (cpus float64, ok bool) {
	switch {
	case f.CPU == nil:
		return 0, false
	case f.Running != nil && *f.Running >= *f.CPU:
		return *f.Running, true
	case f.Queue != nil:
		return f.Queue.Ran + f.Queue.Waited, true
	}
	return *f.CPU, false
}

// setBy says what gave the program its GOMAXPROCS; "": it is not known.
func (f *Facts) setBy() string {
	switch f.Source {
	case choice.FromEnvironment:
		return "GOMAXPROCS in its environment"
	case host.FromCall:
		return "a call in the program"
	case choice.FromAutomaxprocs:
		return "automaxprocs"
	case choice.FromUnthrottle:
		return "unthrottle"
	case choice.FromLimit:
		return "the Go runtime, from its limit"
	case choice.FromCPUs:
		return "the Go runtime, from the number of CPUs"
	}
	return ""
}

// setByText is the evidence of what gave it its GOMAXPROCS, if that is known.
func (f *Facts) setByText() (evidence []string) {
	if by := f.setBy(); by != "" {
		evidence = append(evidence, "set by "+by)
	}
	return evidence
}

// getRight says how the program gets the right number, in one line.
func (f *Facts) getRight() string {
	n := strconv.Itoa(f.right())
	switch {
	case f.Source == choice.FromEnvironment:
		return f.Alone.Fix(f.right())
	case f.OutOfSight && f.Source == host.FromCall:
		return "have the call of runtime.GOMAXPROCS set " + n + ": without it, the program can't see its limit"
	case f.OutOfSight:
		return "set the limit on the container itself, or GOMAXPROCS=" + n + " in its environment: the program can't see its limit"
	case f.Source == host.FromCall:
		return "take the call of runtime.GOMAXPROCS out, or set GOMAXPROCS=" + n + " where the call respects it"
	case f.Source == choice.FromAutomaxprocs:
		return `import "github.com/unthrottle/unthrottle/maxprocs" instead of automaxprocs, or set GOMAXPROCS=` + n
	}
	if f.Minor > 0 && f.Minor < 25 {
		return `import _ "github.com/unthrottle/unthrottle/auto", build with Go 1.25 or later, or set GOMAXPROCS=` + n
	}
	return `import _ "github.com/unthrottle/unthrottle/auto", or set GOMAXPROCS=` + n
}

// limitText names the limit, or the CPUs if there is none.
func (f *Facts) limitText() string {
	if f.limited() && f.Limits.CPUs <= f.allowed() {
		return "a limit of " + quantity.UsedCPUs(f.Limits.CPUs)
	}
	return quantity.UsedCPUs(f.allowed())
}

// throttledText is the evidence of throttling.
func (f *Facts) throttledText() []string {
	still := ""
	if share := f.frozen(); share > 0 {
		still = "it stood still for "
		if !f.Frozen.Exact {
			still += "at least "
		}
		still += quantity.Share(share) + " of the time"
	}
	switch {
	case f.Counted.Owner.Throttled > 0 && still != "":
		return []string{f.periodsText() + ", and " + still}
	case f.Counted.Owner.Throttled > 0:
		return []string{f.periodsText()}
	case still != "":
		return []string{still}
	}
	return nil
}

// periodsText is how many periods of the limit were throttled.
func (f *Facts) periodsText() string {
	o, were := f.Counted.Owner, " were throttled"
	if o.Throttled == 1 {
		were = " was throttled"
	}
	return quantity.Count(o.Throttled) + " of " + quantity.Plural(o.Periods, "period") + were
}

// pressureText is the evidence of pressure, if nothing better is known.
func (f *Facts) pressureText() (evidence []string) {
	if !f.pressed() {
		return nil
	}
	text := "its threads were ready and none of them could run for " + quantity.Share(f.Pressure.All) + " of the time"
	if some := f.Pressure.Some; some > f.Pressure.All {
		text += ", and at least one could not for " + quantity.Share(some)
	}
	return []string{text + ", by the kubelet's count of CPU pressure"}
}

// stillText is the evidence of what its standstills come from.
func (f *Facts) stillText() []string {
	evidence := slices.Clone(f.Why)
	if f.Doubt != "" {
		evidence = append(evidence, "this is not certain: "+f.Doubt)
	}
	return evidence
}

// least is the smallest GOMAXPROCS that can use all the CPUs that the program may use.
func (f *Facts) least() int { return int(math.Ceil(f.allowed())) }
