package runner

import (
	"strings"
	"testing"
)

func TestStat(t *testing.T) {
	const text = "nr_periods 60\nnr_throttled 20\nthrottled_time 1500000000\nnr_bursts 0\nburst_time 0"
	for name, want := range map[string]int64{"nr_periods": 60, "throttled_time": 1500000000, "burst_time": 0} {
		if got, ok := stat([]byte(text), name); got != want || !ok {
			t.Errorf("%s: got %v, %v", name, got, ok)
		}
	}
	if _, ok := stat([]byte(text), "nr"); ok {
		t.Error("found the beginning of a name")
	}
	if got := number([]byte("99999999999999999999999")); got < 0 {
		t.Errorf("got %v", got)
	}
}

// TestStrayed: a group of the program's own below ours is as good as ours; on version 1 each hierarchy that we use counts.
func TestStrayed(t *testing.T) {
	const v1 = "9:name=systemd:/user\n4:memory:/a/run-1\n3:cpu,cpuacct:/a/run-1/own\n1:cpuset:/\n0::/\n"
	all := []string{"cpu", "cpuacct", "memory"}
	for text, test := range map[string]struct {
		controllers []string
		want        string
	}{
		v1: {all, " "},
		strings.Replace(v1, "memory:/a/run-1", "memory:/a", 1):              {all, "memory /a"},
		strings.Replace(v1, "memory:/a/run-1", "memory:/", 1):               {all[:2], " "},
		strings.Replace(v1, "cpuacct:/a/run-1/own", "cpuacct:/a/run-12", 1): {all, "cpu /a/run-12"},
		"0::/a/run-1\n":     {nil, " "},
		"0::/a/run-1/x:y\n": {nil, " "},
		"0::/a\n":           {nil, "control /a"},
		"":                  {all, " "},
	} {
		if controller, path := strayed(text, test.controllers, "/run-1/"); controller+" "+path != test.want {
			t.Errorf("%q: got %q %q, want %q", text, controller, path, test.want)
		}
	}
}

func TestExiting(t *testing.T) {
	for stat, want := range map[string]bool{
		"7 (a) b) R 1 7 7 0 -1 4194304 0 0": false, "7 (a) R 1 7 7 0 -1 4194308 0 0": true, "7 (a) Z 1": true, "": true,
	} {
		if got := exiting(stat); got != want {
			t.Errorf("%q: got %v", stat, got)
		}
	}
}

func TestScopeArgs(t *testing.T) {
	got := strings.Join(scopeArgs(Limit{CPUs: 0.5, Memory: 1 << 20}, false), " ")
	want := "--scope --quiet --collect --user --property=CPUQuota=50.00% --property=CPUQuotaPeriodSec=100000us --property=MemoryMax=1048576"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
