// Package memlimit has the calls of github.com/KimMachineGun/automemlimit/memlimit, built on package memory. A program moves by
// changing one import line:
//
//	import "github.com/unthrottle/unthrottle/memlimit"
//
// A program that imports automemlimit itself, for its effect, imports package auto/memory instead. [Set] is the call of version 1;
// [SetGoMemLimitWithOpts] and the others are those of the versions before. AUTOMEMLIMIT in the environment is a ratio, or off; with
// AUTOMEMLIMIT_EXPERIMENT=system the machine's memory is the limit if there is no other.
//
// Deliberate differences:
//
//   - The smallest limit of all levels counts, from the process's own cgroup up, and memory.high too. They are found wherever the cgroup
//     file system is mounted.
//   - A limit that leaves the collector hardly any room is given up until there is room again: see package memory.
//   - Changes of the limit are followed after a collection, at most once a second, with or without WithRefreshInterval. They are not
//     logged; memory.Last has them.
//   - A limit that the program has set with debug.SetMemoryLimit stays, and so does everything with UNTHROTTLE=off in the environment.
//   - At least 8 MiB of the limit are left free. Below a limit of 32 MiB nothing is set.
//   - Where there is no limit, or none can be on this system, GOMEMLIMIT stays unchanged, and that is not an error.
//
// New programs need not start here: memory.Set says more about its decision, and can be undone.
package memlimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

// Version is the version of automemlimit whose calls this package has, besides those of 0.7.
const Version = "1.0.1"

// Errors of providers.
var (
	ErrNoLimit             = errors.New("memory is not limited")
	ErrNoCgroup            = errors.New("process is not in cgroup")
	ErrCgroupsNotSupported = errors.New("cgroups is not supported on this system")
)

type config struct {
	logger *slog.Logger // nil: nothing is logged
	ratio  float64
	least  int64
	from   Provider // nil: the kernel says
}

// An Option changes what Set does.
type Option func(*config)

// WithRatio sets the share of the limit that becomes GOMEMLIMIT, above 0 and at most 1. The default is 0.9.
func WithRatio(ratio float64) Option { return func(c *config) { c.ratio = ratio } }

// WithMin sets the least GOMEMLIMIT, to the extent that the limit has room for it. A value that is not above zero is ignored.
func WithMin(least int64) Option { return func(c *config) { c.least = least } }

// WithProvider sets the function that says what the limit is. Without it, that is FromCgroup.
func WithProvider(p Provider) Option { return func(c *config) { c.from = p } }

// WithLogger makes Set log what it did. Without it, Set is silent.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		c.logger = nil
		if l != nil {
			c.logger = l.With(slog.String("package", "github.com/unthrottle/unthrottle/memlimit"))
		}
	}
}

// WithRefreshInterval does nothing: the limit is followed. It takes a duration, as in 0.7, or a context and a duration, as in version 1.
func WithRefreshInterval(...any) Option { return func(*config) {} }

// WithEnv does nothing, as in automemlimit 0.7.
func WithEnv() Option { return func(*config) {} }

// Set sets GOMEMLIMIT and follows the limit. It returns the resulting GOMEMLIMIT. An error means that the limit can't be read or
// understood, or that the ratio is invalid, and that GOMEMLIMIT is unchanged.
func Set(opts ...Option) (limit int64, err error) {
	_, err = set(opts)
	return debug.SetMemoryLimit(-1), err
}

// SetGoMemLimitWithOpts is Set, but returns 0 where it has set nothing.
func SetGoMemLimitWithOpts(opts ...Option) (limit int64, err error) { return set(opts) }

// SetGoMemLimit sets GOMEMLIMIT to a share of the limit.
func SetGoMemLimit(ratio float64) (int64, error) { return set([]Option{WithRatio(ratio)}) }

// SetGoMemLimitWithProvider sets GOMEMLIMIT to a share of what a provider says.
func SetGoMemLimitWithProvider(p Provider, ratio float64) (int64, error) {
	return set([]Option{WithProvider(p), WithRatio(ratio)})
}

// SetGoMemLimitWithEnv is SetGoMemLimitWithOpts without options.
func SetGoMemLimitWithEnv() { _, _ = set(nil) }

// now is the Set that is in force. A program may call it repeatedly.
var now struct {
	sync.Mutex
	undo func()
}

// set returns what it has set, 0 for nothing.
func set(opts []Option) (limit int64, err error) {
	c := config{ratio: 0.9}
	for _, o := range opts {
		o(&c)
	}
	defer func() {
		if err != nil {
			c.log(slog.LevelError, "failed to set GOMEMLIMIT", slog.Any("error", err))
		}
	}()
	if text, ok := os.LookupEnv("AUTOMEMLIMIT"); ok {
		if text == "off" {
			c.log(slog.LevelInfo, "AUTOMEMLIMIT is off, skipping")
			return 0, nil
		}
		if c.ratio, err = strconv.ParseFloat(text, 64); err != nil {
			return 0, fmt.Errorf("cannot parse AUTOMEMLIMIT: %s", text)
		}
	}
	if os.Getenv("AUTOMEMLIMIT_EXPERIMENT") == "system" {
		if c.from == nil {
			c.from = FromCgroup
		}
		c.from = ApplyFallback(c.from, FromSystem)
	}
	if err := valid(c.ratio); err != nil {
		return 0, fmt.Errorf("failed to set GOMEMLIMIT: %w", err)
	}
	now.Lock()
	defer now.Unlock()
	d, undo := memory.Set(memory.Options{Share: c.ratio, Min: c.least, Limit: c.from.limit()})
	if now.undo != nil {
		now.undo()
	}
	now.undo = undo
	return d.Bytes, c.tell(d)
}

