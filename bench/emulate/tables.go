//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// results are what the tables are made of. All settings have the same number of pairs, one a block.
type results struct {
	settings []setting
	runs     map[setting][]pair
	kinds    []string
}

// A metric is a figure of a trial.
type metric struct {
	name string
	of   func(trial) float64
	unit float64 // that it is printed in, of one
}

var (
	tail = metric{"tail ms", func(t trial) float64 { return t.tail }, 1e3}
	cpu  = metric{"CPU per request ms", func(t trial) float64 { return t.cpu }, 1e3}
)

func (r results) write(w io.Writer) {
	r.writeFigures(w)
	r.writeComparisons(w)
	var costs [2][]float64
	for _, pairs := range r.runs {
		for _, p := range pairs {
			for k := range p {
				costs[k] = append(costs[k], p[k].cost)
			}
		}
	}
	fmt.Fprintf(w, "\nCPU time of unthrottle itself, median: %.2f %% of a CPU with %s, %.2f %% with %s.\n",
		100*median(costs[0]), r.kinds[0], 100*median(costs[1]), r.kinds[1])
}

// writeFigures writes what the two limits did: medians, and the second ÷ the first.
func (r results) writeFigures(w io.Writer) {
	metrics := []metric{
		{"throttled %", func(t trial) float64 { return t.throttled }, 100},
		{"p50 ms", func(t trial) float64 { return t.p50 }, 1e3},
		{"p90 ms", func(t trial) float64 { return t.p90 }, 1e3},
		{"p99 ms", func(t trial) float64 { return t.p99 }, 1e3},
		tail, cpu,
	}
	fmt.Fprint(w, "| limit | load | GOMAXPROCS |")
	for _, m := range metrics {
		fmt.Fprintf(w, " %s | ratio |", m.name)
	}
	fmt.Fprintf(w, "\n|---|---|---|%s\n", strings.Repeat("--:|--:|", len(metrics)))
	for _, s := range r.settings {
		fmt.Fprintf(w, "| %g CPU | %.0f %% | %d |", s.cpus, 100*s.load, s.procs)
		for _, m := range metrics {
			var values [2][]float64
			for _, p := range r.runs[s] {
				for k := range p {
					values[k] = append(values[k], m.unit*m.of(p[k]))
				}
			}
			fmt.Fprintf(w, " %.4g / %.4g | %v |", median(values[0]), median(values[1]), newRatio(r.logs(m, s)))
		}
		fmt.Fprintln(w)
	}
}

// writeComparisons writes by how much a comparison of two GOMAXPROCS differs under the second limit: above 1 it speaks against the first of
// the two.
func (r results) writeComparisons(w io.Writer) {
	metrics := []metric{cpu, tail}
	fmt.Fprintf(w, "\n| limit | load | GOMAXPROCS | CPU per request | | tail | |\n|---|---|---|--:|---|--:|---|\n")
	type at struct{ cpus, load float64 }
	var places []at
	var procs []int
	for _, s := range r.settings {
		if p := (at{s.cpus, s.load}); !slices.Contains(places, p) {
			places = append(places, p)
		}
		if !slices.Contains(procs, s.procs) {
			procs = append(procs, s.procs)
		}
	}
	for _, against := range procs[:min(2, len(procs))] {
		for _, n := range procs {
			if n <= against {
				continue
			}
			all := make([][][]float64, len(metrics)) // logarithms of each metric, place and block
			for _, p := range places {
				fmt.Fprintf(w, "| %g CPU | %.0f %% | %d against %d |", p.cpus, 100*p.load, n, against)
				for i, m := range metrics {
					logs := r.logs(m, setting{p.cpus, p.load, n})
					for block, base := range r.logs(m, setting{p.cpus, p.load, against}) {
						logs[block] -= base
					}
					all[i] = append(all[i], logs)
					fmt.Fprintf(w, " %v |", newRatio(logs).interval())
				}
				fmt.Fprintln(w)
			}
			if len(places) > 1 {
				fmt.Fprintf(w, "| all | | %d against %d |", n, against)
				for i := range metrics {
					fmt.Fprintf(w, " %v |", newRatio(means(all[i])).interval())
				}
				fmt.Fprintln(w)
			}
		}
	}
}

// logs are the logarithms of the second limit's figure ÷ the first's, block by block; NaN where one of them is 0.
func (r results) logs(m metric, s setting) (logs []float64) {
	for _, p := range r.runs[s] {
		log := math.NaN()
		if first, second := m.of(p[0]), m.of(p[1]); first > 0 && second > 0 {
			log = math.Log(second / first)
		}
		logs = append(logs, log)
	}
	return logs
}

// means are the means of several rows, block by block.
func means(rows [][]float64) (out []float64) {
	for block := range rows[0] {
		var column []float64
		for _, row := range rows {
			column = append(column, row[block])
		}
		out = append(out, mean(column))
	}
	return out
}

// A ratio is a geometric mean with its 95 % interval; NaN where it is not known.
type ratio struct{ middle, low, high float64 }

// Student's distribution: 97.5 % of it is below this with 1, 2, … degrees of freedom.
var student = []float64{12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131}

func newRatio(logs []float64) ratio {
	logs = slices.DeleteFunc(slices.Clone(logs), math.IsNaN)
	m := mean(logs)
	half := math.NaN()
	if n := len(logs); n > 1 {
		squares := 0.0
		for _, l := range logs {
			squares += (l - m) * (l - m)
		}
		half = student[min(n-1, len(student))-1] * math.Sqrt(squares/float64(n-1)/float64(n))
	}
	return ratio{math.Exp(m), math.Exp(m - half), math.Exp(m + half)}
}

func (r ratio) String() string {
	if math.IsNaN(r.middle) {
		return "–"
	}
	return fmt.Sprintf("%.2f", r.middle)
}

// interval is two cells: the ratio, and its interval.
func (r ratio) interval() string { return fmt.Sprintf("%.3f | %.2f–%.2f", r.middle, r.low, r.high) }

// mean and median of nothing are NaN.
func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x
	}
	return m / float64(len(v))
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
