package search

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

var (
	worldTunes = flag.Int("tunes", 40, "how many tunes of each kind to simulate; 1000 for figures")
	allWorlds  = flag.Bool("worlds", false, "simulate all worlds, noises and budgets")
)

// What a run takes besides its window, and how long windows are in the first blocks and later, in seconds.
const (
	besideWindow = 1.15
	firstWindow  = 2.5
	laterWindow  = 5
	pilotTakes   = 12
)

// A world is what a program's settings truly do compared with GOMAXPROCS=2, and what may be said of it.
type world struct {
	name      string
	cpu, tail map[int]float64
	kind      Verdict // that is right
	procs     int
	edge      bool // the p99 is so near to its margin that some harm is allowed
}

var others = map[int]float64{1: 1.02, 3: 1.02, 4: 1.02}

// with is others with a setting of its own.
func with(procs int, cpu float64) map[int]float64 {
	m := map[int]float64{1: 1.02, 3: 1.02, 4: 1.02}
	m[procs] = cpu
	return m
}

var worlds = []world{
	{"a all equal", others, nil, Keep, 2, false},
	{"b p99 +77, CPU -10", with(1, 0.9), map[int]float64{1: 1.77}, Trade, 2, false},
	{"c CPU -15", with(1, 0.85), nil, Change, 1, false},
	{"d CPU -15, p99 +10", with(1, 0.85), map[int]float64{1: 1.1}, Change, 1, false},
	{"e both better", with(1, 0.85), map[int]float64{1: 0.7}, Change, 1, false},
	{"f 1 is worse", with(1, 1.1), map[int]float64{1: 1.5}, Keep, 2, false},
	{"g p99 +35, CPU -10", with(1, 0.9), map[int]float64{1: 1.35}, Trade, 2, false},
	{"h 4: p99 -45", others, map[int]float64{4: 0.55}, Change, 4, false},
	{"i p99 +26, CPU -10", with(1, 0.9), map[int]float64{1: 1.26}, Trade, 2, true},
}

// A burst is a time in which something else runs.
type burst struct {
	from, to float64
	tail     float64 // logarithm of what it makes of a p99
	cpu      float64 // and of CPU time
	shrinks  float64 // what is left of a difference in the tail
	use      float64 // CPUs
	stolen   float64
	unseen   bool
}

// A neighbour makes the bursts of a tune.
type neighbour struct {
	name  string
	makes func(*rand.Rand) []burst
	side  float64 // how much more the current setting suffers from it
}

// onAndOff is a neighbour that runs for 2 to 60 s, and then not, for some 30.
func onAndOff(shrinks float64, steals bool) func(*rand.Rand) []burst {
	return func(r *rand.Rand) (bursts []burst) {
		for at := r.ExpFloat64() * 30; at < 900; at += r.ExpFloat64() * 30 {
			lasts := 2 * math.Exp(r.Float64()*math.Log(30))
			b := burst{from: at, to: at + lasts, tail: math.Log(3) + r.Float64()*math.Log(8./3), cpu: 0.05, shrinks: shrinks, use: 0.3 + 1.2*r.Float64(), unseen: r.Float64() < 0.05}
			if steals {
				b.use, b.stolen = 0, 0.05+0.15*r.Float64()
				if b.stolen < 0.1 {
					b.shrinks = 1
				}
				b.tail /= 2
			}
			bursts = append(bursts, b)
			at += lasts
		}
		return bursts
	}
}

// always is a neighbour that runs until a time.
func always(until, shrinks float64) func(*rand.Rand) []burst {
	return func(r *rand.Rand) []burst {
		return []burst{{to: until, tail: math.Log(3) + r.Float64()*math.Log(8./3), cpu: 0.05, shrinks: shrinks, use: 0.5 + r.Float64()}}
	}
}

var neighbours = []neighbour{
	{"quiet", func(*rand.Rand) []burst { return nil }, 1},
	{"bursts", onAndOff(1, false), 1},
	{"bursts-compress", onAndOff(0.26, false), 1},
	{"bursts on one side", onAndOff(0.26, false), 1.5},
	{"start-compress", always(45, 0.26), 1},
	{"steal-compress", onAndOff(0.26, true), 1},
	{"constant-compress", always(2000, 0.26), 1},
}

