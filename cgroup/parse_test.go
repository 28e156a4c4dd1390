package cgroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseQuota(t *testing.T) {
	tests := []struct {
		text string
		want Quota
		ok   bool
	}{
		{"150000 100000", Quota{150000, 100000}, true},
		{"150000", Quota{150000, 100000}, true},
		{"150000 ", Quota{150000, 100000}, true},
		{"max 100000", Quota{}, true},
		{"max", Quota{}, true},
		{"-1 100000", Quota{}, true},
		{"17592186044416 1000000", Quota{1 << 44, 1000000}, true},
		{"9223372036854775807 1", Quota{1<<63 - 1, 1}, true},
		{"9223372036854775808 1", Quota{}, false},
		{"", Quota{}, false},
		{"\n", Quota{}, false},
		{"0 100000", Quota{}, false},
		{"-2 100000", Quota{}, false},
		{"+5 100000", Quota{}, false},
		{"1.5 100000", Quota{}, false},
		{"MAX 100000", Quota{}, false},
		{"1O0 100000", Quota{}, false},
		{"100000 0", Quota{}, false},
		{"100000 -1", Quota{}, false},
		{"100000 max", Quota{}, false},
		{"max 0", Quota{}, false},
		{"100000  100000", Quota{}, false},
		{"100000 100000 1", Quota{}, false},
		{"100000\t100000", Quota{}, false},
	}
	for _, tt := range tests {
		got, err := parseQuota(tt.text)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("parseQuota(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if err != nil && err.Error() != fmt.Sprintf("bad text %q", tt.text) {
			t.Errorf("parseQuota(%q): error %q", tt.text, err)
		}
	}
}

func TestParseProcCgroup(t *testing.T) {
	tests := []struct {
		name, text string
		version    Version
		hybrid     bool
		path       string
	}{
		{"v2", "0::/a\n", V2, false, "/a"},
		{"v2 without newline", "0::/a", V2, false, "/a"},
		{"v1", "4:cpu,cpuacct:/a\n", V1, false, "/a"},
		{"cpu last", "4:cpuacct,cpu:/a\n", V1, false, "/a"},
		{"v1 before v2", "0::/b\n4:cpu:/a\n", V1, true, "/a"},
		{"v1 after v2 line", "4:cpu:/a\n0::/b\n", V1, true, "/a"},
		{"v1 elsewhere", "5:memory:/m\n0::/b\n", V2, true, "/b"},
		{"lookalikes", "5:cpuacct:/1\n6:cpuset:/2\n7:name=cpu:/3\n8:xcpu:/4\n0::/b\n", V2, true, "/b"},
		{"colons", "4:cpu:/a:b:c\n", V1, false, "/a:b:c"},
		{"id 0 with controllers is v2", "0:cpu:/a\n", V2, false, "/a"},
		{"first of two", "0::/a\n0::/b\n", V2, false, "/a"},
		{"no slash", "0::a\n", 0, false, ""},
		{"short lines", "0\n1:cpu\n\n", 0, false, ""},
		{"empty", "", 0, false, ""},
	}
	for _, tt := range tests {
		var l Limits
		parseProcCgroup(tt.text, "cpu", &l)
		if l.Version != tt.version || l.Hybrid != tt.hybrid || l.Path != tt.path {
			t.Errorf("%s: got %v %v %q", tt.name, l.Version, l.Hybrid, l.Path)
		}
	}
}