// tell logs what was decided, or returns why nothing could be.
func (c *config) tell(d memory.Decision) error {
	for _, w := range d.Warnings {
		c.log(slog.LevelWarn, w.Error())
	}
	switch {
	case d.User != "":
		c.log(slog.LevelInfo, "GOMEMLIMIT is already set, skipping", slog.String("GOMEMLIMIT", d.User))
	case d.Bytes > 0:
		c.log(slog.LevelInfo, "GOMEMLIMIT is updated", slog.Int64("GOMEMLIMIT", d.Bytes), slog.Int64("previous", d.Before))
	case d.Off, d.Before != math.MaxInt64:
		c.log(slog.LevelInfo, "GOMEMLIMIT stays, skipping", slog.String("reason", d.Why()[0]))
	case d.Limits.State == cgroup.Unknown && !isNoLimit(d.Limits.Reason):
		return fmt.Errorf("failed to set GOMEMLIMIT: %w", d.Limits.Reason)
	case d.Limits.State == cgroup.Limited:
		c.log(slog.LevelInfo, "memory limit is too low, skipping", slog.Int64("limit", d.Limits.Bytes))
	default:
		c.log(slog.LevelInfo, "memory is not limited, skipping")
	}
	return nil
}

func (c *config) log(level slog.Level, text string, attrs ...slog.Attr) {
	if c.logger != nil {
		c.logger.LogAttrs(context.Background(), level, text, attrs...)
	}
}

// A Provider says what the limit is, in bytes, or returns ErrNoLimit.
type Provider func() (uint64, error)

// limit is what package memory asks.
func (p Provider) limit() func() (int64, error) {
	if p == nil {
		return nil
	}
	return func() (int64, error) {
		n, err := p()
		if isNoLimit(err) || n > math.MaxInt64 {
			return 0, nil
		}
		return int64(n), err
	}
}

// isNoLimit reports whether an error means that there is no limit, or that none can be here.
func isNoLimit(err error) bool {
	return errors.Is(err, ErrNoLimit) || errors.Is(err, ErrCgroupsNotSupported)
}

// FromCgroup is the limit of the process's cgroups.
func FromCgroup() (uint64, error) {
	if runtime.GOOS != "linux" {
		return 0, ErrCgroupsNotSupported
	}
	switch m := cgroup.ReadMemory(cgroup.Source{}); {
	case m.State == cgroup.Limited:
		return uint64(m.Bytes), nil
	case m.State == cgroup.None:
		return 0, ErrNoLimit
	case errors.Is(m.Reason, cgroup.ErrNotVisible):
		return 0, fmt.Errorf("%w: %w", ErrNoCgroup, m.Reason)
	default:
		return 0, m.Reason
	}
}

// FromCgroupV1, FromCgroupV2 and FromCgroupHybrid are FromCgroup, which sees which version there is.
func FromCgroupV1() (uint64, error)     { return FromCgroup() }
func FromCgroupV2() (uint64, error)     { return FromCgroup() }
func FromCgroupHybrid() (uint64, error) { return FromCgroup() }

// FromSystem is all memory of the machine, as Linux reports it. Elsewhere it is not known: ErrNoLimit.
func FromSystem() (uint64, error) {
	text, _ := os.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(text), "\n") {
		var kilobytes uint64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kilobytes); n == 1 && kilobytes > 0 && kilobytes < 1<<50 {
			return kilobytes << 10, nil
		}
	}
	return 0, ErrNoLimit
}

// Limit returns a provider of one limit.
func Limit(limit uint64) Provider { return func() (uint64, error) { return limit, nil } }

// ApplyRatio returns a provider of a share of what another one says.
func ApplyRatio(p Provider, ratio float64) Provider {
	return func() (uint64, error) {
		if err := valid(ratio); err != nil {
			return 0, err
		}
		n, err := p()
		if err != nil {
			return 0, err
		}
		return uint64(float64(n) * ratio), nil
	}
}

// ApplyFallback returns a provider that asks another one where the first has an error, and ErrNoLimit is one too.
func ApplyFallback(p, fallback Provider) Provider {
	return func() (uint64, error) {
		if n, err := p(); err == nil {
			return n, nil
		}
		return fallback()
	}
}

func valid(ratio float64) error {
	if !(ratio > 0) || ratio > 1 {
		return fmt.Errorf("invalid ratio: %f, ratio should be in the range (0.0,1.0]", ratio)
	}
	return nil
}
