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

func TestScopeArgs(t *testing.T) {
	got := strings.Join(scopeArgs(Limit{CPUs: 0.5, Memory: 1 << 20}, false), " ")
	want := "--scope --quiet --collect --user --property=CPUQuota=50.00% --property=CPUQuotaPeriodSec=100000us --property=MemoryMax=1048576"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
