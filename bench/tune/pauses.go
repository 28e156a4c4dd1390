//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/unthrottle/unthrottle/bench/internal/neighbour"
)

// How the pairs of -pairs are run: a rate of a few thousand a second has some hundred requests beyond the p99 of a window.
const (
	pairLimit  = 1.0
	pairShare  = 0.5
	pairWindow = 4.0
	pairWarmUp = 1.0
	pairQuiet  = 0.5 // a run of which less is left does not count, as in tune
)

// A side is a run of one setting of a pair.
type side struct {
	all, calm float64 // p99 from when requests were ready to be sent: of all, and of those that were due while the machine ran
	kept      float64 // the share of these
}

// pairs runs each server with GOMAXPROCS=1 and 2 in turn, in random order, and prints how far the p99 of a pair deviates with and without the
// requests that were due while the machine stood still or others were busy, and what the difference is.
func (b *bench) pairs(ctx context.Context, subjects []subject, n int) error {
	fmt.Printf("%d pairs of GOMAXPROCS=1 and 2 at a limit of %v, neighbour: %s\n\n", n, pairLimit, b.neighbour)
	fmt.Println("| program | load | p99: 1 against 2 | deviation of a pair | without what was due in a pause | deviation | pairs for the same certainty | kept with 1, 2 |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, s := range subjects {
		if s.path == "" {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		row, err := b.pairsOf(ctx, s, n)
		if err != nil {
			row = "failed: " + err.Error() + " |||||| "
		}
		fmt.Printf("| %s | %s |\n", s.name, row)
	}
	return nil
}

func (b *bench) pairsOf(ctx context.Context, s subject, n int) (string, error) {
	p, err := b.prepare(s, pairLimit)
	if err != nil {
		return "", err
	}
	rate, err := b.half(ctx, p)
	if err != nil {
		return "", err
	}
	random := rand.New(rand.NewPCG(b.seed, 2))
	var all, calm, kept1, kept2 []float64
	for block := range n {
		var of [3]side
		for _, i := range random.Perm(2) {
			seed := b.seed<<16 + uint64(block)
			end, err := neighbour.Start(ctx, b.neighbour, seed) // both sides have the same one
			if err != nil {
				return "", err
			}
			of[i+1], err = b.side(ctx, p, i+1, rate, seed)
			end()
			if err != nil {
				return "", err
			}
		}
		all = append(all, math.Log(of[1].all/of[2].all))
		if min(of[1].kept, of[2].kept) < pairQuiet {
			continue
		}
		calm = append(calm, math.Log(of[1].calm/of[2].calm))
		kept1, kept2 = append(kept1, of[1].kept), append(kept2, of[2].kept)
	}
	if len(calm) < 2 {
		return fmt.Sprintf("%.0f/s | %s | %.2f | %d of %d pairs were quiet |||", rate, change(all), deviation(all), len(calm), n), nil
	}
	return fmt.Sprintf("%.0f/s | %s | %.2f | %s, %d of %d pairs | %.2f | %.0f %% | %.1f %%, %.1f %%", rate, change(all), deviation(all), change(calm), len(calm), n, deviation(calm),
		100*math.Pow(deviation(calm)/deviation(all), 2), 100*mean(kept1), 100*mean(kept2)), nil
}

// half is a rate that leaves the server room: a part of what a closed loop does with the smaller GOMAXPROCS.
func (b *bench) half(ctx context.Context, p *program) (rate float64, err error) {
	var told struct {
		Goodput float64 `json:"goodput"`
	}
	err = b.loaded(ctx, p, pairRun(p, 1), nil, []string{"-c", "8", "--for", "2s"}, &told)
	if rate = math.Round(pairShare * told.Goodput); err == nil && rate < 1 {
		err = fmt.Errorf("%s does no work", p.url)
	}
	return rate, err
}

func pairRun(p *program, procs int) []string {
	return []string{"run", "--cpus", fmt.Sprint(p.limit), "--gomaxprocs", strconv.Itoa(procs)}
}

func (b *bench) side(ctx context.Context, p *program, procs int, rate float64, seed uint64) (s side, err error) {
	type latencies struct {
		Count int64   `json:"count"`
		P99   float64 `json:"p99"`
	}
	var told struct {
		All     latencies `json:"from_ready"`
		Machine *struct {
			Calm latencies `json:"calm"`
		} `json:"machine"`
	}
	if err := b.loaded(ctx, p, pairRun(p, procs), nil, sent(rate, pairWarmUp, pairWindow, seed), &told); err != nil {
		return s, err
	}
	if told.Machine == nil || told.All.P99 == 0 {
		return s, errors.New("when the machine stood still is not known: that takes root")
	}
	return side{told.All.P99, told.Machine.Calm.P99, float64(told.Machine.Calm.Count) / float64(told.All.Count)}, nil
}

// change is the mean of differences, in words.
func change(logs []float64) string { return fmt.Sprintf("%+.0f %%", 100*(math.Exp(mean(logs))-1)) }

func mean(of []float64) (m float64) {
	for _, v := range of {
		m += v / float64(len(of))
	}
	return m
}

func deviation(of []float64) float64 {
	m, sum := mean(of), 0.0
	for _, v := range of {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(max(1, len(of)-1)))
}
