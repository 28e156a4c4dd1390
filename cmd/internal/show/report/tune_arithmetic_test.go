package report

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Two figures and the change in a bracket behind them: "from 11.5 ms to 6.97 ms (−39 %", "11.5 ms → 6.97 ms, −39 %".
var figuresAndChange = []*regexp.Regexp{
	regexp.MustCompile(`from ([0-9.,]+) (ns|µs|ms|s|min) to ([0-9.,]+) (ns|µs|ms|s|min) \(([+−][0-9.]+ %|[0-9.]+×|0 %)`),
	regexp.MustCompile(`([+−][0-9.]+ %|[0-9.]+×|0 %) \(([0-9.,]+) (ns|µs|ms|s|min) → ([0-9.,]+) (ns|µs|ms|s|min)`),
	regexp.MustCompile(`([0-9.]+) times as high \(([0-9.,]+) (ns|µs|ms|s|min) → ([0-9.,]+) (ns|µs|ms|s|min)`),
}

// wrongSums are the places of a text in which two figures do not give the change that is next to them.
func wrongSums(text string) (wrong []string, found int) {
	units := map[string]float64{"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
	for i, re := range figuresAndChange {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			found++
			parts, change := m[1:5], m[5]
			if i >= 1 {
				parts, change = m[2:6], m[1]
			}
			from, _ := strconv.ParseFloat(parts[0], 64)
			to, _ := strconv.ParseFloat(parts[2], 64)
			ratio := to * units[parts[3]] / (from * units[parts[1]])
			got := quantity.Change(ratio)
			if i == 2 {
				got = quantity.Three(ratio)
			}
			if got != change {
				wrong = append(wrong, m[0]+": it is "+got)
			}
		}
	}
	return wrong, found
}

// TestFiguresFit does the arithmetic on each sentence of what is said of a tune.
func TestFiguresFit(t *testing.T) {
	const off = "p99 fell from 11.5 ms to 6.97 ms (−32 %, 95 % interval …), time +35 % (61.7 ms → 77.3 ms), CPU 2.5 times as high (1.00 ms → 2.51 ms)"
	if wrong, found := wrongSums(off); found != 3 || len(wrong) != 3 {
		t.Errorf("%d found, wrong are %q", found, wrong)
	}
	files, _ := filepath.Glob("testdata/*-*")
	sentences := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		wrong, found := wrongSums(string(text))
		sentences += found
		for _, w := range slices.Compact(wrong) {
			t.Errorf("%s: %s", file, w)
		}
	}
	if sentences < 10 {
		t.Errorf("only %d sentences with figures were found in %q", sentences, files)
	}
}

// TestBenchFiguresFit does it on what is said of benches whose settings differ by chance.
func TestBenchFiguresFit(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	sentences := 0
	for range 300 {
		factor := func() float64 { return math.Exp(0.7 * r.NormFloat64()) }
		of := []map[string]float64{{"cpu-ns/req": factor(), "tail-latency-ns": factor()}, {"cpu-ns/req": factor(), "tail-latency-ns": factor()}}
		for _, g := range NewBench(spokenBench(10, 0.1*r.Float64(), of)).Groups {
			wrong, found := wrongSums(strings.Join(append([]string{g.Advice}, g.Also...), " "))
			sentences += found
			for _, w := range wrong {
				t.Error(w)
			}
		}
	}
	if sentences < 10 {
		t.Errorf("only %d sentences have figures", sentences)
	}
}
