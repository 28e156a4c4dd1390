package loadtest

import (
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

const second = time.Second

var before = procs.HostMoment{HostTimes: procs.HostTimes{Busy: 100 * second, Steal: second, Total: 200 * second}, At: time.Unix(0, 0), Known: true}

// after is ten seconds later, on two CPUs.
func after(busy, steal time.Duration) procs.HostMoment {
	return procs.HostMoment{HostTimes: procs.HostTimes{Busy: before.Busy + busy, Steal: before.Steal + steal, Total: before.Total + 20*second}, At: time.Unix(10, 0), Known: true}
}

func TestLateBecause(t *testing.T) {
	const own, server = 2 * second, 5 * second
	for _, c := range []struct {
		name           string
		after          procs.HostMoment
		server         time.Duration
		rate           float64
		realtime, root bool
		want           string
	}{
		{"nothing is known", procs.HostMoment{}, server, 10, true, true, ""},
		{"nothing else ran", after(8*second, 0), server, 10, true, true, ""},
		{"steal", after(8*second, second), server, 10, true, true, "the hypervisor took 5 % of the CPU time"},
		{"a neighbour", after(12*second, 0), server, 10, true, false, "other programs used 0.5 of the CPUs"},
		{"a server that is not known", after(7*second, 0), 0, 10, true, false, "the server and other programs used 0.5 of the CPUs"},
		{"no right", after(7*second, 0), server, 10, false, false, "it has no real-time priority, which takes root or CAP_SYS_NICE"},
		{"not wanted", after(7*second, 0), server, 10, false, true, "it has no real-time priority, which --realtime gives it"},
		{"a closed loop never has it", after(7*second, 0), server, 0, false, false, ""},
		{"both", after(12*second, second), server, 10, false, false, "the hypervisor took 5 % of the CPU time; other programs used 0.5 of the CPUs; it has no real-time priority, which takes root or CAP_SYS_NICE"},
	} {
		r := &load.Result{Plan: load.Plan{Rate: c.rate}, CPU: own}
		if got := strings.Join(lateBecause(before, c.after, r, c.server, c.realtime, c.root), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBesideIt(t *testing.T) {
	const own, server = 2 * second, 5 * second
	for _, c := range []struct {
		name   string
		after  procs.HostMoment
		server time.Duration
		known  bool
		want   string
	}{
		{"nothing is known", procs.HostMoment{}, server, true, ""},
		{"quiet", after(8*second, 0), server, true, ""},
		{"a neighbour", after(12*second, 0), server, true, "other programs used 0.5 CPUs: latencies may be higher than on a quiet machine"},
		{"a server on another machine", after(7*second, 0), 0, true, "other programs used 0.5 CPUs: latencies may be higher than on a quiet machine"},
		{"what the server used is not known", after(7*second, 0), 0, false, ""},
		{"steal", after(8*second, second), 0, false, "the hypervisor took 5 % of the CPU time: latencies may be higher than on a quiet machine"},
		{"both", after(12*second, second), server, true, "other programs used 0.5 CPUs, and the hypervisor took 5 % of the CPU time: latencies may be higher than on a quiet machine"},
	} {
		if got := besideIt(before, c.after, &load.Result{CPU: own}, c.server, c.known); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
