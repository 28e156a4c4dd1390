package search

// A Tally counts windows at a rate.
type Tally struct {
	Rate float64
	Held int
	Of   int // windows that were valid
}

func (t *Tally) add(held bool) {
	t.Of++
	if held {
		t.Held++
	}
}

// enough windows are those without which a tally decides nothing.
const enough = 3

// Failed counts the windows that did not hold.
func (t Tally) Failed() int { return t.Of - t.Held }

// sustained: at most one window failed, of enough.
func (t Tally) sustained() bool { return t.Held >= enough && t.Failed() <= 1 }

// always: no window failed, of enough.
func (t Tally) always() bool { return t.Held >= enough && t.Failed() == 0 }

// A Verdict is what kind of answer there is.
type Verdict string

// The verdicts.
const (
	Sustains  Verdict = "sustains"  // a rate, confirmed, and a higher one fails
	AtLeast   Verdict = "at least"  // a rate, confirmed, and none that was tried in earnest fails
	None      Verdict = "none"      // even the lowest rate fails
	Undecided Verdict = "undecided" // none of the rates that were to be confirmed always held
	Generator Verdict = "generator" // the generator could not keep up a rate before the server failed at one
	Unknown   Verdict = "unknown"   // interrupted; what there is has not been confirmed

	Unconfirmed Verdict = "unconfirmed" // the search has ended, and no confirmation was asked for
)

// An Answer is what is known of the highest rate.
type Answer struct {
	Verdict   Verdict
	Sustained Tally   // Rate 0: none
	Failing   Tally   // the lowest that failed; Rate 0: none
	FellBack  bool    // Sustained is a tenth below what the search had found, for that failed
	Beyond    float64 // the generator could not keep up this rate; 0: it always could
	Confirmed []Tally // the confirmation, highest rate first
	Windows   int     // that were measured, invalid ones included
	Invalid   int
	Done      bool // false: the search was interrupted
}

// Answer says what is known by now. It rests on the confirmation once that is done, and before on the search.
func (m *MaxRate) Answer() Answer {
	a := Answer{Beyond: m.beyond, Windows: len(m.seen), Done: m.phase == Done}
	for _, o := range m.seen {
		if !o.Valid {
			a.Invalid++
		}
	}
	a.Confirmed = append(a.Confirmed, m.confirmed...)
	a.Sustained, a.Failing = m.tally(m.best), m.tally(m.worst)
	switch {
	case a.Done && len(m.confirmed) > 0:
		m.judgeConfirmed(&a)
	case m.beyond > 0:
		a.Verdict = Generator
	case a.Done && m.best == 0:
		a.Verdict = None
	case a.Done:
		a.Verdict = Unconfirmed
	default:
		a.Verdict = Unknown
	}
	return a
}

// judgeConfirmed decides by the windows of the confirmation alone. The search has chosen its rates by how they looked, so
// its own windows speak too well of the rate that held, and too badly of the one that failed.
func (m *MaxRate) judgeConfirmed(a *Answer) {
	lower, found, upper := m.tallies()
	switch {
	case found.Of < enough && found.Failed() <= 1: // the generator has dropped it
		a.Verdict = Generator
		if lower.always() {
			a.Sustained, a.Failing = lower, Tally{}
		}
	case found.sustained() && upper.sustained():
		a.Verdict, a.Sustained, a.Failing = AtLeast, upper, Tally{} // what failed in the search has been refuted
	case found.sustained() && upper.Failed() > upper.Held:
		a.Verdict, a.Sustained, a.Failing = Sustains, found, upper
	case found.sustained() && upper.Of == 0 && m.worst > 0:
		a.Verdict, a.Sustained = Sustains, found // 1.1·R was too much for the generator: there is what failed before
	case found.sustained():
		a.Verdict, a.Sustained, a.Failing = AtLeast, found, upper
	case lower.always():
		a.Verdict, a.Sustained, a.Failing, a.FellBack = Sustains, lower, found, true
	default:
		a.Verdict, a.Sustained, a.Failing = Undecided, lower, found
	}
}

// tally counts the windows of the whole search at a rate.
func (m *MaxRate) tally(rate float64) Tally {
	t := Tally{Rate: rate}
	for _, o := range m.seen {
		if o.Valid && o.Rate == rate {
			t.add(o.Held)
		}
	}
	return t
}
