package forecast

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Limit is the CPU limit of a container as its own cgroup will have it.
type Limit struct {
	State   workload.State // Absent: none on any level
	CPUs    float64
	Of      Level
	At      workload.Position
	Unknown string
}

// A Level is what a limit is written at.
type Level string

const (
	OfContainer Level = "container"
	OfPod       Level = "pod"        // spec.resources: each container without a limit gets the pod's, whole
	OfNamespace Level = "LimitRange" // its default is written into the container when the pod is made
)

// String says the limit in words.
func (l Limit) String() string {
	switch {
	case l.State == workload.Unknown:
		return "a limit that is not known: " + l.Unknown
	case l.State == workload.Absent:
		return "no CPU limit"
	case l.Of == OfPod:
		return "the pod's limit of " + quantity.CPUs(l.CPUs)
	case l.Of == OfNamespace:
		return "the LimitRange's default limit of " + quantity.CPUs(l.CPUs)
	}
	return "a limit of " + quantity.CPUs(l.CPUs)
}

// Procs is the smallest GOMAXPROCS that can use the limit.
func (l Limit) Procs() int { return int(min(math.Ceil(l.CPUs-1e-9), math.MaxInt32)) }

// LimitOf is the CPU limit of a container of w: its own, else that of the namespace's LimitRange, else the pod's. A limit of 0
// is none. The API server refuses a container's limit above the pod's.
func LimitOf(w *workload.Workload, c *workload.Container) Limit {
	space := w.Around.Default
	if none(space) {
		space = w.Around.LimitMax // the API server makes it the default
	}
	for _, l := range []struct {
		amount workload.Amount
		of     Level
		at     workload.Position
	}{{c.Limit, OfContainer, c.LimitAt}, {space, OfNamespace, c.At}, {w.Pod.Limit, OfPod, w.Pod.LimitAt}} {
		switch {
		case l.amount.State == workload.Unknown || l.amount.State == workload.Known && !(l.amount.Value >= 0):
			return Limit{State: workload.Unknown, Of: l.of, At: l.at, Unknown: l.amount.Unknown}
		case !none(l.amount):
			return Limit{State: workload.Known, CPUs: l.amount.Value, Of: l.of, At: l.at}
		}
	}
	return Limit{}
}

func none(a workload.Amount) bool {
	return a.State == workload.Absent || a.State == workload.Known && a.Value == 0
}

// A Setting is GOMAXPROCS as a container's environment has it.
type Setting struct {
	State    workload.State
	Value    string             // what the program sees
	Procs    int                // what Go makes of it; 0: it ignores the value
	Node     bool               // it is the node's CPUs, as far as pods may use them, over Divide
	Divide   float64            // CPUs that count as one: 1, or 0.001 for a divisor of 1m
	Var      *workload.Variable // nil: it is the image's, or it isn't set
	From     string             // "resourceFieldRef limits.cpu"
	Unknown  string
	Image    bool                // the image sets it
	Target   *workload.Container // of a resourceFieldRef
	Resource workload.Amount     // that a resourceFieldRef uses
}

// Valid reports whether it is known that Go takes its GOMAXPROCS from the environment.
func (s Setting) Valid() bool { return s.State == workload.Known && (s.Procs > 0 || s.Node) }

// SettingOf is the GOMAXPROCS in the environment of a container of w.
func SettingOf(w *workload.Workload, c *workload.Container, b binary.Binary) Setting {
	return For(w).Setting(c, b)
}

// A Pod is a workload whose containers are asked for one after the other: each may refer to another one by its name.
type Pod struct {
	w     *workload.Workload
	named map[string]*workload.Container // when one was first looked for
}

// For makes a Pod of a workload, which must not change while it is asked.
func For(w *workload.Workload) *Pod { return &Pod{w: w} }

// Setting is the GOMAXPROCS in the environment of a container.
func (p *Pod) Setting(c *workload.Container, b binary.Binary) Setting {
	if Mentions(c, "GOMAXPROCS") {
		return Setting{State: workload.Unknown, Unknown: "its command speaks of GOMAXPROCS"}
	}
	v, ok := c.Var("GOMAXPROCS")
	if !ok {
		for _, source := range c.EnvFrom {
			if !source.Known && (source.Prefix == "" || strings.HasPrefix("GOMAXPROCS", source.Prefix)) {
				return Setting{State: workload.Unknown, Unknown: source.Kind + " " + source.Name + " may set it"}
			}
		}
		if text, ok := b.Var("GOMAXPROCS"); ok {
			return Setting{State: workload.Known, Value: text, From: "the image", Image: true}.take(b)
		}
		return Setting{}
	}
	if v.Form == workload.ResourceRef {
		return p.refer(c, &v)
	}
	s := Setting{State: v.State, Value: v.Value, Var: &v, From: string(v.Form), Unknown: v.Unknown}
	if v.State == workload.Known {
		s = s.take(b)
	}
	if v.State == workload.Absent { // an optional key that is not there
		s.Var = nil
	}
	return s
}

