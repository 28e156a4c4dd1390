package procs

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// The kernel's counters of a process, a group and the whole system. Malformed text counts as not known: these files are emulated
// in many places.

// tick is the unit of times in /proc: a hundredth of a second on every architecture that Go knows.
const tick = 10 * time.Millisecond

// ParseCPUTime reads a process's CPU time in the text of /proc/PID/stat. A zombie no longer has one.
//
//	1 (name) S ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime …
//
// The name may hold anything; the last bracket ends it.
func ParseCPUTime(stat string) (time.Duration, bool) {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 13 || fields[0] == "Z" {
		return 0, false
	}
	user, ok1 := parseTime(fields[11], tick)
	system, ok2 := parseTime(fields[12], tick)
	return user + system, ok1 && ok2
}

// GroupCPUTime is the CPU time of the live processes of a process group, and of their children that have ended. What ends meanwhile is not
// in it.
func GroupCPUTime(root string, group int) (sum time.Duration) {
	pids, _ := List(root)
	for _, pid := range pids {
		stat, err := foreign.ReadRecord(root, Dir("", pid)+"/stat", foreign.Record)
		if err != nil {
			continue
		}
		own, known := ParseCPUTime(string(stat))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if !known || len(fields) < 15 || fields[2] != strconv.Itoa(group) {
			continue
		}
		sum += own
		for _, field := range fields[13:15] {
			children, _ := parseTime(field, tick)
			sum += children
		}
	}
	return sum
}

// parseTime reads a time that is counted in a unit. It refuses more than 100 years.
func parseTime(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > int64(math.MaxInt64/3/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// A Schedstat is what a thread did, or all threads of a process.
type Schedstat struct {
	Run    time.Duration // on a CPU
	Waited time.Duration // ready to run, and not running
}

// ParseSchedstat reads the text of schedstat. The numbers are nanoseconds, and how often the thread got a CPU:
//
//	868614 109654 2
func ParseSchedstat(text string) (s Schedstat, ok bool) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return s, false
	}
	var ok1, ok2 bool
	s.Run, ok1 = parseTime(fields[0], 1)
	s.Waited, ok2 = parseTime(fields[1], 1)
	return s, ok1 && ok2
}

// ReadSchedstat adds up the threads of a process below root, 0 being the calling one, without those that have ended.
func ReadSchedstat(root string, pid int) (sum Schedstat, ok bool) {
	t := foreign.Open(root)
	defer t.Close()
	dir := Dir("", pid) + "/task"
	threads, err := t.Names(dir, foreign.Threads)
	if err != nil {
		return sum, false
	}
	for _, thread := range threads {
		text, err := t.ReadRecord(dir+"/"+thread+"/schedstat", foreign.Record)
		if err != nil {
			continue // it ended, or the kernel keeps no such counts
		}
		if s, known := ParseSchedstat(string(text)); known {
			sum.Run, sum.Waited, ok = sum.Run+s.Run, sum.Waited+s.Waited, true
		}
	}
	return sum, ok
}

// ReadOfProgram reads how much of its program's file a process below root has in memory at most: what it has mapped of all files, but no
// more than the program's length. 0: none, or it can't be read.
func ReadOfProgram(root string, pid int) int64 {
	t := foreign.Open(root)
	defer t.Close()
	text, err := t.ReadRecord(Dir("", pid)+"/statm", foreign.Record)
	if err != nil {
		return 0
	}
	program, err := t.Look(Dir("", pid) + "/exe")
	if err != nil {
		return 0
	}
	defer program.Close()
	return min(program.ID.Size(), parseMapped(string(text))*int64(os.Getpagesize()))
}

