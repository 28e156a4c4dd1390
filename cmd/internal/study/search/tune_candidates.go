package search

import "math"

// A Candidate is a setting that may be run.
type Candidate struct {
	Procs int
	GOGC  int // 0: as the program has it
	Vary  int // which of the values that the user varies; 0: the current ones
}

// Candidates are the values of GOMAXPROCS that are worth a try, in this order and without doubles: what the program runs with
// now, Go's default, 1, the limit rounded down and up, one above that, twice that and two more, and all CPUs. More than there
// are CPUs may help under a limit, as threads that wait in the kernel keep a P for a while.
//
// A limit of 0 is none, and one above the CPUs is as good as that number. Without a limit a half and a quarter of the
// CPUs take the place of those that are about it. Numbers below 1 are left out: a current or default setting of 0 is not
// known.
func Candidates(limit float64, cpus, current, goDefault int) []int {
	candidates := []int{current, goDefault, 1}
	if limit > 0 { // NaN isn't
		if cpus > 0 {
			limit = min(limit, float64(cpus))
		}
		limit = min(limit, 1<<20)
		up := int(math.Ceil(limit))
		candidates = append(candidates, int(limit), up, up+1, 2*up, 2*up+2)
	} else {
		candidates = append(candidates, cpus/4, cpus/2)
	}
	return distinct(append(candidates, cpus))
}

// AllCandidates are the current setting and 1 to cpus.
func AllCandidates(cpus, current int) []int {
	candidates := []int{current}
	for procs := 1; procs <= cpus; procs++ {
		candidates = append(candidates, procs)
	}
	return distinct(candidates)
}

// distinct leaves out doubles and what is below 1, and keeps the order.
func distinct(numbers []int) []int {
	var kept []int
	seen := map[int]bool{}
	for _, n := range numbers {
		if n >= 1 && !seen[n] {
			seen[n] = true
			kept = append(kept, n)
		}
	}
	return kept
}
