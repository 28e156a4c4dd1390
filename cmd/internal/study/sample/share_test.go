package sample

import (
	"math"
	"slices"
	"testing"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// Bounds of shares, worked out by hand.
func TestShareOf(t *testing.T) {
	alike := func(n int, hits, of int64) []Part { return slices.Repeat([]Part{{hits, of}}, n) }
	for _, c := range []struct {
		name      string
		parts     []Part
		level     float64
		low, high float64
	}{
		{"nothing", nil, 0.05, 0, 1},
		{"one part", alike(1, 5, 100), 0.05, 0, 1},
		{"parts of nothing", alike(3, 0, 0), 0.05, 0, 1},
		// t = 1.7613 with 14 degrees of freedom; t²/(n+t²) of n = 1500.
		{"no hit", alike(15, 0, 100), 0.05, 0, 3.1022 / 1503.1022},
		{"all hits", alike(15, 100, 100), 0.05, 1500 / 1503.1022, 1},
		// p = 0.01, n = 1500: (p + t²/2n ± t·√(p(1−p)/n + t²/4n²)) / (1 + t²/n).
		{"alike", alike(15, 1, 100), 0.05, 0.006379, 0.015643},
		// p = 0.05; the variance of the mean of 0.1 and 0 in turns is 0.0025·(10/9)/10, which is that of p(1−p)/0.00027778 = 171
		// independent ones; t = 1.8331.
		{"apart", slices.Concat(alike(5, 100, 1000), alike(5, 0, 1000)), 0.05, 0.027198, 0.090147},
	} {
		s := ShareOf(c.parts, c.level)
		if math.Abs(s.Low-c.low) > 1e-5 || math.Abs(s.High-c.high) > 1e-5 || s.Parts != len(c.parts) {
			t.Errorf("%s: %+v, want %v to %v", c.name, s, c.low, c.high)
		}
	}
}

// TestShareCoverage counts how often a bound is wrong where hits come in clusters, and parts differ.
func TestShareCoverage(t *testing.T) {
	slowtest.Plain(t)
	const level, of = 0.05, 500
	t.Logf("%6s %6s %6s %8s %8s", "share", "apart", "parts", "low", "high")
	for _, c := range []struct{ share, apart float64 }{{0.01, 0}, {0.01, 0.5}, {0.01, 1}, {0.1, 0.5}, {0.5, 0.2}} {
		for _, n := range []int{5, 15, 30} {
			r := random(uint64(1000*c.share) + uint64(n))
			low, high := 0.0, 0.0
			for range labs {
				parts := make([]Part, n)
				for i := range parts {
					share := min(1, c.share*math.Exp(c.apart*r.NormFloat64()-c.apart*c.apart/2))
					parts[i].Of = of
					for range of {
						if r.Float64() < share {
							parts[i].Hits++
						}
					}
				}
				s := ShareOf(parts, level)
				if s.Low > c.share {
					low += 1. / labs
				}
				if s.High < c.share {
					high += 1. / labs
				}
			}
			t.Logf("%6.2f %6.1f %6d %7.1f%% %7.1f%%", c.share, c.apart, n, 100*low, 100*high)
			// The share of a few parts is skewed: in most cases it is too low, and so is its bound.
			if low > level+allowed(level) || high > level+allowed(level)+0.08*c.apart {
				t.Errorf("%+v, %d parts: %.3f, %.3f", c, n, low, high)
			}
		}
	}
}
