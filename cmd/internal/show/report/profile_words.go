package report

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// name is the program that the profile is of.
func (d *Profile) name() string {
	switch {
	case d.Program != "":
		return d.Program
	case d.Process != nil && d.Process.Name != "":
		return d.Process.Name
	}
	return "a program"
}

// Subject says what was read.
func (d *Profile) Subject() string {
	text := fmt.Sprintf("CPU profile of %s: %s of CPU time", d.name()+inPod(d.Pod), quantity.Seconds(d.CPU))
	if d.Seconds != nil {
		text += " in " + quantity.Seconds(*d.Seconds)
	}
	return text + ", " + quantity.Plural(d.Samples, "sample")
}

// Lead is how the program fared under its limit; "": that is not known.
func (d *Profile) Lead() string {
	if d.Limit.CPUs == nil || d.Limit.Share == nil {
		return ""
	}
	used := fmt.Sprintf("%s of %s", quantity.Share(*d.Limit.Share), quantity.CPUs(*d.Limit.CPUs))
	text := used
	if p := d.Process; p != nil && p.ThrottledShare != nil {
		text += ", " + quantity.Share(*p.ThrottledShare) + " of periods throttled"
	}
	if d.Procs != nil {
		text += fmt.Sprintf(", GOMAXPROCS %d", *d.Procs)
	}
	if text == used {
		text += " used"
	}
	return text + "."
}

// Answer is said instead of a verdict.
func (d *Profile) Answer() string {
	if d.Excess.Share == nil {
		return "it has no samples"
	}
	return quantity.Share(*d.Excess.Share) + " of CPU time in classes that grow with GOMAXPROCS"
}

// costly is how many times the base's CPU time for a unit of work a class must take to be marked, if it grows with GOMAXPROCS.
const costly = 2

// Text says whether the Ps had CPUs.
func (m *ProfileDemand) Text() string {
	ratio, ps := quantity.Hundredths(m.Ratio), " Ps"
	if ratio == "1" {
		ps = " P"
	}
	text := ratio + ps + " for each CPU that it got"
	if m.Ratio >= rule.Starved {
		return text + ": they had to wait"
	}
	return text + ": they hardly had to wait"
}

// Hint says what follows from the amount of excess, and what does not.
func (d *Profile) Hint() string {
	known := d.Procs != nil && d.Limit.CPUs != nil
	above := known && float64(*d.Procs) > max(1, math.Ceil(*d.Limit.CPUs))
	switch {
	case d.Excess.Amount == "little":
		return "under 3 % is what programs have at GOMAXPROCS 1 too"
	case d.Excess.Amount == "some":
		return "between 3 and 8 % says little by itself"
	case above:
		return fmt.Sprintf("with GOMAXPROCS %d at a limit of %s that suggests that too many Ps cost CPU time; unthrottle tune measures how much", *d.Procs, quantity.CPUs(*d.Limit.CPUs))
	case known:
		return "no smaller GOMAXPROCS could use all of the limit: it is how the program works, or a burst of short wake-ups"
	}
	return "above 8 % suggests that too many Ps cost CPU time, if GOMAXPROCS is above the limit: see --pid and --limit"
}

// Costly reports whether the class grows with GOMAXPROCS and takes far more CPU time for a unit of work than in the base.
func (c ProfileClass) Costly() bool { return c.Excess && c.PerUnit != nil && *c.PerUnit >= costly }

// Sorted are the classes that took CPU time, here or in the base, the largest first.
func (d *Profile) Sorted() []ProfileClass {
	classes := slices.DeleteFunc(slices.Clone(d.Classes), func(c ProfileClass) bool {
		return c.CPU <= 0 && (c.BaseShare == nil || *c.BaseShare <= 0)
	})
	slices.SortStableFunc(classes, func(a, b ProfileClass) int { return cmp.Compare(b.CPU, a.CPU) })
	return classes
}

// excessFunctions is a regular expression for go tool pprof: the functions in which excess begins.
const excessFunctions = `runtime\.(stealWork|stopm|startm|wakep|gcDrainMarkWorkerIdle|stopTheWorld|forEachP)`

// Next is what to do next.
func (d *Profile) Next() []Advice {
	if d.Pod != "" && d.Saved == "" {
		return d.nextInPod()
	}
	file := cmp.Or(d.Saved, d.Source)
	if file == "-" {
		file = "FILE"
	}
	next := []Advice{{
		"All of it, and the callers of what grows:",
		[]string{"go tool pprof -http=: " + ShellWord(file), "go tool pprof -peek '" + excessFunctions + "' " + ShellWord(file)},
	}}
	if d.Base != nil {
		return next
	}
	source := "unthrottle profile " + ShellWord(d.Source)
	if d.Pod != "" {
		source = d.again()
	}
	other := Advice{Text: "Beside the same program at GOMAXPROCS = its limit, or at another time:"}
	switch {
	case d.Saved != "":
		other = Advice{"This one as the base of another:", []string{source + " --base " + ShellWord(d.Saved)}}
	case strings.Contains(d.Source, "://"):
		other.Lines = []string{source + " --save base.pb.gz", source + " --base base.pb.gz"}
	default:
		other.Lines = []string{source + " --base BASE"}
	}
	return append(next, other)
}

// again is the command that takes another one from its pod.
func (d *Profile) again() string {
	command := ofPod("profile", d.Pod)
	if u, err := url.Parse(d.Source); err == nil && u.Host != "" {
		command += " --process " + ShellWord(u.Host)
	}
	return command
}

// nextInPod is what to do next with a profile of a pod that was not kept: the address is one within the pod.
func (d *Profile) nextInPod() []Advice {
	return []Advice{{
		"Keep one, look into it, and compare another with it:",
		[]string{d.again() + " --save base.pb.gz", "go tool pprof -http=: base.pb.gz", d.again() + " --base base.pb.gz"},
	}}
}
