package goself

import "time"

// Classes are what a page says about how GOMAXPROCS was used: the CPU classes of runtime/metrics, and the process's CPU time.
//
// The runtime counts the classes by the state of its Ps and the clock: a P whose thread waits for a CPU, or is frozen by a
// quota, counts as one that runs. So what was not idle, divided by the CPU time that the process got, shows how many Ps
// wanted a CPU for each CPU there was. The runtime brings the classes up to date when a garbage collection ends, and at no
// other time.
type Classes struct {
	Procs int     // GOMAXPROCS; 0: unknown
	Total float64 // seconds of CPU time that GOMAXPROCS allowed
	Idle  float64 // of these: not used
	CPU   float64 // seconds of the process, by the kernel's count; negative: unknown
}

const (
	totalName = "go_cpu_classes_total_cpu_seconds_total"
	idleName  = "go_cpu_classes_idle_cpu_seconds_total"
)

// ParseClasses reads a page. ok is false if the classes are not in it: Prometheus' own client has them only if it is asked
// for all metrics of the runtime.
func ParseClasses(page []byte) (c Classes, ok bool) {
	c.CPU = -1
	total, idle := false, false
	for s := range samples(page) {
		switch s.name {
		case procsName:
			c.Procs = s.procs()
		case totalName:
			c.Total, total = s.value, true
		case idleName:
			c.Idle, idle = s.value, true
		case cpuName:
			c.CPU = s.value
		}
	}
	return c, total && idle && c.Idle <= c.Total
}

// A Demand is how many CPUs a program's Ps wanted, and how many it got.
type Demand struct {
	Wanted  float64       // Ps that were not idle, on average
	Got     float64       // CPUs
	Covered time.Duration // how long the runtime's part of it lasted; 0: GOMAXPROCS is unknown
}

// Ratio is 1 for a program whose running Ps all have a CPU.
func (d Demand) Ratio() float64 { return d.Wanted / d.Got }

// Since is what happened since an earlier reading: between is the time from one to the other, cpu the process's CPU time in it. The
// runtime's part goes from the last collection before one to the last before the other, which is a different stretch of time: its length
// follows from GOMAXPROCS, and the two parts are compared by their rates. ok is false if the runtime has not brought its classes up to date
// in between.
func (c Classes) Since(before Classes, between, cpu time.Duration) (d Demand, ok bool) {
	total, idle := c.Total-before.Total, c.Idle-before.Idle
	if total <= 0 || idle < 0 || idle > total || between <= 0 || cpu <= 0 {
		return d, false
	}
	d.Got = cpu.Seconds() / between.Seconds()
	if c.Procs == 0 || c.Procs != before.Procs {
		d.Wanted = (total - idle) / between.Seconds()
		return d, true
	}
	d.Covered = time.Duration(total / float64(c.Procs) * float64(time.Second))
	d.Wanted = float64(c.Procs) * (1 - idle/total)
	return d, true
}

// Start is the ratio of Wanted to Got since the program's start, where there is only one reading; the two are sums of seconds. ok is false
// if there was no collection yet, or the CPU time is unknown.
func (c Classes) Start() (d Demand, ok bool) {
	if c.Total <= 0 || c.Idle < 0 || c.Idle > c.Total || c.CPU <= 0 {
		return d, false
	}
	return Demand{Wanted: c.Total - c.Idle, Got: c.CPU}, true
}
