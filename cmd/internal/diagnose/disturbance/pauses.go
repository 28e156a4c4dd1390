package disturbance

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// interval is how long a thread sleeps, on a machine of few CPUs. On one of many all threads together wake as often as these few.
	interval = time.Millisecond
	few      = 4
	// late is how late a wake must be to count. Interrupts alone make a hundredth of them 0.1 ms late.
	late = 500 * time.Microsecond
	// reportEvery is how often the threads are asked what they saw.
	reportEvery = 20 * time.Millisecond
)

var errNotSupported = errors.New("only Linux tells when the machine stood still")

// A report is what all threads saw up to a time, by the machine's monotonic clock.
type report struct {
	until  time.Duration
	pauses []Span // that ended since the report before, or later than until
}

// append writes a report as a line: when, and the beginnings and ends of pauses, in nanoseconds.
func (r report) append(line []byte) []byte {
	line = strconv.AppendInt(line, int64(r.until), 10)
	for _, p := range r.pauses {
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(p.From), 10)
		line = append(line, '-')
		line = strconv.AppendInt(line, int64(p.To), 10)
	}
	return append(line, '\n')
}

// parse reads a line written by append.
func parse(line string) (r report, err error) {
	number := func(text string) time.Duration {
		n, e := strconv.ParseInt(text, 10, 64)
		if e != nil || n < 0 {
			err = fmt.Errorf("bad number %.30q in a report of pauses", text)
		}
		return time.Duration(n)
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return r, errors.New("an empty report of pauses")
	}
	r.until = number(words[0])
	for _, w := range words[1:] {
		from, to, _ := strings.Cut(w, "-")
		p := Span{From: number(from), To: number(to)}
		if err == nil && p.To <= p.From {
			err = fmt.Errorf("bad pause %.60q in a report of pauses", w)
		}
		r.pauses = append(r.pauses, p)
	}
	return r, err
}

// dearest is the share of the CPUs that a watch may use. Most use a hundredth or two; where CPUs are emulated it can take most of them, and
// what it then sees is itself.
const dearest = 0.1

// price is what the watch itself costs.
type price struct {
	cpus       int
	since, had time.Duration // when it was looked at last, and the CPU time used until then
}

// check looks once a second, and is an error where the watch uses too much.
func (p *price) check(now, used time.Duration) error {
	if p.since != 0 && now-p.since < time.Second {
		return nil
	}
	share := float64(used-p.had) / float64(now-p.since) / float64(p.cpus)
	first := p.since == 0
	if p.since, p.had = now, used; !first && share > dearest {
		return fmt.Errorf("the watch for pauses would use %.0f %% of the CPUs here", 100*share)
	}
	return nil
}
