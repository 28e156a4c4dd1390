package sample

// Beats reports whether a setting costs less than another in everything that counts. Their costs are in the same order; one
// that is not known is NaN: nothing is said to beat it, and it beats nothing.
//
// Settings that no other beats are the front: which of them is best is a matter of taste.
func Beats(costs, others []float64) bool {
	for i, c := range costs {
		if !(c < others[i]) {
			return false
		}
	}
	return len(costs) > 0
}
