package freeze

import "math"

// Kubelets give a pod of one container its quota twice: on the container's group and on the pod's. Each group's timer began when the group
// did, so that their refills are at two phases of the same period. After a refill of one, only what is left of the other can be used, so
// that the two hold the program up in turn.

// There are at least this many windows from the first phase to the second: what ends sooner may be a thread that was late after the refill.
const clearOfFirst = 3

// A second quota ends at least this share of the gap time. By chance fewer gaps end together.
const leastSecond = 0.1

// withSecond is the rhythm with the phase of a second quota, if the gaps that end far from the first phase have one of their own.
func (r Rhythm) withSecond(gaps []Gap) Rhythm {
	rest := Rhythm{Period: r.Period, Window: r.Window}
	var far []Gap
	for _, g := range gaps {
		if since, until := r.since(g.End); min(since, until) >= clearOfFirst*r.Window {
			far = append(far, g)
			rest.Time += g.Length()
		}
	}
	if len(far) == 0 || r.Window <= 0 {
		return r
	}
	rest.Phase, rest.Locked = densest(far, r.Period, r.Window)
	chance := float64(2*r.Window) / float64(r.Period-2*clearOfFirst*r.Window)
	part := float64(rest.Time) / float64(r.Time)
	if part*(rest.Locked-chance)/(1-chance) < leastSecond {
		return r
	}
	two := r
	two.Offset = phase(rest.Phase-r.Phase, r.Period)
	two.Locked += part * rest.Locked
	two.Luck = max(r.bunched(r.Weight, r.Locked, r.Chance()), r.bunched(effective(far), rest.Locked, chance))
	if two.R = two.resultant(gaps); !two.likeQuota() {
		return r
	}
	return two
}

// bunched is an upper bound on the chance that, of n ends placed anywhere, that share is in one window: Chernoff's bound, for each of the
// windows.
func (r Rhythm) bunched(n, share, chance float64) float64 {
	if share <= chance {
		return 1
	}
	distance := share * math.Log(share/chance)
	if share < 1 {
		distance += (1 - share) * math.Log((1-share)/(1-chance))
	}
	return min(1, float64(r.Period)/float64(r.Window)*math.Exp(-n*distance))
}
