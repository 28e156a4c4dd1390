package freeze

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

const ms = time.Millisecond

// A world is a program whose standstills are made up.
type world struct {
	wall   time.Duration
	period time.Duration
	frozen float64       // the mean share of a period that is frozen, with 30 % of scatter
	skip   float64       // the share of periods without a freeze
	late   time.Duration // mean of the exponential time from the refill until the program gets its CPU
	other  float64       // gaps a second because of other programs, at no rhythm
	long   time.Duration // their mean length

	offset time.Duration // of a second quota's refills; each lets it run for half of the time
}

func (w world) gaps(rng *rand.Rand) []Gap {
	var gaps []Gap
	if w.period > 0 {
		phase := time.Duration(rng.Int64N(int64(w.period)))
		for at := phase + w.period; at < w.wall; at += w.period {
			if rng.Float64() < w.skip {
				continue
			}
			if w.offset > 0 {
				run := func() time.Duration {
					return time.Duration((1 - w.frozen) / 2 * (0.7 + 0.6*rng.Float64()) * float64(w.period))
				}
				gaps = append(gaps, Gap{at + run(), at + w.offset + w.lateness(rng)}, Gap{at + w.offset + run(), at + w.period + w.lateness(rng)})
				continue
			}
			length := time.Duration(w.frozen * (0.7 + 0.6*rng.Float64()) * float64(w.period))
			late := min(w.lateness(rng), w.period-length)
			gaps = append(gaps, Gap{at - length, at + late})
		}
	}
	if w.other > 0 {
		for at := time.Duration(0); ; {
			at += time.Duration(rng.ExpFloat64() / w.other * float64(time.Second))
			end := at + 3*ms + time.Duration(rng.ExpFloat64()*float64(w.long))
			if end > w.wall {
				break
			}
			gaps = append(gaps, Gap{at, end})
		}
	}
	return gaps
}

func (w world) lateness(rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(w.late))
}

func (w world) truth() float64 {
	return w.frozen * (1 - w.skip)
}