// parseMapped reads the third number of statm, which is in pages.
func parseMapped(statm string) int64 {
	fields := strings.Fields(statm)
	if len(fields) < 3 {
		return 0
	}
	const most = 1 << 40 // pages, more than any machine has
	n, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// A Pressure is how long threads have waited for a CPU: some of them, or all.
type Pressure struct {
	Some, Full           time.Duration
	SomeKnown, FullKnown bool // kernels before 5.13 have no full line for CPUs
}

// ReadPressure reads the file of PSI for the CPUs of the system below root.
func ReadPressure(root string) Pressure {
	text, err := foreign.ReadRecord(root, "/proc/pressure/cpu", foreign.Record)
	if err != nil {
		return Pressure{}
	}
	return ParsePressure(string(text))
}

// ReadGroupPressure reads that of a cgroup.
func ReadGroupPressure(t *foreign.Tree, dir string) Pressure {
	text, err := t.ReadGroup(dir+"/cpu.pressure", foreign.Group)
	if err != nil {
		return Pressure{}
	}
	return ParsePressure(string(text))
}

// ParsePressure reads the totals of such a file, in microseconds. See the kernel's psi.rst.
//
//	some avg10=41.79 avg60=20.02 avg300=11.95 total=6848658658
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=0
func ParsePressure(text string) (p Pressure) {
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, total, _ := strings.Cut(rest, "total=")
		d, ok := parseTime(total, time.Microsecond)
		switch {
		case !ok:
		case kind == "some":
			p.Some, p.SomeKnown = d, true
		case kind == "full":
			p.Full, p.FullKnown = d, true
		}
	}
	return p
}

// Since is what was counted since an earlier reading.
func (p Pressure) Since(before Pressure) Pressure {
	return Pressure{
		Some: p.Some - before.Some, Full: p.Full - before.Full,
		SomeKnown: p.SomeKnown && before.SomeKnown, FullKnown: p.FullKnown && before.FullKnown,
	}
}

// HostTimes are what all CPUs of a system did.
type HostTimes struct {
	CPUs        int
	Busy, Steal time.Duration // Steal: a hypervisor ran something else
	Total       time.Duration // including the time in which there was nothing to do
}

// ReadHostTimes reads /proc/stat below root.
func ReadHostTimes(root string) (HostTimes, bool) {
	text, err := foreign.Read(root, "/proc/stat", foreign.System)
	if err != nil {
		return HostTimes{}, false
	}
	return ParseHostTimes(string(text))
}

// A HostMoment is what all CPUs of this host had done at a time. Two of them show what disturbed a measurement between them.
type HostMoment struct {
	HostTimes
	At    time.Time
	Known bool
}

// HostNow reads one.
func HostNow() HostMoment {
	times, known := ReadHostTimes("")
	return HostMoment{times, time.Now(), known}
}

// Below these it is noise.
const (
	noisySteal  = 0.03 // share
	NoisyOthers = 0.15 // CPUs
)

// Since returns the share of all CPU time that a hypervisor took, and how many CPUs were used besides ours; ours is the CPU time that we
// took. Both are 0 where not known, or within the noise.
func (now HostMoment) Since(before HostMoment, ours time.Duration) (stolen, others float64) {
	if !before.Known || !now.Known || now.Total <= before.Total {
		return 0, 0
	}
	if share := float64(now.Steal-before.Steal) / float64(now.Total-before.Total); share > noisySteal {
		stolen = share
	}
	if theirs := (now.Busy - before.Busy - ours).Seconds() / now.At.Sub(before.At).Seconds(); theirs > NoisyOthers {
		others = theirs
	}
	return stolen, others
}

// ParseHostTimes reads its text. A guest's time is in user's and nice's already.
//
//	cpu  2194867 35102 704314 4064044 19882  0   92014   4025  0     0
//	     user    nice  system idle    iowait irq softirq steal guest guest_nice
//	cpu0 …
func ParseHostTimes(text string) (h HostTimes, ok bool) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu") {
			break
		}
		if fields[0] != "cpu" {
			h.CPUs++
			continue
		}
		if len(fields) < 9 {
			return HostTimes{}, false
		}
		for i, field := range fields[1:9] {
			d, known := parseTime(field, tick)
			if !known || h.Total > math.MaxInt64-d {
				return HostTimes{}, false
			}
			h.Total += d
			switch i {
			case 3, 4: // idle, and idle while something waits for a disk
			case 7:
				h.Steal = d
			default:
				h.Busy += d
			}
		}
		ok = true
	}
	return h, ok
}
