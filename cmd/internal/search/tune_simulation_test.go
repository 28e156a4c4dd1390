package search

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
)

var tunePrograms = flag.Int("tune-programs", 250, "how many programs of each kind to simulate")

// A program is synthetic: the true costs of its settings, and the noise of its runs.
type program struct {
	candidates    []int
	levers        []int
	current       int
	goDefault     int
	p99, cpu      func(Candidate) float64 // logarithms of the true values
	noiseP99      float64                 // standard deviation of the logarithm, within a block
	noiseCPU      float64
	tails         bool // Student's distribution with three degrees of freedom, else the normal one
	drift         float64
	invalid, slow float64 // probability that the generator is late; and that a neighbour makes all of a run twice as slow
	walk          float64
	random        *rand.Rand
	block         int
	phase         Phase
}

func (p *program) noise() float64 {
	z := p.random.NormFloat64()
	if p.tails {
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
	if r.Block != p.block || r.Phase != p.phase {
		p.block, p.phase = r.Block, r.Phase
		p.walk += p.drift * p.random.NormFloat64()
	}
	if p.random.Float64() < p.invalid {
		return TuneObservation{Run: r}
	}
	common, slow := p.noise(), 0.0
	if p.random.Float64() < p.slow {
		slow = math.Ln2
	}
	// Half of the variance of the two metrics' noise is common.
	own := func() float64 { return (common + p.noise()) / math.Sqrt2 }
	return TuneObservation{
		Run: r, Valid: true, SLOHeld: true,
		P99:           0.05 * math.Exp(p.p99(r.Candidate())+p.walk+p.noiseP99*own()+slow),
		CPUPerRequest: 0.001 * math.Exp(p.cpu(r.Candidate())+p.walk/5+p.noiseCPU*own()),
		Throughput:    500,
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
func programOf(random *rand.Rand, s shape, gap, sigma float64, tails bool, objective Metric) *program {
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
		p99: curve, cpu: curve, noiseP99: 0.45, noiseCPU: 0.04,
		tails: tails, drift: 0.2, invalid: 0.02, random: random,
	}
	if tails {
		p.slow = 0.02
	}
	switch objective {
	case P99:
		p.noiseP99 = sigma
	case CPU:
		p.noiseCPU = sigma
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
	p.p99 = p.cpu
}

type tally struct {
	searches, changes, changesDue, keeps, undecided int
	falseClaims                                     int // a change to what is not better, equal settings included
	good                                            int // what is advised is within 5 % of the best candidate
	runs, exhaustive                                int
}

func (p *program) tune(t testing.TB, c TuneConfig) (*Tune, TuneVerdict) {
	c.Current, c.GoDefault, c.Candidates, c.Levers = p.current, p.goDefault, p.candidates, p.levers
	tune, err := NewTune(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		r, ok := tune.Next()
		if !ok {
			return tune, tune.Verdict()
		}
		if err := tune.Observe(p.run(r)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the search has no end")
	return nil, TuneVerdict{}
}

func (s *tally) add(p *program, v TuneVerdict, truth func(Candidate) float64) {
	const beyond = 1e-9
	s.searches++
	s.runs += v.Runs
	s.exhaustive += len(p.candidates) * (1 + len(p.levers)) * (mostBlocks + v.Pairs)
	best := math.Inf(1)
	for _, procs := range p.candidates {
		for _, gogc := range append([]int{0}, p.levers...) {
			best = min(best, truth(Candidate{procs, gogc}))
		}
	}
	current, advised := truth(v.Current), truth(Candidate{v.Procs, v.GOGC})
	switch v.Kind {
	case Change:
		s.changes++
		if advised >= current-beyond {
			s.falseClaims++
		}
	case Keep:
		s.keeps++
	default:
		s.undecided++
	}
	if current-best > math.Log(1.05)+beyond {
		s.changesDue++
	}
	if advised-best <= math.Log(1.05)+beyond {
		s.good++
	}
}

// off is three standard errors of a count.
func (s *tally) off(rate float64) float64 {
	return 3 * math.Sqrt(rate*(1-rate)*float64(s.searches))
}

// TestTuneSimulation counts, over synthetic programs whose truth is known, how often a change is advised that is none for
// the better, and how often what is advised is within 5 % of the best. Blocks drift, and noise is normal or heavy-tailed.
func TestTuneSimulation(t *testing.T) {
	for k, kind := range []struct {
		name      string
		objective Metric
		sigma     float64
		gaps      []float64 // of the curve, as ratios
		good      float64   // at least
		lever     bool
	}{
		{"CPU", CPU, 0.04, []float64{1.1, 1.2, 1.5}, 0.98, false},
		{"CPU", CPU, 0.20, []float64{1.2, 1.5, 1.8}, 0.90, false},
		{"p99", P99, 0.45, []float64{1.8}, 0.90, false},
		{"auto", Auto, 0, []float64{1.1, 1.2, 1.5}, 0.98, false},
		{"CPU with GOGC", CPU, 0.04, []float64{1.1, 1.2, 1.5}, 0.98, true},
		{"CPU with GOGC", CPU, 0.20, []float64{1.2, 1.5, 1.8}, 0.90, true},
		{"p99 with GOGC", P99, 0.45, []float64{1.8}, 0.90, true},
		{"auto with GOGC", Auto, 0, []float64{1.1, 1.2, 1.5}, 0.98, true},
	} {
		var total tally
		programs, which := *tunePrograms, "all but flat"
		if kind.lever {
			programs, which = max(1, programs/2), "all shapes" // so that the test takes half as long again, not twice
		}
		for i, s := range shapes {
			for _, tails := range []bool{false, true} {
				random := rand.New(rand.NewPCG(uint64(100*k+i), 17))
				var one tally
				for n := range programs {
					gap := math.Log(kind.gaps[n%len(kind.gaps)])
					p := programOf(random, s, gap, kind.sigma, tails, kind.objective)
					if kind.lever {
						p.withLever(gap, n)
					}
					_, v := p.tune(t, TuneConfig{
						Objective: kind.objective, Seed: uint64(n),
						Noise: map[Metric]float64{P99: p.noiseP99, CPU: p.noiseCPU},
					})
					one.add(p, v, p.cpu)
				}
				t.Logf("%-4s σ %.2f %-8s tails %-5v: false claims %4.1f %%, within 5 %% of the best %5.1f %%; change %3.0f %% (due %3.0f %%), keep %3.0f %%, undecided %3.0f %%; %5.1f runs of %5.1f",
					kind.name, kind.sigma, s.name, tails, one.share(one.falseClaims), one.share(one.good), one.share(one.changes), one.share(one.changesDue),
					one.share(one.keeps), one.share(one.undecided), float64(one.runs)/float64(one.searches), float64(one.exhaustive)/float64(one.searches))
				if float64(one.falseClaims) > 0.025*float64(one.searches)+one.off(0.025) {
					t.Errorf("%d false claims in %d searches", one.falseClaims, one.searches)
				}
				if s.name == "flat" && !kind.lever { // where nothing can be missed; it would only make the figures below look better
					continue
				}
				total.sum(one)
			}
		}
		t.Logf("%-4s σ %.2f %s: false claims %.2f %%, within 5 %% of the best %.2f %%, %.2f of the runs of an exhaustive search",
			kind.name, kind.sigma, which, total.share(total.falseClaims), total.share(total.good), float64(total.runs)/float64(total.exhaustive))
		if float64(total.good) < kind.good*float64(total.searches)-total.off(kind.good) {
			t.Errorf("%s σ %v: within 5 %% of the best in %d of %d", kind.name, kind.sigma, total.good, total.searches)
		}
		if float64(total.falseClaims) > 0.025*float64(total.searches) {
			t.Errorf("%s σ %v: %d false claims in %d", kind.name, kind.sigma, total.falseClaims, total.searches)
		}
		if float64(total.runs) > 0.65*float64(total.exhaustive) {
			t.Errorf("%s σ %v: %d runs, an exhaustive search has %d", kind.name, kind.sigma, total.runs, total.exhaustive)
		}
	}
}

func (s *tally) share(n int) float64 { return 100 * float64(n) / float64(max(1, s.searches)) }

func (s *tally) sum(o tally) {
	s.searches += o.searches
	s.changes += o.changes
	s.changesDue += o.changesDue
	s.keeps += o.keeps
	s.undecided += o.undecided
	s.falseClaims += o.falseClaims
	s.good += o.good
	s.runs += o.runs
	s.exhaustive += o.exhaustive
}

// TestTuneOrderOfObjectives: with one P fewer the CPU a request is a fifth less, but p99 three times as high. Auto must not
// advise that, whichever of the two is the current setting: p99 comes first where it differs with confidence.
func TestTuneOrderOfObjectives(t *testing.T) {
	for _, current := range []int{1, 2} {
		random := rand.New(rand.NewPCG(uint64(current), 3))
		ones, twos := 0, 0
		for n := range *tunePrograms {
			p := &program{
				candidates: []int{1, 2, 4}, current: current, goDefault: 2, noiseP99: 0.45, noiseCPU: 0.04, drift: 0.2, random: random,
				p99: func(c Candidate) float64 { return map[int]float64{1: math.Log(3)}[c.Procs] },
				cpu: func(c Candidate) float64 { return map[int]float64{1: math.Log(0.8), 4: math.Log(1.1)}[c.Procs] },
			}
			_, v := p.tune(t, TuneConfig{Seed: uint64(n), Exact: true, Noise: map[Metric]float64{P99: 0.45, CPU: 0.04}})
			if v.Procs == 1 {
				ones++
			} else if v.Procs == 2 {
				twos++
			}
		}
		t.Logf("current %d: 1 is advised in %d, 2 in %d of %d", current, ones, twos, *tunePrograms)
		if most := *tunePrograms / 10; current == 2 && ones > most/2 || current == 1 && ones > 3*most {
			t.Errorf("current %d: 1 is advised in %d of %d", current, ones, *tunePrograms)
		}
	}
}