// TestSimulation checks how often a cause is named in made-up worlds. A cause that a world must never have is not named in any of its runs.
func TestSimulation(t *testing.T) {
	slowtest.Plain(t)
	const runs = 200
	for i, tt := range []struct {
		name  string
		world world
		given bool
		want  Cause
		least int     // of the runs, so often
		never []Cause // not once
		off   float64 // the most by which Throttled may miss the truth on the mean
	}{
		{"quota half", world{wall: 5 * time.Second, period: 100 * ms, frozen: .5, late: ms / 2}, false, Throttled, runs, nil, .03},
		{"quota mild", world{wall: 5 * time.Second, period: 100 * ms, frozen: .1, late: ms / 2}, false, Throttled, runs, nil, .02},
		{"quota hard", world{wall: 5 * time.Second, period: 100 * ms, frozen: .75, late: ms / 2}, false, Throttled, runs, nil, .03},
		{"period 20", world{wall: 5 * time.Second, period: 20 * ms, frozen: .5, late: ms / 4}, false, Throttled, runs, nil, .05},
		{"period 50", world{wall: 5 * time.Second, period: 50 * ms, frozen: .3, late: ms / 2}, false, Throttled, runs, nil, .03},
		{"period 250", world{wall: 20 * time.Second, period: 250 * ms, frozen: .3, late: ms / 2}, false, Throttled, runs, nil, .03},
		{"period 10", world{wall: 5 * time.Second, period: 10 * ms, frozen: .5, late: ms / 10}, false, Throttled, runs, nil, .05},
		{"odd period", world{wall: 5 * time.Second, period: 37 * ms, frozen: .5, late: ms / 2}, false, Unsure, runs, []Cause{Contended, None}, 0},
		{"odd period given", world{wall: 5 * time.Second, period: 37 * ms, frozen: .5, late: ms / 2}, true, Throttled, runs, nil, .03},
		{"rare freezes", world{wall: 30 * time.Second, period: 100 * ms, frozen: .5, skip: .8, late: ms / 2}, false, Throttled, runs - 2, []Cause{Contended}, .02},
		{"very rare freezes", world{wall: 10 * time.Second, period: 100 * ms, frozen: .5, skip: .95, late: ms / 2}, false, Unsure, 0, []Cause{Contended}, 0},
		{"late", world{wall: 10 * time.Second, period: 100 * ms, frozen: .5, late: 4 * ms}, false, Throttled, runs, []Cause{Contended}, .06},
		{"one second", world{wall: time.Second, period: 100 * ms, frozen: .5, late: ms / 2}, false, Unsure, 0, []Cause{Contended, None}, 0},
		{"ten minutes", world{wall: 10 * time.Minute, period: 100 * ms, frozen: .3, late: ms / 2}, true, Throttled, runs, nil, .03},
		{"mixture", world{wall: 10 * time.Second, period: 100 * ms, frozen: .4, late: ms, other: 15, long: 6 * ms}, false, Throttled, runs, []Cause{Contended, None}, .05},
		{"mostly others", world{wall: 10 * time.Second, period: 100 * ms, frozen: .05, late: ms, other: 30, long: 6 * ms}, false, Unsure, 0, []Cause{None}, 0},
		{"others", world{wall: 10 * time.Second, other: 20, long: 10 * ms}, false, Contended, runs, []Cause{Throttled, Unsure}, 0},
		{"others, short", world{wall: 5 * time.Second, other: 60, long: ms}, false, Contended, runs, []Cause{Throttled}, 0},
		{"few others", world{wall: 5 * time.Second, other: 2, long: 60 * ms}, false, Unsure, 0, []Cause{Throttled}, 0},
		{"others, period given", world{wall: 10 * time.Second, period: 0, other: 10, long: 20 * ms}, true, Contended, runs, []Cause{Throttled}, 0},
		{"hardly any", world{wall: 10 * time.Second, other: .5, long: 2 * ms}, false, None, runs, []Cause{Throttled}, 0},
		{"nothing", world{wall: 10 * time.Second}, false, None, runs, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := runs
			if tt.world.wall > time.Minute {
				n = 10
			}
			rng := rand.New(rand.NewPCG(uint64(i), 6))
			count := map[Cause]int{}
			var sum float64
			for range n {
				var period time.Duration
				if tt.given {
					period = max(tt.world.period, 20*ms)
				}
				v := Find(tt.world.gaps(rng), Quotas{Period: period}).Judge(tt.world.wall, Kernel{})
				count[v.Cause]++
				sum += v.Throttled
			}
			if count[tt.want]*runs < tt.least*n {
				t.Errorf("%s in %d of %d runs, want %d: %v", tt.want, count[tt.want], n, tt.least, count)
			}
			for _, cause := range tt.never {
				if count[cause] > 0 {
					t.Errorf("%s in %d of %d runs: %v", cause, count[cause], n, count)
				}
			}
			if mean := sum / float64(n); tt.want == Throttled && math.Abs(mean-tt.world.truth()) > tt.off {
				t.Errorf("throttled for %.3f of the time, truth %.3f", mean, tt.world.truth())
			}
			t.Log(count)
		})
	}
}

// TestTwoQuotas: a pod's quota and its container's, one of which refills some time after the other. Where both are known, all of the time
// is theirs; where they are not, the verdict is neither that nothing stopped it nor that others did.
func TestTwoQuotas(t *testing.T) {
	slowtest.Plain(t)
	for offset := 15 * ms; offset <= 85*ms; offset += 5 * ms {
		for _, frozen := range []float64{.6, .8, .9} {
			if run := time.Duration((1 - frozen) / 2 * 1.3 * float64(100*ms)); run+3*ms > min(offset, 100*ms-offset) {
				continue
			}
			w := world{wall: 5 * time.Second, period: 100 * ms, frozen: frozen, late: ms / 2, offset: offset}
			for seed := range uint64(50) {
				rng := rand.New(rand.NewPCG(seed, 9))
				gaps := w.gaps(rng)
				known := Find(gaps, Quotas{100 * ms, 2})
				if v := known.Judge(w.wall, Kernel{Counts: true, Most: w.wall}); v.Cause != Throttled || v.Contended > 0 || v.Doubt != "" || math.Abs(v.Throttled-frozen) > .05 {
					t.Errorf("%v apart, %v frozen: %+v", offset, frozen, v)
				}
				for name, q := range map[string]Quotas{"one is seen": {100 * ms, 1}, "the period is known": {100 * ms, 0}, "nothing is known": {}} {
					if v := Find(gaps, q).Judge(w.wall, Kernel{}); v.Cause == Contended || v.Cause == None {
						t.Errorf("%v apart, %v frozen, %s: %+v", offset, frozen, name, v)
					}
				}
			}
		}
	}
}

