package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Run shows how a program fared under a limit.
func Run(d *report.Run) *sheet.Sheet {
	command := report.ShellWords(d.Command)
	s := &sheet.Sheet{Verb: "run", Subject: command, Warnings: d.Warnings, Document: d}
	end := fmt.Sprintf("exit code %d", d.ExitCode)
	if d.Signal != "" {
		end = "ended by " + d.Signal
	}
	s.Claims = []sheet.Claim{{Word: "unthrottle", Tone: sheet.Strong, Text: command + ": " + quantity.Seconds(d.WallSeconds) + ", " + end}}
	var f sheet.Facts
	f.Add("limit", heldLimit(d.Held))
	f.Add("CPU time", runCPU(d))
	f.Add("throttled", heldThrottled(d.Held))
	if d.BurstLimit > 0 {
		f.Add("bursts", fmt.Sprintf("%d, %s in all", d.Bursts, quantity.Seconds(d.BurstSeconds)))
	}
	f.Add("memory", runMemory(d))
	f.Add("switches", fmt.Sprintf("%s voluntary, %s forced", quantity.Count(d.Voluntary), quantity.Count(d.Involuntary)))
	if d.Left > 0 {
		f.Add("left behind", quantity.Plural(d.Left, "process")+", killed")
	}
	f.Add("note", d.Notes...)
	s.Add(sheet.Section{Quiet: true, Title: "What the limit did", Blocks: []sheet.Block{f}})
	return s
}

// heldLimit says what a command was held to, and by what.
func heldLimit(h report.Held) string {
	var parts []string
	if h.LimitCPUs != nil {
		parts = append(parts, quantity.CPUs(*h.LimitCPUs)+", "+quota(h.QuotaSeconds, h.PeriodSeconds))
	}
	if h.MemoryLimit != 0 {
		parts = append(parts, quantity.Bytes(h.MemoryLimit)+" of memory")
	}
	if len(h.Cpuset) > 0 {
		var numbers []string
		for _, n := range h.Cpuset {
			numbers = append(numbers, strconv.Itoa(n))
		}
		parts = append(parts, "on CPU "+strings.Join(numbers, ","))
	}
	if len(parts) == 0 {
		return "none"
	}
	text := strings.Join(parts, ", ")
	if kind := limitKind(h.LimitKind); kind != "" {
		text += " (" + kind + ")"
	}
	return text
}

func runCPU(d *report.Run) string {
	text := quantity.Seconds(d.CPUSeconds)
	switch {
	case d.LimitShare != nil:
		text += ", " + quantity.Share(*d.LimitShare) + " of the limit"
	case d.WallSeconds > 0:
		text += ", " + quantity.UsedCPUs(d.CPUSeconds/d.WallSeconds) + " on average"
	}
	return text
}

func heldThrottled(h report.Held) string {
	switch {
	case h.LimitCPUs == nil:
		return ""
	case h.ThrottledShare == nil:
		return "no period was counted"
	}
	text := "in " + throttled(h.ThrottledPeriods, h.Periods, h.ThrottledSeconds)
	if h.Standstill != nil && *h.Standstill > 0 && h.ThrottledPeriods > 0 {
		text += "; longest standstill seen " + quantity.Seconds(*h.Standstill)
	}
	return text
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
	if d.OOMKills > 0 {
		text += "; " + quantity.Plural(d.OOMKills, "process") + " killed for lack of it"
	}
	return text
}
