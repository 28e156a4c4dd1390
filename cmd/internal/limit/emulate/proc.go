package emulate

import (
	"bytes"
	"strconv"
	"time"
)

// userTick is the unit of times in /proc/PID/stat: the kernel gives them in hundredths of a second on every machine that
// Go runs on.
const userTick = 10 * time.Millisecond

// status is what /proc/PID/stat says about a process.
type status struct {
	pid, parent int
	state       byte          // R, S, D, Z, T, t, X, I …
	reaped      time.Duration // CPU time of children that have ended and were waited for
	start       uint64        // when it was started: with the pid it names a process for good
}

// stopped reports whether the process is stopped. A debugger's stop is a t.
func (s status) stopped() bool { return s.state == 'T' || s.state == 't' }

// ended reports whether it is only a remnant.
func (s status) ended() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// parseStat reads /proc/PID/stat. The name in brackets may hold anything, brackets and newlines too.
//
//	1234 (name) S 1 1234 1234 0 -1 4194560 1000 2000 0 0 5 6 7 8 20 0 1 0 98765 …
//	1    2      3 4 5    6    …                         14 15 16 17        22
//
// 3 is the state, 4 the parent, 16 and 17 user and system time of children, 22 the start.
func parseStat(data []byte) (s status, ok bool) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || end < open {
		return status{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data[:open])))
	if err != nil || pid < 1 {
		return status{}, false
	}
	s.pid = pid
	rest := data[end+1:]
	for n := 3; n <= 22; n++ {
		var field []byte
		field, rest = nextField(rest)
		if len(field) == 0 {
			return status{}, false
		}
		switch n {
		case 3:
			if s.state = field[0]; len(field) != 1 || s.state < 'A' || s.state > 'z' {
				return status{}, false
			}
		case 4, 16, 17, 22:
			v, ok := digits(field)
			if !ok {
				return status{}, false
			}
			switch n {
			case 4:
				s.parent = int(v)
			case 22:
				s.start = v
			default:
				s.reaped += time.Duration(min(v, 1<<36)) * userTick
			}
		}
	}
	return s, true
}

// nextField cuts the next field off. Unlike bytes.Fields it allocates nothing: this is read often.
func nextField(data []byte) (field, rest []byte) {
	data = bytes.TrimLeft(data, " \n")
	if i := bytes.IndexAny(data, " \n"); i >= 0 {
		return data[:i], data[i:]
	}
	return data, nil
}

func digits(text []byte) (n uint64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<58 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(text) > 0
}

// parseLastPID reads the last field of /proc/loadavg: the number that was given last, to a process or a thread. While it
// stays the same, nothing was started.
//
//	0.51 0.58 0.48 1/86 9880
func parseLastPID(data []byte) (pid int, ok bool) {
	fields := bytes.Fields(data)
	if len(fields) != 5 {
		return 0, false
	}
	n, ok := digits(fields[4])
	if !ok || n > 1<<30 {
		return 0, false
	}
	return int(n), true
}

// parsePending reads from /proc/PID/status which signals wait for the whole process, as bits from signal 1 on.
//
//	ShdPnd:	0000000000040000
func parsePending(data []byte) (set uint64, ok bool) {
	const name = "\nShdPnd:"
	i := bytes.Index(data, []byte(name))
	if i < 0 {
		return 0, false
	}
	line, _, _ := bytes.Cut(data[i+len(name):], []byte("\n"))
	set, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	if err != nil {
		return 0, false
	}
	return set, true
}
