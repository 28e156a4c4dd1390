// Package cgroup answers one question: which CPU limit does the kernel really hold this process to?
//
// In go the files under /proc and the cgroup mounts, below a root that the caller may choose. Out comes [Limits]: every
// level from the process's own cgroup up to the root of the mount, what each one sets, and the smallest quota of all,
// which is the one that is in force. [ReadThrottling] reads what the limit has done so far, [ReadMemory] the memory limit.
//
// The package writes nothing, logs nothing and decides nothing: what to do with a limit is the business of package
// unthrottle. It knows cgroup v1, v2 and hybrid layouts.
package cgroup

import (
	"errors"
	"time"
)

// Reasons for an unknown limit that a caller may want to tell apart.
var (
	// ErrNotSupported is the reason on systems other than Linux.
	ErrNotSupported = errors.New("no CPU limit is known on this system")
	// ErrNotVisible is the reason where the files can be read but lead to no cgroup, as in sandboxes.
	ErrNotVisible = errors.New("the cgroup is not visible here")
)

// A Source says whose limits to read and where its files are. The zero value is the calling process on this system.
type Source struct {
	Root string // directory that holds proc and sys; "" means "/"
	PID  int    // process to read; 0 means the calling process

	// Inside reads through the process's own mounts, as the process itself would: in a container that shows less than
	// the mounts of a reader outside. Directories are then below /proc/PID/root.
	Inside bool
}

// State is the kind of answer to "what is the limit?".
type State uint8

const (
	Unknown State = iota // the files could not be read or understood; Limits.Reason says why
	None                 // every level was read and none sets a limit, or no hierarchy has the controller: then there is no level
	Limited              // Limits.CPUs is in force
	Hidden               // no visible level sets a limit, yet the kernel throttles the group
)

// String returns the state in lower case, as reports show it.
func (s State) String() string {
	switch s {
	case None:
		return "none"
	case Limited:
		return "limited"
	case Hidden:
		return "hidden"
	}
	return "unknown"
}

// Version is the cgroup version that the CPU controller of a process is on.
type Version uint8

const (
	V1 Version = 1
	V2 Version = 2
)

// String returns "v1", "v2", or "" when no version is known.
func (v Version) String() string {
	switch v {
	case V1:
		return "v1"
	case V2:
		return "v2"
	}
	return ""
}

// A Quota is the CPU time that a group may use in each period, in the kernel's own microseconds. The zero Quota means that there is no
// quota.
type Quota struct {
	QuotaMicros  int64
	PeriodMicros int64
}

// CPUs returns the quota as a number of CPUs; 0: there is no quota.
func (q Quota) CPUs() float64 {
	if q.PeriodMicros <= 0 {
		return 0
	}
	return float64(q.QuotaMicros) / float64(q.PeriodMicros)
}

// Period returns the time in which the quota is counted; 0: there is no quota.
func (q Quota) Period() time.Duration { return time.Duration(q.PeriodMicros) * time.Microsecond }

// A Level is one cgroup between the process's own and the root of the mount.
type Level struct {
	Dir   string // directory, without the Source's root
	Quota Quota  // zero: no limit at this level
	Err   error  // why the quota of this level is not known

	// Self leaves out the rest. None of it is a limit on CPU time.
	BurstMicros int64  // unused quota that may be saved for later periods
	Weight      int64  // cpu.weight (v2) or cpu.shares (v1); 0: not readable
	Cpuset      string // CPUs of this level as a list such as "0-3,8"; "" when not readable
}

// File returns the file that holds the level's quota.
func (l Level) File(v Version) string {
	if v == V1 {
		return join(l.Dir, "/cpu.cfs_quota_us")
	}
	return join(l.Dir, "/cpu.max")
}

// A Mount is a mounted cgroup file system of the kind that holds the CPU controller.
type Mount struct {
	Root  string // the cgroup that is visible at Point
	Point string // directory, without the Source's root
}

// Limits is what the kernel allows a process.
type Limits struct {
	State  State
	Reason error   // for Unknown and Hidden
	CPUs   float64 // for Limited: the smallest quota of all levels
	From   string  // for Limited: the directory of the level that sets it
	AtMost float64 // for Unknown: the smallest quota among the levels that could be read; 0: no quota

	Version  Version
	Hybrid   bool    // v1 and v2 hierarchies are both in use
	Path     string  // the process's cgroup as /proc names it
	Mount    Mount   // the one the levels were read from
	Levels   []Level // the process's own level first, up to the root of the mount
	Affinity int     // CPUs that the process may run on now; 0: not known

	Warnings []error

	usage string // where version 1 counts CPU time, if not at Mount.Point
}

