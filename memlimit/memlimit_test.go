package memlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/memlimit"
	"github.com/unthrottle/unthrottle/memory"
)

// fresh clears what the environment says, and restores everything when the test ends.
func fresh(t *testing.T) {
	t.Helper()
	for _, name := range []string{"GOMEMLIMIT", "AUTOMEMLIMIT", "AUTOMEMLIMIT_EXPERIMENT", "UNTHROTTLE"} {
		t.Setenv(name, "")
	}
	os.Unsetenv("AUTOMEMLIMIT") // Setenv above puts it back
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		_, _ = memlimit.SetGoMemLimitWithProvider(none, 1) // undoes what there is
		debug.SetMemoryLimit(before)
	})
}

// system is 90 % of the machine's memory.
func system() int64 {
	n, _ := memlimit.FromSystem()
	return int64(0.9 * float64(n))
}

func none() (uint64, error) { return 0, memlimit.ErrNoLimit }

func TestSet(t *testing.T) {
	odd := errors.New("odd")
	failing := func() (uint64, error) { return 0, odd }
	for _, tt := range []struct {
		name    string
		env     string // NAME=VALUE
		options []memlimit.Option
		limit   int64 // that is set; 0: none
		log     string
		err     string
	}{
		{"a limit", "", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20))}, 900 << 20, "INFO GOMEMLIMIT is updated", ""},
		{"a ratio", "", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20)), memlimit.WithRatio(0.5)}, 500 << 20, "INFO GOMEMLIMIT is updated", ""},
		{"a ratio of the environment", "AUTOMEMLIMIT=0.25", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20)), memlimit.WithRatio(0.5)}, 250 << 20, "INFO GOMEMLIMIT is updated", ""},
		{"nearly all", "", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20)), memlimit.WithRatio(1)}, 992 << 20, "WARN a share above 95 %", ""},
		{"off", "AUTOMEMLIMIT=off", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20))}, 0, "INFO AUTOMEMLIMIT is off", ""},
		{"off for all", "UNTHROTTLE=off", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20))}, 0, "INFO GOMEMLIMIT stays", ""},
		{"the user's", "GOMEMLIMIT=1GiB", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20))}, 0, "INFO GOMEMLIMIT is already set", ""},
		{"no ratio in the environment", "AUTOMEMLIMIT=90%", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(1000 << 20))}, 0, "ERROR failed", "cannot parse AUTOMEMLIMIT: 90%"},
		{"no ratio", "", []memlimit.Option{memlimit.WithRatio(1.5)}, 0, "ERROR failed", "failed to set GOMEMLIMIT: invalid ratio: 1.500000, ratio should be in the range (0.0,1.0]"},
		{"not a number", "AUTOMEMLIMIT=NaN", nil, 0, "ERROR failed", "failed to set GOMEMLIMIT: invalid ratio: NaN, ratio should be in the range (0.0,1.0]"},
		{"no limit", "", []memlimit.Option{memlimit.WithProvider(none)}, 0, "INFO memory is not limited", ""},
		{"a machine's", "", []memlimit.Option{memlimit.WithProvider(memlimit.ApplyFallback(none, memlimit.Limit(2000<<20)))}, 1800 << 20, "INFO GOMEMLIMIT is updated", ""},
		{"a machine's by the environment", "AUTOMEMLIMIT_EXPERIMENT=system", []memlimit.Option{memlimit.WithProvider(none)}, system(), "INFO GOMEMLIMIT is updated", ""},
		{"too much for a number", "", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(math.MaxUint64))}, 0, "INFO memory is not limited", ""},
		{"too little", "", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(10 << 20))}, 0, "INFO memory limit is too low", ""},
		{"an error", "", []memlimit.Option{memlimit.WithProvider(failing)}, 0, "ERROR failed", "failed to set GOMEMLIMIT: odd"},
		{"a share of an error", "", []memlimit.Option{memlimit.WithProvider(memlimit.ApplyRatio(failing, 0.5))}, 0, "ERROR failed", "failed to set GOMEMLIMIT: odd"},
		{"a share twice", "", []memlimit.Option{memlimit.WithProvider(memlimit.ApplyRatio(memlimit.Limit(1000<<20), 0.5)), memlimit.WithRatio(0.5)}, 250 << 20, "INFO GOMEMLIMIT is updated", ""},
		{"a least", "", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(100 << 20)), memlimit.WithRatio(0.1), memlimit.WithMin(50 << 20)}, 50 << 20, "INFO GOMEMLIMIT is updated", ""},
		{"a least above the limit", "", []memlimit.Option{memlimit.WithProvider(memlimit.Limit(100 << 20)), memlimit.WithMin(500 << 20)}, 92 << 20, "INFO GOMEMLIMIT is updated", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fresh(t)
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				t.Setenv(name, value)
			}
			var log strings.Builder
			logger := slog.New(slog.NewTextHandler(&log, nil))
			got, err := memlimit.SetGoMemLimitWithOpts(append(tt.options, memlimit.WithLogger(logger))...)
			want, text := tt.limit, ""
			if err != nil {
				text = err.Error()
			}
			if got != want || text != tt.err {
				t.Errorf("got %d, %q, want %d, %q", got, text, want, tt.err)
			}
			if want == 0 {
				want = math.MaxInt64
			}
			if is := debug.SetMemoryLimit(-1); is != want {
				t.Errorf("GOMEMLIMIT is %d, want %d", is, want)
			}
			if got, err := memlimit.Set(tt.options...); got != want || (err == nil) != (tt.err == "") {
				t.Errorf("Set: %d, %v, want %d", got, err, want)
			}
			level, message, _ := strings.Cut(tt.log, " ")
			if !strings.Contains(log.String(), "level="+level+" msg=\""+message) || !strings.Contains(log.String(), "package=github.com/unthrottle/unthrottle/memlimit") {
				t.Errorf("logged %s, want %s", log.String(), tt.log)
			}
		})
	}
}

