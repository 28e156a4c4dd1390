package audit

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// Holds says where a finding is so.
type Holds string

const (
	HoldsNow       Holds = "now"        // it was measured, or what was measured bears the objects out
	HoldsWritten   Holds = "as written" // the objects say so, and it was not measured in all of the pods
	HoldsElsewhere Holds = "elsewhere"  // the objects say so, and the number that was measured in all of the pods is right
)

// holding are all, what matters most first.
var holding = []Holds{HoldsNow, HoldsWritten, HoldsElsewhere}

// A fit says whether the GOMAXPROCS that was seen in a pod suits the limit there.
type fit uint8

const (
	notSeen fit = iota
	misfit
	unsure // the limit is not known
	fits
)

// fitOf is that of one program. Without a limit any number is right that a program has CPUs for.
func fitOf(procs int, l cgroup.Limits) fit {
	right := false
	switch {
	case procs <= 0:
		return notSeen
	case l.State == cgroup.Limited && l.CPUs > 0:
		right = rule.Suits(procs, l)
	case l.State == cgroup.None && l.Affinity > 0:
		right = procs <= l.Affinity
	default:
		return unsure
	}
	if right {
		return fits
	}
	return misfit
}

// limits are those that are in force for a program.
func (p Program) limits() cgroup.Limits {
	l := cgroup.Limits{State: cgroup.Unknown, CPUs: p.Limit, Affinity: p.CPUs}
	switch {
	case p.Limit > 0:
		l.State = cgroup.Limited
	case p.NoLimit:
		l.State = cgroup.None
	}
	return l
}

// misfit is how far a program's GOMAXPROCS is from what its limit asks for; 0: it suits, or that is not known.
func (p Program) misfit() int {
	if fitOf(p.Procs, p.limits()) != misfit {
		return 0
	}
	return max(1, p.Procs-p.Expected, p.Expected-p.Procs)
}

// fitted notes what was seen in a pod: if it has several programs, the one that fits worst.
func (c *container) fitted(at *pod, f fit) {
	if f == notSeen {
		return
	}
	if c.fits == nil {
		c.fits = map[*pod]fit{}
	}
	if before := c.fits[at]; before == notSeen || f < before {
		c.fits[at] = f
	}
}

// right reports whether each number that was seen suits its limit; nil: that is not known.
func (c *container) right() *bool {
	least := notSeen
	for _, f := range c.fits {
		if least == notSeen || f < least {
			least = f
		}
	}
	if least == misfit || least == fits {
		return new(least == fits)
	}
	return nil
}

// Doubted says that the agent of a node reported what can't be: anything it says is right there does not count against the objects.
func (a *Audit) Doubted(node string) { a.doubted[node] = true }

// written is a finding of the objects, with the measurement next to it.
func (a *Audit) written(r *row, v *workload.Workload, f lint.Finding) Finding {
	out := Finding{Finding: f.Finding, Container: f.Container, Source: FromSpec, Holds: HoldsWritten}
	if v.Kind == "Pod" {
		out.Pods = max(1, v.Copies)
	}
	c := r.named(f.Container)
	if c == nil || len(c.fits) == 0 || f.Severity < finding.Warning || !ofNumber(f) {
		return out
	}
	pods, right := 0, 0
	for _, p := range r.standingFor(v) {
		if p.Node == "" {
			continue // nothing of it runs
		}
		pods++
		switch {
		case a.doubted[p.Node]:
		case c.fits[p] == misfit:
			out.Holds = HoldsNow
			return out
		case c.fits[p] == fits:
			right++
		}
	}
	switch {
	case right == 0:
	case right < pods:
		out.Summary += fmt.Sprintf("; it was measured in %s of %s, and is right there", quantity.Count(right), quantity.Plural(pods, "pod"))
	default:
		out.Holds, out.Elsewhere, out.Severity = HoldsElsewhere, new(f.Severity), finding.Info
		out.Summary = fmt.Sprintf("GOMAXPROCS %s %s (%s)", c.numbers(), cmp.Or(where[f.Rule], "is right here, though the manifest says otherwise"), f.Summary)
	}
	return out
}

// where says where a number that was measured as right would not be, by the rule about it.
var where = map[string]string{
	"K002": afterResize, "K003": largerNode, "K004": afterResize, "K008": largerNode, "K013": largerNode,
}

const (
	largerNode  = "is right here, but would be wrong on a larger node"
	afterResize = "is right now, but would be wrong after a resize"
)

// LargerNode reports whether what a rule finds shows on a larger node only, where it does not show here.
func LargerNode(rule string) bool { return where[rule] == largerNode }

// ofNumber reports whether a finding of the objects is about the number that a program has, which can be measured.
func ofNumber(f lint.Finding) bool { return f.Variable == "GOMAXPROCS" || f.Rule == "K008" }

// standingFor are the pods that a workload speaks for. If no pod is left as its template says, because something changes each on its
// way, the template speaks for all.
func (r *row) standingFor(v *workload.Workload) []*pod {
	if r.of == nil {
		r.of = map[*workload.Workload][]*pod{}
		for _, p := range r.pods {
			r.of[p.Of] = append(r.of[p.Of], p)
		}
	}
	if own := r.of[v]; len(own) > 0 || v != r.first {
		return own
	}
	return r.pods
}

// numbers are the GOMAXPROCS that were seen, in a word.
func (c *container) numbers() string {
	if c.low == c.high {
		return strconv.Itoa(c.low)
	}
	return strconv.Itoa(c.low) + " to " + strconv.Itoa(c.high)
}