// A simulated is a tune on a time axis.
type simulated struct {
	world
	neighbour
	tailNoise, cpuNoise float64
	budget              float64
	abreast             int // runs of a block that are made at the same time; 0: they take turns

	random *rand.Rand
	bursts []burst
	clock  float64
	lost   float64 // seconds of runs that were made again
	raced  int     // block of the race
	block  int     // of the latest run
	at     float64 // when it began
}

// window is how long a run measures.
func (s *simulated) window() float64 {
	if s.raced <= 3 {
		return firstWindow
	}
	return laterWindow
}

// meets is what of a run's window something else ran in: its effects, weighed by how much of the window they took, and when it began.
func (s *simulated) meets(from, lasts float64) (sum burst, disturbed bool, begins float64) {
	sum.shrinks, begins = 1, math.Inf(1)
	var use, stolen float64
	for _, b := range s.bursts {
		share := (min(b.to, from+lasts) - max(b.from, from)) / lasts
		if share <= 0 {
			continue
		}
		begins = min(begins, max(0, b.from-from))
		sum.tail += share * b.tail
		sum.cpu += share * b.cpu
		sum.shrinks -= share * (1 - b.shrinks)
		if !b.unseen {
			use += share * b.use
			stolen += share * b.stolen
		}
	}
	return sum, use > 0.15 || stolen > 0.04, begins
}

// run makes a run, and makes it again where something else ran, for at most half of the budget.
func (s *simulated) run(r TuneRun) TuneObservation {
	if r.Phase == Race {
		s.raced = r.Block
	}
	lasts := s.window()
	if s.abreast > 0 && r.Block == s.block { // it runs alongside those before it
		s.clock = s.at
	}
	for {
		s.block, s.at = r.Block, s.clock
		met, disturbed, begins := s.meets(s.clock+besideWindow, lasts)
		if cost := besideWindow + min(lasts, begins+1); disturbed && s.lost+cost <= s.budget/2 && s.clock+cost+besideWindow+lasts <= s.budget {
			s.lost += cost
			s.clock += cost
			continue
		}
		s.clock += besideWindow + lasts
		c := r.Candidate()
		// Half of the noise is that of the process, the other half that of the window.
		noise := func(sd float64) float64 {
			return s.alike() * sd * (s.random.NormFloat64() + s.random.NormFloat64()*math.Sqrt(laterWindow/lasts)) / math.Sqrt2
		}
		side := 1.0
		if c.Procs == 2 {
			side = s.side
		}
		tail := 0.05 * math.Exp(ratio(s.tail)(c)*met.shrinks+met.tail*side+noise(s.tailNoise))
		return TuneObservation{
			Run: r, Valid: true, SLOHeld: true, Disturbed: disturbed, Tail: tail, P99: 1.2 * tail * math.Exp(0.1*s.random.NormFloat64()),
			CPUPerRequest: 0.001 * math.Exp(ratio(s.cpu)(c)+met.cpu+noise(s.cpuNoise)), Throughput: 500,
			Room: max(1, int((s.budget-s.clock)/(besideWindow+laterWindow)*float64(max(1, s.abreast)))), Abreast: s.abreast,
		}
	}
}

// alike is what is left of the noise where runs meet the same moments of the machine.
func (s *simulated) alike() float64 {
	if s.abreast > 0 {
		return 0.5
	}
	return 1
}

