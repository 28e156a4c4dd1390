//go:build linux

package main

import (
	"math"
	"strings"
	"testing"
)

// around are eight blocks of a setting: tail and CPU about these, in ms, the tail spread by a factor from block to block.
func around(slow, used, spread float64) (runs []run) {
	for _, z := range []float64{-1, 0.3, 1, -0.3, 0, 0.6, -0.6, 0} {
		runs = append(runs, run{cost: map[metric]float64{tail: slow * math.Pow(spread, z), cpu: used}})
	}
	return runs
}

// against are blocks whose tail is a multiple of that of others, another one in each block.
func against(others []run, used float64, times ...float64) (runs []run) {
	for i, o := range others {
		runs = append(runs, run{cost: map[metric]float64{tail: o.cost[tail] * times[i%len(times)], cpu: used}})
	}
	return runs
}

func failing(runs []run, share float64) []run {
	for i := range runs {
		runs[i].failed = share
	}
	return runs
}

func TestJudge(t *testing.T) {
	one, two, four, gogc := setting{1, 0}, setting{2, 0}, setting{4, 0}, setting{2, 800}
	base := around(10, 1, 1.5)
	for _, test := range []struct {
		name   string
		v      verdict
		s      sweep
		answer answer
		wrong  bool
		why    string
	}{
		{
			name: "a change that the sweep confirms",
			v:    verdict{"change", two, one, []metric{cpu}},
			s:    sweep{two: base, one: against(base, 0.7, 0.9), four: against(base, 1.1, 1)},
			why:  "cpu −30 % (−30 to −30)",
		},
		{
			name:   "a change for CPU with twice the tail",
			v:      verdict{"change", two, one, []metric{cpu}},
			s:      sweep{two: base, one: against(base, 0.7, 2, 2.2)},
			answer: fails, wrong: true, why: "tail ×2.1",
		},
		{
			name:   "the tail higher by the median, but not in all blocks",
			v:      verdict{"change", two, one, []metric{cpu}},
			s:      sweep{two: base, one: against(base, 0.7, 1.4, 1.4, 1.4, 0.7)},
			answer: unclear, why: "tail +40 % (−30 to +40)",
		},
		{
			name: "the tail higher by less than counts",
			v:    verdict{"change", two, one, []metric{cpu}},
			s:    sweep{two: base, one: against(base, 0.7, 1.2)},
			why:  "tail +20 %",
		},
		{
			name:   "a change to what is far from the best",
			v:      verdict{"change", two, four, []metric{cpu}},
			s:      sweep{two: base, one: against(base, 0.7, 1), four: against(base, 0.9, 1)},
			answer: fails, why: "1 has cpu −22 %",
		},
		{
			name: "the least CPU time has a worse tail, and is no better advice",
			v:    verdict{"change", two, gogc, []metric{cpu}},
			s:    sweep{two: base, one: against(base, 0.6, 3), gogc: against(base, 0.8, 1)},
			why:  "cpu −20 %",
		},
		{
			name: "one has the best tail, the other the least CPU time: both are right",
			v:    verdict{"change", two, one, []metric{tail, cpu}},
			s:    sweep{two: base, one: against(base, 0.45, 0.07), gogc: against(base, 0.38, 0.09)},
			why:  "tail −93 %",
		},
		{
			name:   "a change that is none in the sweep",
			v:      verdict{"change", two, one, []metric{cpu}},
			s:      sweep{two: base, one: against(base, 1.05, 1)},
			answer: fails, why: "no better: cpu +5 %",
		},
		{
			name:   "a lower tail for a third more CPU",
			v:      verdict{"change", two, four, []metric{tail}},
			s:      sweep{two: base, four: against(base, 1.3, 0.5)},
			answer: fails, why: "cpu +30 %",
		},
		{
			name:   "a change that makes requests fail",
			v:      verdict{"change", two, one, []metric{cpu}},
			s:      sweep{two: base, one: failing(against(base, 0.7, 1), 0.01)},
			answer: fails, wrong: true, why: "errors 0.0 → 1.0 %",
		},
		{
			name: "all are alike",
			v:    verdict{"keep", two, two, nil},
			s:    sweep{two: base, one: against(base, 0.97, 1.1, 0.95), four: against(base, 1.02, 1, 0.98)},
			why:  "none is better by 10 %",
		},
		{
			name:   "kept, and another is better",
			v:      verdict{"keep", two, two, nil},
			s:      sweep{two: base, one: against(base, 0.7, 0.9)},
			answer: fails, why: "1 has cpu −30 %",
		},
		{
			name:   "kept, and another is better, if its tail isn't worse",
			v:      verdict{"keep", two, two, nil},
			s:      sweep{two: base, one: against(base, 0.7, 0.9, 1.2, 1.5)},
			answer: unclear, why: "1 has cpu −30 %",
		},
		{
			name:   "kept, and another seems to have a lower tail",
			v:      verdict{"keep", two, two, nil},
			s:      sweep{two: base, four: against(base, 1, 0.6, 0.8, 1.5)},
			answer: unclear, why: "4 has tail −20 %",
		},
		{
			name: "kept, as what takes less CPU time has a worse tail",
			v:    verdict{"keep", two, two, nil},
			s:    sweep{two: base, one: against(base, 0.7, 2)},
			why:  "none is better",
		},
		{
			name: "a trade",
			v:    verdict{"trade", two, one, []metric{cpu}},
			s:    sweep{two: base, one: against(base, 0.88, 2.6), four: against(base, 1, 1)},
			why:  "tail ×2.6",
		},
		{
			name:   "a trade that should have been a change",
			v:      verdict{"trade", two, one, []metric{cpu}},
			s:      sweep{two: base, one: against(base, 0.7, 1)},
			answer: fails, why: "1 has cpu −30 %",
		},
		{
			name: "a trade whose price the sweep does not know either",
			v:    verdict{"trade", two, one, []metric{cpu}},
			s:    sweep{two: base, one: against(base, 0.7, 0.8, 1.1, 1.6)},
			why:  "cpu −30 %",
		},
		{
			name:   "a trade for what is not the best of its kind",
			v:      verdict{"trade", two, one, []metric{cpu}},
			s:      sweep{two: base, one: against(base, 0.88, 2.6), four: against(base, 0.5, 2)},
			answer: fails, why: "4 has cpu −43 %",
		},
		{
			name:   "undecided",
			v:      verdict{"undecided", two, two, nil},
			s:      sweep{two: base, one: against(base, 0.7, 1)},
			answer: fails, why: "no verdict",
		},
		{
			name:   "what was not swept",
			v:      verdict{"change", two, gogc, []metric{cpu}},
			s:      sweep{two: base},
			answer: fails, why: "2, GOGC=800 was not swept",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := judge(test.v, test.s)
			if got.answer != test.answer || got.wrong != test.wrong || !strings.Contains(got.why, test.why) {
				t.Errorf("%+v; want %v, %v, %q", got, test.answer, test.wrong, test.why)
			}
		})
	}
}

