package lab

import (
	"slices"
	"testing"
)

func TestPairs(t *testing.T) {
	pairs := []Pair{{"conc", "4"}, {"WORKERS", "2=3"}, {"MODE", ""}}
	p := NewPairs(pairs)
	if got := p.All(); !slices.Equal(got, pairs) {
		t.Errorf("%q", got)
	}
	args, variables := p.Fill([]string{"envoy", "--concurrency", "{conc}", "-c={conc}", "{WORKERS", "{other}"})
	if want := []string{"envoy", "--concurrency", "4", "-c=4", "{WORKERS", "{other}"}; !slices.Equal(args, want) {
		t.Errorf("%q", args)
	}
	if !slices.Equal(variables, pairs[1:]) {
		t.Errorf("%q", variables)
	}
	if args, variables := Pairs("").Fill([]string{"{a}"}); len(args) != 1 || args[0] != "{a}" || variables != nil {
		t.Errorf("none: %q, %q", args, variables)
	}
	if got := []string{pairs[1].String(), pairs[2].String()}; !slices.Equal(got, []string{"WORKERS=2=3", "MODE unset"}) {
		t.Errorf("%q", got)
	}
}