func (s *simulated) tune(t testing.TB, seed uint64) (*Tune, TuneVerdict) {
	s.random = rand.New(rand.NewPCG(seed, 29))
	s.bursts, s.clock = s.makes(s.random), pilotTakes
	tune, err := NewTune(TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1, 2, 3, 4}, Exact: true, MaxBlocks: 1000, Seed: seed, Abreast: s.abreast})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, more := tune.Next()
		if beside := s.abreast > 0 && r.Block == s.block; !more || !beside && s.clock+besideWindow+s.window() > s.budget {
			return tune, tune.Verdict()
		}
		if err := tune.Observe(s.run(r)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTuneWorlds counts what tunes say of these worlds with these neighbours: what is right, what does harm, and how many of the intervals
// that are called ones of 95 % hold the truth.
func TestTuneWorlds(t *testing.T) {
	slowtest.Plain(t)
	noises, budgets := []float64{0.22}, []float64{120, 300}
	if *allWorlds {
		noises, budgets = []float64{0.1, 0.22, 0.37, 0.6}, []float64{60, 120, 180, 300, 600}
	}
	for _, noise := range noises {
		for _, budget := range budgets {
			for _, n := range neighbours {
				for _, w := range worlds {
					t.Run(fmt.Sprintf("%.2f, %.0f s, %s, %s", noise, budget, n.name, w.name), func(t *testing.T) {
						t.Parallel()
						simulateTunes(t, simulated{world: w, neighbour: n, tailNoise: noise, cpuNoise: 0.03, budget: budget})
					})
				}
			}
		}
	}
}

// TestTuneAbreast is the same of tunes whose runs are made at the same time: of all settings of a block, or of two, which all of them take part
// in by turns.
func TestTuneAbreast(t *testing.T) {
	slowtest.Plain(t)
	for _, abreast := range []int{2, 4} {
		for _, n := range []int{0, 2, 4} {
			for _, w := range worlds {
				t.Run(fmt.Sprintf("%d, %s, %s", abreast, neighbours[n].name, w.name), func(t *testing.T) {
					t.Parallel()
					simulateTunes(t, simulated{world: w, neighbour: neighbours[n], tailNoise: 0.22, cpuNoise: 0.03, budget: 180, abreast: abreast})
				})
			}
		}
	}
}

func simulateTunes(t *testing.T, of simulated) {
	counts, seconds, runs := map[string]int{}, []float64{}, 0
	for seed := range *worldTunes {
		s := of
		m, v := s.tune(t, uint64(seed))
		for _, standing := range m.Standings() {
			s.covered(counts, standing.Candidate, "setting", standing.Effects)
		}
		s.covered(counts, v.Leader, "leader", v.Effects)
		seconds, runs = append(seconds, s.clock), runs+v.Runs
		counts[string(v.Kind)]++
		counts[string(v.Reason)]++
		worse := ratio(s.tail)(Candidate{Procs: v.Leader.Procs})
		switch {
		case v.Kind == s.kind && (v.Kind != Change || v.Procs == s.procs):
			counts["right"]++
		case v.Kind == Change:
			counts["harm"]++
		case v.Kind == Trade && worse <= 0:
			counts["false trade"]++
		}
	}
	share := func(what string) float64 { return 100 * float64(counts[what]) / float64(*worldTunes) }
	slices.Sort(seconds)
	t.Logf("right %5.1f, harm %4.1f, false trade %4.1f, undecided %5.1f %%; %4.0f s, %4.1f runs%s",
		share("right"), share("harm"), share("false trade"), share("undecided"), seconds[len(seconds)/2], float64(runs)/float64(*worldTunes), said(counts))
	holds := func(of string) float64 { return 100 * float64(counts[of+" holds"]) / float64(counts[of+" intervals"]) }
	t.Logf("of %d intervals %.1f %% hold the truth, of the leaders' %d %.1f %%", counts["setting intervals"], holds("setting"), counts["leader intervals"], holds("leader"))
	for of, shown := range map[string]bool{"setting": true, "leader": of.kind != Keep} { // a leader where nothing is better is chance
		const least = 0.94
		if n := float64(counts[of+" intervals"]); shown && n >= float64(*worldTunes) && float64(counts[of+" holds"]) < least*n-3*math.Sqrt(least*(1-least)*n) {
			t.Errorf("of %v intervals of %ss %d hold the truth", n, of, counts[of+" holds"])
		}
	}
	allowed := 0.01
	if of.edge || of.kind == Keep {
		allowed = 0.02
	}
	if m := allowed * float64(*worldTunes); float64(counts["harm"]) > m+3*math.Sqrt(m) {
		t.Errorf("harm in %d of %d", counts["harm"], *worldTunes)
	}
}

// covered counts the 95 % intervals of a setting, and those that hold the truth.
func (s *simulated) covered(counts map[string]int, c Candidate, of string, effects []Effect) {
	for m, truth := range map[Metric]map[int]float64{P99: s.tail, CPU: s.cpu} {
		for _, e := range effects {
			if e.Metric != m || e.Hi == 0 {
				continue
			}
			counts[of+" intervals"]++
			if r := math.Exp(ratio(truth)(c)); e.Lo <= r && r <= e.Hi {
				counts[of+" holds"]++
			}
		}
	}
}

// said are the reasons by how often they were given.
func said(counts map[string]int) (text string) {
	for _, r := range []Reason{Better, Worsens, MayWorsen, Disturbed, NotShown, NoneBetter, Leads, NotDone} {
		if n := counts[string(r)]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, r)
		}
	}
	return text
}
