package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
)

// defaultPeriodMicros is the kernel's period where none is written.
const defaultPeriodMicros = 100000

var errNoCgroup = errors.New("names none (a sandbox may hide it)")

// parseProcCgroup finds the cgroup that holds a process's controller in the text of /proc/PID/cgroup:
//
//	4:cpu,cpuacct:/user.slice
//	0::/user.slice/session-1.scope
//	(1)(2)        (3)
//
// (1) hierarchy id, 0 for v2; (2) the controllers of a v1 hierarchy; (3) path, which may hold colons. A v1 hierarchy
// with the controller comes before v2: the kernel allows a controller in one of them only. See cgroups(7).
func parseProcCgroup(data []byte, controller string) (hierarchy, error) {
	var h hierarchy
	var v1, v2 bool
	for len(data) > 0 {
		var line []byte
		line, data = cutLine(data)
		id, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		controllers, path, ok := bytes.Cut(rest, []byte(":"))
		if !ok || len(path) == 0 || path[0] != '/' {
			continue
		}
		switch {
		case string(id) == "0":
			v2 = true
			if h.version == 0 {
				h.version, h.path = V2, string(path)
			}
		case contains(controllers, controller):
			v1 = true
			if h.version != V1 {
				h.version, h.path = V1, string(path)
			}
		default:
			v1 = true
		}
	}
	h.hybrid = v1 && v2
	if h.version == 0 {
		return h, errNoCgroup
	}
	return h, nil
}

// parseMountinfo returns the mounts of the given kind in the text of /proc/PID/mountinfo, in its order:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - cgroup cgroup rw,cpu
//	(1)(2)(3)  (4)   (5)   (6)        (7)     (8)(9)   (10)   (11)
//
// (4) is the cgroup that is mounted, (5) where; both with octal escapes. (7) are any number of optional fields, ended
// by (8). (9) is the type, (11) has the controllers of a v1 mount. Lines of any length are read, and those that make no
// sense are passed over. See proc_pid_mountinfo(5).
func parseMountinfo(data []byte, v Version, controller string) []Mount {
	var mounts []Mount
	for len(data) > 0 {
		var line []byte
		line, data = cutLine(data)
		place, kind, ok := bytes.Cut(line, []byte(" - "))
		if !ok {
			continue
		}
		fstype, kind := cutField(kind)
		_, options := cutField(kind)
		switch {
		case v == V2 && string(fstype) == "cgroup2":
		case v == V1 && string(fstype) == "cgroup" && contains(options, controller):
		default:
			continue
		}
		for i := 0; i < 3; i++ {
			_, place = cutField(place)
		}
		root, place := cutField(place)
		point, _ := cutField(place)
		if len(root) == 0 || root[0] != '/' || len(point) == 0 || point[0] != '/' {
			continue
		}
		mounts = append(mounts, Mount{Root: unescape(root), Point: unescape(point)})
	}
	return mounts
}

// unescape undoes the octal escapes of mountinfo, such as \040 for a space. What is no escape stays as it is.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) {
			if n, err := strconv.ParseUint(string(b[i+1:i+4]), 8, 8); err == nil {
				out = append(out, byte(n))
				i += 3
				continue
			}
		}
		out = append(out, b[i])
	}
	return string(out)
}

// parseCPUMax reads the text of cpu.max, "max 100000\n" or "150000 100000\n". The kernel always writes both fields and
// the newline; emulations leave them out.
func parseCPUMax(data []byte) (Quota, error) {
	text := trim(data)
	quotaText, periodText, two := bytes.Cut(text, []byte(" "))
	if bytes.Contains(periodText, []byte(" ")) {
		return Quota{}, fmt.Errorf("more than two fields in %q", text)
	}
	quota, err := parseQuotaMicros(quotaText)
	if err != nil {
		return Quota{}, fmt.Errorf("bad quota %q", text)
	}
	period := int64(defaultPeriodMicros)
	if two {
		if period, err = parsePeriodMicros(periodText); err != nil {
			return Quota{}, fmt.Errorf("bad period in %q", text)
		}
	}
	if quota == 0 {
		return Quota{}, nil
	}
	return Quota{quota, period}, nil
}

// parseQuotaMicros reads a quota: a number above zero, or "max" or "-1" for none, which gives 0.
func parseQuotaMicros(data []byte) (int64, error) {
	text := trim(data)
	if s := string(text); s == "max" || s == "-1" {
		return 0, nil
	}
	n, ok := parseInt(text)
	if !ok || n <= 0 {
		return 0, fmt.Errorf("bad quota %q", text)
	}
	return n, nil
}

func parsePeriodMicros(data []byte) (int64, error) {
	n, ok := parseInt(trim(data))
	if !ok || n <= 0 {
		return 0, fmt.Errorf("bad period %q", trim(data))
	}
	return n, nil
}

// parseCPUMask counts the CPUs of a "Cpus_allowed" mask, such as "ff" or "00000001,ffffffff".
func parseCPUMask(mask []byte) (int, bool) {
	n := 0
	for _, c := range mask {
		switch {
		case c == ',':
		case '0' <= c && c <= '9':
			n += bits.OnesCount8(c - '0')
		case 'a' <= c && c <= 'f':
			n += bits.OnesCount8(c - 'a' + 10)
		default:
			return 0, false
		}
	}
	return n, n > 0
}

// parseInt reads a whole number as the kernel writes it: digits, with a minus sign before them at most.
func parseInt(b []byte) (int64, bool) {
	if len(b) == 0 || b[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

// contains reports whether the comma-separated list holds word, whole.
func contains(list []byte, word string) bool {
	for len(list) > 0 {
		var item []byte
		item, list, _ = bytes.Cut(list, []byte(","))
		if string(item) == word {
			return true
		}
	}
	return false
}

func cutLine(data []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(data, []byte("\n"))
	return line, rest
}

func cutField(data []byte) (field, rest []byte) {
	field, rest, _ = bytes.Cut(data, []byte(" "))
	return field, rest
}

func trim(data []byte) []byte { return bytes.TrimRight(data, "\n") }
