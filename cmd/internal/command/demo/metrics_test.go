package demo

import (
	"bufio"
	"fmt"
	"math"
	"regexp"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

var (
	nameRule   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	sampleRule = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelsRule = regexp.MustCompile(`^(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\["\\n])*"(?:,|$))+$`)
	leRule     = regexp.MustCompile(`,?le="([^"]*)"$`)
)

// parse holds a text to the rules of Prometheus' format, and returns the values by name and labels.
func parse(t *testing.T, text string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	kinds := map[string]string{}
	var family, kind string
	lastBucket := map[string][2]float64{} // bound and count, by name and other labels
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, what, _ := strings.Cut(help, " ")
			if kinds[name] != "" || !nameRule.MatchString(name) || what == "" {
				t.Errorf("bad or second help: %q", line)
			}
			family, kind, kinds[name] = name, "", "?"
			continue
		}
		if of, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, is, _ := strings.Cut(of, " ")
			if name != family || kind != "" || is != "counter" && is != "gauge" && is != "histogram" {
				t.Errorf("bad type: %q", line)
			}
			if (is == "counter") != strings.HasSuffix(name, "_total") {
				t.Errorf("a counter's name ends in _total, and no other's: %q", line)
			}
			kind, kinds[name] = is, is
			continue
		}
		m := sampleRule.FindStringSubmatch(line)
		if m == nil || m[2] != "" && !labelsRule.MatchString(m[2]) {
			t.Errorf("not a sample: %q", line)
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil || math.IsNaN(value) || kind == "counter" && value < 0 {
			t.Errorf("bad value: %q", line)
		}
		base := m[1]
		if kind == "histogram" {
			base = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(base, "_bucket"), "_sum"), "_count")
		}
		if base != family {
			t.Errorf("%q is not of the family %s", line, family)
		}
		key := m[1] + "{" + m[2] + "}"
		if _, twice := values[key]; twice {
			t.Errorf("twice: %q", line)
		}
		values[key] = value
		if strings.HasSuffix(m[1], "_bucket") && kind == "histogram" {
			le := leRule.FindStringSubmatch(m[2])
			if le == nil {
				t.Fatalf("a bucket without le: %q", line)
			}
			bound, _ := strconv.ParseFloat(le[1], 64)
			series := base + "{" + strings.TrimSuffix(m[2], le[0]) + "}"
			if last, ok := lastBucket[series]; ok && (bound <= last[0] || value < last[1]) {
				t.Errorf("%q does not go up from %v", line, last)
			}
			lastBucket[series] = [2]float64{bound, value}
		}
	}
	for series, last := range lastBucket {
		count := strings.Replace(series, "{", "_count{", 1)
		if _, ok := values[strings.Replace(series, "{", "_sum{", 1)]; !ok || !math.IsInf(last[0], +1) || values[count] != last[1] {
			t.Errorf("%s: the last bucket %v, count %v, or no sum", series, last, values[count])
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	_, server := serve(t, Options{})
	ask(t, "GET", server.URL+"/isPrime/7", "")
	ask(t, "GET", server.URL+"/isPrime/11", "")
	ask(t, "GET", server.URL+"/isPrime/x", "")
	ask(t, "GET", server.URL+"/some/path/of/a/scanner", "")
	_, text := ask(t, "GET", server.URL+"/metrics", "")
	values := parse(t, text)
	for name, want := range map[string]float64{
		`unthrottle_http_request_seconds_count{path="/isPrime/{n}",code="200"}`: 2,
		`unthrottle_http_request_seconds_count{path="/isPrime/{n}",code="400"}`: 1,
		`unthrottle_http_request_seconds_count{path="other",code="404"}`:        1,
	} {
		if values[name] != want {
			t.Errorf("%s is %v, want %v", name, values[name], want)
		}
	}
	states := 0.0
	for _, state := range []string{"unknown", "none", "limited", "hidden"} {
		states += values[`unthrottle_cpu_limit_state{state="`+state+`"}`]
	}
	if states != 1 {
		t.Errorf("%v states, want 1", states)
	}
	for _, name := range []string{
		"go_sched_gomaxprocs_threads{}", "go_sched_latencies_seconds_count{}", "unthrottle_gc_cpu_ratio{}",
		"go_cpu_classes_gc_total_cpu_seconds_total{}", "go_memory_classes_heap_objects_bytes{}",
	} {
		if _, ok := values[name]; !ok {
			t.Errorf("no %s in\n%s", name, text)
		}
	}
}

func TestMetricsOfALimit(t *testing.T) {
	var e exposition
	e.limit(cgroup.Limits{State: cgroup.Limited, CPUs: .5, From: `/a "b"\c`, Affinity: 4}, cgroup.Throttling{
		Owner: cgroup.Counters{Dir: "/a", Known: true, Periods: 10, Throttled: 9, ThrottledTime: 1500 * time.Millisecond},
		Local: 2 * time.Second, LocalKnown: true,
	})
	values := parse(t, e.String())
	for name, want := range map[string]float64{
		`unthrottle_cpu_limit_cpus{cgroup="/a \"b\"\\c"}`:        .5,
		`unthrottle_gomaxprocs_wanted{}`:                         2,
		`unthrottle_cgroup_periods_total{cgroup="/a"}`:           10,
		`unthrottle_cgroup_throttled_periods_total{cgroup="/a"}`: 9,
		`unthrottle_cgroup_throttled_seconds_total{cgroup="/a"}`: 1.5,
		`unthrottle_cgroup_local_throttled_seconds_total{}`:      2,
		`unthrottle_cpu_limit_state{state="limited"}`:            1,
	} {
		if values[name] != want {
			t.Errorf("%s is %v, want %v", name, values[name], want)
		}
	}
	e.Reset()
	e.limit(cgroup.Limits{State: cgroup.Unknown}, cgroup.Throttling{})
	for name := range parse(t, e.String()) {
		if !strings.HasPrefix(name, "unthrottle_cpu_limit_state") {
			t.Errorf("%s, though nothing is known", name)
		}
	}
}

func TestCoarse(t *testing.T) {
	inf := math.Inf(+1)
	got := coarse(&metrics.Float64Histogram{
		Buckets: []float64{math.Inf(-1), 0, 1, 1.5, 2, 3, 4, 9, inf},
		Counts:  []uint64{0, 2, 4, 8, 16, 32, 64, 128},
	})
	// 2·0.5 + 4·1.25 + 8·1.75 + 16·2.5 + 32·3.5 + 64·6.5 + 128·9
	want := buckets{[]float64{1, 2, 4, 9, inf}, []uint64{2, 12, 48, 64, 128}, 1 + 5 + 14 + 40 + 112 + 416 + 1152}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := coarse(&metrics.Float64Histogram{Buckets: []float64{0, 1, 1.5}, Counts: []uint64{1, 2}}); fmt.Sprint(got.bounds, got.counts) != "[1 +Inf] [1 2]" {
		t.Errorf("without an infinite bound: %v", got)
	}
}
