package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// The sentences that are next to the figures of tune.

// Advice is what to do at this load, in few words.
func (a *TuneAt) Advice() string {
	setting := a.key().short()
	switch {
	case !a.Done:
		return "not finished"
	case a.Kind == string(search.Change):
		return "set " + setting
	case a.Kind == string(search.Keep):
		return "keep " + setting
	case a.Kind == string(search.Trade):
		return "keep " + setting + ", or trade"
	}
	return string(search.Undecided)
}

// Settled reports whether there is an answer at this load.
func (a *TuneAt) Settled() bool { return a.Done && settled(a.Kind) }

// Settled reports whether there is an answer.
func (v TuneVerdict) Settled() bool { return settled(v.Kind) }

func settled(kind string) bool {
	return kind == string(search.Change) || kind == string(search.Keep) || kind == string(search.Trade)
}

// String is what a setting is called in a sentence.
func (k TuneKey) String() string { return strings.Join(k.words(), ", ") }

// and is the same: GOMAXPROCS=2 with GOGC=800.
func (k TuneKey) and() string {
	words := k.words()
	if k.Procs == 0 || len(words) == 1 {
		return quantity.List(words)
	}
	return words[0] + " with " + quantity.List(words[1:])
}

// short leaves out what it is about where that is GOMAXPROCS: 2 with GOGC=800.
func (k TuneKey) short() string { return strings.TrimPrefix(k.and(), "GOMAXPROCS=") }

func (k TuneKey) words() (words []string) {
	if k.Procs != 0 {
		words = append(words, "GOMAXPROCS="+strconv.Itoa(k.Procs))
	}
	if k.GOGC != 0 {
		words = append(words, "GOGC="+strconv.Itoa(k.GOGC))
	}
	for _, pair := range k.Vary.All() {
		words = append(words, pair.String())
	}
	return words
}

// RestsOn says which runs the changes from the current setting to another rest on.
func (a *TuneAt) RestsOn() string {
	text := "By " + quantity.Plural(a.Pairs, "block") + " in which both ran"
	if a.Fresh > 0 {
		text += fmt.Sprintf("; %d of %s agreed", a.Agreed, quantity.Plural(a.Fresh, "fresh pair"))
	}
	return text
}

// Notes say what the table of settings does not: what speaks against a verdict, where a difference comes from, why settings were dropped,
// and what failed.
func (a *TuneAt) Notes() []string {
	notes := slices.Clone(a.Why)
	for _, s := range a.Settings {
		if s.Dropped != "" {
			notes = append(notes, s.Key().String()+" was dropped: "+s.Dropped)
		}
		if s.Broken > 0 {
			notes = append(notes, fmt.Sprintf("%s missed the SLO in %d of %s", s.Key(), s.Broken, quantity.Plural(cmp.Or(s.Judged, s.Runs), "run")))
		}
		if s.Failed > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s failed", s.Key(), quantity.Plural(s.Failed, "run")))
		}
	}
	return notes
}

// ChangesNote says what the changes in the table of settings are.
func (a *TuneAt) ChangesNote() string {
	of, owns := "the current setting", "the current setting's"
	if c := a.Current(); c != nil && len(a.Fallen) > 0 {
		of, owns = c.Key().String(), "those of "+c.Key().String()
	}
	text := "Changes are against " + of + ", by the blocks in which both ran, and intervals are 95 % ones. CPU and " + a.Tail +
		" are " + owns + " times the change, the rest are medians of all runs."
	if a.Tail == "p99" && !a.foreign {
		text += " p99 is that of typical seconds, counted from when requests were ready to be sent."
	}
	return text
}

// Tag says what a setting is: the current one, or the base where another is compared with instead; "": neither.
func (a *TuneAt) Tag(s TuneSetting) string {
	switch own := len(a.Fallen) > 0 && s.Key() == (TuneKey{Procs: a.Fallen[0].Procs}); {
	case own, s.Current && len(a.Fallen) == 0:
		return "current"
	case s.Current:
		return "base"
	}
	return ""
}

// BestNote says what the arrow marks in the table of settings, where it is not what is advised; "" if it is, or marks nothing.
func (a *TuneAt) BestNote() string {
	switch {
	case a.Rival == nil || a.BestTag() == "best":
		return ""
	case a.BestTag() == "trade":
		return "→ marks the trade."
	}
	return "→ marks the candidate: that it is better is not shown."
}

// Said is what may be said of an effect; "" if nothing.
func (e TuneEffect) Said() string {
	switch search.Says(e.Says) {
	case search.IsBetter, search.IsWorse, search.NotWorse:
		return e.Says
	case search.Open:
		return "not known yet"
	}
	return ""
}

// SaidInFull is what may be said of an effect, and whether the verdict rests on it.
func (e TuneEffect) SaidInFull() string {
	if said := e.Said(); said != "" {
		return said
	}
	return "does not decide"
}