// TestAgain: a program that calls it now and then has one limit, the last.
func TestAgain(t *testing.T) {
	fresh(t)
	limit := uint64(1000 << 20)
	provider := func() (uint64, error) {
		if limit == 0 {
			return 0, memlimit.ErrNoLimit
		}
		return limit, nil
	}
	for _, limit = range []uint64{1000 << 20, 500 << 20, 2000 << 20, 0, 300 << 20} {
		if _, err := memlimit.SetGoMemLimitWithProvider(provider, 0.5); err != nil {
			t.Fatal(err)
		}
		want := int64(limit / 2)
		if limit == 0 {
			want = math.MaxInt64
		}
		if is := debug.SetMemoryLimit(-1); is != want {
			t.Errorf("at %d: %d, want %d", limit, is, want)
		}
	}
	limit = 200 << 20
	for end := time.Now().Add(30 * time.Second); debug.SetMemoryLimit(-1) != 100<<20; time.Sleep(10 * time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			d, _ := memory.Last()
			t.Fatalf("a change is not followed: %v", d)
		}
	}
	if d, _ := memory.Last(); d.String() != "GOMEMLIMIT=100 MiB: limit 200 MiB by the program's own account; 50 % of it" {
		t.Error(d)
	}
}

// TestOwn: what the program has set itself stays.
func TestOwn(t *testing.T) {
	fresh(t)
	debug.SetMemoryLimit(700 << 20)
	if n, err := memlimit.SetGoMemLimitWithProvider(memlimit.Limit(1000<<20), 0.5); n != 0 || err != nil || debug.SetMemoryLimit(-1) != 700<<20 {
		t.Error(n, err, debug.SetMemoryLimit(-1))
	}
}

func TestProviders(t *testing.T) {
	for name, p := range map[string]memlimit.Provider{
		"FromCgroup": memlimit.FromCgroup, "V1": memlimit.FromCgroupV1, "V2": memlimit.FromCgroupV2, "Hybrid": memlimit.FromCgroupHybrid,
	} {
		n, err := p()
		if runtime.GOOS != "linux" {
			if err != memlimit.ErrCgroupsNotSupported {
				t.Errorf("%s: %v", name, err)
			}
		} else if known := err == nil && n > 0 || err == memlimit.ErrNoLimit || errors.Is(err, memlimit.ErrNoCgroup); !known {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if n, err := memlimit.FromSystem(); runtime.GOOS == "linux" && (err != nil || n < 64<<20) {
		t.Errorf("FromSystem: %d, %v", n, err)
	}
}

// Calls as programs have them, for version 1 and those before.
var _ = func() {
	ctx := context.Background()
	_, _ = memlimit.Set()
	_, _ = memlimit.Set(memlimit.WithRatio(0.9), memlimit.WithMin(1), memlimit.WithProvider(memlimit.FromCgroup), memlimit.WithRefreshInterval(ctx, time.Minute))
	memlimit.SetGoMemLimitWithEnv()
	_, _ = memlimit.SetGoMemLimit(0.9)
	_, _ = memlimit.SetGoMemLimitWithOpts(
		memlimit.WithRatio(0.9),
		memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)),
		memlimit.WithLogger(slog.Default()),
		memlimit.WithEnv(),
		memlimit.WithRefreshInterval(time.Minute),
	)
	var provider func() (uint64, error) = memlimit.Limit(1)
	_, _ = memlimit.SetGoMemLimitWithProvider(provider, 0.9)
	_, _ = memlimit.SetGoMemLimitWithProvider(memlimit.ApplyRatio(provider, 0.9), 1)
	var option memlimit.Option = func() memlimit.Option { return memlimit.WithRatio(1) }()
	fmt.Println(memlimit.ErrNoLimit, memlimit.ErrNoCgroup, memlimit.ErrCgroupsNotSupported, option)
}