// take fills in what the program makes of the value. Where that depends on its version, which is not known, nothing is known.
func (s Setting) take(b binary.Binary) Setting {
	s.Procs = choice.UserProcs(s.Value, b.Program)
	if s.Procs == 0 && b.Program == nil && choice.UserProcs(s.Value, newest) > 0 {
		s.State, s.Unknown = workload.Unknown, fmt.Sprintf("Go 1.26 and later take %q, older ones ignore it", s.Value)
	}
	return s
}

var newest = &procs.Program{GoVersion: "go1.26"}

// Mentions reports whether a container's command has a word. What a shell sets there comes after the environment.
func Mentions(c *workload.Container, word string) bool {
	for _, list := range [][]string{c.Command, c.Args} {
		for _, text := range list {
			if strings.Contains(strings.ReplaceAll(text, "$("+word+")", ""), word) {
				return true
			}
		}
	}
	return false
}

// refer works out a resourceFieldRef as the kubelet does (k8s.io/kubernetes/pkg/api/v1/resource): the amount over the
// divisor, rounded up; a limit that is missing is the pod's, or what the node has for pods.
func (p *Pod) refer(c *workload.Container, v *workload.Variable) Setting {
	w := p.w
	s := Setting{State: workload.Unknown, Var: v, From: "resourceFieldRef " + v.Resource, Target: c, Unknown: v.Unknown}
	divide, ok := Divisor(v)
	if !ok || divide != 1 && divide != 0.001 { // the API server takes no other
		return s
	}
	if v.Container != "" && v.Container != c.Name {
		if s.Target = p.find(v.Container); s.Target == nil {
			s.Unknown = "there is no container " + v.Container
			return s
		}
		s.From += " of container " + v.Container
	}
	s.Divide = divide
	switch v.Resource {
	case "limits.cpu":
		l := LimitOf(w, s.Target)
		s.Resource = workload.Amount{Value: l.CPUs, State: l.State, Unknown: l.Unknown}
		switch {
		case l.State == workload.Unknown:
			s.Unknown = l.Unknown
			return s
		case l.State == workload.Absent && s.Target != c && s.Target.Role != workload.Main:
			return s // the kubelet does not look there
		case l.State == workload.Absent:
			s.State, s.Node = workload.Known, true
			return s
		}
	case "requests.cpu":
		s.Resource = s.Target.Request
		if none(s.Resource) && !none(w.Around.DefaultRequest) {
			s.Resource = w.Around.DefaultRequest
		}
		if s.Resource.State == workload.Unknown {
			s.Unknown = s.Resource.Unknown
			return s
		}
		if none(s.Resource) && (!none(w.Around.Default) || !none(w.Around.LimitMax)) {
			return s // a LimitRange gives it some request
		}
	default:
		return s
	}
	n := math.Ceil(math.Ceil(s.Resource.Value*1000-1e-6) / (divide * 1000))
	if !(n >= 0 && n < 1<<62) {
		return s
	}
	s.State, s.Value = workload.Known, strconv.FormatInt(int64(n), 10)
	return s.take(binary.Binary{})
}

// Divisor is the divisor of a reference to CPUs: 1 where it is missing or 0. ok is false if it is not a quantity.
func Divisor(v *workload.Variable) (divide float64, ok bool) {
	switch v.Divisor {
	case "", "0":
		return 1, true
	}
	divide, err := quantity.ParseCPUs(v.Divisor)
	return divide, err == nil
}

// find is the first container of a name.
func (p *Pod) find(name string) *workload.Container {
	if p.named == nil {
		p.named = make(map[string]*workload.Container, len(p.w.Pod.Containers))
		for i := range p.w.Pod.Containers {
			c := &p.w.Pod.Containers[i]
			if p.named[c.Name] == nil {
				p.named[c.Name] = c
			}
		}
	}
	return p.named[name]
}

// MemoryDivisor is a divisor of memory in bytes: 1 where it is missing or 0, and 0 if the API server would not take it.
func MemoryDivisor(text string) float64 {
	switch text {
	case "", "0", "1":
		return 1
	}
	for i, unit := range []string{"1k", "1M", "1G", "1T", "1P", "1E"} {
		if text == unit {
			return math.Pow(1000, float64(i+1))
		}
	}
	for i, unit := range []string{"1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"} {
		if text == unit {
			return math.Pow(1024, float64(i+1))
		}
	}
	return 0
}
