package exectrace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// heardAs is what package guard logs the kernel's counts under, each time it looks at them, as cpu.stat has them. So its
// snapshots say themselves which freezes are the quota's.
const heardAs = "unthrottle cpu.stat"

// Heard is what the program itself has logged of the kernel's counts: the first, and the last.
type Heard struct {
	From, To      time.Duration
	Before, After cgroup.Counters
	Period        time.Duration // of the quota; 0: not logged, or several
}

func (p *program) hear(name int32, now int64) {
	text := p.names.frame(name).function
	c, err := ParseStat(text)
	if err != nil {
		return
	}
	var micros int64
	if _, after, ok := strings.Cut(text, "period_usec "); ok {
		value, _, _ := strings.Cut(after, "\n")
		if micros, err = strconv.ParseInt(value, 10, 64); err != nil || micros < 1000 || micros > 1_000_000 { // what the kernel takes
			micros = 0
		}
	}
	at, period := time.Duration(now), time.Duration(micros)*time.Microsecond
	if p.heard == nil || !c.Since(p.heard.Before).Known { // or they started again
		p.heard = &Heard{From: at, Before: c, Period: period}
	}
	if p.heard.To, p.heard.After = at, c; p.heard.Period != period {
		p.heard.Period = 0
	}
}

// counted is what the kernel counted from the first to the last.
func (h *Heard) counted() cgroup.Counters { return h.After.Since(h.Before) }

// kernel is what was heard about the cause, for all of a trace: in the time about which nothing was heard, all of the Ps may have been
// throttled.
func (h *Heard) kernel(wall time.Duration, procs int64) freeze.Kernel {
	if h == nil || h.counted().Throttled == 0 {
		return freeze.Kernel{}
	}
	unheard := max(0, wall-(h.To-h.From))
	return freeze.Kernel{Counts: true, Most: h.counted().ThrottledTime + unheard*time.Duration(min(procs, mostProcs))}
}

// vouches reports whether the kernel counted about as many throttled periods as there are freezes, in the time of which
// something was heard, and says so: then the freezes that have the rhythm of a quota are the quota's, however few events there
// are.
func (a *analysis) vouches() (why string, ok bool) {
	h := a.t.Heard
	if h == nil {
		return "", false
	}
	n, throttled := int64(0), h.counted().Throttled
	for _, s := range a.gaps {
		if g := gap(s); g.End > h.From && g.End <= h.To+a.t.Rhythm.Window {
			n++
		}
	}
	why = fmt.Sprintf("the kernel counted %s, as the program logged, and there are %s", quantity.Plural(throttled, "throttled period"), quantity.Plural(n, "freeze"))
	return why, n > 0 && n <= throttled+1 && n >= throttled-1-throttled/10
}
