package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// RunText writes the document of run for people.
func RunText(w io.Writer, r *report.Run, style Style) error {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %s %s\n", pad(name, 11), style.wrap(text, 14))
		}
	}
	end := fmt.Sprintf("exit code %d", r.ExitCode)
	if r.Signal != "" {
		end = "ended by " + r.Signal
	}
	fmt.Fprintf(&b, "%s: %s, %s\n", style.bold("unthrottle: "+printable(strings.Join(r.Command, " "))), seconds(r.WallSeconds), end)
	line("limit", limitText(r.Held))
	line("CPU time", cpuText(r))
	line("throttled", throttledText(r.Held))
	line("bursts", burstText(r.Held))
	line("memory", peakText(r))
	line("switches", fmt.Sprintf("%d voluntary, %d forced", r.Voluntary, r.Involuntary))
	if r.Left > 0 {
		line("left behind", plural(int64(r.Left), "process")+", killed")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s %s\n", style.dim("note:"), style.wrap(printable(n), 6))
	}
	warnings(&b, r.Warnings, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// warnings writes what the reader should know, a line each.
func warnings(b *strings.Builder, texts []string, style Style) {
	for _, w := range texts {
		b.WriteString(style.bad("warning: ") + style.wrap(printable(w), len("warning: ")) + "\n")
	}
}

// limitText says what a command was held to, and by what.
func limitText(h report.Held) string {
	var parts []string
	if h.LimitCPUs != nil {
		parts = append(parts, fmt.Sprintf("%s, %s of each %s", cpus(*h.LimitCPUs), seconds(h.QuotaSeconds), seconds(h.PeriodSeconds)))
	}
	if h.MemoryLimit != 0 {
		parts = append(parts, bytes(h.MemoryLimit)+" of memory")
	}
	if len(h.Cpuset) > 0 {
		parts = append(parts, "on CPU "+strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Cpuset), " ", ","), "[]"))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ") + kindText(h.LimitKind)
}

// kindText says what kind of limit it is.
func kindText(kind string) string {
	switch kind {
	case "cgroup-v1":
		return " (cgroup v1)"
	case "cgroup-v2":
		return " (cgroup v2)"
	case "systemd":
		return " (a scope of systemd)"
	case "emulated":
		return " (emulated: not the kernel's own limit)"
	}
	return ""
}

func cpuText(r *report.Run) string {
	text := seconds(r.CPUSeconds)
	switch {
	case r.LimitShare != nil:
		text += ", " + percent(*r.LimitShare) + " of the limit"
	case r.WallSeconds > 0:
		text += ", " + cpus(hundredths(r.CPUSeconds/r.WallSeconds)) + " on average"
	}
	return text
}

func throttledText(h report.Held) string {
	switch {
	case h.LimitCPUs == nil:
		return ""
	case h.ThrottledShare == nil:
		return "no period was counted"
	case h.ThrottledPeriods == 0:
		return "in none of " + plural(h.Periods, "period")
	}
	text := fmt.Sprintf("in %d of %s (%s)", h.ThrottledPeriods, plural(h.Periods, "period"), percent(*h.ThrottledShare))
	text += ", " + seconds(h.ThrottledSeconds) + " summed over CPUs"
	if h.Standstill != nil && *h.Standstill > 0 {
		text += "; longest standstill seen " + seconds(*h.Standstill)
	}
	return text
}

func burstText(h report.Held) string {
	if h.BurstLimit == 0 {
		return ""
	}
	return fmt.Sprintf("%d, %s in all", h.Bursts, seconds(h.BurstSeconds))
}

func peakText(r *report.Run) string {
	if r.PeakMemory == 0 {
		return ""
	}
	text := bytes(r.PeakMemory) + " at its peak"
	switch r.PeakMemoryOf {
	case "process":
		text += ", the largest process"
	case "at most":
		text = "less than " + bytes(r.PeakMemory)
	}
	if r.OOMKills > 0 {
		text += "; " + plural(r.OOMKills, "process") + " killed for lack of it"
	}
	return text
}
