package unthrottle

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rounding says how a limit that is not a whole number of CPUs becomes one.
type Rounding uint8

const (
	RoundUp      Rounding = iota // but see Tolerance
	RoundDown                    // towards zero
	RoundNearest                 // to the nearest whole number, halves up
)

// Tolerance is the part of a CPU that RoundUp leaves out: a quota a hair over a whole number, such as 300010 of
// 100000 µs, does not cost a whole CPU more.
const Tolerance = 0.01

// A Policy says how a limit becomes a number. The zero Policy decides as [Go] does.
type Policy struct {
	Name      string
	Off       bool // leave GOMAXPROCS alone
	LimitOnly bool // leave it alone as well where there is no limit or it is not known
	Rounding  Rounding
	Min       int     // smallest answer; 0 means 2, as Go has it. The CPUs that there are still bound it.
	Max       int     // largest answer; 0 means none
	Headroom  float64 // CPUs of the limit that are left to side processes

	// Request is the number of CPUs requested for this program, in the sense of Kubernetes. Request times
	// RequestFactor, rounded up, caps the answer; it never raises it. The cgroup can't tell the request: a weight of
	// 39 and one of 100 both mean 1 CPU, depending on the container runtime's version.
	Request       float64
	RequestFactor float64 // 0 means 1
	RequestEnv    string  // environment variable that Set and Watch read Request from when it is 0: "0.5" or "500m"

	// RoundFunc takes the place of Rounding when it is set.
	RoundFunc func(cpus float64) int

	// User is the GOMAXPROCS that the user has set in the environment, which wins over all else. Set and Watch fill
	// it in.
	User int
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
//	UNTHROTTLE_REQUEST_FACTOR  what the request is multiplied with: 2
//
// A variable that makes no sense counts as not set; the error names every one of them.
func ParsePolicy(getenv func(string) string) (Policy, error) {
	p, err := presetByName(getenv("UNTHROTTLE"))
	errs := []error{err}
	number := func(name string, set func(int)) {
		if s := getenv(name); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				errs = append(errs, fmt.Errorf("%s=%q: not a whole number above zero", name, s))
				return
			}
			set(n)
		}
	}
	cpus := func(name string, set func(float64)) {
		v, err := parseCPUsEnv(getenv, name)
		errs = append(errs, err)
		if v > 0 {
			set(v)
		}
	}
	number("UNTHROTTLE_MIN", func(n int) { p.Min = n })
	number("UNTHROTTLE_MAX", func(n int) { p.Max = n })
	cpus("UNTHROTTLE_HEADROOM", func(v float64) { p.Headroom = v })
	cpus("UNTHROTTLE_REQUEST", func(v float64) { p.Request = v })
	cpus("UNTHROTTLE_REQUEST_FACTOR", func(v float64) { p.RequestFactor = v })
	return p, errors.Join(errs...)
}

func presetByName(name string) (Policy, error) {
	if name == "" {
		return Go, nil
	}
	for _, p := range []Policy{Go, Floor, Ceil, Exact, Off} {
		if p.Name == strings.ToLower(name) {
			return p, nil
		}
	}
	return Go, fmt.Errorf("UNTHROTTLE=%q: not one of off, go, floor, ceil, exact", name)
}

// parseCPUsEnv reads a number of CPUs from an environment variable, 0 when it is not set.
func parseCPUsEnv(getenv func(string) string, name string) (float64, error) {
	s := getenv(name)
	if s == "" {
		return 0, nil
	}
	v, err := ParseCPUs(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// ParseCPUs reads a number of CPUs as Kubernetes writes it: "2", "0.5" or "500m".
func ParseCPUs(s string) (float64, error) {
	digits, milli := strings.CutSuffix(s, "m")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("bad number of CPUs %q: want one such as 0.5 or 500m", s)
	}
	if milli {
		v /= 1000
	}
	return v, nil
}

// round makes a whole number of cpus, never below zero.
func (p Policy) round(cpus float64) int {
	const hair = 1e-9 // what subtracting the headroom may have lost
	switch {
	case p.RoundFunc != nil:
		return p.RoundFunc(cpus)
	case p.Rounding == RoundDown:
		cpus = math.Floor(cpus + hair)
	case p.Rounding == RoundNearest:
		cpus = math.Floor(cpus + 0.5 + hair)
	default:
		cpus = math.Ceil(cpus - Tolerance - hair)
	}
	return int(math.Max(0, math.Min(cpus, math.MaxInt32)))
}

func (p Policy) minimum() int {
	if p.Min <= 0 {
		return 2
	}
	return p.Min
}

func (p Policy) name() string {
	if p.Name == "" {
		return "go"
	}
	return p.Name
}
