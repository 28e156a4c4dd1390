package choice

import (
	"strconv"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

// GOMEMLIMIT is what memory.Decide sets under a memory limit, in whole MiB, and as it is typed; 0 and "": the limit is too small for one.
func GOMEMLIMIT(limit int64) (bytes int64, text string) {
	mib := memory.Decide(cgroup.Memory{State: cgroup.Limited, Bytes: limit}, memory.Options{}).Bytes >> 20
	if mib == 0 {
		return 0, ""
	}
	return mib << 20, strconv.FormatInt(mib, 10) + "MiB"
}

// NoHeadroom reports whether a GOMEMLIMIT leaves nothing of a memory limit for what the kernel counts and the runtime does not.
func NoHeadroom(gomemlimit, limit int64) bool {
	const most = 0.97
	return float64(gomemlimit) > most*float64(limit)
}

// CountedBesides is why that is too much.
const CountedBesides = "the kernel counts memory that the runtime does not, such as files in memory and what C has"
