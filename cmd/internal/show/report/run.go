package report

import (
	"cmp"
	"fmt"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// Run is the document of the verb run.
type Run struct {
	Header
	Command     []string `json:"command"`
	GOMAXPROCS  *int     `json:"gomaxprocs_env"` // that run set; null: left as it was
	ExitCode    int      `json:"exit_code"`      // 128 and its number if a signal ended it
	Signal      string   `json:"signal,omitempty"`
	WallSeconds float64  `json:"wall_seconds"`
	CPUSeconds  float64  `json:"cpu_seconds"`
	Held
	PeakMemory   int64    `json:"peak_memory_bytes"`
	PeakMemoryOf string   `json:"peak_memory_of"`                // group, process (the largest), or at most (a bound on a process's)
	Needed       int64    `json:"needed_memory_bytes,omitempty"` // the most without pages of files, as far as seen
	OOMKills     int64    `json:"oom_kills,omitempty"`
	Voluntary    int64    `json:"voluntary_switches"`
	Involuntary  int64    `json:"involuntary_switches"`
	Left         int      `json:"left_processes"` // that were still running at the end, and were killed
	Notes        []string `json:"notes"`          // why no better kind of limit was used
	Warnings     []string `json:"warnings"`
}

// Held is a limit and what it did.
type Held struct {
	LimitKind     string   `json:"limit_kind"` // cgroup-v1, cgroup-v2, systemd, emulated or none
	LimitCPUs     *float64 `json:"limit_cpus"` // null: none
	QuotaSeconds  float64  `json:"quota_seconds,omitempty"`
	PeriodSeconds float64  `json:"period_seconds,omitempty"`
	BurstLimit    float64  `json:"burst_limit_seconds,omitempty"`
	MemoryLimit   int64    `json:"memory_limit_bytes,omitempty"`
	Cpuset        []int    `json:"cpuset,omitempty"`
	LimitShare    *float64 `json:"limit_share"` // CPU time as a share of what the limit allowed
	PeriodCount
	Bursts       int64    `json:"bursts"`
	BurstSeconds float64  `json:"burst_seconds"`
	Frozen       *Frozen  `json:"frozen"`                     // null: no limit, or not known
	Standstill   *float64 `json:"longest_standstill_seconds"` // as far as seen; null: no limit
}

// NewRun makes the document of a command that has ended. cpus is how many there are for it.
func NewRun(command []string, procs *int, l runner.Limit, cpus int, kind runner.Kind, notes []string, r runner.Result) Run {
	d := Run{
		Command: command, GOMAXPROCS: procs, ExitCode: r.ExitCode, Signal: r.Signal,
		WallSeconds: r.Wall.Seconds(), CPUSeconds: r.CPU.Seconds(), Held: newHeld(l, cpus, kind, r),
		PeakMemory: r.PeakMemory, PeakMemoryOf: string(r.PeakOf), Needed: r.PeakNeeded, OOMKills: r.OOMKills,
		Voluntary: r.Voluntary, Involuntary: r.Involuntary, Left: r.Left,
		Notes: append([]string{}, notes...), Warnings: errorTexts(r.Warnings),
	}
	if l.CPUs > float64(cpus) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("a limit of %s limits nothing here: there %s", quantity.CPUs(l.CPUs),
			cmp.Or(map[bool]string{true: "is 1 CPU"}[cpus == 1], "are "+quantity.CPUs(float64(cpus)))))
	}
	return d
}

func newHeld(l runner.Limit, cpus int, kind runner.Kind, r runner.Result) Held {
	h := Held{LimitKind: string(kind), MemoryLimit: l.Memory, Cpuset: l.Cpuset}
	if kind == runner.Emulated {
		h.MemoryLimit = 0 // signals can't hold a program to it: a warning says so
	}
	if l.CPUs == 0 {
		return h
	}
	h.LimitCPUs, h.Standstill = &l.CPUs, new(r.Standstill.Seconds())
	h.QuotaSeconds, h.PeriodSeconds = l.Quota().Round(time.Microsecond).Seconds(), l.PeriodInForce().Seconds()
	h.BurstLimit, h.Bursts, h.BurstSeconds = l.Burst.Seconds(), r.Bursts, r.BurstTime.Seconds()
	h.PeriodCount = newPeriodCount(r.Counters)
	h.Frozen = newFrozen(host.Usage{Wall: r.Wall, Throttling: cgroup.Throttling{Owner: r.Counters}}, cpus)
	// Below one period the limit isn't a rate: all of the quota may be used at once.
	h.LimitShare = known(r.Wall >= l.PeriodInForce(), r.CPU.Seconds()/(l.CPUs*r.Wall.Seconds()))
	return h
}
