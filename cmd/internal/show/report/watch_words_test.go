package report

import (
	"slices"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
)

// TestWatchAnswer: a host whose CPUs are not in use is not called busy.
func TestWatchAnswer(t *testing.T) {
	d := &Watch{Cause: "throttled", FrozenShare: new(0.75), Throttled: new(0.67), Contended: new(0.08)}
	for _, c := range []struct {
		host WatchContention
		want string
	}{
		{WatchContention{HostCPUs: 2, HostBusy: 1.9, Others: 1.4}, "It stood still for 8 % more without that rhythm, as on a busy host."},
		{WatchContention{HostCPUs: 2, HostBusy: 0.79, Steal: 0.08}, "It stood still for 8 % more without that rhythm, as where a hypervisor takes CPUs away."},
	} {
		if d.Contention = c.host; !slices.Contains(d.Also(), c.want) {
			t.Errorf("%+v: %q", c.host, d.Also())
		}
	}
}

// TestWhoHadTheCPUs: the hypervisor did where it took what others did not use.
func TestWhoHadTheCPUs(t *testing.T) {
	for _, c := range []struct {
		host WatchContention
		want string
	}{
		{WatchContention{HostCPUs: 2, HostBusy: 1.9, Others: 1.4, Steal: 0.1}, "others had the CPUs; it was no quota"},
		{WatchContention{HostCPUs: 2, HostBusy: 1, Steal: 0.23, WaitShare: new(0.5)}, "the hypervisor took the CPUs; it was no quota"},
		{WatchContention{WaitShare: new(0.5)}, "others had the CPUs; it was no quota"},
		{WatchContention{}, "something else took the CPUs; it was no quota"},
	} {
		d := &Watch{Cause: "contended", FrozenShare: new(0.0), Contention: c.host}
		if got := d.Answer(); got != c.want {
			t.Errorf("%+v: %s", c.host, got)
		}
	}
	// Next to a finding that names the quota, it can't be none.
	d := &Watch{Cause: "contended", FrozenShare: new(0.0), Findings: []finding.Finding{{Rule: "contended"}, {Rule: "throttled"}}}
	if got, want := d.Answer(), "something else took the CPUs; its quota did less"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
