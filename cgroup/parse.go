package cgroup

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// defaultPeriod is the kernel's period, for where none is written.
const defaultPeriod = "100000"

// parseProcCgroup finds the cgroup that holds a process's controller in the text of /proc/PID/cgroup:
//
//	4:cpu,cpuacct:/user.slice
//	0::/user.slice/session-1.scope
//	(1)(2)        (3)
//
// (1) hierarchy id, 0 for v2; (2) the controllers of a v1 hierarchy; (3) path, which may hold colons. A v1 hierarchy
// with the controller comes before v2: the kernel allows a controller in one of them only. See cgroups(7).
//
// The kernel names every hierarchy that is in use. So where all lines make sense and none names the controller or v2, the
// controller limits nothing: it is unused. A text without lines, as sandboxes show, says nothing about that.
func parseProcCgroup(text, controller string, l *Limits) (unused bool) {
	var v1, v2, odd bool
	for text != "" {
		var line string
		line, text = cut(text, '\n')
		id, rest := cut(line, ':')
		controllers, path := cut(rest, ':')
		if !isAbs(path) {
			odd = true
			continue
		}
		if id == "0" {
			v2 = true
			if l.Version == 0 {
				l.Version, l.Path = V2, path
			}
			continue
		}
		v1 = true
		if l.Version != V1 && contains(controllers, controller) {
			l.Version, l.Path = V1, path
		}
	}
	l.Hybrid = v1 && v2
	return v1 && l.Version == 0 && !odd
}

// parseMount reads a line of /proc/PID/mountinfo, if it is a mount of the given kind:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - cgroup cgroup rw,cpu
//	(1)(2)(3)  (4)   (5)   (6)        (7)     (8)(9)   (10)   (11)
//
// (4) is the cgroup that is mounted, (5) where; both with octal escapes. (7) are any number of optional fields, ended
// by (8). (9) is the type, (11) has the controllers of a v1 mount. See proc_pid_mountinfo(5). Other lines, and
// malformed ones, give empty strings.
func parseMount(line string, v Version, controller string) (root, point string) {
	i := strings.Index(line, " - cgroup")
	if i < 0 {
		return "", ""
	}
	fstype, rest := cut(line[i+3:], ' ')
	_, options := cut(rest, ' ')
	if v == V2 && fstype != "cgroup2" || v == V1 && (fstype != "cgroup" || !contains(options, controller)) {
		return "", ""
	}
	line = line[:i]
	for i := 0; i < 3; i++ {
		_, line = cut(line, ' ')
	}
	root, line = cut(line, ' ')
	point, _ = cut(line, ' ')
	if !isAbs(root) || !isAbs(point) {
		return "", ""
	}
	return unescape(root), unescape(point)
}

func isAbs(path string) bool { return path != "" && path[0] == '/' }

// unescape undoes the octal escapes of mountinfo, such as \040 for a space. Anything else is left unchanged.
func unescape(s string) string {
	for i := 0; i+3 < len(s); i++ {
		if s[i] == '\\' {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				s = s[:i] + string([]byte{byte(n)}) + s[i+4:]
			}
		}
	}
	return s
}

// parseQuota reads a quota and its period: "150000 100000", "max 100000", or either without the period. It gives the
// zero Quota if there is no limit.
func parseQuota(text string) (q Quota, err error) {
	quota, period := cut(text, ' ')
	if period == "" {
		period = defaultPeriod
	}
	q.QuotaMicros, q.PeriodMicros = parsePositive(quota), parsePositive(period)
	switch {
	case q.PeriodMicros == 0:
		return Quota{}, badText(text)
	case quota == "max" || quota == "-1":
		return Quota{}, nil
	case q.QuotaMicros == 0:
		return Quota{}, badText(text)
	}
	return q, nil
}

// badText is the error for the text of a malformed file.
//
//go:noinline
func badText(text string) error { return fmt.Errorf("bad text %q", text) }

// parsePositive reads a number above zero as the kernel writes it, digits only. It returns 0 for anything else.
func parsePositive(s string) int64 {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// stat finds a count in a file of lines such as "nr_throttled 20".
func stat(text, name string) (n int64, ok bool) {
	for text != "" {
		var line string
		line, text = cut(text, '\n')
		if key, value := cut(line, ' '); key == name && (value == "0" || parsePositive(value) > 0) {
			return parsePositive(value), true
		}
	}
	return 0, false
}

// parseCPUMask counts the CPUs of a "Cpus_allowed" mask, such as "ff" or "00000001,ffffffff".
func parseCPUMask(mask string) (int, bool) {
	n := 0
	for _, c := range mask {
		if c == ',' {
			continue
		}
		digit, err := strconv.ParseUint(string(c), 16, 8)
		if err != nil {
			return 0, false
		}
		n += bits.OnesCount8(uint8(digit))
	}
	return n, n > 0
}

// contains reports whether the comma-separated list holds word, whole.
func contains(list, word string) bool {
	for list != "" {
		var item string
		if item, list = cut(list, ','); item == word {
			return true
		}
	}
	return false
}

// cut splits s at the first sep. It is strings.Cut with less code at each call, of which there are many.
//
//go:noinline
func cut(s string, sep byte) (before, after string) {
	if i := strings.IndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

func trim(s string) string { return strings.TrimSuffix(s, "\n") }
