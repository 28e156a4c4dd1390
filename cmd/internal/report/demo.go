package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/tour"
)

// A Demo is what the verb demo has shown. It is no document: what one run of each setting shows is worth no file.
type Demo struct {
	CPUs float64
	Rate float64
	Legs []tour.Leg // the last one should be the best
}

// Doubts are what was noted beside the legs, each once.
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

// Shown reports whether users waited clearly longer with each setting than with the one after it, and a request cost clearly more
// with all than with the last. Less than that is not worth a sentence, after one look at each.
func (d *Demo) Shown() bool {
	const clearly = 1.1
	last := d.Legs[len(d.Legs)-1]
	for i, better := range d.Legs[1:] {
		if worse := d.Legs[i]; worse.P99 < clearly*better.P99 || worse.CPU < clearly*last.CPU {
			return false
		}
	}
	return true
}

// Answer is the sentence at the end, and More what belongs to it.
func (d *Demo) Answer() string {
	first, last := d.Legs[0], d.Legs[len(d.Legs)-1]
	switch {
	case d.Shown():
		return fmt.Sprintf("With GOMAXPROCS=%d p99 was %s; with %d it was %s.", last.Procs, quantity.Latency(last.P99), first.Procs, quantity.Latency(first.P99))
	case len(d.Doubts()) > 0:
		return "This machine was too busy to show it."
	}
	return "This machine did not show it: their order is not clear."
}

// More is what belongs to the answer.
func (d *Demo) More() (texts []string) {
	if !d.Shown() {
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
