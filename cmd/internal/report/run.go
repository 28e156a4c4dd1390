package report

import (
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/runner"
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
	PeakMemoryOf string   `json:"peak_memory_of"` // group, process (the largest), or at most (a process: that bounds it)
	OOMKills     int64    `json:"oom_kills,omitempty"`
	Voluntary    int64    `json:"voluntary_switches"`
	Involuntary  int64    `json:"involuntary_switches"`
	Left         int      `json:"left_processes"` // that were still there at the end, and were killed
	Notes        []string `json:"notes"`          // why the limit is not of a better kind
	Warnings     []string `json:"warnings"`
}

// Held is a limit and what it did.
type Held struct {
	LimitKind        string   `json:"limit_kind"` // cgroup-v1, cgroup-v2, systemd, emulated or none
	LimitCPUs        *float64 `json:"limit_cpus"` // null: none
	QuotaSeconds     float64  `json:"quota_seconds,omitempty"`
	PeriodSeconds    float64  `json:"period_seconds,omitempty"`
	BurstLimit       float64  `json:"burst_limit_seconds,omitempty"`
	MemoryLimit      int64    `json:"memory_limit_bytes,omitempty"`
	Cpuset           []int    `json:"cpuset,omitempty"`
	LimitShare       *float64 `json:"limit_share"` // CPU time as a share of what the limit allowed
	Periods          int64    `json:"periods"`
	ThrottledPeriods int64    `json:"throttled_periods"`
	ThrottledShare   *float64 `json:"throttled_periods_share"` // of the periods; null: there were none
	ThrottledSeconds float64  `json:"throttled_seconds"`       // summed over CPUs
	Bursts           int64    `json:"bursts"`
	BurstSeconds     float64  `json:"burst_seconds"`
	Standstill       *float64 `json:"longest_standstill_seconds"` // as far as seen; null: no limit
}

// NewRun makes the document of a command that has ended.
func NewRun(command []string, procs *int, l runner.Limit, kind runner.Kind, notes []string, r runner.Result) Run {
	return Run{
		Command: command, GOMAXPROCS: procs, ExitCode: r.ExitCode, Signal: r.Signal,
		WallSeconds: r.Wall.Seconds(), CPUSeconds: r.CPU.Seconds(), Held: newHeld(l, kind, r),
		PeakMemory: r.PeakMemory, PeakMemoryOf: string(r.PeakOf), OOMKills: r.OOMKills,
		Voluntary: r.Voluntary, Involuntary: r.Involuntary, Left: r.Left,
		Notes: append([]string{}, notes...), Warnings: errorTexts(r.Warnings),
	}
}

func newHeld(l runner.Limit, kind runner.Kind, r runner.Result) Held {
	h := Held{LimitKind: string(kind), MemoryLimit: l.Memory, Cpuset: l.Cpuset}
	if l.CPUs == 0 {
		return h
	}
	cpus, standstill := l.CPUs, r.Standstill.Seconds()
	h.LimitCPUs, h.Standstill = &cpus, &standstill
	h.PeriodSeconds = l.PeriodInForce().Seconds()
	h.QuotaSeconds = l.Quota().Round(time.Microsecond).Seconds()
	h.BurstLimit = l.Burst.Seconds()
	h.Periods, h.ThrottledPeriods, h.ThrottledSeconds = r.Periods, r.Throttled, r.ThrottledTime.Seconds()
	h.ThrottledShare = share(r.Throttled, r.Periods)
	h.Bursts, h.BurstSeconds = r.Bursts, r.BurstTime.Seconds()
	if r.Wall > 0 {
		of := r.CPU.Seconds() / (l.CPUs * r.Wall.Seconds())
		h.LimitShare = &of
	}
	return h
}
