package choice

import (
	"strconv"
	"strings"
)

// The Go runtime's own reading of the limit, modelled from its source (internal/runtime/cgroup and runtime/cgroup_linux.go
// of 1.25 and 1.26; 1.27 is like 1.26): the process's own cgroup only, with parsers that need all fields and the final newline,
// and that give up on the first malformed line.

// goRuntime returns the limit that Go 1.25, or Go 1.26 and later, believes in.
func (s System) goRuntime(rule Rule) belief {
	group, v1, ok := s.goGroup(rule)
	if !ok {
		return belief{why: "it gives up on a line of /proc/self/cgroup that it does not understand"}
	}
	dir, ok := s.goDir(rule, group, v1)
	if !ok {
		return belief{why: "it gives up on a line of /proc/self/mountinfo that it does not understand"}
	}
	if group == "" || dir == "" {
		return belief{why: "it finds no mount that shows its cgroup"}
	}
	file, period := dir+"/cpu.max", ""
	if v1 {
		file = dir + "/cpu.cfs_quota_us"
	}
	text, err := s.read(file)
	if v1 && err == nil {
		if period, err = s.read(dir + "/cpu.cfs_period_us"); err != nil {
			file = dir + "/cpu.cfs_period_us"
		}
	}
	if err != nil {
		if next, ok := s.goDir(Go126, group, v1); rule == Go125 && ok && next != "" && next != dir {
			return belief{why: "it puts the cgroup's path after the mount point, whatever the mount shows, and finds no " + file}
		}
		if v1 { // every v1 group has its files
			return belief{why: "it reads its own cgroup only, and finds no " + file}
		}
		return belief{why: ownHasNone}
	}
	limit, none, ok := goQuotaV2(rule, text)
	if v1 {
		limit, none, ok = goQuotaV1(rule, text, period)
	}
	switch {
	case none:
		return belief{why: ownHasNone}
	case !ok:
		return belief{why: "its parser drops the text of " + file}
	}
	return s.found(limit, file)
}

// goGroup finds the path of the process's own cgroup: the first v1 line with cpu, else the last v2 line. Lines after it are
// ignored.
func (s System) goGroup(rule Rule) (group string, v1, ok bool) {
	for rest := s.cgroup; rest != ""; {
		line, more, whole := strings.Cut(rest, "\n")
		f := strings.SplitN(line, ":", 3)
		if !whole || len(f) != 3 || rule == Go126 && !strings.HasPrefix(f[2], "/") {
			return "", false, false
		}
		if f[0] != "0" && has(f[1], "cpu") {
			return f[2], true, true
		}
		if f[0] == "0" {
			group = f[2]
		}
		rest = more
	}
	return group, false, true
}

// goDir finds the directory of the process's own cgroup. Go 1.25 takes the first v1 mount with cpu, else the last v2 mount, and
// puts the path after it. Go 1.26 takes the first mount of the path's version that shows it.
func (s System) goDir(rule Rule, group string, v1 bool) (dir string, ok bool) {
	for _, line := range lines(s.mountinfo) {
		m, ok := parseGoMount(line, rule, v1)
		if !ok {
			return "", false
		}
		isV1 := m.fstype == "cgroup" && has(m.options, "cpu")
		if !isV1 && m.fstype != "cgroup2" || rule == Go126 && isV1 != v1 {
			continue
		}
		root, ok1 := unescape(m.root)
		point, ok2 := unescape(m.point)
		if rule == Go125 {
			if !ok2 {
				return "", false
			}
			if dir = point + strings.TrimSuffix(group, "/"); isV1 {
				return dir, true
			}
			continue
		}
		if !ok1 {
			return "", false
		}
		if rel, shown := goBelow(group, root); shown {
			return point + rel, ok2
		}
	}
	return dir, true
}

// goBelow returns the part of the path below a mount's root.
func goBelow(group, root string) (rel string, ok bool) {
	rel, ok = strings.CutPrefix(strings.TrimSuffix(group, "/"), strings.TrimSuffix(root, "/"))
	return rel, ok && (rel == "" || rel[0] == '/') && !strings.HasPrefix(rel+"/", "/../")
}

// mount is what matters in a line of mountinfo.
type mount struct {
	root, point, fstype, options string
}

// parseGoMount reads a line of mountinfo. Fields that are not used must be there as well.
func parseGoMount(line string, rule Rule, v1 bool) (m mount, ok bool) {
	front, back, ok := strings.Cut(line, " - ")
	f := strings.Split(front, " ")
	if !ok || len(f) < 6 {
		return m, false
	}
	m.root, m.point = f[3], f[4]
	if rule == Go126 && !strings.HasPrefix(m.root, "/") {
		return m, false
	}
	if m.fstype, back, ok = strings.Cut(back, " "); !ok {
		return m, false
	}
	if m.fstype == "cgroup" && (rule == Go125 || v1) {
		_, m.options, ok = strings.Cut(back, " ")
	}
	return m, ok
}

// longest is the size of a quota file from which on the runtime does not trust it.
const longest = 64

// goQuotaV2 reads the text of cpu.max.
func goQuotaV2(rule Rule, text string) (limit float64, none, ok bool) {
	quota, rest, ok := strings.Cut(text, " ")
	if !ok || len(text) >= longest {
		return 0, false, false
	}
	if quota == "max" {
		return 0, true, true
	}
	period, _, ok := strings.Cut(rest, "\n")
	q, ok1 := goNumber(rule, quota)
	p, ok2 := goNumber(rule, period)
	return float64(q) / float64(p), false, ok && ok1 && ok2
}

// goQuotaV1 reads the texts of cpu.cfs_quota_us and cpu.cfs_period_us.
func goQuotaV1(rule Rule, quotaText, periodText string) (limit float64, none, ok bool) {
	quota, _, ok1 := strings.Cut(quotaText, "\n")
	period, _, ok2 := strings.Cut(periodText, "\n")
	q, ok3 := goNumber(rule, quota)
	p, ok4 := goNumber(rule, period)
	ok1 = ok1 && ok3 && len(quotaText) < longest
	if ok1 && q < 0 {
		return 0, true, true
	}
	return float64(q) / float64(p), false, ok1 && ok2 && ok4 && len(periodText) < longest
}

// goNumber reads a number; Go 1.25 refuses a plus sign.
func goNumber(rule Rule, text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && (rule == Go126 || text[0] != '+')
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' {
			if i+3 >= len(s) {
				return "", false
			}
			n, err := strconv.ParseUint(s[i+1:i+4], 8, 8)
			if err != nil {
				return "", false
			}
			c = byte(n)
			i += 3
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// escape is the reverse of unescape, as the kernel does it.
func escape(s string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(s)
}