// Take is what to type to run with a setting, or what it has that may be an argument; "" for the current one.
func (a *TuneAt) Take(s TuneSetting) string {
	current := TuneSetting{}
	if c := a.Current(); c != nil {
		current = *c
	}
	env := environment(s.Procs, s.GOGC, a.GOMEMLIMIT, current.Procs, s.Vary, current.Vary)
	if len(s.Vary) > 0 {
		return env.and()
	}
	return env.String()
}

// A variable is one of the environment that sets something, and variables are all that a setting needs.
type (
	variable  struct{ name, value string }
	variables []variable
)

// environment is what a setting needs that differs from the current GOMAXPROCS, or has a GOGC, with the GOMEMLIMIT that goes with it, and what
// of the user's differs from what it has now.
func environment(procs, gogc int, gomemlimit string, current int, varied, now []lab.Pair) (env variables) {
	if procs != current {
		env = append(env, variable{"GOMAXPROCS", strconv.Itoa(procs)})
	}
	if gogc != 0 {
		env = append(env, variable{"GOGC", strconv.Itoa(gogc)})
		if gomemlimit != "" {
			env = append(env, variable{"GOMEMLIMIT", gomemlimit})
		}
	}
	for i, pair := range varied {
		if i >= len(now) || pair != now[i] {
			env = append(env, variable{pair.Name, pair.Value})
		}
	}
	return env
}

// String is how it is typed before a command.
func (env variables) String() string {
	var words, without []string
	for _, v := range env {
		if v.value == "" {
			without = append(without, "-u "+v.name)
		} else {
			words = append(words, v.name+"="+ShellWord(v.value))
		}
	}
	if len(without) > 0 {
		words = append(append([]string{"env"}, without...), words...)
	}
	return strings.Join(words, " ")
}

func (env variables) words() (words []string) {
	for _, v := range env {
		words = append(words, lab.Pair{Name: v.name, Value: v.value}.String())
	}
	return words
}

// set is what to do for it.
func (env variables) set() string {
	var set variables
	var unset []string
	for _, v := range env {
		if v.value == "" {
			unset = append(unset, v.name)
		} else {
			set = append(set, v)
		}
	}
	switch leave := "leave " + quantity.List(unset) + " unset"; {
	case len(unset) == 0:
		return "Set " + env.and()
	case len(set) == 0:
		return capital(leave)
	default:
		return "Set " + set.and() + " and " + leave
	}
}

// and writes it as a sentence has it.
func (env variables) and() string { return quantity.List(env.words()) }

// BestTag is what the best setting is called: it is the best one where there is an answer that says so.
func (a *TuneAt) BestTag() string {
	switch a.Kind {
	case string(search.Change), string(search.Keep):
		return "best"
	case string(search.Trade):
		return "trade"
	}
	return "candidate"
}

// MarginText says what a margin is; "" without one.
func (d *Tune) MarginText() string {
	if d.Margin <= 0 {
		return ""
	}
	return quantity.Share(d.Margin) + "; smaller differences are ignored"
}

// TailMarginText says what the tail's margin is, of this percentile; "" without one.
func (d *Tune) TailMarginText(tail string) string {
	if d.TailMargin <= 0 {
		return ""
	}
	return quantity.Share(d.TailMargin) + "; smaller differences of " + tail + " are ignored"
}

// MarginOf is the margin of what an effect is of; 0: none.
func (d *Tune) MarginOf(e TuneEffect) float64 {
	if e.Metric == "p99" {
		return d.TailMargin
	}
	return d.Margin
}

// MarginsNote says what differences are too small to count.
func (d *Tune) MarginsNote(effects []TuneEffect, tail string) string {
	text := quantity.Share(d.Margin)
	if d.TailMargin > 0 && slices.ContainsFunc(effects, func(e TuneEffect) bool { return e.Metric == "p99" }) {
		text += ", for " + tail + " " + quantity.Share(d.TailMargin)
	}
	return "Shaded: too small to count (" + text + ")."
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

// ThrottlingNote says which runs are shown.
func ThrottlingNote() string { return "Shown are the last runs of each setting." }

// FewRequestsNote says what is shaded beyond the percentile that is Carried.
func FewRequestsNote() string {
	return fmt.Sprintf("In the shaded part there are fewer than %d requests of a run: that is chance.", loadtest.BeyondLeast)
}

// RunName identifies a run.
func (d *Tune) RunName(r TuneRun) string {
	text := r.Phase
	switch {
	case r.Phase == "confirm":
		text = "fresh pair " + strconv.Itoa(r.Block)
	case r.Block > 0:
		text = "block " + strconv.Itoa(r.Block)
	}
	text = strings.TrimSpace(text) + ", " + r.Key().String()
	if len(d.Loads) > 1 && r.Load >= 0 && r.Load < len(d.Loads) && d.Loads[r.Load].Rate > 0 {
		text += " at " + quantity.PerSecond(d.Loads[r.Load].Rate)
	}
	return text
}

// failuresMost is how many runs without figures are reported; the document has them all.
const failuresMost = 10

// Failures report runs that gave no figures.
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
