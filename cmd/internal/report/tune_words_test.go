package report

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
)

// The sentences of the verdicts that search's tests have found in their scripted searches, and why they did.
var verdictTexts = []struct{ name, tail, unit, want string }{
	{
		"a change", "p99", "request",
		"Set GOMAXPROCS=2. p99 fell from 96 ms to 40 ms (−58 %, 95 % interval −58 to −57 %), CPU a request −30 % (−31 to −30 %), throttled periods 78 % → 0 %. 10 fresh interleaved pairs, p=0.004.",
	},
	{
		"by CPU, to the default", "p99", "request",
		"Set GOMAXPROCS=3. CPU a request fell from 1.3 ms to 1.0 ms (−23 %, 95 % interval −25 to −22 %), p99 −0.5 % (−2 to +1 %). 6 fresh interleaved pairs, p=0.03. That is Go's default, so it is enough not to set another.",
	},
	{
		"cheaper, and nobody knows its p99", "p99", "request",
		"Undecided: with GOMAXPROCS=1 CPU a request fell from 1.0 ms to 700 µs (−31 %, 95 % interval −31 to −30 %), but the generator was too late for its p99 to be known. As root it has real-time priority; --objective cpu decides by CPU time alone. 6 fresh interleaved pairs, p=0.03.",
	},
	{
		"cheaper, and its p99 is known of some pairs", "p99", "request",
		"Set GOMAXPROCS=1. CPU a request fell from 1.0 ms to 700 µs (−31 %, 95 % interval −31 to −30 %), p99 −1 % (−2 to 0 %). 12 fresh interleaved pairs, p<0.001.",
	},
	{
		"cheaper, and its p99 may be anything", "p99", "request",
		"Undecided: with GOMAXPROCS=1 CPU a request fell from 1.0 ms to 700 µs (−31 %, 95 % interval −31 to −30 %), p99 +33 % (−80 to +782 %). Its p99 looks worse, and how much worse is not known. More pairs would tell; --objective cpu decides by CPU time alone. 8 fresh interleaved pairs, p=0.02.",
	},
	{
		"throughput", "p99", "request",
		"Set GOMAXPROCS=4. Throughput rose from 143/s to 200/s (+40 %, 95 % interval +39 to +41 %). 6 fresh interleaved pairs, p=0.03.",
	},
	{
		"all equal", "p99", "request",
		"3 and 4 are within 2 % of each other (CPU a request in 6 blocks): keep the default.",
	},
	{
		"the current setting is best", "p99", "request",
		"Keep GOMAXPROCS=1. By p99 and CPU a request none of the 2 other settings did better in 3 blocks.",
	},
	{
		"it looked better", "p99", "request",
		"2 and 4 are within 3 % of each other: keep the default. CPU a request went from 1.0 ms to 1.0 ms (+1 %, 95 % interval 0 to +2 %), p99 +1 % (0 to +2 %). 6 fresh interleaved pairs, p=0.1.",
	},
	{
		"it is worse in truth", "p99", "request",
		"Keep GOMAXPROCS=4. GOMAXPROCS=2 looked better, but fresh pairs refute it. CPU a request rose from 1.0 ms to 1.2 ms (+21 %, 95 % interval +20 to +22 %), p99 +1 % (0 to +2 %). 6 fresh interleaved pairs, p=0.03.",
	},
	{
		"too noisy", "p99", "request",
		"Keep GOMAXPROCS=4. GOMAXPROCS=2 looked better in the search, but fresh pairs show no difference worth having. CPU a request went from 1.0 ms to 987 µs (−2 %, 95 % interval −15 to +12 %), p99 +1 % (0 to +2 %). 8 fresh interleaved pairs, p=0.3. With this noise it could still be up to 15 % better.",
	},
	{
		"the SLO first", "p99", "request",
		"Set GOMAXPROCS=2. It held the SLO in 10 of 10 runs, the current setting in 0, p99 unknown in some runs, CPU a request +1 % (+0.5 to +2 %). 10 fresh interleaved pairs, p=0.006. That is Go's default, so it is enough not to set another.",
	},
	{
		"it breaks the SLO in the confirmation", "p99", "request",
		"Keep GOMAXPROCS=8. GOMAXPROCS=2 looked better, but held the SLO in 4 of 8 fresh runs, the current setting in 8.",
	},
	{
		"nothing holds the SLO", "p99", "request",
		"Undecided: no setting holds the SLO at this rate, in 3 blocks. A lower rate, or a higher limit, would tell more.",
	},
	{
		"one candidate", "p99", "request",
		"GOMAXPROCS=1 is the only candidate: there is nothing to compare it with.",
	},
	{
		"the program dies as it is", "p99", "request",
		"Undecided: the program failed with its current setting, GOMAXPROCS=4, and there is nothing to compare the others with: exit status 2",
	},
	{
		"the program dies with the others", "p99", "request",
		"Keep GOMAXPROCS=4. By p99 and CPU a request none of the 2 other settings did better in 1 block.",
	},
	{
		"the program dies in the confirmation", "p99", "request",
		"Keep GOMAXPROCS=4. GOMAXPROCS=1 looked better, but the program failed with it in the confirmation: killed",
	},
	{
		"the generator is late, always", "p99", "request",
		"Undecided: too many runs were not valid, as the generator could not keep up or a figure was missing.",
	},
	{
		"the declared figure is never known", "p99", "request",
		"Undecided: too many runs were not valid, as the generator could not keep up or a figure was missing.",
	},
	{
		"a small budget", "p99", "request",
		"Undecided: the budget of 12 runs has no room for a confirmation. Best so far is GOMAXPROCS=1. About 20 runs more would settle it.",
	},
	{
		"a tail of its own", "p90", "request",
		"Set GOMAXPROCS=2. p90 fell from 40 ms to 20 ms (−49 %, 95 % interval −50 to −49 %), CPU a request +1 % (+0.5 to +2 %). 8 fresh interleaved pairs, p=0.008.",
	},
	{
		"a batch job that is too slow", "p99", "run",
		"Undecided: no setting holds the SLO, in 3 blocks. A higher limit would tell more.",
	},
	{
		"a batch job", "p99", "run",
		"Set GOMAXPROCS=2. Time fell from 2.0 s to 1.0 s (−49 %, 95 % interval −50 to −49 %), CPU a run +1 % (0 to +2 %). 7 fresh interleaved pairs, p=0.03. It is better, but not well: it broke the SLO in 6 of them.",
	},
	{
		"a benchmark without figures", "p99", "operation",
		"Undecided: too many runs were not valid, or a figure was missing.",
	},
	{
		"a benchmark", "p99", "operation",
		"Keep GOMAXPROCS=2. By CPU an operation no other setting did better in 3 blocks.",
	},
	{
		"the lever alone is best", "p99", "request",
		"Set GOGC=800 and leave GOMAXPROCS at 4. CPU a request fell from 1.0 ms to 693 µs (−31 %, 95 % interval −31 to −30 %), p99 −1 % (−2 to 0 %). 8 fresh interleaved pairs, p=0.008.",
	},
	{
		"GOMAXPROCS is best", "p99", "request",
		"Set GOMAXPROCS=2. CPU a request fell from 1.0 ms to 808 µs (−19 %, 95 % interval −20 to −18 %), p99 +1 % (0 to +2 %). 8 fresh interleaved pairs, p=0.008.",
	},
	{
		"both add up", "p99", "request",
		"Set GOMAXPROCS=1 and GOGC=800. CPU a request fell from 1.0 ms to 420 µs (−58 %, 95 % interval −58 to −57 %), p99 +0.5 % (−1 to +2 %). 8 fresh interleaved pairs, p=0.008. GOMAXPROCS=1 alone gave CPU a request −40 % in the exploration, GOGC=800 alone −31 %.",
	},
	{
		"both are the same gain", "p99", "request",
		"Set GOGC=800 and leave GOMAXPROCS at 4. CPU a request fell from 1.0 ms to 495 µs (−50 %, 95 % interval −51 to −50 %), p99 −1 % (−2 to 0 %). 8 fresh interleaved pairs, p=0.008. GOMAXPROCS=1 alone gave CPU a request −40 % in the exploration.",
	},
	{
		"the lever is worth less than GOMAXPROCS, and nothing beside it", "p99", "request",
		"Set GOMAXPROCS=1. CPU a request fell from 1.0 ms to 500 µs (−50 %, 95 % interval −50 to −50 %), p99 0 % (0 to 0 %). 8 fresh interleaved pairs, p=0.008. GOGC=800 alone gave CPU a request −21 % in the exploration.",
	},
	{
		"nothing makes a difference", "p99", "request",
		"1, 4, 4 with GOGC=200 and 4 with GOGC=800 are within 3 % of each other (CPU a request in 6 blocks): keep the default.",
	},
	{
		"the best of the search is not better in truth", "p99", "request",
		"4 and 4 with GOGC=800 are within 3 % of each other: keep the default. CPU a request went from 1.0 ms to 990 µs (−1 %, 95 % interval −2 to 0 %), p99 −1 % (−2 to 0 %). 8 fresh interleaved pairs, p=0.06.",
	},
	{
		"the program dies with the best lever", "p99", "request",
		"Set GOMAXPROCS=1 and GOGC=200. CPU a request fell from 1.0 ms to 540 µs (−46 %, 95 % interval −46 to −45 %), p99 0 % (−0.5 to +1 %). 8 fresh interleaved pairs, p=0.008. GOMAXPROCS=1 alone gave CPU a request −40 % in the exploration, GOGC=200 alone −10 %.",
	},
	{
		"the program dies with the combination, in the confirmation", "p99", "request",
		"Keep GOMAXPROCS=4. GOMAXPROCS=1 with GOGC=800 looked better, but the program failed with it in the confirmation: out of memory",
	},
	{
		"the lever breaks the SLO", "p99", "request",
		"Set GOMAXPROCS=1. CPU a request fell from 1.0 ms to 600 µs (−40 %, 95 % interval −40 to −40 %), p99 0 % (0 to 0 %). 8 fresh interleaved pairs, p=0.008.",
	},
	{
		"p99 first: the lever that makes it worse is not combined", "p99", "request",
		"Set GOMAXPROCS=1. CPU a request fell from 1.0 ms to 600 µs (−40 %, 95 % interval −40 to −40 %), p99 0 % (0 to 0 %). 8 fresh interleaved pairs, p=0.02.",
	},
	{
		"GOMAXPROCS to Go's default", "p99", "request",
		"Set GOMAXPROCS=1 and GOGC=800. CPU a request fell from 1.0 ms to 420 µs (−58 %, 95 % interval −58 to −57 %), p99 +0.5 % (−1 to +2 %). 8 fresh interleaved pairs, p=0.008. GOMAXPROCS=1 is Go's default, so it is enough not to set another. GOMAXPROCS=1 alone gave CPU a request −40 % in the exploration, GOGC=800 alone −31 %.",
	},
	{
		"no blocks are left for the combination", "p99", "request",
		"Set GOMAXPROCS=1. CPU a request fell from 1.0 ms to 600 µs (−40 %, 95 % interval −40 to −40 %), p99 0 % (0 to 0 %). 8 fresh interleaved pairs, p=0.008. GOGC=800 alone gave CPU a request −31 % in the exploration.",
	},
	{
		"no runs are left for the combination", "p99", "request",
		"Set GOMAXPROCS=1. CPU a request fell from 1.0 ms to 600 µs (−40 %, 95 % interval −40 to −40 %), p99 0 % (0 to 0 %). 7 fresh interleaved pairs, p=0.02. GOGC=800 alone gave CPU a request −31 % in the exploration.",
	},
	{
		"the budget has no room for a confirmation", "p99", "request",
		"Undecided: the budget of 16 runs has no room for a confirmation. Best so far is GOMAXPROCS=4 with GOGC=800. About 16 runs more would settle it.",
	},
}

