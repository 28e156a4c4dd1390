package program

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sort"
	"time"
)

const (
	// readFileSize is the size of the file that is read. A read takes some ten microseconds, and that is how finely the
	// ends of an interval are known.
	readFileSize = 4 << 10

	// readFileHeap is memory that is kept and never touched. Every read allocates, and with an empty heap there would be
	// hundreds of collections a second, and the goroutines would mostly wait for them.
	readFileHeap = 32 << 20
)

// activityGap is the shortest standstill that is noted. It is longer than what does not count: a pause of the collector, a
// wake-up, or the 3 to 4 milliseconds for which the kernel gives the CPU to another program. And it is shorter than what a
// quota does: a process that used it up stands still for the rest of the period, tens of milliseconds of the usual 100.
const activityGap = 5 * time.Millisecond

// runReadFile measures goroutines that do nothing but read a file, and writes down when they ran. A process that a
// quota stops can't note that it stands still, but it sees afterwards that the clock has jumped. So throttling can be
// drawn without a trace and without asking the kernel.
func runReadFile(o options) (Result, error) {
	path, content, err := tempFile()
	if err != nil {
		return Result{}, err
	}
	defer os.Remove(path)
	heap := make([]byte, readFileHeap)
	defer runtime.KeepAlive(heap)

	logs := make([]activityLog, o.size)
	var start time.Time
	read := func(worker int, _ int64) error {
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, content) {
			return fmt.Errorf("reading %s: got %d bytes other than those written", path, len(got))
		}
		logs[worker].ran(time.Since(start))
		return nil
	}
	start = time.Now()
	if _, err := spread(o.size, warmUp, read); err != nil {
		return Result{}, err
	}
	for i := range logs {
		logs[i] = activityLog{intervals: make([]span, 0, 64)}
	}
	m := startMeter()
	start = m.start
	ops, err := spread(o.size, o.window, read)
	if err != nil {
		return Result{}, err
	}
	r := m.stop(ops)

	var all []span
	for i := range logs {
		all = append(all, logs[i].close()...)
	}
	all = merge(all, activityGap)
	for _, s := range all {
		r.Activity = append(r.Activity, Interval{s.start.Microseconds(), s.end.Microseconds()})
	}
	for unit, value := range picture(all, time.Duration(r.Seconds*float64(time.Second))) {
		r.Metrics[unit] = value
	}
	r.Metrics["ops/s"] = float64(ops) / r.Seconds
	return r, nil
}

func tempFile() (path string, content []byte, err error) {
	content = bytes.Repeat([]byte("0123456789abcdef"), readFileSize/16)
	f, err := os.CreateTemp("", "unthrottle-readfile-*")
	if err != nil {
		return "", nil, err
	}
	_, err = f.Write(content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(f.Name())
		return "", nil, fmt.Errorf("writing the file to read: %w", err)
	}
	return f.Name(), content, nil
}

// A span is a stretch of time, from the start of the window.
type span struct{ start, end time.Duration }

// An activityLog notes when one goroutine ran. It keeps the ends of intervals only, so that noting costs a comparison, and
// there are never more of them than gaps fit into the window. It has the size of a cache line or more, for each goroutine
// writes to its own.
type activityLog struct {
	intervals []span
	open      span
	_         [64]byte
}

// ran notes that the goroutine ran at the time now, and takes it to have run since the last note if that is not long ago.
func (l *activityLog) ran(now time.Duration) {
	if now-l.open.end > activityGap {
		if l.open.end > l.open.start {
			l.intervals = append(l.intervals, l.open)
		}
		l.open.start = now
	}
	l.open.end = now
}

func (l *activityLog) close() []span {
	if l.open.end > l.open.start {
		l.intervals = append(l.intervals, l.open)
	}
	return l.intervals
}

// merge joins spans that overlap, or are not farther apart than gap, and returns them in the order of time.
func merge(spans []span, gap time.Duration) []span {
	sort.Slice(spans, func(i, j int) bool { return spans[i].start < spans[j].start })
	var merged []span
	for _, s := range spans {
		last := len(merged) - 1
		switch {
		case last < 0 || s.start-merged[last].end > gap:
			merged = append(merged, s)
		case s.end > merged[last].end:
			merged[last].end = s.end
		}
	}
	return merged
}

// picture sums up the intervals of a window: on-ms is the median length of an interval, without the first and the last as
// the window cuts them, off-ms the median standstill between two, and standstill-share the part of the window in which
// nothing ran. A figure with too little data is left out.
func picture(on []span, window time.Duration) map[string]float64 {
	var lengths, gaps []time.Duration
	var ran time.Duration
	for i, s := range on {
		ran += s.end - s.start
		if i > 0 {
			gaps = append(gaps, s.start-on[i-1].end)
		}
		if i > 0 && i < len(on)-1 {
			lengths = append(lengths, s.end-s.start)
		}
	}
	metrics := map[string]float64{"standstill-share": 0}
	if window > ran {
		metrics["standstill-share"] = 1 - ran.Seconds()/window.Seconds()
	}
	if len(lengths) > 0 {
		metrics["on-ms"] = median(lengths).Seconds() * 1000
	}
	if len(gaps) > 0 {
		metrics["off-ms"] = median(gaps).Seconds() * 1000
	}
	return metrics
}

func median(d []time.Duration) time.Duration {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	n := len(d)
	if n%2 == 1 {
		return d[n/2]
	}
	return (d[n/2-1] + d[n/2]) / 2
}
