package report

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Claim is the answer in a word.
func (d *Trace) Claim() string { return causeWord(d.Cause, "frozen", d.Findings) }

// Answer is the answer in few words, without the word.
func (d *Trace) Answer() string {
	switch freeze.Cause(d.Cause) {
	case freeze.Throttled:
		share := d.FrozenShare
		if d.Contended > 0 {
			share = d.Throttled
		}
		return frozenText(share) + " by a CPU quota" + d.doubtful()
	case freeze.Contended:
		return frozenText(d.FrozenShare) + " by others" + d.doubtful()
	case freeze.None:
		if d.Confidence == "low" {
			return "no freeze to speak of in this trace" + d.doubtful()
		}
		return "no freeze to speak of in " + quantity.Lasting(d.Wall)
	}
	return "this trace doesn't show whether it was frozen"
}

// Also says what belongs to the answer.
func (d *Trace) Also() (texts []string) {
	switch freeze.Cause(d.Cause) {
	case freeze.Throttled:
		if text := d.quotaText(); text != "" {
			texts = append(texts, text)
		}
		if d.Contended > 0 {
			texts = append(texts, "For "+quantity.Share(d.Contended)+" of the time it stood still at no refill, as beside other programs.")
		}
	case freeze.Contended:
		texts = []string{"Other programs or machines had the CPUs: the freezes don't have the rhythm of a quota."}
		if d.Neighbour {
			texts = []string{"Other programs or machines had the CPUs, and one of them has a quota."}
		}
	}
	if k := d.Kernel; k != nil && k.ThrottledPeriods > 0 && d.Cause != string(freeze.Throttled) {
		texts = append(texts, fmt.Sprintf("The kernel throttled it in %s of %s meanwhile.", quantity.Count(k.ThrottledPeriods), quantity.Plural(k.Periods, "period")))
	}
	return texts
}

// notTheLimit says that no limit is the cause, where nothing else says that it is a part of it.
func (d *Trace) notTheLimit() string {
	if quotaNamed(d.Findings) {
		return ""
	}
	return "A limit is not the cause. "
}

// doubtful marks an answer that is not sure. The doubt itself is a fact of its own.
func (d *Trace) doubtful() string {
	if d.Confidence == "low" && d.Cause != string(freeze.Unsure) {
		return " (low confidence)"
	}
	return ""
}

// quotaText is how much CPU time the quota gives, if that is known: by the cgroup, else by what the program got.
func (d *Trace) quotaText() string {
	switch {
	case d.Limit != nil && d.Limit.CPUs != nil && d.Limit.Quota > 0:
		return fmt.Sprintf("The quota is %s of each %s.", quantity.Seconds(d.Limit.Quota), quantity.Seconds(d.Limit.Period))
	case d.Period == nil:
		return ""
	case d.ImpliedCPUs == nil:
		return "The quota has a period of " + quantity.Seconds(*d.Period) + "."
	}
	return fmt.Sprintf("The quota is about %s of each %s.", quantity.Seconds(*d.ImpliedCPUs**d.Period), quantity.Seconds(*d.Period))
}

// Subject says what was read.
func (d *Trace) Subject() string {
	name := ShellWord(d.Source)
	if len(d.Recorded) > 0 {
		name = ShellWords(d.Recorded)
	}
	name += inPod(d.Pod)
	if d.Process != nil && d.Process.Name != "" {
		name += fmt.Sprintf(" (%s, pid %d)", d.Process.Name, d.Process.PID)
	}
	return fmt.Sprintf("execution trace of %s, %s", name, quantity.Lasting(d.Wall))
}

// inPod says in which pod a source is; "": not in a pod.
func inPod(pod string) string {
	if pod == "" {
		return ""
	}
	return " in pod " + pod
}

// Sure says how sure the answer is, and why not more.
func (d *Trace) Sure() string {
	switch {
	case d.Confidence != "low":
		return "high"
	case d.Doubt == "" || d.Doubt == d.Why:
		return "low"
	}
	return "low: " + d.Doubt
}

// Still is what a stretch without events is called, and what the program was then: whether it was frozen is not always
// known.
func (d *Trace) Still() (stretches, was string) {
	if d.Cause == string(freeze.Throttled) || d.Cause == string(freeze.Contended) {
		return "freezes", "frozen"
	}
	return "silences", "silent"
}

