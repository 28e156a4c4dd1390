package host

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// userHZ is the unit of times in /proc: the same on every architecture that Go knows.
const userHZ = 100

// statTime reads a process's CPU time in the text of /proc/PID/stat, "42 (name) S 1 …": fields 14 and 15, in hundredths of
// a second. The name may hold anything; the last bracket ends it.
func statTime(stat string) (time.Duration, bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	const most = int64(1<<62) / int64(time.Second/userHZ) / 2
	if err1 != nil || err2 != nil || user < 0 || system < 0 || user > most || system > most || fields[0] == "Z" {
		return 0, false
	}
	return time.Duration(user+system) * (time.Second / userHZ), true
}

// runDelay is how long the threads of a process were ready to run and did not, since each began. It is the second number
// in schedstat, in nanoseconds. Threads that ended are not in it.
func runDelay(root string, pid int) (sum time.Duration, ok bool) {
	dir := procs.Dir(root, pid) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, false
	}
	for _, t := range threads {
		text, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if err != nil {
			continue // it ended, or the kernel keeps no such counts
		}
		if d, is := parseSchedstat(string(text)); is {
			sum += d
			ok = true
		}
	}
	return sum, ok
}

func parseSchedstat(text string) (time.Duration, bool) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(fields[1], 10, 64)
	return time.Duration(n), err == nil && n >= 0
}

// anonMemory is the process's memory that belongs to no file, 0 when it can't be told.
func anonMemory(root string, pid int) int64 {
	text, err := os.ReadFile(procs.Dir(root, pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(text), "\nRssAnon:")
	line, _, _ := strings.Cut(rest, "\n")
	kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	if !ok || err != nil || kb < 0 || kb > 1<<50 {
		return 0
	}
	return kb << 10
}

// readSystem reads the times of all CPUs since the system's start, in seconds.
func readSystem(root string) System {
	text, err := os.ReadFile(strings.TrimSuffix(root, "/") + "/proc/stat")
	if err != nil {
		return System{}
	}
	s := parseSystem(string(text))
	s.Wall = time.Since(began)
	return s
}

var began = time.Now()

// parseSystem reads the text of /proc/stat:
//
//	cpu  user nice system idle iowait irq softirq steal guest guest_nice
//	cpu0 …
//
// Guests' time is in user and nice as well.
func parseSystem(text string) System {
	var s System
	for _, line := range strings.Split(text, "\n") {
		name, rest, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(name, "cpu") {
			break
		}
		if name != "cpu" {
			s.CPUs++
			continue
		}
		var ticks [8]float64
		fields := strings.Fields(rest)
		if len(fields) < len(ticks) {
			return System{}
		}
		for i := range ticks {
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				return System{}
			}
			ticks[i] = float64(n) / userHZ
		}
		s.Busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
		s.Steal = ticks[7]
		s.Known = true
	}
	return s
}
