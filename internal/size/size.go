// Package size answers: how is an amount of memory written? As GOMEMLIMIT accepts it, and in MiB.
package size

import (
	"math"
	"strconv"
	"strings"
)

// Text writes bytes in MiB with at most three digits after the point.
func Text(bytes int64) string {
	return strconv.FormatFloat(math.Round(float64(bytes)/(1<<20)*1000)/1000, 'f', -1, 64) + " MiB"
}

// Parse reads what GOMEMLIMIT accepts, "33554432", "33554432B", "32768KiB", "32MiB" or "1GiB"; 0 for anything else, zero included.
func Parse(s string) int64 {
	shift := 0
	if cut, ok := strings.CutSuffix(s, "B"); ok {
		s = cut
		for i, prefix := range [...]string{"Ki", "Mi", "Gi", "Ti"} {
			if cut, ok := strings.CutSuffix(s, prefix); ok {
				s, shift = cut, 10*(i+1)
			}
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > math.MaxInt64>>shift {
		return 0
	}
	return int64(n) << shift
}
