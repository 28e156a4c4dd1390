package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Run shows how a program fared under a limit.
func Run(d *report.Run) *sheet.Sheet {
	command := report.ShellWords(d.Command)
	s := &sheet.Sheet{Verb: "run", Subject: command, Warnings: d.Warnings, Document: d}
	end := cmp.Or(around("ended by ", d.Signal, ""), "exit code "+strconv.Itoa(d.ExitCode))
	s.Claims = []sheet.Claim{{Word: "unthrottle", Tone: sheet.Strong, Typed: true, Text: command + ": " + quantity.Seconds(d.WallSeconds) + ", " + end}}
	var f sheet.Facts
	f.Add("limit", heldLimit(d.Held))
	mean := when(d.LimitShare == nil && d.WallSeconds > 0, ", "+quantity.UsedCPUs(d.CPUSeconds/d.WallSeconds)+" on average")
	f.Add("CPU time", quantity.Seconds(d.CPUSeconds)+around(", ", known(d.LimitShare, quantity.Share), " of the limit")+mean)
	frozen := when(d.ThrottledPeriods > 0, known(d.Frozen, func(f report.Frozen) string {
		return "; frozen for " + f.Words() + " of the time"
	}))
	standstill := when(d.ThrottledPeriods > 0, around("; longest standstill seen ", spent(d.Standstill), ""))
	f.Add("throttled", around("", limitDid(d.LimitCPUs, d.PeriodsShare, d.ThrottledPeriods, d.Periods, d.ThrottledSeconds), frozen+standstill))
	f.Add("bursts", when(d.BurstLimit > 0, fmt.Sprintf("%d, %s in all", d.Bursts, quantity.Seconds(d.BurstSeconds))))
	f.Add("memory", runMemory(d))
	f.Add("switches", quantity.Count(d.Voluntary)+" voluntary, "+quantity.Count(d.Involuntary)+" forced")
	f.Add("left behind", when(d.Left > 0, quantity.Plural(d.Left, "process")+", killed"))
	f.Add("note", d.Notes...)
	s.Add(quiet("What the limit did", f))
	return s
}

// heldLimit says what a command was held to, and by what.
func heldLimit(h report.Held) string {
	cpus := known(h.LimitCPUs, func(cpus float64) string { return quantity.CPUs(cpus) + ", " + quota(h.QuotaSeconds, h.PeriodSeconds) })
	var numbers []string
	for _, n := range h.Cpuset {
		numbers = append(numbers, strconv.Itoa(n))
	}
	memory := when(h.MemoryLimit != 0, quantity.Bytes(h.MemoryLimit)+" of memory")
	text := joined(", ", cpus, memory, around("on CPU ", strings.Join(numbers, ","), ""))
	return cmp.Or(around("", text, around(" (", limitKind(h.LimitKind), ")")), "none")
}

func runMemory(d *report.Run) string {
	if d.PeakMemory == 0 {
		return ""
	}
	text := quantity.Bytes(d.PeakMemory) + " at its peak"
	switch d.PeakMemoryOf {
	case "process":
		text += ", the largest process"
	case "at most":
		text = "less than " + quantity.Bytes(d.PeakMemory)
	}
	const less = 0.9
	if d.Needed > 0 && float64(d.Needed) < less*float64(d.PeakMemory) {
		text += ", " + quantity.Bytes(d.Needed) + " without cached files"
	}
	return text + when(d.OOMKills > 0, "; "+quantity.Plural(d.OOMKills, "process")+" killed for lack of it")
}
