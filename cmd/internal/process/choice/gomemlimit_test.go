package choice

import (
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

func TestGOMEMLIMIT(t *testing.T) {
	for limit, want := range map[int64]string{0: "", 16 << 20: "", 32 << 20: "24MiB", 64 << 20: "56MiB", 128 << 20: "115MiB", 256 << 20: "230MiB", 1 << 40: "943718MiB"} {
		bytes, text := GOMEMLIMIT(limit)
		if text != want || (bytes > 0) != (want != "") || bytes > limit || bytes > 0 && NoHeadroom(bytes, limit) {
			t.Errorf("under %d: %d, %q; want %q", limit, bytes, text, want)
		}
	}
	if !NoHeadroom(256<<20, 256<<20) || NoHeadroom(240<<20, 256<<20) {
		t.Error("all of a limit leaves nothing, and 94 % leave something")
	}
}

// TestRoomy: the limit is the least under which memory.Decide sets as much, which says only what follows from a limit.
func TestRoomy(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ live, other, want float64 }{
		{20 * mib, 6 * mib, 36 * mib}, // the 8 MiB count
		{200 * mib, 0, 300 * mib},     // the tenth counts
		{1, 40 * mib, 44 * mib},       // a heap that is never collected
		{8 * mib, 4 * mib, 16 * mib},  // the least limit
	} {
		gomemlimit, limit := Roomy(c.live, c.other)
		if gomemlimit != c.want {
			t.Errorf("%+v: GOMEMLIMIT %.0f", c, gomemlimit)
		}
		decide := func(limit float64) float64 {
			return float64(memory.Decide(cgroup.Memory{State: cgroup.Limited, Bytes: int64(limit)}, memory.Options{}).Bytes)
		}
		if decide(limit+2) < gomemlimit || decide(limit-2) >= gomemlimit {
			t.Errorf("%+v: under %.0f it is %.0f, want %.0f", c, limit, decide(limit), gomemlimit)
		}
	}
}
