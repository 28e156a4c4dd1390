package lint

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// deadline is for work that took minutes when it grew with the square of what is there, and takes about a second.
const deadline = 30 * time.Second

// large are workloads of n containers, or of n of something else.
var large = map[string]func(n int) *workload.Workload{
	"Guaranteed": func(n int) *workload.Workload {
		return many(n, limit("2"), mem("1Gi", "1Gi"), procsIs("2"))
	},
	"another container": func(n int) *workload.Workload {
		return many(n, limit("2"), ref("GOMAXPROCS", fmt.Sprintf("c%07d/limits.cpu", n-1), "1"))
	},
	"comments": func(n int) *workload.Workload {
		w := many(n, limit("2"), procsIs("16"))
		for range n {
			ignore(1, 100*(n+2), "K001", "k002", "K099")(w)
		}
		return w
	},
	"comments in a row": func(n int) *workload.Workload {
		w := many(n, limit("2"), procsIs("16"))
		for i := range n {
			ignore(100*(i+1), 100*(i+1)+99)(w)
		}
		return w
	},
	"a long name": func(n int) *workload.Workload {
		w := many(n, limit("2"), procsIs("16"))
		w.Name = strings.Repeat("a", 100*n)
		return w
	},
	"one limit": func(n int) *workload.Workload { return many(n, pod("2"), procsIs("16")) },
	"no limit":  func(n int) *workload.Workload { return many(n, request("1"), env("GOGC", "50")) },
}

func many(n int, parts ...part) *workload.Workload {
	w := build()
	w.Pod.Containers = nil
	for i := range n {
		container(fmt.Sprintf("c%07d", i))(w)
		for _, p := range parts {
			p(w)
		}
	}
	return w
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLinear: what a workload costs grows as it does, in bytes and, where nothing is allocated, in time.
func TestLinear(t *testing.T) {
	for name, make := range large {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) uint64 {
				w := make(n)
				return allocated(func() { findings(t, w, Known{}) })
			}
			once, twice, four := cost(500), cost(1000), cost(2000)
			if twice > 3*once || four > 6*once {
				t.Errorf("500, 1,000 and 2,000 ask for %d, %d and %d bytes", once, twice, four)
			}
			w := make(50_000)
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if _, err := Check(ctx, w, Known{}); err != nil || ctx.Err() != nil {
				t.Errorf("50,000 take longer than %s", deadline)
			}
		})
	}
}

// TestSpans holds the look-up of comments against each pair of a finding and a comment.
func TestSpans(t *testing.T) {
	for _, s := range []spans{{}, {{3, 5}}, {{1, 20}, {10, 5}, {4, 6}}, {{8, 9}, {1, 2}, {1, 4}, {9, 9}}, {{5, 1}}, {{2, 12}, {3, 4}, {14, 15}}} {
		sorted := append(spans{}, s...)
		sorted.sort()
		for line := range 25 {
			want := false
			for _, x := range s {
				want = want || x.from <= line && line <= x.to
			}
			if got := sorted.has(line); got != want {
				t.Errorf("%v has %d: %v", s, line, got)
			}
		}
	}
}

// counted is a context that ends when it has been looked at so often.
type counted struct {
	context.Context
	looks int
}

func (c *counted) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestEnds: a context ends the look at a large workload within a container.
func TestEnds(t *testing.T) {
	w := many(100, limit("2"), procsIs("16"))
	for looks := range 101 {
		if found, err := Check(&counted{t.Context(), looks}, w, Known{}); !errors.Is(err, context.Canceled) || found != nil {
			t.Errorf("after %d looks: %d findings, %v", looks, len(found), err)
		}
	}
	if found, err := Check(&counted{t.Context(), 101}, w, Known{}); err != nil || len(found) != 100 {
		t.Errorf("%d findings, %v", len(found), err)
	}
}