// TestNoSecondQuota: two quotas are known, and the ends have one phase, or none. What others did stays theirs.
func TestNoSecondQuota(t *testing.T) {
	slowtest.Plain(t)
	for name, w := range map[string]world{
		"one quota":   {wall: 5 * time.Second, period: 100 * ms, frozen: .5, late: ms / 2},
		"late":        {wall: 10 * time.Second, period: 100 * ms, frozen: .5, late: 4 * ms},
		"a mixture":   {wall: 10 * time.Second, period: 100 * ms, frozen: .4, late: ms, other: 15, long: 6 * ms},
		"others":      {wall: 10 * time.Second, other: 20, long: 10 * ms},
		"few, long":   {wall: 10 * time.Second, other: 4, long: 60 * ms},
		"many, short": {wall: 5 * time.Second, other: 60, long: ms},
	} {
		for seed := range uint64(200) {
			gaps := w.gaps(rand.New(rand.NewPCG(seed, 10)))
			one, two := Find(gaps, Quotas{100 * ms, 1}), Find(gaps, Quotas{100 * ms, 2})
			if two.Offset != 0 || one.R != two.R {
				t.Errorf("%s, seed %d: %+v", name, seed, two)
			}
		}
	}
}

func TestSeen(t *testing.T) {
	level := func(quota, period int64) cgroup.Level {
		return cgroup.Level{Quota: cgroup.Quota{QuotaMicros: quota, PeriodMicros: period}}
	}
	for name, c := range map[string]struct {
		limits cgroup.Limits
		want   Quotas
	}{
		"none":      {cgroup.Limits{State: cgroup.None, Levels: []cgroup.Level{level(1, 1)}}, Quotas{}},
		"one":       {cgroup.Limits{State: cgroup.Limited, Levels: []cgroup.Level{level(-1, 50_000), level(50_000, 100_000), {}}}, Quotas{100 * ms, 1}},
		"inside":    {cgroup.Limits{State: cgroup.Limited, Levels: []cgroup.Level{{}, level(50_000, 100_000)}}, Quotas{100 * ms, 0}},
		"alike":     {cgroup.Limits{State: cgroup.Limited, Levels: []cgroup.Level{level(10_000, 20_000), level(5_000, 20_000)}}, Quotas{20 * ms, 2}},
		"different": {cgroup.Limits{State: cgroup.Limited, Levels: []cgroup.Level{level(10_000, 20_000), level(50_000, 100_000)}}, Quotas{0, 2}},
	} {
		if got := Seen(c.limits); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestWith(t *testing.T) {
	counted := func(own, local time.Duration) cgroup.Throttling {
		return cgroup.Throttling{Owner: cgroup.Counters{Known: true, Throttled: 1, ThrottledTime: own}, LocalKnown: local > 0, Local: local}
	}
	for name, c := range map[string]struct {
		seen int
		t    cgroup.Throttling
		want int
	}{
		"nothing":                  {0, cgroup.Throttling{}, 0},
		"one, by its count":        {1, counted(time.Second, time.Second), 1},
		"another above":            {1, counted(time.Second, 2*time.Second), 2},
		"another above an unknown": {0, counted(time.Second, 2*time.Second), 2},
		"two are seen":             {2, counted(time.Second, time.Second), 2},
		"no count of all levels":   {1, counted(time.Second, 0), 1},
	} {
		if got := (Quotas{100 * ms, c.seen}).With(c.t); got.Levels != c.want {
			t.Errorf("%s: %d, want %d", name, got.Levels, c.want)
		}
	}
}

// TestTurns: two programs take turns on a CPU, so the gaps of each have a rhythm. It isn't a quota's.
func TestTurns(t *testing.T) {
	for _, turns := range []struct{ own, other time.Duration }{{4 * ms, 4 * ms}, {4 * ms, 8 * ms}, {3 * ms, 3 * ms}, {4 * ms, 40 * ms}} {
		rng := rand.New(rand.NewPCG(1, 2))
		var gaps []Gap
		for at := time.Duration(0); at < 10*time.Second; at += turns.own + turns.other {
			if rng.Float64() < .05 {
				at += 4 * ms
			}
			gaps = append(gaps, Gap{at + turns.own, at + turns.own + turns.other})
		}
		r := Find(gaps, Quotas{})
		if v := r.Judge(10*time.Second, Kernel{}); v.Cause == Throttled {
			t.Errorf("%v: %s: %s", turns, v.Cause, v.Why)
		}
	}
}

// TestNeighbour: a program stands still while another group runs, from that one's refill until its quota is used up. Its ends scatter, its
// starts don't. However it looks, it is not called throttled; where the kernel or the starts show it, it is called contended.
func TestNeighbour(t *testing.T) {
	for _, scatter := range []time.Duration{0, ms, 2 * ms, 5 * ms, 10 * ms} {
		for _, own := range []struct {
			name   string
			kernel Kernel
			want   Cause
		}{
			{"the kernel counted no period", Kernel{Counts: true}, Contended},
			{"the kernel counted next to nothing", Kernel{Counts: true, Most: 20 * ms}, Contended},
			{"nobody counted", Kernel{}, Contended},
		} {
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 7))
				var gaps []Gap
				for at := 13 * ms; at < 5*time.Second; at += 100 * ms {
					length := 25*ms + time.Duration((2*rng.Float64()-1)*float64(scatter))
					gaps = append(gaps, Gap{at, at + length})
				}
				v := Find(gaps, Quotas{}).Judge(5*time.Second, own.kernel)
				if v.Cause == Throttled || v.Throttled > 0 {
					t.Fatalf("±%v, %s: %+v", scatter, own.name, v)
				}
				// With ends as sharp as the starts it can't be known; with ends anywhere there is no rhythm of a quota.
				if unclear := !own.kernel.Counts && (scatter < 2*ms || scatter > 5*ms); !unclear && v.Cause != own.want {
					t.Errorf("±%v, %s: %s (%s), want %s", scatter, own.name, v.Cause, v.Why, own.want)
				}
				if v.Cause == Contended && !own.kernel.Counts && v.Neighbour && v.Doubt == "" {
					t.Errorf("±%v, %s: sure, by the edges alone", scatter, own.name)
				}
			}
		}
	}
}