func TestParseMount(t *testing.T) {
	const tail = " rw - cgroup2 cgroup2 rw"
	tests := []struct {
		name, line  string
		v           Version
		root, point string
	}{
		{"v2", "30 24 0:26 / /sys/fs/cgroup" + tail, V2, "/", "/sys/fs/cgroup"},
		{"no optional fields", "30 24 0:26 / /a rw - cgroup2 x y", V2, "/", "/a"},
		{"three optional fields", "30 24 0:26 / /a rw shared:1 master:2 x:3 - cgroup2 x y", V2, "/", "/a"},
		{"v1", "30 24 0:26 /r /a rw - cgroup cgroup rw,cpu,cpuacct", V1, "/r", "/a"},
		{"v1 other controller", "30 24 0:26 / /a rw - cgroup cgroup rw,cpuset", V1, "", ""},
		{"v1 name", "30 24 0:26 / /a rw - cgroup cgroup rw,name=cpu", V1, "", ""},
		{"v1 wanted, v2 there", "30 24 0:26 / /a" + tail, V1, "", ""},
		{"v2 wanted, v1 there", "30 24 0:26 /r /a rw - cgroup cgroup rw,cpu", V2, "", ""},
		{"escapes", `30 24 0:26 /a\040b /c\011d\012e\134f` + tail, V2, "/a b", "/c\td\ne\\f"},
		{"escaped backslash before digits", `30 24 0:26 /a\134040b /c` + tail, V2, `/a\040b`, "/c"},
		{"half an escape", `30 24 0:26 /a\04 /c\999\` + tail, V2, `/a\04`, `/c\999\`},
		{"relative point", "30 24 0:26 / a" + tail, V2, "", ""},
		{"too few fields", "30 24 - cgroup2 x y", V2, "", ""},
		{"other file system", "1 2 0:3 / / rw - overlay o lowerdir=" + strings.Repeat("/x:", 50000), V2, "", ""},
		{"looks like one in a later field", "30 24 0:26 / /a rw - ext4 - cgroup2x - ", V2, "", ""},
		{"cgroup3", "30 24 0:26 / /a rw - cgroup3 x y", V2, "", ""},
	}
	for _, tt := range tests {
		root, point := parseMount(tt.line, tt.v, "cpu")
		if root != tt.root || point != tt.point {
			t.Errorf("%s: got %q at %q, want %q at %q", tt.name, root, point, tt.root, tt.point)
		}
	}
}

func TestBelow(t *testing.T) {
	tests := []struct {
		path, root, rel string
		ok              bool
	}{
		{"/", "/", "", true},
		{"/a/b", "/", "/a/b", true},
		{"/a/b", "/a", "/b", true},
		{"/a/b", "/a/b", "", true},
		{"/a/bc", "/a/b", "", false},
		{"/a", "/a/b", "", false},
		{"/..", "/", "/..", false},
		{"/../a", "/", "/../a", false},
		{"/../a", "/..", "/a", true},
		{"/../a", "/../a", "", true},
		{"/../../a", "/..", "/../a", false},
		{"/../..a", "/..", "/..a", true},
		{"/..a", "/", "/..a", true},
		{"/a", "/..", "", false},
		{"/a", "", "", false},
	}
	for _, tt := range tests {
		rel, ok := below(tt.path, tt.root)
		if ok != tt.ok || ok && rel != tt.rel {
			t.Errorf("below(%q, %q) = %q, %v, want %q, %v", tt.path, tt.root, rel, ok, tt.rel, tt.ok)
		}
	}
}

func TestParseCPUMask(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "ff": 8, "00000000,0000000f": 4, "ffffffff,ffffffff": 64, "0": 0, "": 0, "fg": 0, "F": 4, "f,é": 0} {
		if n, ok := parseCPUMask(text); n != want && ok || ok != (want > 0) {
			t.Errorf("parseCPUMask(%q) = %d, %v, want %d", text, n, ok, want)
		}
	}
}

func TestStatTime(t *testing.T) {
	if got := statTime(1500, V1); got != 1500*time.Nanosecond {
		t.Errorf("v1: %v", got)
	}
	if got := statTime(1500, V2); got != 1500*time.Microsecond {
		t.Errorf("v2: %v", got)
	}
	if got := statTime(1<<62, V2); got < 0 {
		t.Errorf("overflow: %v", got)
	}
}

func TestObserved(t *testing.T) {
	before := Throttling{Local: time.Second, LocalKnown: true}
	grown := Throttling{Local: 2 * time.Second, LocalKnown: true}
	tests := []struct {
		state         State
		before, after Throttling
		want          State
	}{
		{None, before, grown, Hidden},
		{None, before, before, None},
		{None, Throttling{}, grown, None}, // no first reading
		{Limited, before, grown, Limited},
		{Unknown, before, grown, Unknown},
	}
	for _, tt := range tests {
		l := Limits{State: tt.state}.Observed(tt.before, tt.after)
		if l.State != tt.want || (l.State == Hidden) != errors.Is(l.Reason, errHidden) {
			t.Errorf("%v from %v to %v: %v, %v", tt.state, tt.before.Local, tt.after.Local, l.State, l.Reason)
		}
	}
}