// Owner returns the level whose quota is in force. ok is false if no limit is known to be in force.
func (l Limits) Owner() (owner Level, ok bool) {
	if l.State == Limited {
		for _, level := range l.Levels {
			if level.Dir == l.From {
				return level, true
			}
		}
	}
	return Level{}, false
}

// Counters are a group's counts since its creation, or what was added to them between two readings.
type Counters struct {
	Dir           string
	Known         bool // false: the group keeps no counts of periods, which is not the same as zero
	Periods       int64
	Throttled     int64         // periods in which the group ran out of quota
	ThrottledTime time.Duration // summed over CPUs: it can grow faster than the clock
	Bursts        int64
	BurstTime     time.Duration

	CPUKnown bool // groups without the CPU controller may have it too
	CPU      time.Duration
}

// Since returns what was counted between an earlier reading of the group and c. If the readings are of two groups, or a count went back,
// which means that the group was recreated between them, nothing is known: a group's counts only grow, and a difference below zero would be
// made up. The counts of periods and the CPU time may each be known without the other.
func (c Counters) Since(earlier Counters) Counters {
	d := Counters{Dir: c.Dir}
	if c.Dir != earlier.Dir {
		return d
	}
	if c.CPUKnown && earlier.CPUKnown && c.CPU >= earlier.CPU {
		d.CPU, d.CPUKnown = c.CPU-earlier.CPU, true
	}
	if !c.Known || !earlier.Known || c.Periods < earlier.Periods || c.Throttled < earlier.Throttled ||
		c.ThrottledTime < earlier.ThrottledTime || c.Bursts < earlier.Bursts || c.BurstTime < earlier.BurstTime {
		return d
	}
	d.Known = true
	d.Periods, d.Throttled, d.Bursts = c.Periods-earlier.Periods, c.Throttled-earlier.Throttled, c.Bursts-earlier.Bursts
	d.ThrottledTime, d.BurstTime = c.ThrottledTime-earlier.ThrottledTime, c.BurstTime-earlier.BurstTime
	return d
}

// Throttling is what limits have done to a process's groups so far.
type Throttling struct {
	Own   Counters // the process's own level
	Owner Counters // the level whose quota is in force; without one, the process's own level

	// Local is the time that the process's own group was throttled by any level, its own or one above it, from
	// cpu.stat.local. It is the only count that shows a quota on a parent, and it is summed over CPUs.
	Local      time.Duration
	LocalKnown bool
}

// Held is how long quotas held the process's own group up, summed over CPUs. Where Local is known it covers all levels together: in
// Kubernetes a pod's quota is often the same as its container's, and which of them throttles first changes from period to period.
func (t Throttling) Held() time.Duration { return max(t.Local, t.Owner.ThrottledTime) }

// Since returns what was counted between an earlier reading and t, as [Counters.Since] does for each group.
func (t Throttling) Since(earlier Throttling) Throttling {
	d := Throttling{Own: t.Own.Since(earlier.Own), Owner: t.Owner.Since(earlier.Owner)}
	if t.LocalKnown && earlier.LocalKnown && t.Own.Dir == earlier.Own.Dir && t.Local >= earlier.Local {
		d.Local, d.LocalKnown = t.Local-earlier.Local, true
	}
	return d
}

// Observed returns l with what two readings of its throttling, before and after, add to it: a group that is being
// throttled while no level shows a quota has a hidden limit.
func (l Limits) Observed(before, after Throttling) Limits {
	if l.State == None && before.LocalKnown && after.LocalKnown && after.Local > before.Local {
		l.State, l.Reason = Hidden, errHidden
	}
	return l
}

var (
	errHidden  = errors.New("the kernel throttles this group, but no level that can be seen here sets a quota")
	errUnused  = errors.New("no cgroup hierarchy has the controller")
	errTooLong = errors.New("more text than a file of its kind can have")
	errGone    = errors.New("this cgroup is gone: going on from its nearest ancestor that exists")
)
