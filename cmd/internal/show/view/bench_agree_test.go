package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// drawBench is the document of a bench whose settings differ by chance: of a server, of a program with a figure, or of two builds.
func drawBench(random *rand.Rand) *report.Bench {
	pick := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	blocks, noise := int(pick(1, 5, 10, 10, 20)), pick(0.003, 0.01, 0.02, 0.1, 0.5)
	alike := random.IntN(3) == 0
	factors, failing, errors := map[string]float64{}, map[int]float64{}, map[int]float64{}
	for _, p := range []int{0, 1, 4} {
		failing[p], errors[p] = pick(0, 0, 0, 0, 0, 0, 0, 0, 0.2, 1), pick(0, 0, 0, 0, 0.3, 4)
	}
	change := func(m map[string]float64, p int, unit string) {
		key := fmt.Sprint(unit, p)
		if alike {
			factors[key] = 1
		} else if factors[key] == 0 {
			factors[key] = pick(0.5, 0.9, 0.97, 1, 1, 1, 1.03, 1.1, 2.2)
		}
		if v, ok := m[unit]; ok {
			m[unit] = v * factors[key] * math.Exp(noise*random.NormFloat64())
		}
	}
	fail := func(p int, r *lab.Run) {
		switch x := random.Float64(); {
		case x < failing[p]:
			r.Error, r.Metrics = "exit status 2", nil
		case x > 0.95:
			r.Marks = []string{lab.MarkOthers + " 0.6 CPUs"}
		}
	}
	var s *lab.Study
	switch random.IntN(4) {
	case 0:
		s = servedStudy(blocks, func(p int, m map[string]float64) {
			for _, unit := range []string{"tail-latency-ns", "p99-latency-ns", "cpu-ns/req"} {
				change(m, p, unit)
			}
			m["errors-%"] = errors[p]
		})
		for i := range s.Runs {
			fail(s.Plan.Settings[s.Runs[i].Setting].Procs, &s.Runs[i])
		}
	case 1:
		s = buildsStudy([]string{"price.BenchmarkOf", "cart.BenchmarkAdd", "cart.BenchmarkClear", "price.BenchmarkSum"}[:1+random.IntN(4)], nil)
		for i := range s.Runs {
			r := &s.Runs[i]
			change(r.Metrics, r.Setting%2, "ns/op")
			change(r.Metrics, r.Setting%2, "cpu-ns/op")
			fail(r.Setting%2, r)
		}
		if random.IntN(3) == 0 {
			s.Runs = s.Runs[:1+random.IntN(len(s.Runs))]
		}
	default:
		figure := []lab.Metric{nsPerOp, opsPerSec}[random.IntN(2)]
		s = study("garbage", figure, pick(0.5, 1, 4), []int{0, 1, 4}[:1+random.IntN(3)], blocks, func(p int, r *lab.Run) {
			change(r.Metrics, p, figure.Unit)
			fail(p, r)
		})
		if random.IntN(3) == 0 { // the limits differ
			for i := range s.Plan.Settings {
				s.Plan.Settings[i].Procs, s.Plan.Settings[i].CPUs = 2, float64(1+i)
			}
			s.Plan.Compare = lab.ByCPUs
		}
	}
	if random.IntN(3) == 0 {
		s.Plan.Blocks += 5 // it was interrupted
	}
	return report.NewBench(s)
}

// TestBenchAgrees draws random benches: no sentence of one denies another, nor the figures next to it.
func TestBenchAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	claims := map[lab.ClaimKind]int{}
	for range 1500 {
		d := drawBench(random)
		text := drawn(t, Bench(d), 0)
		bad := contradictions(text)
		for i := range d.Groups {
			claims[d.Groups[i].Claim]++
			bad = append(bad, benchContradictions(&d.Groups[i])...)
		}
		if len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, text)
		}
	}
	for _, claim := range []lab.ClaimKind{lab.Set, lab.Keep, lab.Trade, lab.Undecided, lab.TooFew, lab.Failed, lab.Alone, lab.Better, lab.Worse, lab.NoWorse} {
		if claims[claim] < 5 {
			t.Errorf("only %d are %s", claims[claim], claim)
		}
	}
}

var (
	signedShare = regexp.MustCompile(`(?:[+−][\d.,]+(?: %)?|[\d.]+×?) to [+−]?[\d.,]+(?: %|×)|[+−][\d.,]+ %|[\d.]+×`)
	noWorthy    = regexp.MustCompile(`with (.*?) there is no worthwhile difference`)
)

// benchContradictions are what a group's sentences say that its rows do not.
func benchContradictions(g *report.BenchGroup) (bad []string) {
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	said := g.Advice + " " + strings.Join(g.Also, " ")
	var shown []string
	for _, s := range g.Settings {
		for _, c := range []*report.BenchComparison{s.Versus, s.CostVersus, s.WholeVersus} {
			if c != nil {
				low, high, _ := strings.Cut(strings.TrimSuffix(c.Interval(), " %"), " to ")
				shown = append(shown, c.Change, c.Interval(), low+" %", high+" %")
			}
		}
	}
	for _, share := range signedShare.FindAllString(said, -1) {
		if !slices.Contains(shown, share) {
			wrong("%q says %s, which no row does: %q", said, share, shown)
		}
	}
	better := func(s report.BenchRow) (is, not bool) {
		for _, c := range []*report.BenchComparison{s.Versus, s.CostVersus} {
			is, not = is || c != nil && c.Better(), not || c != nil && c.Worse()
		}
		return is, not
	}
	for i, s := range g.Settings {
		is, not := better(s)
		switch {
		case g.Claim == lab.Set && g.Best != nil && *g.Best == i && (!is || not):
			wrong("%q, and %s is better: %v, worse: %v", said, s.Name, is, not)
		case g.Claim == lab.Keep && is && !not && i > 0 && !s.Failing:
			wrong("%q, and %s is better", said, s.Name)
		}
	}
	if m := noWorthy.FindStringSubmatch(said); m != nil {
		for _, name := range regexp.MustCompile(`, | and `).Split(m[1], -1) {
			for _, s := range g.Settings {
				if s.Name == name && s.Versus.Verdict != sample.VerdictSame {
					wrong("%q, and %s is %s", said, name, s.Versus.Verdict)
				}
			}
		}
	}
	if text, _, ok := strings.Cut(said, " more block"); ok && g.Claim == lab.TooFew {
		words := strings.Fields(text)
		n, most := 0, 0
		n, _ = strconv.Atoi(words[len(words)-1])
		for _, s := range g.Settings {
			for _, c := range []*report.BenchComparison{s.Versus, s.CostVersus} {
				if c != nil {
					most = max(most, c.Missing)
				}
			}
		}
		if n != most {
			wrong("%q, and the rows want %d", said, most)
		}
	}
	return bad
}