// TestLateNeighbour: the neighbour has to wait for its start, and its quota ends at a tick of 4 ms. So what waits for it begins to
// stand still at no phase, and ends at one. It is not surely called throttled.
func TestLateNeighbour(t *testing.T) {
	for _, late := range []time.Duration{ms / 2, ms, 2 * ms} {
		for _, scatter := range []time.Duration{0, ms, 2 * ms} {
			for seed := range uint64(80) {
				rng := rand.New(rand.NewPCG(seed, 8))
				first := 12*ms + time.Duration(seed%8)*ms/2
				var gaps []Gap
				for at := first; at < 6*time.Second; at += 100 * ms {
					start := at + time.Duration(rng.ExpFloat64()*float64(late))
					end := start + 25*ms + time.Duration((2*rng.Float64()-1)*float64(scatter))
					gaps = append(gaps, Gap{start, (end + 4*ms - 1) / (4 * ms) * (4 * ms)})
				}
				r := Find(gaps, Quotas{})
				if v := r.Judge(6*time.Second, Kernel{}); v.Cause == Throttled && v.Doubt == "" {
					t.Errorf("late by %v, ±%v, seed %d: sure, with a lead of %.2f: %s", late, scatter, seed, r.lead(), v.Why)
				}
			}
		}
	}
}

// TestCounted: what the kernel counted has the last word.
func TestCounted(t *testing.T) {
	group := func(throttled int64, time time.Duration) cgroup.Throttling {
		return cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 100, Throttled: throttled, ThrottledTime: time}}
	}
	local := group(0, 0)
	local.LocalKnown, local.Local = true, time.Second
	never := group(0, 0)
	never.LocalKnown = true
	for name, c := range map[string]struct {
		state  cgroup.State
		levels int
		t      cgroup.Throttling
		want   Kernel
	}{
		"nothing":                    {cgroup.Unknown, 0, cgroup.Throttling{}, Kernel{}},
		"a limit that holds":         {cgroup.Limited, 1, group(90, time.Minute), Kernel{Counts: true, Most: time.Minute}},
		"one of two that hold":       {cgroup.Limited, 2, group(90, time.Minute), Kernel{Counts: true, Most: math.MaxInt64}},
		"two, and both are counted":  {cgroup.Limited, 2, local, Kernel{Counts: true, Most: time.Second}},
		"a limit that does not":      {cgroup.Limited, 1, group(0, 0), Kernel{}},
		"nor one above":              {cgroup.Limited, 1, never, Kernel{Counts: true}},
		"none here, above not known": {cgroup.None, 0, group(0, 0), Kernel{}},
		"none here nor above":        {cgroup.None, 0, never, Kernel{Counts: true}},
		"one above":                  {cgroup.Hidden, 0, local, Kernel{Counts: true, Most: time.Second}},
	} {
		if got := Counted(c.state, c.levels, c.t); got != c.want || got.Never() != (c.want == Kernel{Counts: true}) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	w := world{wall: 5 * time.Second, period: 100 * ms, frozen: .5, late: ms / 2}
	r := Find(w.gaps(rand.New(rand.NewPCG(1, 2))), Quotas{})
	if v := r.Judge(w.wall, Kernel{Counts: true, Most: time.Second}); v.Cause != Throttled || v.Throttled != 0.2 || v.Contended < 0.25 {
		t.Errorf("a fifth of the time by the kernel: %+v", v)
	}
}

