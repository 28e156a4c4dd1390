package procs

import (
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A Clock says when processes began. The zero value does not know.
type Clock struct{ boot time.Time }

// ReadClock reads when the system below root was started.
func ReadClock(root string) Clock {
	text, err := foreign.Read(root, "/proc/stat", foreign.System)
	if err != nil {
		return Clock{}
	}
	return ParseClock(string(text))
}

// ParseClock reads that in the text of /proc/stat, in seconds since 1970:
//
//	btime 1700000000
func ParseClock(text string) Clock {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "btime" {
			continue
		}
		if s, err := strconv.ParseInt(value, 10, 64); err == nil && s > 0 && s < 1<<36 {
			return Clock{time.Unix(s, 0)}
		}
	}
	return Clock{}
}

// Started is when a process below root began, to a hundredth of a second.
func (c Clock) Started(root string, pid int) (time.Time, bool) {
	text, err := foreign.ReadRecord(root, Dir("", pid)+"/stat", foreign.Record)
	if err != nil {
		return time.Time{}, false
	}
	return c.ParseStarted(string(text))
}

// ParseStarted reads that in the text of /proc/PID/stat, where it is counted from the system's start.
//
//	1 (name) S ppid … itrealvalue starttime …
func (c Clock) ParseStarted(stat string) (time.Time, bool) {
	const place = 19 // after the name
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= place || c.boot.IsZero() {
		return time.Time{}, false
	}
	since, ok := parseTime(fields[place], tick)
	return c.boot.Add(since), ok
}
