// Package forecast answers: which GOMAXPROCS will the program of a container have, before it is there? In go the facts of a
// workload, what is known about the program, and the CPUs of nodes; out comes a line for each kind of program on each node,
// and whether it is the right number.
//
// What a kind of program makes of its limit is package choice's to say, and what is right unthrottle.Decide's. What the manifest
// leaves open stays open: a line without a number says why.
package forecast

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Kind is a kind of Go program, by what chooses its GOMAXPROCS.
type Kind struct {
	Name    string
	program procs.Program
}

// Kinds are the kinds of programs, in the order in which they are shown.
func Kinds() []Kind {
	old := map[string]string{"containermaxprocs": "0", "updatemaxprocs": "0"}
	return []Kind{
		{"a go line of 1.24 or earlier", procs.Program{GoVersion: "go1.26.0", Defaults: old}},
		{"Go 1.25", procs.Program{GoVersion: "go1.25.0"}},
		{"Go 1.26 and later", procs.Program{GoVersion: "go1.26.0"}},
		{"automaxprocs", procs.Program{GoVersion: "go1.24.0", Automaxprocs: procs.Imported}},
		{"unthrottle", procs.Program{GoVersion: "go1.24.0", Unthrottle: procs.Imported}},
	}
}

// A Forecast is what will be in a container.
type Forecast struct {
	Container string
	Limit     Limit
	Setting   Setting
	Lines     []Line
}

// A Line is what one kind of program will have on one node.
type Line struct {
	Kind  string
	Node  int     // its CPUs; 0: not known
	Procs int     // 0: not known, or all CPUs of a node that is not known
	All   bool    // all CPUs of the node
	Sees  float64 // the limit that it uses; 0: none
	Right int     // what unthrottle.Decide wants; 0: not known
	Wrong bool
	Why   string
	Fix   string // one line, when it is wrong
}

// allCPUs stands for the CPUs of a node that is not known: no limit reaches it.
const allCPUs = 1 << 20

// Of is what will be in the container c of w, whose program may be known, on nodes with these CPUs; without nodes, on one that
// is not known. A known program is the only line of a node.
func Of(w *workload.Workload, c *workload.Container, b binary.Binary, nodes []int) Forecast {
	return For(w).Of(c, b, nodes)
}

// Of is what will be in a container of the pod.
func (p *Pod) Of(c *workload.Container, b binary.Binary, nodes []int) Forecast {
	f := Forecast{Container: c.Name, Limit: LimitOf(p.w, c), Setting: p.Setting(c, b)}
	kinds := Kinds()
	switch {
	case b.Known && !b.Go():
		return f
	case b.Known:
		kinds = []Kind{{b.String(), *b.Program}}
	}
	if len(nodes) == 0 {
		nodes = []int{0}
	}
	for _, node := range nodes {
		for _, kind := range kinds {
			f.Lines = append(f.Lines, f.line(c, b, kind, node))
		}
	}
	return f
}

// line is what one kind of program makes of it.
func (f Forecast) line(c *workload.Container, b binary.Binary, kind Kind, node int) Line {
	line := Line{Kind: kind.Name, Node: node}
	cpus := node
	if node <= 0 {
		cpus, line.Node = allCPUs, 0
	}
	if f.Limit.State == workload.Unknown {
		line.Why = f.Limit.String()
	}
	if f.Setting.State == workload.Unknown {
		line.Why = "GOMAXPROCS in its environment is not known"
		if f.Setting.Unknown != "" {
			line.Why += ": " + f.Setting.Unknown
		}
		return line
	}
	known := f.Limit.State != workload.Unknown
	system := choice.Under(f.Limit.CPUs, cpus, unthrottle.Go)
	if known {
		line.Right = unthrottle.Decide(system.Limits, system.Policy).Procs
		if line.Right >= allCPUs {
			line.Right = 0
		}
	}
	if f.Setting.Valid() {
		alone := choice.NotKnown
		if settings, ok := environment(c, b); ok && b.Go() {
			alone = choice.AloneOf(b.Program, settings)
		}
		line.environment(f, cpus, known, alone)
		return line
	}
	if b.Called {
		line.Why = "the program sets it itself, by a call"
		return line
	}
	settings, ok := environment(c, b)
	if !ok {
		line.Why = "GODEBUG in its environment is not known"
		return line
	}
	if f.Setting.State == workload.Known { // Go ignores it, automaxprocs does not
		settings["GOMAXPROCS"] = f.Setting.Value
	}
	if !known {
		return line
	}
	p := system.Predict(procs.Process{Program: &kind.program, Env: settings})
	line.set(p.Procs)
	line.Why = p.Why
	if p.Rule != "" {
		c := system.Of(p.Rule)
		line.Sees = c.Limit
		if c.Wrong {
			line.Wrong, line.Why, line.Fix = true, c.Why, c.Fix
		}
	}
	if line.Node == 0 {
		all := strconv.Itoa(allCPUs)
		line.Why = strings.NewReplacer("GOMAXPROCS="+all+": ", "", all+" CPUs that the affinity mask allows", "CPUs of its node").Replace(line.Why)
	}
	return line
}

