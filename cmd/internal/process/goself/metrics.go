package goself

import (
	"bufio"
	"bytes"
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Reading is what a /metrics page says at one time.
type Reading struct {
	Procs     int     // GOMAXPROCS; 0: unknown
	cycles    float64 // garbage collections
	gc        float64 // seconds of CPU time of the collector
	cpu       float64 // of the process
	latencies map[float64]float64
	known     map[string]bool
}

// Names that are read.
const (
	procsName     = "go_sched_gomaxprocs_threads"
	cyclesName    = "go_gc_duration_seconds_count"
	gcName        = "go_cpu_classes_gc_total_cpu_seconds_total"
	cpuName       = "process_cpu_seconds_total"
	latenciesName = "go_sched_latencies_seconds_bucket"
)

// ParseReading reads a page. ok is false if it has nothing from a Go runtime.
func ParseReading(page []byte) (r Reading, ok bool) {
	r = Reading{latencies: map[float64]float64{}, known: map[string]bool{}}
	for s := range samples(page) {
		switch s.name {
		case procsName:
			r.Procs = s.procs()
		case cyclesName:
			r.cycles = s.value
		case gcName:
			r.gc = s.value
		case cpuName:
			r.cpu = s.value
		case latenciesName:
			if math.IsNaN(s.bound) {
				continue
			}
			r.latencies[s.bound] = s.value
		default:
			continue
		}
		r.known[s.name] = true
	}
	return r, len(r.known) > 0
}

// A sample is a number of a page.
type sample struct {
	name  string
	bound float64 // of a histogram's bucket, else NaN
	value float64
}

// procs is the value as a GOMAXPROCS, 0 if it can't be one.
func (s sample) procs() int {
	if s.value >= 1 && s.value < 1<<20 {
		return int(s.value)
	}
	return 0
}

// samples are those of a page that are about the runtime or the process.
func samples(page []byte) iter.Seq[sample] {
	return func(yield func(sample) bool) {
		lines := bufio.NewScanner(bytes.NewReader(page))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			line := lines.Text()
			if !strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_") {
				continue
			}
			if s, ok := parseSample(line); ok && !yield(s) {
				return
			}
		}
	}
}

// parseSample reads a line such as: go_sched_latencies_seconds_bucket{le="0.001"} 17 1700000000.
func parseSample(line string) (s sample, ok bool) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return s, false
	}
	s.name, s.bound = line[:end], math.NaN()
	rest := line[end:]
	if strings.HasPrefix(rest, "{") {
		labels, after, closed := cutLabels(rest[1:])
		if !closed {
			return s, false
		}
		if _, le, found := strings.Cut(labels, `le="`); found {
			le, _, _ = strings.Cut(le, `"`)
			if v, err := strconv.ParseFloat(le, 64); err == nil {
				s.bound = v
			}
		}
		rest = after
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return s, false
	}
	var err error
	s.value, err = strconv.ParseFloat(fields[0], 64)
	return s, err == nil && s.value >= 0 && !math.IsInf(s.value, 0)
}

// cutLabels cuts after the bracket that ends the labels, whose values may have one as well.
func cutLabels(text string) (labels, after string, closed bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return text[:i], text[i+1:], true
		}
	}
	return "", "", false
}

// Counter is the sum of all series with that name; false: there isn't one.
func Counter(page []byte, name string) (sum float64, ok bool) {
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, name) {
			if s, is := parseSample(line); is && s.name == name {
				sum, ok = sum+s.value, true
			}
		}
	}
	return sum, ok && lines.Err() == nil // else what follows a line that is too long is not in it
}

// Figures are what happened between two readings. What is not known is negative.
type Figures struct {
	Collections float64
	GCShare     float64 // of the CPU time
	SchedP50    float64 // seconds that a goroutine waited to run
	SchedP99    float64
}

// Since is what happened since an earlier reading of the same process.
func (r Reading) Since(before Reading) Figures {
	f := Figures{-1, -1, -1, -1}
	both := func(name string) bool { return r.known[name] && before.known[name] }
	if both(cyclesName) && r.cycles >= before.cycles {
		f.Collections = r.cycles - before.cycles
	}
	if cpu := r.cpu - before.cpu; both(gcName) && both(cpuName) && cpu > 0 && r.gc >= before.gc {
		if share := (r.gc - before.gc) / cpu; share <= 1 { // what is held of Ps by pauses is in it, and may be more than there was
			f.GCShare = share
		}
	}
	if both(latenciesName) {
		f.SchedP50, f.SchedP99 = r.quantile(before, 0.5), r.quantile(before, 0.99)
	}
	return f
}

// quantile is the upper bound of the bucket that a share of the waits between two readings ends in.
func (r Reading) quantile(before Reading, share float64) float64 {
	type bucket struct{ bound, count float64 }
	var buckets []bucket
	for bound, count := range r.latencies {
		buckets = append(buckets, bucket{bound, count - before.latencies[bound]})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	total := buckets[len(buckets)-1].count
	if total <= 0 {
		return -1
	}
	for i, b := range buckets {
		if b.count >= share*total {
			if math.IsInf(b.bound, +1) && i > 0 {
				return buckets[i-1].bound
			}
			return b.bound
		}
	}
	return -1
}
