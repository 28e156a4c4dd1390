package choice

import (
	"fmt"
	"math"
	"strconv"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

// GOMEMLIMIT is what memory.Decide sets under a memory limit, in whole MiB, and as one types it; 0 and "": the limit is too small for one.
func GOMEMLIMIT(limit int64) (bytes int64, text string) {
	mib := memory.Decide(cgroup.Memory{State: cgroup.Limited, Bytes: limit}, memory.Options{}).Bytes >> 20
	if mib == 0 {
		return 0, ""
	}
	return mib << 20, strconv.FormatInt(mib, 10) + "MiB"
}

// NoHeadroom reports whether a GOMEMLIMIT leaves nothing of a memory limit for what the kernel counts and the runtime does not.
func NoHeadroom(gomemlimit, limit int64) bool { return float64(gomemlimit) > Full*float64(limit) }

// Full is the share of a memory limit from which on that is so.
const Full = 0.97

// CountedBesides is why that is too much.
const CountedBesides = "the kernel counts memory that the runtime does not, such as files in memory and what C has"

// Signs of a collector that has too little memory. With 97 MiB alive under GOMEMLIMIT=115MiB it took 56 % of the time, and a request cost
// four times as much CPU.
const (
	TightRoom  = 33   // percent of what is alive, by which the heap may grow before the next collection
	TightShare = 0.25 // of the time, or of the CPU time, that collections take
)

// leastGoal is a heap below which Go does not collect on its own.
const leastGoal = 4 << 20

// Roomy is a GOMEMLIMIT that leaves the collector room for half as much as is alive, besides what holds no objects; and the memory limit
// under which memory.Decide sets that: it leaves a tenth, and 8 MiB at least, and sets nothing below 32 MiB.
func Roomy(live, other float64) (gomemlimit, limit float64) {
	gomemlimit = max(1.5*live, leastGoal) + other
	return gomemlimit, max(gomemlimit/0.9, gomemlimit+8<<20, 32<<20)
}

// Mebibytes writes a size as in a setting.
func Mebibytes(n float64) string { return fmt.Sprintf("%.0fMiB", max(1, math.Ceil(n/(1<<20)))) }
