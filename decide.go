package unthrottle

import (
	"math"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
)

// Basis is what a decision's number came from in the end.
type Basis string

const (
	ByNothing     Basis = ""            // there is no number: GOMAXPROCS stays as it is
	ByLimit       Basis = "limit"       // the CPU limit, rounded
	ByMinimum     Basis = "minimum"     // the policy's minimum, above the limit
	ByMaximum     Basis = "maximum"     // the policy's maximum
	ByRequest     Basis = "request"     // the CPU request
	ByCPUs        Basis = "cpus"        // the CPUs that the affinity mask allows
	ByEnvironment Basis = "environment" // GOMAXPROCS, set by the user
)

// A Decision is the GOMAXPROCS that is wanted, and why.
type Decision struct {
	Procs int // 0: GOMAXPROCS stays as it is
	By    Basis
	Why   []string // the reasons, in the order in which they led to the number

	Limits   cgroup.Limits // what it was decided from
	Policy   Policy
	Warnings []error // about the policy; those about the limit are in Limits

	// What applying it took; zero in what Decide returns.
	Before  int  // GOMAXPROCS as it was found
	Changed bool // whether it had to be changed
}

// String returns the number and its reasons on one line.
func (d Decision) String() string {
	n := "GOMAXPROCS unchanged"
	if d.Procs > 0 {
		n = "GOMAXPROCS=" + strconv.Itoa(d.Procs)
	}
	return n + ": " + strings.Join(d.Why, "; ")
}

func (d *Decision) because(why string) { d.Why = append(d.Why, why) }

func (d *Decision) choose(n int, by Basis, why string) {
	d.Procs, d.By = n, by
	d.because(why)
}

// Decide says which GOMAXPROCS the policy wants under the limits. It reads and changes nothing: the library, the command
// and its advice all ask it.
//
// A limit that is unknown or hidden gives no number of its own, so GOMAXPROCS stays as it is, unless some level's quota
// is known (then the limit is that or less), or the policy has a maximum or a request.
func Decide(l cgroup.Limits, p Policy) Decision {
	d := Decision{Limits: l, Policy: p}
	switch {
	case p.User > 0:
		d.choose(p.User, ByEnvironment, "GOMAXPROCS="+strconv.Itoa(p.User)+" is set in the environment")
	case p.Off:
		d.because("policy off")
	case p.LimitOnly && l.State != cgroup.Limited:
		d.because("the limit is " + l.State.String() + reasonText(l.Reason))
	default:
		d.fromLimit()
		if p.Request > 0 {
			d.capByRequest()
		}
		if p.Max > 0 {
			d.cap(p.Max, ByMaximum, "lowered to "+strconv.Itoa(p.Max)+", the maximum")
		}
		if n := l.Affinity; n > 0 && d.Procs > n {
			d.choose(n, ByCPUs, "lowered to "+strconv.Itoa(n)+", the CPUs that the affinity mask allows")
		}
	}
	return d
}

// fromLimit starts with the limit, or with the CPUs where there is none.
func (d *Decision) fromLimit() {
	l := d.Limits
	switch l.State {
	case cgroup.Limited:
		d.because("limit " + cpusText(l.CPUs) + " at " + l.From)
		d.fromCPUs(l.CPUs)
	case cgroup.None:
		if l.Affinity > 0 {
			d.choose(l.Affinity, ByCPUs, "no limit, so all CPUs that the affinity mask allows: "+strconv.Itoa(l.Affinity))
		} else {
			d.because("no limit")
		}
	default:
		d.because("the limit is " + l.State.String() + reasonText(l.Reason))
		if l.AtMost > 0 {
			d.because("it is at most " + cpusText(l.AtMost) + ", the smallest quota that could be read")
			d.fromCPUs(l.AtMost)
		}
	}
}

// fromCPUs turns a number of CPUs into a whole one by the policy.
func (d *Decision) fromCPUs(cpus float64) {
	p := d.Policy
	if p.Headroom > 0 {
		cpus = math.Max(0, cpus-p.Headroom)
		d.because(cpusText(p.Headroom) + " left to side processes: " + cpusText(cpus))
	}
	n := p.round(cpus)
	if n < p.minimum() {
		d.choose(p.minimum(), ByMinimum, "raised to "+strconv.Itoa(p.minimum())+", the minimum of policy "+p.name())
		return
	}
	why := "policy " + p.name() + ": "
	switch {
	case p.RoundFunc != nil:
		why += "its own function gives "
	case float64(n) == cpus:
	case float64(n) > cpus:
		why += "rounded up to "
	default:
		why += "rounded down to "
	}
	d.choose(n, ByLimit, why+strconv.Itoa(n))
}

// capByRequest lowers the number to what was requested, but not below the minimum.
func (d *Decision) capByRequest() {
	p := d.Policy
	factor := p.RequestFactor
	if factor <= 0 {
		factor = 1
	}
	n := Policy{}.round(p.Request * factor)
	why := "request of " + cpusText(p.Request)
	if factor != 1 {
		why += " × " + number(factor)
	}
	if n < p.minimum() {
		n = p.minimum()
		why += ", but not below the minimum"
	}
	d.cap(n, ByRequest, "lowered to "+strconv.Itoa(n)+" by the "+why)
}

// cap lowers the number to n. Where the limit gave none, the number of CPUs is what is lowered.
func (d *Decision) cap(n int, by Basis, why string) {
	have := d.Procs
	if have == 0 {
		have = d.Limits.Affinity
	}
	if have == 0 || have > n {
		d.choose(n, by, why)
	}
}

func reasonText(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func cpusText(cpus float64) string {
	if cpus == 1 {
		return "1 CPU"
	}
	return number(cpus) + " CPUs"
}

// number prints a ratio with three digits after the point at most.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}
