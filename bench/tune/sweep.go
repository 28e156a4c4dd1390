//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/bench/internal/command"
)

// sweep runs settings that tune has tried, in blocks of random order. In late runs the generator was late: they count,
// as times are from when requests were ready to be sent.
func (b *bench) sweep(ctx context.Context, p *program, d document, settings []setting) (s sweep, late int, err error) {
	s = sweep{}
	random := rand.New(rand.NewPCG(b.seed, 1))
	for block := range b.blocks {
		for _, i := range random.Perm(len(settings)) {
			c := settings[i]
			args := []string{"run", "--cpus", fmt.Sprint(p.limit)}
			if c.procs != d.Current.Procs { // the current one is the program unchanged
				args = append(args, "--gomaxprocs", strconv.Itoa(c.procs))
			}
			var r run
			if p.url == "" {
				r, err = b.job(ctx, p, c, args)
			} else {
				var was bool
				if r, was, err = b.serve(ctx, p, c, args, d.load(), b.seed<<16+uint64(block)); was {
					late++
				}
			}
			if err != nil {
				return nil, 0, fmt.Errorf("sweeping %v: %w", c, err)
			}
			s[c] = append(s[c], r)
		}
	}
	return s, late, nil
}

// gogc is the environment of a setting.
func gogc(c setting) []string {
	if c.gogc == 0 {
		return nil
	}
	return []string{"GOGC=" + strconv.Itoa(c.gogc)}
}

func (b *bench) job(ctx context.Context, p *program, c setting, args []string) (r run, err error) {
	file := filepath.Join(p.dir, "run.json")
	cmd := b.process(ctx, p, append(append(args, "-o", file, "--"), p.args...)...)
	cmd.Env = append(cmd.Env, gogc(c)...)
	if _, err := command.Output(cmd); err != nil {
		return r, err
	}
	var told struct {
		Wall float64 `json:"wall_seconds"`
		CPU  float64 `json:"cpu_seconds"`
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	return run{cost: map[metric]float64{wall: told.Wall, cpu: told.CPU}}, err
}

// loaded starts a server by the verb run, loads it by the verb load, and reads what that reports.
func (b *bench) loaded(ctx context.Context, p *program, run, env, load []string, told any) error {
	running, end := context.WithCancel(ctx)
	server := b.process(running, p, append(append(run, "--quiet", "--"), p.args...)...)
	server.Env = append(server.Env, env...)
	if err := server.Start(); err != nil {
		end()
		return err
	}
	defer server.Wait()
	defer end()
	if err := answers(ctx, p.url); err != nil {
		return err
	}
	out, err := command.Output(b.process(ctx, p, append([]string{"load", p.url, "--json"}, load...)...))
	if err != nil {
		return err
	}
	return json.Unmarshal(out, told)
}

// sent are the flags of load for a rate.
func sent(rate, warmUp, window float64, seed uint64) []string {
	seconds := func(s float64) string { return time.Duration(s * float64(time.Second)).String() }
	return []string{
		"--rate", strconv.FormatFloat(rate, 'f', -1, 64), "--warmup", seconds(warmUp), "--for", seconds(window), "--seed", strconv.FormatUint(seed, 10),
	}
}

// serve starts a server and loads it.
func (b *bench) serve(ctx context.Context, p *program, c setting, args []string, l load, seed uint64) (run, bool, error) {
	var told struct {
		Requests int64 `json:"requests"`
		Failed   int64 `json:"failed"`
		OurFault bool  `json:"generator_at_fault"`
		Ready    struct {
			P50 float64 `json:"p50"`
			P90 float64 `json:"p90"`
		} `json:"from_ready"`
		ReadyTail float64 `json:"from_ready_tail"`
		Server    *struct {
			CPU *float64 `json:"cpu_seconds_per_request"` // that succeeded
		} `json:"server"`
	}
	if err := b.loaded(ctx, p, args, gogc(c), sent(l.Rate, l.WarmUp, l.Window, seed), &told); err != nil {
		return run{}, false, err
	}
	if told.Requests == 0 || told.Server == nil || told.Server.CPU == nil {
		return run{}, false, fmt.Errorf("the CPU time of %d requests is not known", told.Requests)
	}
	slow := map[string]float64{"p99": told.ReadyTail, "p90": told.Ready.P90, "p50": told.Ready.P50}[l.Tail]
	return run{
		cost:   map[metric]float64{tail: slow, cpu: *told.Server.CPU},
		failed: float64(told.Failed) / float64(told.Requests),
	}, told.OurFault, nil
}

// answers waits for a server.
func answers(ctx context.Context, url string) error {
	const patience = 20 * time.Second
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if res, err := client.Get(url); err == nil {
			res.Body.Close()
			return nil
		}
	}
	return fmt.Errorf("%s does not answer", url)
}
