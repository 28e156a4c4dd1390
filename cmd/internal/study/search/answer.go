package search

// A Tally counts windows at a rate.
type Tally struct {
	Rate float64
	Held int
	Of   int // windows that were valid
}

// enough windows must hold at a rate for it to be sustained.
const enough = 3

// Failed counts the windows that did not hold.
func (t Tally) Failed() int { return t.Of - t.Held }

// A Verdict is what kind of answer there is.
type Verdict string

// The verdicts.
const (
	Sustains    Verdict = "sustains"    // a rate, and a higher one fails
	AtLeast     Verdict = "at least"    // a rate, and none that was tried fails
	None        Verdict = "none"        // even the lowest rate fails
	Generator   Verdict = "generator"   // the generator could not keep up a rate before the server failed at one
	Unconfirmed Verdict = "unconfirmed" // the search has ended, and too few windows were at the rate that is its answer
	Unknown     Verdict = "unknown"     // interrupted

	Undecided Verdict = "undecided" // of a Tune
)

// An Answer is what is known of the highest rate: it is between Sustained and Failing.
type Answer struct {
	Verdict   Verdict
	Sustained Tally   // the highest that held; Rate 0: none
	Failing   Tally   // the lowest above it that failed; Rate 0: none
	Beyond    float64 // the generator could not keep up this rate; 0: it always could
	Windows   int     // that were measured, invalid ones included
	Invalid   int
	Done      bool // false: the search was interrupted
}

func newAnswer(seen []Observation, done bool) Answer {
	a := Answer{Windows: len(seen), Done: done}
	for _, o := range seen {
		if !o.Valid {
			a.Invalid++
		}
	}
	return a
}

// tallyAt counts the windows at a rate.
func tallyAt(seen []Observation, rate float64) Tally {
	t := Tally{Rate: rate}
	for _, o := range seen {
		if o.Valid && o.Rate == rate {
			t.Of++
			if o.Held {
				t.Held++
			}
		}
	}
	return t
}
