package goself

import (
	"math"
	"strings"
	"testing"
)

const page = `# HELP go_gc_duration_seconds A summary.
# TYPE go_gc_duration_seconds summary
go_gc_duration_seconds{quantile="0"} 1.2e-05
go_gc_duration_seconds_sum 0.5
go_gc_duration_seconds_count 10
go_sched_gomaxprocs_threads 4
go_cpu_classes_gc_total_cpu_seconds_total 1.5
process_cpu_seconds_total 10
go_sched_latencies_seconds_bucket{le="1e-06"} 100
go_sched_latencies_seconds_bucket{le="0.001"} 200
go_sched_latencies_seconds_bucket{le="+Inf"} 200
http_requests_total{path="}go_"} 7
`

func TestSince(t *testing.T) {
	before, ok := ParseReading([]byte(page))
	if !ok || before.Procs != 4 {
		t.Fatalf("%+v, %v", before, ok)
	}
	later := strings.NewReplacer(
		"_count 10", "_count 30", "_total 1.5", "_total 2.5", "seconds_total 10", "seconds_total 14",
		`le="1e-06"} 100`, `le="1e-06"} 160`, `le="0.001"} 200`, `le="0.001"} 300`, `le="+Inf"} 200`, `le="+Inf"} 300`,
	).Replace(page)
	after, _ := ParseReading([]byte(later))
	if got, want := after.Since(before), (Figures{20, 0.25, 1e-6, 1e-3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	pauses, _ := ParseReading([]byte(strings.Replace(later, "_total 2.5", "_total 9.5", 1))) // 8 s of 4
	if got := pauses.Since(before); got.GCShare != -1 || got.Collections != 20 {
		t.Errorf("more than there was: %+v", got)
	}
	// A process that was restarted has smaller counts.
	if got := before.Since(after); got.Collections != -1 || got.GCShare != -1 || got.SchedP99 != -1 {
		t.Errorf("backwards: %+v", got)
	}
	little, ok := ParseReading([]byte("go_sched_gomaxprocs_threads 2\n"))
	if got := little.Since(little); !ok || little.Procs != 2 || got != (Figures{-1, -1, -1, -1}) {
		t.Errorf("GOMAXPROCS alone: %+v, %+v", little, got)
	}
}

func TestParseReadingOther(t *testing.T) {
	for _, page := range []string{
		"", "<!doctype html><p>go_sched_gomaxprocs_threads 4</p>", "go_sched_gomaxprocs_threads", "go_sched_gomaxprocs_threads{",
		"go_sched_gomaxprocs_threads{a=\"b\"}", "go_sched_gomaxprocs_threads NaN", "process_cpu_seconds_total -1", "python_info 1",
	} {
		if r, ok := ParseReading([]byte(page)); ok {
			t.Errorf("%q: %+v", page, r)
		}
	}
}

func FuzzParseReading(f *testing.F) {
	f.Add(page, page)
	f.Add("go_sched_latencies_seconds_bucket{le=\"x\"} 1\n", "go_sched_latencies_seconds_bucket{le=\"+Inf\"} 1\n")
	f.Add("go_sched_latencies_seconds_bucket{}0", "go_sched_latencies_seconds_bucket{}0")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, _ := ParseReading([]byte(a))
		y, _ := ParseReading([]byte(b))
		got := y.Since(x)
		for _, v := range []float64{got.Collections, got.GCShare} {
			if math.IsNaN(v) || v < -1 {
				t.Errorf("%+v", got)
			}
		}
		if got.GCShare > 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestCounter(t *testing.T) {
	const page = "# jobs_total 5\njobs_total{queue=\"a } \\\" b\"} 7 1700000000\njobs_total 2\njobs_total_created 9\nother 3\njobs_total{broken 5\njobs_total NaN\n"
	for name, want := range map[string]float64{"jobs_total": 9, "other": 3, "jobs": -1, "": -1} {
		n, ok := Counter([]byte(page), name)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %v, %v", name, n, ok)
		}
	}
	if n, ok := Counter([]byte("a 1\n"+strings.Repeat("x", 2<<20)+" 1\na 2\n"), "a"); ok {
		t.Errorf("%v of a page that could not be read to its end", n)
	}
}
