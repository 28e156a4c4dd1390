// Package heartbeat answers: when does the kernel let nothing run in this cgroup, and why? A process of its own repeatedly sleeps for 2 ms
// inside the group. It uses less than a hundredth of a CPU, so that nothing but a quota can make it late for long: if it wakes 3 ms late or
// more, the group stood still.
//
// In goes the group, by a process in it; out come the freezes as they happen ([Start]), what the kernel counted meanwhile
// ([Sampler]), and a verdict on both ([Observation.Judge]). It needs no privilege for its own group, and no help from the
// programs in it. Linux only.
//
// It does not see freezes shorter than some 3 ms, and not contention: a thread that mostly sleeps is given a CPU at once however busy the
// host is (0.4 % late next to three spinners on two CPUs). So contention is recognised by what the kernel counted: how long the group's
// threads waited for a CPU, and who else used it.
package heartbeat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

const (
	// Interval is how long the heartbeat sleeps, at least.
	Interval = 2 * time.Millisecond
	// Late is how late it must be to count as a freeze.
	Late = 3 * time.Millisecond
	// reportEvery is how often it reports what it saw.
	reportEvery = 100 * time.Millisecond
)

// ErrNotSupported means that there is no heartbeat on this system.
var ErrNotSupported = errors.New("a heartbeat needs Linux")

// A Pulse is what the heartbeat reports from time to time. Times are since its first beat.
type Pulse struct {
	At      time.Duration
	Beats   int64         // so far
	CPU     time.Duration // that it has used so far
	Freezes []freeze.Gap  // that ended since the Pulse before
}

// newFreeze is a freeze that made the heartbeat late. It began at some moment of the sleep, but what is counted is the
// lateness alone. The time until the thread has a CPU again makes up for the rest: of two busy threads that were frozen
// for 49.7 and 24.7 % of the time, by the kernel's count, it reported 49.5 and 24.4.
func newFreeze(due, woke time.Duration) freeze.Gap { return freeze.Gap{Start: due, End: woke} }

// A pacer makes the heartbeat sleep longer where a beat is expensive: on a busy host with cold caches, in a virtual machine whose timers
// are slow. A beat took 13 µs on a quiet machine, and 45 next to ten busy threads.
type pacer struct {
	sleep time.Duration
	at    time.Duration // when sleep was last adjusted
	cpu   time.Duration // used until then
}

const (
	longestSleep = 2 * Interval
	sleepStep    = Interval / 8
	paceEvery    = 500 * time.Millisecond
	tooDear      = 0.008 // of a CPU
	cheap        = 0.006
)

// adjust is called with the CPU time that was used so far.
func (p *pacer) adjust(now, cpu time.Duration) {
	if now-p.at < paceEvery {
		return
	}
	switch share := ratio(cpu-p.cpu, now-p.at); {
	case share > tooDear:
		p.sleep = min(p.sleep+sleepStep*time.Duration(share/tooDear), longestSleep)
	case share < cheap:
		p.sleep = max(p.sleep-sleepStep, Interval)
	}
	p.at, p.cpu = now, cpu
}

// append writes a pulse as a line:
//
//	pulse 100123456 48 812000 20001000-75400123
//	      1         2  3      4…
//
// 1 when, 2 beats, 3 CPU time, 4 start and end of a freeze; times in nanoseconds.
func (p Pulse) append(line []byte) []byte {
	line = append(line, "pulse "...)
	line = strconv.AppendInt(line, int64(p.At), 10)
	line = append(line, ' ')
	line = strconv.AppendInt(line, p.Beats, 10)
	line = append(line, ' ')
	line = strconv.AppendInt(line, int64(p.CPU), 10)
	for _, f := range p.Freezes {
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(f.Start), 10)
		line = append(line, '-')
		line = strconv.AppendInt(line, int64(f.End), 10)
	}
	return append(line, '\n')
}

// parsePulse reads a line written by append.
func parsePulse(line string) (p Pulse, err error) {
	words := strings.Fields(line)
	if len(words) < 4 || words[0] != "pulse" {
		return p, fmt.Errorf("bad pulse %q", line)
	}
	number := func(text string) int64 {
		n, e := strconv.ParseInt(text, 10, 64)
		if e != nil || n < 0 {
			err = fmt.Errorf("bad number %q in pulse %q", text, line)
		}
		return n
	}
	p.At, p.Beats, p.CPU = time.Duration(number(words[1])), number(words[2]), time.Duration(number(words[3]))
	for _, w := range words[4:] {
		start, end, _ := strings.Cut(w, "-")
		f := freeze.Gap{Start: time.Duration(number(start)), End: time.Duration(number(end))}
		if err == nil && (f.End <= f.Start || f.End > p.At) {
			err = fmt.Errorf("bad freeze %q in pulse %q", w, line)
		}
		p.Freezes = append(p.Freezes, f)
	}
	return p, err
}