// environment takes GOMAXPROCS from the environment.
func (l *Line) environment(f Forecast, cpus int, known bool, alone choice.Alone) {
	n := f.Setting.Procs
	if f.Setting.Node {
		n = int(math.Ceil(float64(cpus) / f.Setting.Divide))
		if cpus == allCPUs {
			n = allCPUs
		}
		l.Why = f.Setting.From + ": there is no limit, so it is the node's allocatable CPU"
		if f.Setting.Divide != 1 {
			l.Why = fmt.Sprintf("%s, in units of %s", l.Why, quantity.CPUs(f.Setting.Divide))
		}
	} else {
		l.Why = "GOMAXPROCS=" + f.Setting.Value + " in its environment, from " + f.Setting.From
	}
	l.set(n)
	if f.Setting.Node && f.Setting.Divide != 1 {
		l.Wrong, l.Fix, l.All = true, `set the divisor to "1", or take GOMAXPROCS out`, false
		return
	}
	if l.Wrong = known && f.Limit.State == workload.Known && (TooMany(n, f.Limit) || TooFew(n, f.Limit)); l.Wrong {
		l.Fix = alone.Fix(max(2, f.Limit.Procs()))
	}
}

func (l *Line) set(procs int) {
	l.Procs, l.All = procs, procs > 0 && procs == l.Node
	if procs >= allCPUs {
		l.Procs, l.All = 0, true
	}
}

// TooMany reports whether a GOMAXPROCS is another machine's number under a limit: as rule too-many-ps, at least four times the CPUs,
// and at least four above them.
func TooMany(procs int, l Limit) bool {
	least := l.Procs()
	return least > 0 && procs >= 4*least && procs-least >= 4
}

// TooFew reports whether a whole CPU of the limit can't be used with a GOMAXPROCS, or the program is on one P although it has
// more than a CPU.
func TooFew(procs int, l Limit) bool {
	return l.CPUs-float64(procs) >= 1 || procs == 1 && l.CPUs > 1
}

// environment is the part of a container's environment that bears on its GOMAXPROCS. ok is false if that is unknown.
func environment(c *workload.Container, b binary.Binary) (env map[string]string, ok bool) {
	env = map[string]string{}
	text, ok := GODEBUG(c, b)
	if ok {
		env["GODEBUG"] = text
	}
	return env, ok
}

// GODEBUG is the value of that variable in a container, "" where it is not set. ok is false if it is unknown.
func GODEBUG(c *workload.Container, b binary.Binary) (text string, ok bool) {
	return Value(c, b, "GODEBUG")
}

// Value is the value of a variable in a container, "" where it is not set. ok is false if it is unknown.
func Value(c *workload.Container, b binary.Binary, name string) (text string, ok bool) {
	v, set := c.Var(name)
	if set {
		return v.Value, v.State == workload.Known || v.State == workload.Absent
	}
	for _, source := range c.EnvFrom {
		if !source.Known {
			return "", false
		}
	}
	text, _ = b.Var(name)
	return text, true
}
