package report

import (
	"strings"
	"testing"
)

// TestWatchAnswer: no host is called busy whose CPUs are not in use.
func TestWatchAnswer(t *testing.T) {
	d := &Watch{Cause: "throttled", FrozenShare: 0.75, Throttled: 0.67, Contended: 0.08}
	for _, c := range []struct {
		host WatchContention
		want string
	}{
		{WatchContention{HostCPUs: 2, HostBusy: 1.9, Others: 1.4}, "8 % without its rhythm, as on a busy host"},
		{WatchContention{HostCPUs: 2, HostBusy: 0.79, Steal: 0.08}, "8 % without its rhythm, as where a hypervisor takes CPUs away"},
	} {
		if d.Contention = c.host; !strings.HasSuffix(strings.TrimSpace(d.Answer()), c.want) {
			t.Errorf("%+v: %s", c.host, d.Answer())
		}
	}
}
