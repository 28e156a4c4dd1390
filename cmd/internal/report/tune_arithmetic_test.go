package report

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// Two figures and the change in a bracket behind them: "from 11.5 ms to 6.97 ms (−39 %", "11.5 ms → 6.97 ms, −39 %".
var figuresAndChange = []*regexp.Regexp{
	regexp.MustCompile(`from ([0-9.,]+) (ns|µs|ms|s|min) to ([0-9.,]+) (ns|µs|ms|s|min) \(([+−][0-9.]+ %|[0-9.]+×|0 %)`),
	regexp.MustCompile(`([+−][0-9.]+ %|[0-9.]+×|0 %) \(([0-9.,]+) (ns|µs|ms|s|min) → ([0-9.,]+) (ns|µs|ms|s|min)`),
}

// wrongSums are the places of a text in which two figures do not give the change that stands beside them.
func wrongSums(text string) (wrong []string, found int) {
	units := map[string]float64{"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
	for i, re := range figuresAndChange {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			found++
			parts, change := m[1:5], m[5]
			if i == 1 {
				parts, change = m[2:6], m[1]
			}
			from, _ := strconv.ParseFloat(parts[0], 64)
			to, _ := strconv.ParseFloat(parts[2], 64)
			if got := quantity.Change(to * units[parts[3]] / (from * units[parts[1]])); got != change {
				wrong = append(wrong, m[0]+": it is "+got)
			}
		}
	}
	return wrong, found
}

// TestFiguresFit does the arithmetic on each sentence of what is said of a tune.
func TestFiguresFit(t *testing.T) {
	if wrong, found := wrongSums("p99 fell from 11.5 ms to 6.97 ms (−32 %, 95 % interval …), time +35 % (61.7 ms → 77.3 ms)"); found != 2 || len(wrong) != 2 {
		t.Errorf("%d found, wrong are %q", found, wrong)
	}
	files, _ := filepath.Glob("testdata/tune-*")
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