// HiddenShare is Hidden, if it is worth mentioning.
func (d *Trace) HiddenShare() float64 {
	if d.Cause != string(freeze.Throttled) || d.Hidden < 0.005 {
		return 0
	}
	return d.Hidden
}

// Folding is how the drawing cuts the time.
func (d *Trace) Folding() Folding { return folding(d.Period, d.Cause, d.Rhythm) }

// Calm reports whether there are no freezes that matter, and so nothing to draw.
func (d *Trace) Calm() bool {
	return len(d.Freezes) == 0 || d.Cause == string(freeze.None) && d.Confidence == "high"
}

// Advice is what to do next, and the commands for it.
type Advice struct {
	Text  string
	Lines []string
}

// Next is what to do next.
func (d *Trace) Next() (next []Advice) {
	if d.Pod != "" {
		return d.nextInPod()
	}
	pid := "PID"
	if d.Process != nil && len(d.Recorded) == 0 {
		pid = fmt.Sprint(d.Process.PID)
	}
	switch freeze.Cause(d.Cause) {
	case freeze.Throttled:
		program := "PROGRAM"
		if len(d.Recorded) > 0 {
			program = ShellWords(d.Recorded)
		} else {
			next = append(next, Advice{"Its limit and its GOMAXPROCS, and whether they fit:", []string{"unthrottle explain " + pid}})
		}
		tune := "unthrottle tune --cpus " + d.limitFlag() + " -- " + program
		next = append(next, Advice{"Which GOMAXPROCS serves it best under that limit, measured:", []string{tune}})
	case freeze.Contended:
		who := []string{"unthrottle ps"}
		if len(d.Recorded) == 0 {
			who = append(who, "unthrottle watch "+pid)
		}
		next = append(next, Advice{d.notTheLimit() + "Who else uses the CPUs:", who})
	case freeze.Unsure:
		next = append(next, Advice{"A heartbeat in its cgroup says it for sure:", []string{"unthrottle watch " + pid}})
		if d.Samples == nil {
			next = append(next, Advice{"A trace with CPU samples says more:", []string{"unthrottle trace HOST:PORT"}})
		}
	}
	return append(next, d.events()...)
}

// nextInPod is what to do next where the program runs in a pod.
func (d *Trace) nextInPod() (next []Advice) {
	namespace, _, _ := strings.Cut(d.Pod, "/")
	switch freeze.Cause(d.Cause) {
	case freeze.Throttled:
		next = []Advice{
			{"Its limit and its GOMAXPROCS, and whether they fit:", []string{ofPod("explain", d.Pod)}},
			{"Which GOMAXPROCS serves it best under that limit, measured:", []string{"kubectl unthrottle tune KIND/NAME -n " + ShellWord(namespace)}},
		}
	case freeze.Contended:
		next = []Advice{{d.notTheLimit() + "What the kernel counts, to make sure:", []string{ofPod("watch", d.Pod)}}}
	case freeze.Unsure:
		next = []Advice{{"What the kernel counts of its limit:", []string{ofPod("watch", d.Pod)}}}
	}
	return append(next, d.events()...)
}

// events is where all of them can be seen, if the trace was kept.
func (d *Trace) events() (next []Advice) {
	if file := d.file(); file != "" {
		next = append(next, Advice{"All events of it:", []string{"go tool trace " + ShellWord(file)}})
	}
	return next
}

// ofPod is the command of a verb about a pod.
func ofPod(verb, pod string) string {
	namespace, name, _ := strings.Cut(pod, "/")
	return "kubectl unthrottle " + verb + " " + ShellWord(name) + " -n " + ShellWord(namespace)
}

// limitFlag is the limit as a flag has it, if it is known.
func (d *Trace) limitFlag() string {
	switch {
	case d.Limit != nil && d.Limit.CPUs != nil:
		return quantity.Hundredths(*d.Limit.CPUs)
	case d.ImpliedCPUs != nil && d.ImpliedBy == "samples":
		return quantity.Hundredths(*d.ImpliedCPUs)
	}
	return "CPUS"
}

// file is where the trace was kept; "": nowhere.
func (d *Trace) file() string {
	switch {
	case d.Saved != "":
		return d.Saved
	case strings.Contains(d.Source, "://") || d.Source == "-" || len(d.Recorded) > 0:
		return ""
	}
	return d.Source
}
