package unthrottle

import (
	"math"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
)

// Basis is what a decision's number came from.
type Basis uint8

const (
	ByNothing     Basis = iota // there is no number: GOMAXPROCS stays unchanged
	ByLimit                    // the CPU limit, rounded
	ByMinimum                  // the policy's minimum, above the limit
	ByMaximum                  // the policy's maximum
	ByRequest                  // the CPU request
	ByCPUs                     // the CPUs that the affinity mask allows
	ByEnvironment              // GOMAXPROCS, set by the user
	ByProgram                  // a lower number, which the program has set
)

// String returns the basis in one word, as reports show it.
func (b Basis) String() string {
	words := [...]string{"", "limit", "minimum", "maximum", "request", "cpus", "environment", "program"}
	if int(b) < len(words) {
		return words[b]
	}
	return "basis " + strconv.Itoa(int(b))
}

// A Decision is the GOMAXPROCS that is wanted, and everything that it was decided from. Why and String put it in words.
type Decision struct {
	Procs int // 0: GOMAXPROCS stays unchanged
	By    Basis

	Limits   cgroup.Limits
	Policy   Policy
	Warnings []error // about the policy; those about the limit are in Limits

	// Set when the decision is applied; zero in what Decide returns.
	Before  int  // GOMAXPROCS as found
	Now     int  // GOMAXPROCS as left, never 0: the number to size a pool by
	Changed bool // whether it had to be changed
}

// Decide says which GOMAXPROCS the policy wants under the limits. It reads and changes nothing: the library, the command and its advice all
// use it.
//
// A limit that is unknown or hidden gives no number of its own, so GOMAXPROCS stays unchanged, unless some level's quota is known (then the
// limit is that or less), or the policy has a maximum or a request.
func Decide(l cgroup.Limits, p Policy) Decision {
	d := Decision{Limits: l, Policy: p}
	d.decide(d.take)
	return d
}

// take is a step of the decision: the number so far, and what it comes from.
func (d *Decision) take(by Basis, n int) { d.Procs, d.By = n, by }

// decide calls step, which takes d to the number, for each step of the way.
func (d *Decision) decide(step func(Basis, int)) {
	l, p := &d.Limits, &d.Policy
	if p.operator.procs > 0 {
		step(ByEnvironment, p.operator.procs)
		return
	}
	if p.Off || p.LimitOnly && l.State != cgroup.Limited {
		return
	}
	least := p.Min
	if least <= 0 {
		least = 2
	}
	if cpus := l.CPUs + l.AtMost; cpus > 0 { // at most one of them is set
		step(ByLimit, p.round(cpus-p.headroom()))
		if d.Procs < least {
			step(ByMinimum, least)
		}
	} else if l.State == cgroup.None && l.Affinity > 0 {
		step(ByCPUs, l.Affinity)
	}
	have := d.Procs
	if have == 0 {
		have = l.Affinity // what can be lowered where the limit gave no number
	}
	if p.Request > 0 {
		n := Go.round(p.Request * p.factor())
		if n < least {
			n = least
		}
		if have == 0 || have > n {
			step(ByRequest, n)
			have = n
		}
	}
	if p.Max > 0 && (have == 0 || have > p.Max) {
		step(ByMaximum, p.Max)
	}
	if l.Affinity > 0 && d.Procs > l.Affinity {
		step(ByCPUs, l.Affinity)
	}
}

// String returns the number and its reasons on one line.
func (d Decision) String() string {
	n := "GOMAXPROCS unchanged"
	if d.Procs > 0 {
		n = "GOMAXPROCS=" + strconv.Itoa(d.Procs)
	}
	return n + ": " + strings.Join(d.Why(), "; ")
}

// Why returns the reasons in words, in the order in which they led to the number.
func (d Decision) Why() []string {
	why := d.whyLimit()
	again := Decision{Limits: d.Limits, Policy: d.Policy}
	first := true
	again.decide(func(by Basis, n int) {
		why = append(why, d.whyStep(by, n, first))
		again.take(by, n)
		first = false
	})
	switch now := strconv.Itoa(d.Before); {
	case d.Before == 0: // not applied
	case d.By == ByProgram:
		why = append(why, "the program has set GOMAXPROCS to "+strconv.Itoa(d.Procs)+", which is not raised")
	case d.Changed:
		why = append(why, "GOMAXPROCS changed from "+now+" to "+strconv.Itoa(d.Now))
	case d.Procs == d.Before:
		why = append(why, "GOMAXPROCS is "+now+" already: left alone")
	default:
		why = append(why, "GOMAXPROCS stays at "+now)
	}
	return why
}

// whyLimit says what was found to decide from.
func (d Decision) whyLimit() (why []string) {
	l, p := d.Limits, d.Policy
	switch {
	case p.operator.procs > 0:
		return nil
	case p.operator.off:
		return []string{"UNTHROTTLE=off is set in the environment"}
	case p.Off:
		return []string{"policy off"}
	case l.State == cgroup.Limited:
		why = append(why, "limit "+cpusText(l.CPUs)+" at "+l.From)
	case l.State == cgroup.None:
		why = append(why, "no limit")
	case l.Reason != nil:
		why = append(why, "the limit is "+l.State.String()+": "+l.Reason.Error())
	default:
		why = append(why, "the limit is "+l.State.String())
	}
	if l.AtMost > 0 && !p.LimitOnly {
		why = append(why, "it is at most "+cpusText(l.AtMost)+", the smallest quota that could be read")
	}
	if p.headroom() > 0 && l.CPUs+l.AtMost > 0 {
		why = append(why, cpusText(p.Headroom)+" left to side processes: "+cpusText(math.Max(0, l.CPUs+l.AtMost-p.Headroom)))
	}
	return why
}

// whyStep says why a step was taken.
func (d Decision) whyStep(by Basis, procs int, first bool) string {
	p, n := &d.Policy, strconv.Itoa(procs)
	switch by {
	case ByEnvironment:
		return "GOMAXPROCS=" + n + " is set in the environment"
	case ByLimit:
		cpus := d.Limits.CPUs + d.Limits.AtMost - p.headroom()
		switch {
		case p.RoundFunc != nil:
			return "policy " + p.name() + ": its own function gives " + n
		case float64(procs) > cpus && cpus > 0:
			return "policy " + p.name() + ": rounded up to " + n
		case float64(procs) < cpus:
			return "policy " + p.name() + ": rounded down to " + n
		}
		return "policy " + p.name() + ": " + n
	case ByMinimum:
		if p.name() == Go.Name && (p.Min <= 0 || p.Min == Go.Min) {
			return "raised to " + n + ", the minimum of policy go"
		}
		return "raised to " + n + ", the minimum"
	case ByMaximum:
		return "lowered to " + n + ", the maximum"
	case ByRequest:
		why := "lowered to " + n + " by the request of " + cpusText(p.Request)
		if p.factor() != 1 {
			why += " × " + number(p.factor())
		}
		if float64(procs) >= p.Request*p.factor()+1 {
			why += ", but not below the minimum"
		}
		return why
	}
	if first {
		return "all " + n + " CPUs that the affinity mask allows"
	}
	return "lowered to " + n + ", the CPUs that the affinity mask allows"
}

func cpusText(cpus float64) string {
	if cpus == 1 {
		return "1 CPU"
	}
	return number(cpus) + " CPUs"
}

// number prints a ratio with at most three digits after the point.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}
