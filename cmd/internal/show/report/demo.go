package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// A Demo is what the verb demo has shown. It isn't a document: what one run of each setting shows is not worth a file.
type Demo struct {
	CPUs float64
	Rate float64
	Legs []trial.Leg // the last one should be the best
}

// manyFailed is the share of failed requests from which p99 is how long these were waited for.
const manyFailed = 0.01

// DemoLeg is what came of a setting, in a line.
func DemoLeg(leg trial.Leg) string {
	if !(leg.P99 > 0) || !(leg.CPU > 0) {
		return "nothing was measured"
	}
	last := ""
	if leg.Failed > 0 && leg.Failed < manyFailed {
		last = ", " + quantity.Share(leg.Failed) + " failed"
	}
	return DemoTail(leg) + ", CPU per request " + quantity.Latency(leg.CPU) + ", throttled in " + quantity.Share(leg.Throttled) + " of the periods" + last
}

// DemoTail is how long users waited with a setting, or how many got no answer.
func DemoTail(leg trial.Leg) string {
	if leg.Failed >= manyFailed {
		return quantity.Share(leg.Failed) + " failed"
	}
	return "p99 " + quantity.Latency(leg.P99)
}

// Doubts are what was noted about the legs, each once.
func (d *Demo) Doubts() (texts []string) {
	for _, leg := range d.Legs {
		for _, doubt := range leg.Doubts {
			if !slices.Contains(texts, doubt) {
				texts = append(texts, doubt)
			}
		}
	}
	return texts
}

// clearly is how much more something must be after one look at each. Less is not worth a sentence.
const clearly = 1.1

// Shown reports whether users waited clearly longer with each setting than with the one after it, and a request cost clearly more
// with all than with the last.
func (d *Demo) Shown() bool {
	last := d.Legs[len(d.Legs)-1]
	for i, better := range d.Legs[1:] {
		if worse := d.Legs[i]; worse.P99 < clearly*better.P99 || worse.CPU < clearly*last.CPU {
			return false
		}
	}
	return true
}

// partly reports whether the first setting at least is beyond doubt: users waited twice as long as with any other, and a request
// cost clearly more.
func (d *Demo) partly() bool {
	first := d.Legs[0]
	return !slices.ContainsFunc(d.Legs[1:], func(other trial.Leg) bool {
		return first.P99 < 2*other.P99 || first.CPU < clearly*other.CPU
	})
}

// Answer is the sentence at the end, and More what belongs to it.
func (d *Demo) Answer() string {
	first, last := d.Legs[0], d.Legs[len(d.Legs)-1]
	switch {
	case d.Shown() && (first.Failed >= manyFailed || last.Failed >= manyFailed):
		return fmt.Sprintf("With GOMAXPROCS=%d: %s; with %d: %s.", last.Procs, DemoTail(last), first.Procs, DemoTail(first))
	case d.Shown():
		return fmt.Sprintf("With GOMAXPROCS=%d p99 was %s; with %d it was %s.", last.Procs, quantity.Latency(last.P99), first.Procs, quantity.Latency(first.P99))
	case d.partly():
		var others []string
		longest := 0.0
		for _, leg := range d.Legs[1:] {
			others, longest = append(others, strconv.Itoa(leg.Procs)), max(longest, leg.P99)
		}
		if first.Failed >= manyFailed {
			return fmt.Sprintf("With GOMAXPROCS=%d: %s; with %s: p99 %s at most.", first.Procs, DemoTail(first), quantity.Either(others), quantity.Latency(longest))
		}
		return fmt.Sprintf("With GOMAXPROCS=%d p99 was %s; with %s at most %s.", first.Procs, quantity.Latency(first.P99),
			quantity.Either(others), quantity.Latency(longest))
	case len(d.Doubts()) > 0:
		return "This machine was too busy to show it."
	}
	return "This machine did not show it: their order is not clear."
}

// More is what belongs to the answer.
func (d *Demo) More() (texts []string) {
	if !d.Shown() {
		if d.partly() {
			texts = []string{"Which of the others is better is not clear."}
		}
		for _, b := range d.Doubts() {
			texts = append(texts, "While it ran, "+b+".")
		}
		return append(texts, "unthrottle demo --for 10s looks at each for longer.")
	}
	var costs []string
	for _, leg := range slices.Backward(d.Legs) {
		costs = append(costs, fmt.Sprintf("%s with %d", quantity.Latency(leg.CPU), leg.Procs))
	}
	return []string{
		"The server, its limit and the requests were the same. CPU per request: " + strings.Join(costs, ", ") + ".",
		"This server makes garbage, and the more Ps it has the more CPU the garbage collector takes from the limit. Other programs are better off with more.",
	}
}
