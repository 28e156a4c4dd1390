package report

import (
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// Memory is the memory limit, and the settings that the runtime was given for it.
type Memory struct {
	State      string `json:"state"`
	Bytes      int64  `json:"bytes,omitempty"`
	From       string `json:"from,omitempty"`
	High       bool   `json:"memory_high,omitempty"` // it is a memory.high, at which nothing is killed
	Reason     string `json:"reason,omitempty"`
	GOMEMLIMIT string `json:"gomemlimit_env,omitempty"`
	GOGC       string `json:"gogc_env,omitempty"`
}

// Collector is what a running program's garbage collector uses, as found in the program's memory, and what it costs.
type Collector struct {
	GOGC       *int     `json:"gogc_value"`       // null: off
	GOMEMLIMIT *int64   `json:"gomemlimit_bytes"` // null: none
	Live       int64    `json:"live_bytes"`       // of the heap, by the last collection
	Roots      int64    `json:"root_bytes"`       // stacks and globals
	Other      int64    `json:"other_bytes"`      // that count for GOMEMLIMIT and hold no objects
	Goal       *int64   `json:"goal_bytes"`       // by which the heap has been collected again; null: never
	Collecting *float64 `json:"collecting_share"` // of the time of busy Ps; null: not known
}

func newMemory(p *host.Process) Memory {
	m := p.System.Memory
	return Memory{
		State: m.State.String(), Bytes: m.Bytes, From: m.From, High: m.High, Reason: errorText(m.Reason),
		GOMEMLIMIT: p.Env["GOMEMLIMIT"], GOGC: p.Env["GOGC"],
	}
}

// newCollector is nil where it is not known.
func newCollector(p *host.Process) *Collector {
	c := p.Collector
	if c == nil {
		return nil
	}
	return &Collector{
		GOGC: known(c.Percent >= 0, c.Percent), GOMEMLIMIT: known(c.Limit < math.MaxInt64, c.Limit),
		Live: int64(c.Live), Roots: int64(c.Roots), Other: int64(c.Other), Goal: known(c.Goal < 1<<50, int64(c.Goal)), Collecting: p.Usage.Collecting,
	}
}
