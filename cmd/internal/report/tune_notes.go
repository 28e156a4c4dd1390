package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
)

// The sentences that stand beside the figures of tune.

// Advice is what to do at this load, in few words.
func (a *TuneAt) Advice() string {
	setting := strconv.Itoa(a.Procs)
	if a.GOGC != 0 {
		setting += " with GOGC=" + strconv.Itoa(a.GOGC)
	}
	switch {
	case !a.Done:
		return "not finished"
	case a.Kind == string(search.Change):
		return "set " + setting
	case a.Kind == string(search.Keep):
		return "keep " + setting
	}
	return string(search.Undecided)
}

// Settled reports whether there is an answer at this load.
func (a *TuneAt) Settled() bool { return a.Done && settled(a.Kind) }

// Settled reports whether there is an answer.
func (v TuneVerdict) Settled() bool { return settled(v.Kind) }

func settled(kind string) bool { return kind == string(search.Change) || kind == string(search.Keep) }

// String is what a setting is called in a sentence.
func (k TuneKey) String() string {
	text := "GOMAXPROCS=" + strconv.Itoa(k.Procs)
	if k.GOGC != 0 {
		text += ", GOGC=" + strconv.Itoa(k.GOGC)
	}
	return text
}

// Notes say what the table of settings does not: why settings were dropped, and what failed.
func (a *TuneAt) Notes() (notes []string) {
	for _, s := range a.Settings {
		if s.Dropped != "" {
			notes = append(notes, s.Key().String()+" was dropped: "+s.Dropped)
		}
		if s.Broken > 0 {
			notes = append(notes, fmt.Sprintf("%s missed the SLO in %d of %s", s.Key(), s.Broken, quantity.Plural(s.Runs, "run")))
		}
		if s.Failed > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s failed", s.Key(), quantity.Plural(s.Failed, "run")))
		}
	}
	return notes
}

// ChangesNote says where the changes in the table of settings are from; rival is the name of the one that was confirmed.
func (a *TuneAt) ChangesNote(rival string) string {
	text := "Changes are against the current setting: " + rival + " by the " + a.FreshPairs() + " of the confirmation"
	if len(a.Settings) > 2 {
		text += ", the others by the blocks of the exploration"
	}
	return text + "; the intervals are 95 % ones. Medians are of all runs."
}

// FreshPairs are those of the confirmation.
func (a *TuneAt) FreshPairs() string { return quantity.Plural(a.Pairs, "fresh pair") }

// Said is what may be said of an effect; "" if nothing.
func (e TuneEffect) Said() string {
	switch e.Verdict {
	case "same":
		return "no worthwhile difference"
	case "better", "worse", "undecided", "too few":
		return e.Verdict
	}
	return ""
}

// SaidInFull is what may be said of an effect, and whether the verdict rests on it.
func (e TuneEffect) SaidInFull() string {
	const beside = "does not decide"
	switch said := e.Said(); {
	case e.Decides:
		return said
	case said == "":
		return beside
	default:
		return said + ", " + beside
	}
}

// MarginText says what a margin is; "" if there is none.
func (d *Tune) MarginText() string {
	if d.Margin <= 0 {
		return ""
	}
	return quantity.Share(d.Margin) + "; a smaller difference is not worth while"
}

// SeedText says what doing it again has in common with what was done.
func (d *Tune) SeedText() string {
	return fmt.Sprintf("The seed is %d: with it the order of the runs and the arrivals are the same.", d.Seed)
}

// NeverThrottled says that no run of these was throttled; "" if any was, or if nothing is known.
func NeverThrottled(all []TuneThrottling) string {
	if len(all) == 0 || slices.ContainsFunc(all, func(t TuneThrottling) bool { return t.Share > 0 }) {
		return ""
	}
	return "In none of the runs was any period throttled."
}

// ThrottlingNote says which runs these are.
func ThrottlingNote(all []TuneThrottling) string {
	if slices.ContainsFunc(all, func(t TuneThrottling) bool { return t.Confirmed }) {
		return "Shown are the last runs of the confirmation, and of the exploration of settings that were not in it."
	}
	return "Shown are the last runs of the exploration."
}

// FewRequestsNote says what is shaded beyond the percentile that is Carried.
func FewRequestsNote() string {
	return fmt.Sprintf("In the shaded part there are fewer than %d requests of a run: that is chance.", loadtest.BeyondLeast)
}

// RunName tells a run from the others.
func (d *Tune) RunName(r TuneRun) string {
	text := r.Phase
	switch {
	case r.Phase == "confirm":
		text += " pair " + strconv.Itoa(r.Block)
	case r.Block > 0:
		text += " block " + strconv.Itoa(r.Block)
	}
	text = strings.TrimSpace(text) + ", " + r.Key().String()
	if len(d.Loads) > 1 && r.Load >= 0 && r.Load < len(d.Loads) && d.Loads[r.Load].Rate > 0 {
		text += " at " + quantity.PerSecond(d.Loads[r.Load].Rate)
	}
	return text
}

// failuresMost is how many runs without figures are told of; the document has them all.
const failuresMost = 10

// Failures tell of runs that gave no figures.
func (d *Tune) Failures() (texts []string) {
	more := 0
	for _, r := range d.Runs {
		if r.good() {
			continue
		}
		text := "not valid: " + strings.Join(r.Invalid, "; ")
		if r.Error != "" {
			text = "failed: " + r.Error
		}
		if len(texts) == failuresMost {
			more++
			continue
		}
		texts = append(texts, d.RunName(r)+" "+text)
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

// Enough says whether a limit will do.
func (d *Tune) Enough(l *TuneLimit) string {
	switch {
	case l.Will && l.CPUs == d.Verdict.LimitCPUs:
		return "yes, smallest"
	case l.Will:
		return "yes"
	case l.Of == 0:
		return ""
	}
	return "no"
}