// A job has a time, and no tail.
func TestJudgeJob(t *testing.T) {
	job := func(seconds, used float64) (runs []run) {
		for range 8 {
			runs = append(runs, run{cost: map[metric]float64{wall: seconds, cpu: used}})
		}
		return runs
	}
	two, one := setting{2, 0}, setting{1, 0}
	v := verdict{"change", two, one, []metric{cpu}}
	if got := judge(v, sweep{two: job(1, 1), one: job(1.1, 0.6)}); got.answer != holds {
		t.Error(got)
	}
	if got := judge(v, sweep{two: job(1, 1), one: job(1.6, 0.6)}); got.answer != fails || !got.wrong {
		t.Error(got)
	}
}

// The chance that the true median is beyond that many of n values, on either side, is that of a coin: for eight values and one left out, 2
// · (1 + 8) / 256 = 7 %.
func TestOutside(t *testing.T) {
	for n, want := range map[int]int{1: -1, 2: -1, 4: -1, 5: 0, 7: 0, 8: 1, 10: 1, 11: 2, 12: 2, 20: 5} {
		if got := outside(n); got != want {
			t.Errorf("of %d: %d, want %d", n, got, want)
		}
	}
}

func TestFewBlocksShowNothing(t *testing.T) {
	two, one := setting{2, 0}, setting{1, 0}
	base := around(10, 1, 1.5)
	s := sweep{two: base[:2], one: against(base, 0.7, 3)[:2]}
	if got := judge(verdict{"change", two, one, []metric{cpu}}, s); got.answer != unclear || got.wrong {
		t.Error(got)
	}
}

func TestBinary(t *testing.T) {
	for module, want := range map[string]string{
		"github.com/nats-io/nats-server/v2@v2.15.2":            "nats-server",
		"github.com/google/pprof@v0.0.0-20260906184651-6331bc": "pprof",
		"github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9":    "caddy",
	} {
		if got := binary(module); got != want {
			t.Errorf("%s: %s", module, got)
		}
	}
}

// A document of tune's, with what the judgement needs.
func TestVerdict(t *testing.T) {
	d := document{Loads: []load{{}, {}}}
	d.Verdict.Kind, d.Verdict.Procs, d.Verdict.Load, d.Current.Procs = "trade", 2, 1, 2
	d.Loads[1].Effects = append(d.Loads[1].Effects, effect{"p99", "worse"}, effect{"pooled", ""}, effect{cpu, "better"})
	d.Settings = []tried{{0, 4, 0, true}, {1, 2, 0, false}, {1, 1, 0, true}}
	got := d.verdict()
	if got.advised != (setting{1, 0}) || got.current != (setting{2, 0}) || len(got.named) != 1 || got.named[0] != cpu {
		t.Errorf("%+v", got)
	}
	if got := d.settings(); len(got) != 2 {
		t.Error(got)
	}
}
