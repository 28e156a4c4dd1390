package unthrottle

import (
	"errors"
	"math"
	"strings"
)

// Rounding says how a limit that is not a whole number of CPUs becomes one.
type Rounding uint8

const (
	RoundUp      Rounding = iota // a hundredth of a CPU is left out
	RoundDown                    // towards zero
	RoundNearest                 // to the nearest whole number, halves up
)

// tolerance is the part of a CPU that RoundUp leaves out: a quota a hair over a whole number, such as 300010 of
// 100000 µs, does not cost a whole CPU more.
const tolerance = 0.01

// A Policy says how a limit becomes a number. The zero Policy decides as [Go] does.
type Policy struct {
	Name      string
	Off       bool // leave GOMAXPROCS alone
	LimitOnly bool // also leave it alone unless a limit is known
	Rounding  Rounding
	Min       int     // smallest answer; 0 means 2, as in Go. The number of CPUs still bounds it.
	Max       int     // largest answer; 0 means none
	Headroom  float64 // CPUs of the limit that are left to side processes; below zero means none

	// Request is the number of CPUs requested for this program, in the sense of Kubernetes. Request times
	// RequestFactor, rounded up, caps the answer; it never raises it. The cgroup does not reveal the request: a weight
	// of 39 and one of 100 both mean 1 CPU, depending on the container runtime's version.
	Request       float64
	RequestFactor float64 // 0 means 1

	// RoundFunc, if set, replaces Rounding.
	RoundFunc func(cpus float64) int

	operator operator
}

// An operator is what the person who runs the program says in the environment, which overrides every policy. Set and Watch fill it in.
type operator struct {
	procs int  // GOMAXPROCS, if the runtime accepts it
	off   bool // UNTHROTTLE=off
}

// The policies with names.
var (
	Go    = Policy{Name: "go", Rounding: RoundUp, Min: 2}         // as Go 1.25 and later
	Floor = Policy{Name: "floor", Rounding: RoundDown, Min: 1}    // as automaxprocs
	Ceil  = Policy{Name: "ceil", Rounding: RoundUp, Min: 1}       // as the JVM, .NET and the Kubernetes downward API
	Exact = Policy{Name: "exact", Rounding: RoundNearest, Min: 1} // the whole number nearest to the limit
	Off   = Policy{Name: "off", Off: true}                        // leave GOMAXPROCS alone
)

// ParsePolicy reads a policy from the environment, through a function like os.Getenv:
//
//	UNTHROTTLE                 off, go (the default), floor, ceil or exact
//	UNTHROTTLE_MIN             smallest GOMAXPROCS
//	UNTHROTTLE_MAX             largest GOMAXPROCS
//	UNTHROTTLE_HEADROOM        CPUs left to side processes: 0.5 or 500m
//	UNTHROTTLE_REQUEST         CPUs requested: 0.5 or 500m
//	UNTHROTTLE_REQUEST_FACTOR  what the request is multiplied by: 2
//
// A variable with an invalid value counts as not set, and there is an error for each.
func ParsePolicy(getenv func(string) string) (p Policy, errs []error) {
	e := env{get: getenv}
	e.policy(&p)
	return p, e.errs
}

func (e *env) policy(p *Policy) {
	*p = Go
	name := e.get("UNTHROTTLE")
	known := name == ""
	for _, preset := range [...]*Policy{&Go, &Floor, &Ceil, &Exact, &Off} {
		if preset.Name == name {
			*p, known = *preset, true
		}
	}
	if !known {
		e.fail("UNTHROTTLE", name, "off, go, floor, ceil or exact")
	}
	p.Min = e.whole("UNTHROTTLE_MIN", p.Min)
	p.Max = e.whole("UNTHROTTLE_MAX", 0)
	p.Headroom = e.cpus("UNTHROTTLE_HEADROOM")
	p.Request = e.cpus("UNTHROTTLE_REQUEST")
	p.RequestFactor = e.cpus("UNTHROTTLE_REQUEST_FACTOR")
}

// env reads variables and collects what is wrong with them.
type env struct {
	get  func(string) string
	errs []error
}

//go:noinline
func (e *env) fail(name, value, want string) {
	e.errs = append(e.errs, errors.New(name+"="+value+": want "+want))
}

func (e *env) whole(name string, unset int) int {
	s := e.get(name)
	if s == "" {
		return unset
	}
	if n := userProcs(s); n > 0 {
		return n
	}
	e.fail(name, s, "a whole number above zero")
	return unset
}

func (e *env) cpus(name string) float64 {
	s := e.get(name)
	v, ok := parseCPUs(s)
	if !ok && s != "" {
		e.fail(name, s, "a number such as 0.5 or 500m")
	}
	return v
}

// parseCPUs reads a number of CPUs as Kubernetes writes it: "2", "0.5" or "500m". It must be above zero.
func parseCPUs(s string) (cpus float64, ok bool) {
	digits, milli := strings.CutSuffix(s, "m")
	unit := 1.0
	if milli {
		unit = 1000
	}
	point := false
	for i := 0; i < len(digits); i++ {
		switch c := digits[i]; {
		case '0' <= c && c <= '9':
			cpus = cpus*10 + float64(c-'0')
			if point {
				unit *= 10
			}
		case c == '.' && !point && len(digits) > 1:
			point = true
		default:
			return 0, false
		}
	}
	cpus /= unit
	if cpus > 0 && cpus < 1e9 {
		return cpus, true
	}
	return 0, false
}

// round makes cpus a whole number, never below zero.
func (p *Policy) round(cpus float64) int {
	if p.RoundFunc != nil {
		return p.RoundFunc(cpus)
	}
	const hair = 1e-9 // what subtracting the headroom may have lost
	if !(cpus > 0) {
		return 0
	}
	if cpus > 1<<30 {
		return 1 << 30
	}
	n := int(cpus + hair)
	part := cpus - float64(n)
	if p.Rounding == RoundUp && part > tolerance+hair || p.Rounding == RoundNearest && part >= 0.5-hair {
		n++
	}
	return n
}

// headroom is what the limit is lowered by: never below zero, which would raise it.
func (p *Policy) headroom() float64 { return math.Max(0, p.Headroom) }

func (p *Policy) factor() float64 {
	if p.RequestFactor > 0 {
		return p.RequestFactor
	}
	return 1
}

func (p *Policy) name() string {
	if p.Name == "" {
		return "go"
	}
	return p.Name
}
