package search

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

var tunePrograms = flag.Int("tune-programs", 100, "how many programs of each kind to simulate; 600 for figures")

// The noise of a run of a server, as it was measured: the standard deviation of the logarithm, within a block. The p99 of
// the window has 0.37 and its seconds' geometric mean, which settings are compared by, 0.22 (the built-in server at 85 % of
// a limit of 1 CPU); CPU per request 0.02 to 0.04. A search knows none of it.
const (
	simulatedTail   = 0.22
	simulatedWindow = 0.30 // of the p99 of the window, besides that of its seconds: 0.37 in all
	simulatedCPU    = 0.03
)

// A program is synthetic: the true costs of its settings, and the noise of its runs.
type program struct {
	candidates []int
	levers     []int
	exact      bool
	current    int
	goDefault  int
	tail, cpu  func(Candidate) float64 // logarithms of the true values
	errors     map[int]float64         // share of the requests that fail, by GOMAXPROCS
	noiseTail  float64
	noiseCPU   float64
	heavy      bool    // Student's distribution with three degrees of freedom, else the normal one
	wild       float64 // times the noise with all settings but the current one; 0: the same
	drift      float64 // from block to block
	invalid    float64 // probability that a run is not valid
	early      float64 // times the noise in the first two blocks; 0: the same
	slow       float64 // probability that a neighbour makes all of a run twice as slow
	walk       float64
	room       int // runs that there is time for; 0: as many as it takes
	random     *rand.Rand
	block      int
}

func (p *program) noise() float64 {
	z := p.random.NormFloat64()
	if p.heavy {
		var chi float64
		for range 3 {
			x := p.random.NormFloat64()
			chi += x * x
		}
		z /= math.Sqrt(chi) // its variance is 3, and χ²/3 is under the root: so this has variance 1
	}
	return z
}

func (p *program) run(r TuneRun) TuneObservation {
	if r.Block != p.block {
		p.block = r.Block
		p.walk += p.drift * p.random.NormFloat64()
	}
	if p.random.Float64() < p.invalid {
		return TuneObservation{Run: r}
	}
	common, slow, times := p.noise(), 0.0, 1.0
	if p.random.Float64() < p.slow {
		slow = math.Ln2
	}
	if p.wild > 0 && r.Procs != p.current {
		times = p.wild
	}
	if p.early > 0 && r.Block <= 2 {
		times = p.early
	}
	// A quarter of the variance of the two metrics' noise is common.
	own := func() float64 { return times * (common + math.Sqrt(3)*p.noise()) / 2 }
	share := p.errors[r.Procs]
	if share > 0 {
		const requests = 3000
		share = max(0, share+math.Sqrt(share*(1-share)/requests)*p.random.NormFloat64())
	}
	tail := 0.05 * math.Exp(p.tail(r.Candidate())+p.walk+p.noiseTail*own()+slow)
	return TuneObservation{
		Run: r, Valid: true, SLOHeld: true, ErrorShare: share,
		Tail: tail, P99: 1.2 * tail * math.Exp(simulatedWindow*p.noise()),
		CPUPerRequest: 0.001 * math.Exp(p.cpu(r.Candidate())+p.walk/5+p.noiseCPU*own()+slow/10),
		Throughput:    500,
	}
}

