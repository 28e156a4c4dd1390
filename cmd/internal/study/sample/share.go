package sample

import "math"

// A Part is what was counted in one part of a measurement, such as a window of a load: Hits out of Of.
type Part struct{ Hits, Of int64 }

// A Share is that of all, as parts of it show it.
type Share struct {
	Share float64
	Low   float64 // one-sided bounds, each at the level that was asked for
	High  float64
	Hits  int64
	Of    int64
	Parts int
	Hit   int // parts that have any
}

// ShareOf says how large a share is, and how sure that is: it is below Low, and above High, only as rarely as level says.
//
// What is counted in one part has things in common: slow requests come together. So the parts are the units, and what is counted in them is
// worth as many independent ones as would differ by as much. Their bounds are Wilson's, with Student's distribution in place of the normal
// one, since the worth is only known from the parts (Dean and Pagano, "Evaluating confidence interval methods for binomial proportions in
// clustered surveys", 2015). Where nothing was hit the bounds are those of independent ones: then it takes enough parts for the share to be
// believed. With fewer than two parts nothing is known. Where a few parts have most of the hits, High is too low more often:
// TestShareCoverage shows how often.
func ShareOf(parts []Part, level float64) Share {
	s := Share{Parts: len(parts), High: 1}
	for _, p := range parts {
		s.Hits += p.Hits
		s.Of += p.Of
		if p.Hits > 0 {
			s.Hit++
		}
	}
	if s.Of == 0 {
		return s
	}
	s.Share = float64(s.Hits) / float64(s.Of)
	if s.Parts < 2 {
		return s
	}
	squares := 0.0
	for _, p := range parts {
		d := (float64(p.Hits) - s.Share*float64(p.Of)) / float64(s.Of)
		squares += d * d
	}
	freedom := float64(s.Parts - 1)
	worth := float64(s.Of)
	if variance := squares * float64(s.Parts) / freedom; variance > 0 {
		worth = min(worth, s.Share*(1-s.Share)/variance)
	}
	t := StudentQuantile(level, s.Parts-1)
	middle, width := s.Share+t*t/worth/2, t*math.Sqrt(s.Share*(1-s.Share)/worth+t*t/worth/worth/4)
	s.Low, s.High = max(0, (middle-width)/(1+t*t/worth)), min(1, (middle+width)/(1+t*t/worth))
	return s
}