func TestVerdictTexts(t *testing.T) {
	data, err := os.ReadFile("../search/testdata/verdicts.json")
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]search.TuneVerdict{}
	if err := json.Unmarshal(data, &verdicts); err != nil {
		t.Fatal(err)
	}
	if len(verdicts) != len(verdictTexts) {
		t.Errorf("%d verdicts and %d texts", len(verdicts), len(verdictTexts))
	}
	for _, c := range verdictTexts {
		v, ok := verdicts[c.name]
		if !ok {
			t.Errorf("there is no verdict %q", c.name)
			continue
		}
		w := tuneWords{TuneVerdict: v, tail: c.tail, unit: c.unit}
		if got := w.claim(); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Sentences that no scripted search ends in.
func TestMoreVerdictTexts(t *testing.T) {
	two, three := search.Candidate{Procs: 2}, search.Candidate{Procs: 3}
	effects := []search.Effect{{Metric: search.CPU, Decides: true, From: 0.001, To: 0.0009, Ratio: 0.9, Lo: 0.8, Hi: 1.1, Adjusted: 0.2}}
	base := search.TuneVerdict{Kind: search.Undecided, Current: three, Leader: two, Basis: search.CPU, Chain: []search.Metric{search.CPU}, Margin: 0.05, Blocks: 4, Runs: 1, Others: 1}
	for _, c := range []struct {
		name   string
		change func(*search.TuneVerdict)
		want   string
	}{
		{"nothing yet", func(v *search.TuneVerdict) { v.Reason = search.NothingYet }, "Interrupted after 1 run. Nothing is known yet."},
		{"interrupted", func(v *search.TuneVerdict) {
			v.Reason, v.Runs, v.MoreRuns = search.NotDone, 12, 5
		}, "Interrupted after 12 runs. Best so far is GOMAXPROCS=2, unconfirmed."},
		{"interrupted in the confirmation", func(v *search.TuneVerdict) {
			v.Reason, v.Runs, v.Complete, v.Planned = search.NotDone, 20, 3, 8
		}, "Interrupted after 20 runs. Best so far is GOMAXPROCS=2, unconfirmed: 3 of 8 pairs are done."},
		{"not valid, with a leader", func(v *search.TuneVerdict) {
			v.Reason = search.Invalid
		}, "Undecided: too many runs were not valid, as the generator could not keep up or a figure was missing. Best so far is GOMAXPROCS=2, unconfirmed."},
		{"more pairs", func(v *search.TuneVerdict) {
			v.Reason, v.Done, v.Effects, v.Pairs, v.MorePairs, v.MoreRuns = search.NotShown, true, effects, 8, 20, 40
		}, "Undecided: GOMAXPROCS=2 was the best of the search, but fresh pairs don't show that it is better than 3. CPU a request went from 1.0 ms to 900 µs (−10 %, 95 % interval −20 to +10 %). 8 fresh interleaved pairs, p=0.2. About 40 runs more (a fresh confirmation of 20 pairs) would settle 5 %. That is about 4 minutes more: --pairs 20."},
		{"more runs than anybody does", func(v *search.TuneVerdict) {
			v.Reason, v.Done, v.Pairs = search.NotShown, true, 8
		}, "Undecided: GOMAXPROCS=2 was the best of the search, but fresh pairs don't show that it is better than 3. there is no figure to compare. 8 fresh interleaved pairs. With this noise no reasonable number of runs would settle 5 %."},
		{"a larger budget", func(v *search.TuneVerdict) {
			v.Reason, v.Done, v.MaxRuns, v.MoreRuns, v.MorePairs = search.NoRoom, true, 1, 10, 5
		}, "Undecided: the budget of 1 run has no room for a confirmation. Best so far is GOMAXPROCS=2. About 10 runs more would settle it. That is about a minute more: --budget 3m."},
		{"a rival", func(v *search.TuneVerdict) {
			v.Kind, v.Reason, v.Better, v.Rival = search.Keep, search.Leads, 0.123, two
		}, "Keep GOMAXPROCS=3. By CPU a request no other setting did better in 4 blocks. With this noise 2 could still be up to 13 % better."},
		{"it is kept, and breaks the SLO", func(v *search.TuneVerdict) {
			v.Kind, v.Reason, v.Broke, v.BrokeOf = search.Keep, search.Leads, 3, 4
		}, "Keep GOMAXPROCS=3. By CPU a request no other setting did better in 4 blocks. It broke the SLO in 3 of 4 runs, at this rate."},
	} {
		v := base
		c.change(&v)
		w := tuneWords{TuneVerdict: v, tail: "p99", unit: "request", perRun: 6, spent: 90}
		if got := w.text(); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestDroppedTexts(t *testing.T) {
	w := tuneWords{tail: "p90", unit: "operation"}
	leader := search.Candidate{Procs: 4}
	for _, c := range []struct {
		drop *search.Drop
		want string
	}{
		{nil, ""},
		{&search.Drop{Reason: search.BreaksSLO, Blocks: 3, Against: leader}, "broke the SLO in all of 3 blocks in which 4 held it"},
		{&search.Drop{Reason: search.Worse, Blocks: 3, Against: leader, Metric: search.CPU, Ratio: 1.52}, "CPU an operation +52 % against 4 in 3 blocks"},
		{&search.Drop{Reason: search.Worse, Blocks: 3, Against: leader, Metric: search.P99, Ratio: 2.99}, "p90 +199 % against 4 in 3 blocks"},
		{&search.Drop{Reason: search.ProgramFails, After: 1, Failure: "out of memory"}, "the program failed: out of memory"},
		{&search.Drop{Reason: search.NoValidRun, After: 2, Blocks: 2}, "no valid run in 2 blocks"},
	} {
		if got := w.dropped(c.drop); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// FuzzVerdictText: whatever a search observes, and whenever it is asked, there are words for it.
func FuzzVerdictText(f *testing.F) {
	f.Add(uint64(1), 4, 2, 0, 0, []byte{0})
	f.Add(uint64(2), 8, 2, 40, 800, []byte{0, 10, 20, 30, 40, 250, 251, 252, 253, 254, 255})
	f.Add(uint64(3), 1, 3, 0, 1, []byte{100, 101, 99, 98, 250, 97})
	f.Add(uint64(5), 3, 6, 0, 100000, []byte{254, 90, 91, 92, 93})
	f.Fuzz(func(t *testing.T, seed uint64, current, limit, maxRuns, lever int, script []byte) {
		c := search.TuneConfig{Current: current, GoDefault: limit, Candidates: search.Candidates(float64(limit%1000), 64, 0, limit%1000), Seed: seed, MaxRuns: maxRuns, Batch: seed%2 == 1}
		if lever != 0 {
			c.Levers = []int{lever, 200}
		}
		m, err := search.NewTune(c)
		if err != nil || len(script) == 0 {
			t.Skip()
		}
		unit := []string{"request", "operation"}[seed%2]
		for n := 0; ; n++ {
			w := tuneWords{TuneVerdict: m.Verdict(), tail: "p99", unit: unit, perRun: 6}
			texts := []string{w.text()}
			for _, s := range m.Standings() {
				if s.Dropped != nil {
					texts = append(texts, w.dropped(s.Dropped))
				}
			}
			for _, text := range texts {
				if text == "" || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
					t.Fatalf("%q of %+v", text, w)
				}
			}
			r, ok := m.Next()
			if !ok {
				return
			}
			b := script[(n*31+r.Procs+r.GOGC%1000)%len(script)]
			x := math.Exp(float64(b)/20 - 6)
			o := search.TuneObservation{Run: r, Valid: b%16 != 15, SLOHeld: b%8 != 7, P99: x, CPUPerRequest: x * x, Throughput: 1 / x, Time: x}
			switch b {
			case 250:
				o.P99, o.CPUPerRequest, o.Throughput, o.Time = 0, 0, 0, 0
			case 252:
				o.P99, o.Throughput, o.Time = 1e300, 1e12, 1e12
			case 253:
				o.Failed = "it failed"
			case 254:
				o.ErrorShare = 1
			}
			if err := m.Observe(o); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestLimitNotes(t *testing.T) {
	d := &Tune{Loads: []TuneLoad{{Rate: 120}}, Limits: []TuneLimit{{Settings: []TuneLimitRates{{Procs: 1}}}}}
	const rates = "The rates are the highest at which each GOMAXPROCS holds the SLO; → marks the better one"
	if got := d.RatesNote(); got != rates+"." {
		t.Error(got)
	}
	d.Limits[0].Settings[0].Default = true
	if got := d.RatesNote(); got != rates+", * what Go chooses by itself." {
		t.Error(got)
	}
	const held = "Held: windows at your rate of 120/s in which the better one held it"
	for want, columns := range map[string][]string{
		held + ".":                           nil,
		held + "; p99 is of these.":          {"p99"},
		held + "; p99 and CPU are of these.": {"p99", "CPU"},
	} {
		if got := d.HeldNote(columns...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestThrottledPeriods(t *testing.T) {
	r := TuneRun{Axis: []TuneStep{{Periods: 10, Throttled: 3}, {Periods: -1, Throttled: 5}, {Periods: 4, Throttled: 9}, {Periods: 2, Throttled: -2}}}
	if n, of := r.ThrottledPeriods(); n != 7 || of != 16 {
		t.Errorf("%d of %d", n, of)
	}
}

func TestNoneEnoughText(t *testing.T) {
	const want = "Undecided: none of these limits holds p99=50ms at 100/s in all of 5 windows. A larger limit, a lower rate or a looser objective would tell more."
	if got := noneEnoughText(tune.Plan{SLO: "p99=50ms", Rate: 100}); got != want {
		t.Error(got)
	}
}