func (p *program) tune(t testing.TB, c TuneConfig) (*Tune, TuneVerdict) {
	c.Current, c.GoDefault, c.Candidates, c.Levers, c.Exact = p.current, p.goDefault, p.candidates, p.levers, c.Exact || p.exact
	tune, err := NewTune(c)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 5000; n++ {
		r, ok := tune.Next()
		if !ok || p.room > 0 && n > p.room {
			return tune, tune.Verdict()
		}
		o := p.run(r)
		if p.room > 0 {
			o.Room = max(1, p.room-n)
		}
		if err := tune.Observe(o); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the search has no end")
	return nil, TuneVerdict{}
}

// A truth is what a program does with GOMAXPROCS=1 and 4, as ratios to what it does with 2, which it has now.
type truth struct {
	name   string
	cpu    map[int]float64
	tail   map[int]float64
	errors map[int]float64 // shares of requests that fail
	kind   Verdict         // that is right
	procs  int             // to run with
}

var truths = []truth{
	{"CPU −12 %, p99 ×2.6", map[int]float64{1: 0.88, 4: 1.02}, map[int]float64{1: 2.6}, nil, Trade, 2},
	{"CPU −12 %, p99 ×1.5", map[int]float64{1: 0.88, 4: 1.02}, map[int]float64{1: 1.5}, nil, Trade, 2},
	{"CPU −12 %, p99 ×1.3", map[int]float64{1: 0.88, 4: 1.02}, map[int]float64{1: 1.3}, nil, Trade, 2},
	{"CPU −30 %, p99 ×0.6", map[int]float64{1: 0.7, 4: 1.02}, map[int]float64{1: 0.6}, nil, Change, 1},
	{"CPU −30 %, p99 ×1", map[int]float64{1: 0.7, 4: 1.02}, nil, nil, Change, 1},
	{"4: CPU +2 %, p99 ×0.5", map[int]float64{1: 1.1, 4: 1.02}, map[int]float64{1: 1.2, 4: 0.5}, nil, Change, 4},
	{"all equal", nil, nil, nil, Keep, 2},
	{"CPU −30 %, 0.5 % fail", map[int]float64{1: 0.7, 4: 1.02}, map[int]float64{1: 0.9}, map[int]float64{1: 0.005}, Trade, 2},
	{"CPU −30 %, 0.5 % always fail", map[int]float64{1: 0.7, 4: 1.02}, map[int]float64{1: 0.6}, map[int]float64{1: 0.005, 2: 0.005, 4: 0.005}, Change, 1},
}

func ratio(of map[int]float64) func(Candidate) float64 {
	return func(c Candidate) float64 {
		if r := of[c.Procs]; r > 0 {
			return math.Log(r)
		}
		return 0
	}
}

// TestTuneTruths counts, over these truths, what a search says at the noise that was measured: what is right, and what
// does harm, which is a change to a setting whose p99 is truly higher by more than the tail's margin, that fails more
// requests, or that is not better in anything.
func TestTuneTruths(t *testing.T) {
	slowtest.Plain(t)
	for _, kind := range []struct {
		name           string
		tail, cpu      float64
		heavy          bool
		wild           float64
		slow           float64
		invalid, right float64
		runs           float64
		room           int
		early          float64
	}{
		{"as measured", simulatedTail, simulatedCPU, false, 0, 0, 0.02, 0.88, 19, 0, 0},
		{"heavy tails", simulatedTail, simulatedCPU, true, 0, 0.02, 0.02, 0.86, 19, 0, 0},
		{"one run of ten has a neighbour", simulatedTail, simulatedCPU, false, 0, 0.1, 0.02, 0, 25, 0, 0},
		{"a fifth of the runs is void", simulatedTail, simulatedCPU, false, 0, 0, 0.2, 0.86, 23, 0, 0},
		{"at half of the limit", 0.08, 0.02, false, 0, 0, 0.02, 0.95, 13, 0, 0},
		{"by the p99 of windows", 0.37, 0.04, false, 0, 0, 0.02, 0, 25, 0, 0},
		{"twice the noise with the others", simulatedTail, simulatedCPU, false, 2, 0, 0.02, 0, 25, 0, 0},
		{"time for 12 runs", simulatedTail, simulatedCPU, false, 0, 0, 0.02, 0.5, 12, 12, 0},
		{"time for 16 runs", simulatedTail, simulatedCPU, false, 0, 0, 0.02, 0.65, 16, 16, 0},
		{"time for 22 runs", simulatedTail, simulatedCPU, false, 0, 0, 0.02, 0.78, 22, 22, 0},
		{"a busy first minute", simulatedTail, simulatedCPU, false, 0, 0, 0.02, 0.5, 30, 30, 4},
		{"a noisy machine, time for 22 runs", 0.5, 0.1, true, 0, 0.1, 0.02, 0.3, 22, 22, 0},
	} {
		rightAll, runsAll, counted := 0.0, 0.0, 0
		for i, truth := range truths {
			random := rand.New(rand.NewPCG(uint64(i), 23))
			said, right, harm, runs := map[Verdict]int{}, 0, 0, 0
			n := *tunePrograms
			for seed := range n {
				p := &program{
					candidates: []int{1, 2, 4}, exact: true, current: 2, goDefault: 2, tail: ratio(truth.tail), cpu: ratio(truth.cpu),
					noiseTail: kind.tail, noiseCPU: kind.cpu, heavy: kind.heavy, wild: kind.wild, drift: 0.2, invalid: kind.invalid, slow: kind.slow, room: kind.room, early: kind.early, errors: truth.errors, random: random,
				}
				_, v := p.tune(t, TuneConfig{Seed: uint64(seed)})
				said[v.Kind]++
				runs += v.Runs
				if v.Kind == truth.kind && v.Procs == truth.procs {
					right++
				}
				if c := v.Leader; v.Kind == Change && (p.tail(c) > math.Log(1.25) || p.tail(c) >= 0 && p.cpu(c) >= 0 || p.errors[c.Procs] > p.errors[2]) {
					harm++
				}
			}
			of := func(k int) float64 { return 100 * float64(k) / float64(n) }
			t.Logf("%-32s %-22s right %5.1f %%, harm %4.1f %%; change %5.1f, trade %5.1f, keep %5.1f, undecided %5.1f %%; %4.1f runs",
				kind.name, truth.name, of(right), of(harm), of(said[Change]), of(said[Trade]), of(said[Keep]), of(said[Undecided]), float64(runs)/float64(n))
			if truth.errors == nil { // the others are for the harm
				counted += n
				rightAll += float64(right)
				runsAll += float64(runs)
			}
			const allowed = 0.02
			if float64(harm) > allowed*float64(n)+3*math.Sqrt(allowed*float64(n)) {
				t.Errorf("%s, %s: harm in %d of %d", kind.name, truth.name, harm, n)
			}
		}
		rightAll, runsAll = rightAll/float64(counted), runsAll/float64(counted)
		t.Logf("%-32s right %.1f %%, %.1f runs", kind.name, 100*rightAll, runsAll)
		if off := 2 * math.Sqrt(0.25/float64(counted)); rightAll < kind.right-off || runsAll > kind.runs*1.05 {
			t.Errorf("%s: right in %.1f %%, with %.1f runs", kind.name, 100*rightAll, runsAll)
		}
	}
}

// A shape is a curve over GOMAXPROCS: the logarithm of the true cost, with the best at 0.
type shape struct {
	name  string
	curve func(best int, gap float64, procs int) float64
}

// The gap is by how much the next power of two, or so, is worse.
var shapes = []shape{
	{"flat", func(int, float64, int) float64 { return 0 }},
	{"unimodal", func(best int, gap float64, procs int) float64 {
		return gap * math.Abs(math.Log2(float64(procs)/float64(best)))
	}},
	{"rising", func(_ int, gap float64, procs int) float64 { return gap * math.Log2(float64(procs)) }},
	{"falling", func(_ int, gap float64, procs int) float64 { return gap * math.Log2(64/float64(procs)) }},
	{"one best", func(best int, gap float64, procs int) float64 {
		if procs != best {
			return gap
		}
		return 0
	}},
	{"step", func(best int, gap float64, procs int) float64 {
		if procs > best {
			return gap
		}
		return 0
	}},
}

// programOf makes one: a limit of half a CPU to six, on eight to sixty-four CPUs, and a current setting that is any of the
// candidates.
func programOf(random *rand.Rand, s shape, gap float64, heavy bool) *program {
	limit := []float64{0.5, 1, 1.5, 2, 3, 4, 6}[random.IntN(7)]
	cpus := []int{8, 16, 64}[random.IntN(3)]
	goDefault := max(2, int(math.Ceil(limit)))
	all := Candidates(limit, cpus, 0, goDefault)
	current := []int{goDefault, cpus, all[random.IntN(len(all))]}[random.IntN(3)]
	candidates := Candidates(limit, cpus, current, goDefault)
	best := candidates[random.IntN(len(candidates))]
	curve := func(c Candidate) float64 { return s.curve(best, gap, c.Procs) }
	p := &program{
		candidates: candidates, current: current, goDefault: goDefault,
		tail: curve, cpu: curve, noiseTail: simulatedTail, noiseCPU: simulatedCPU,
		heavy: heavy, drift: 0.2, invalid: 0.02, random: random,
	}
	if heavy {
		p.slow = 0.02
	}
	return p
}

// withLever gives the program a GOGC to try. A quarter of the programs doesn't care for it, one is the worse for it, and two
// are the better, by as much as by the next GOMAXPROCS: in one of these the gains of both add up, and in the other they are
// the same gain, as both save the collector's work, so that the larger of the two is all that there is.
func (p *program) withLever(gap float64, kind int) {
	p.levers = []int{800}
	curve, current := p.cpu, p.cpu(Candidate{Procs: p.current})
	p.cpu = func(c Candidate) float64 {
		cost := curve(c)
		switch {
		case c.GOGC == 0 || kind%4 == 0:
			return cost
		case kind%4 == 1:
			return cost + gap
		case kind%4 == 2:
			return cost - gap
		}
		return min(cost, max(cost, current)-gap)
	}
	p.tail = p.cpu
}

type tally struct{ searches, changes, due, keeps, trades, undecided, harm, good, runs int }

func (s *tally) add(p *program, v TuneVerdict) {
	const beyond = 1e-9
	s.searches++
	s.runs += v.Runs
	best := math.Inf(1)
	for _, procs := range p.candidates {
		for _, gogc := range append([]int{0}, p.levers...) {
			best = min(best, p.cpu(Candidate{Procs: procs, GOGC: gogc}))
		}
	}
	advised := Candidate{Procs: v.Procs, GOGC: v.GOGC}
	switch v.Kind {
	case Change:
		s.changes++
		if p.cpu(advised) >= p.cpu(v.Current)-beyond {
			s.harm++
		}
	case Keep:
		s.keeps++
	case Trade:
		s.trades++
	default:
		s.undecided++
	}
	if p.cpu(v.Current)-best > math.Log(1.05)+beyond {
		s.due++
	}
	if p.cpu(advised)-best <= math.Log(1.05)+beyond {
		s.good++
	}
}

func (s *tally) sum(o tally) {
	s.searches += o.searches
	s.changes += o.changes
	s.due += o.due
	s.keeps += o.keeps
	s.trades += o.trades
	s.undecided += o.undecided
	s.harm += o.harm
	s.good += o.good
	s.runs += o.runs
}

func (s *tally) share(n int) float64 { return 100 * float64(n) / float64(max(1, s.searches)) }

// TestTuneShapes counts, over programs with five to eight candidates whose curves have six shapes, how often a change is advised that isn't
// one for the better, and how often what is advised is within 5 % of the best.
func TestTuneShapes(t *testing.T) {
	slowtest.Plain(t)
	for k, kind := range []struct {
		name      string
		objective Metric
		lever     bool
		good      float64
		runs      float64
	}{
		{"auto", Auto, false, 0.94, 22},
		{"CPU", CPU, false, 0.94, 22},
		{"auto with GOGC", Auto, true, 0.90, 30},
	} {
		var total tally
		for i, s := range shapes {
			for _, heavy := range []bool{false, true} {
				random := rand.New(rand.NewPCG(uint64(100*k+i), 17))
				gaps := []float64{1.1, 1.2, 1.5}
				var one tally
				for n := range *tunePrograms / 2 {
					gap := math.Log(gaps[n%len(gaps)])
					p := programOf(random, s, gap, heavy)
					if kind.lever {
						p.withLever(gap, n)
					}
					_, v := p.tune(t, TuneConfig{Objective: kind.objective, Seed: uint64(n)})
					one.add(p, v)
				}
				t.Logf("%-15s %-8s heavy %-5v: harm %4.1f %%, within 5 %% of the best %5.1f %%; change %3.0f %% (due %3.0f %%), keep %3.0f %%, trade %3.0f %%, undecided %3.0f %%; %5.1f runs",
					kind.name, s.name, heavy, one.share(one.harm), one.share(one.good), one.share(one.changes), one.share(one.due),
					one.share(one.keeps), one.share(one.trades), one.share(one.undecided), float64(one.runs)/float64(one.searches))
				if allowed := 0.02 * float64(one.searches); float64(one.harm) > allowed+3*math.Sqrt(allowed) {
					t.Errorf("%s, %s: harm in %d of %d", kind.name, s.name, one.harm, one.searches)
				}
				total.sum(one)
			}
		}
		runs := float64(total.runs) / float64(total.searches)
		t.Logf("%-15s harm %.2f %%, within 5 %% of the best %.2f %%, %.1f runs", kind.name, total.share(total.harm), total.share(total.good), runs)
		if total.share(total.good) < 100*kind.good-2 || runs > 1.05*kind.runs {
			t.Errorf("%s: within 5 %% of the best in %.1f %%, with %.1f runs", kind.name, total.share(total.good), runs)
		}
	}
}