func TestCutAll(t *testing.T) {
	r := Rhythm{Period: 100 * ms, Phase: 0, Window: 4 * ms}
	got := r.CutAll([]Gap{
		{30 * ms, 101 * ms},  // until the refill
		{130 * ms, 220 * ms}, // past it
		{225 * ms, 240 * ms}, // without one
		{330 * ms, 615 * ms}, // past three: the middle ones count only as much as gaps mostly take
		{640 * ms, 700 * ms}, // until the refill
		{1000 * ms, 1099 * ms},
	})
	want := []Gap{
		{30 * ms, 101 * ms}, {130 * ms, 200 * ms}, {330 * ms, 400 * ms}, {429 * ms, 500 * ms}, {529 * ms, 600 * ms}, {640 * ms, 700 * ms}, {1000 * ms, 1099 * ms},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got := (Rhythm{}).CutAll(want); !slices.Equal(got, want) {
		t.Errorf("without a rhythm: %v", got)
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name   string
		period time.Duration
		ends   []time.Duration
		want   string
	}{
		{"none", 0, nil, "0s 0s 0.00 0.00"},
		{"one", 100 * ms, []time.Duration{130 * ms}, "100ms 30ms 1.00 1.00"},
		// The mean of 30, 31, 32 is the phase; 85 is a quarter of the gap time. |3 near + 1 at 54 ms later| ÷ 4 ≈ 0.51.
		{"three of four", 100 * ms, []time.Duration{130 * ms, 231 * ms, 332 * ms, 485 * ms}, "100ms 31ms 0.51 0.75"},
		{"across the edge", 100 * ms, []time.Duration{199 * ms, 301 * ms, 399 * ms, 501 * ms}, "100ms 0s 1.00 1.00"},
	} {
		var gaps []Gap
		for _, end := range tt.ends {
			gaps = append(gaps, Gap{end - 10*ms, end})
		}
		r := Find(gaps, Quotas{Period: tt.period})
		if got := fmt.Sprintf("%v %v %.2f %.2f", r.Period, r.Phase, r.R, r.Locked); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestEnds(t *testing.T) {
	r := Rhythm{Period: 100 * ms, Phase: 98 * ms, Window: 4 * ms}
	for end, want := range map[time.Duration]bool{
		94 * ms: true, 93 * ms: false, 102 * ms: true, 103 * ms: false, 1000 * ms: true, 1050 * ms: false, 0: true,
	} {
		if got := r.Ends(Gap{End: end}); got != want {
			t.Errorf("a gap that ends at %v: %v", end, got)
		}
	}
	if (Rhythm{}).Ends(Gap{}) {
		t.Error("without a rhythm a gap ends at its phase")
	}
}

// FuzzFind: for any gaps, the numbers are numbers.
func FuzzFind(f *testing.F) {
	f.Add(int64(0), int64(1), int64(5), int64(9), int64(0), 0)
	f.Add(int64(-5), int64(-1), int64(1<<60), int64(1<<61), int64(1), 2)
	f.Fuzz(func(t *testing.T, a, b, c, d, period int64, levels int) {
		r := Find([]Gap{{time.Duration(a), time.Duration(b)}, {time.Duration(c), time.Duration(d)}}, Quotas{time.Duration(period), levels})
		v := r.Judge(time.Second, Kernel{})
		for _, x := range []float64{r.R, r.Luck, r.Locked, r.Weight, v.Throttled, v.Contended, r.Refills(), r.Chance()} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("%+v %+v", r, v)
			}
		}
	})
}

func TestFullHost(t *testing.T) {
	for _, c := range []struct {
		inUse float64
		cpus  int
		want  bool
	}{{1.7, 2, true}, {1.69, 2, false}, {2.1, 2, true}, {0, 2, false}, {0, 0, false}, {164, 192, true}} {
		if got := FullHost(c.inUse, c.cpus); got != c.want {
			t.Errorf("%v of %d CPUs: %v", c.inUse, c.cpus, got)
		}
	}
}
