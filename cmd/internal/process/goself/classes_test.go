package goself

import (
	"math"
	"testing"
	"time"
)

func TestClasses(t *testing.T) {
	before, ok := ParseClasses([]byte(`# HELP go_cpu_classes_total_cpu_seconds_total GOMAXPROCS times time.
go_cpu_classes_total_cpu_seconds_total 1000
go_cpu_classes_idle_cpu_seconds_total 100
go_sched_gomaxprocs_threads 192
process_cpu_seconds_total 9.5
`))
	if want := (Classes{192, 1000, 100, 9.5}); !ok || before != want {
		t.Fatalf("got %+v, %v, want %+v", before, ok, want)
	}
	if d, ok := before.Start(); !ok || d.Ratio() != 900/9.5 {
		t.Errorf("since the start: %+v, %v", d, ok)
	}
	after := before
	// Collections 8 s apart, while 10 s have passed and 10 s of CPU time were used: 192 × 8 s, a quarter of it idle.
	after.Total += 192 * 8
	after.Idle += 192 * 2
	d, ok := after.Since(before, 10*time.Second, 10*time.Second)
	if want := (Demand{144, 1, 8 * time.Second}); !ok || d != want {
		t.Errorf("got %+v, %v, want %+v", d, ok, want)
	}
	after.Procs = 0
	if d, ok := after.Since(before, 10*time.Second, 10*time.Second); !ok || math.Abs(d.Ratio()-192*6/10.) > 1e-9 {
		t.Errorf("without GOMAXPROCS: %+v, %v", d, ok)
	}
	for name, c := range map[string][2]Classes{
		"no collection": {before, before},
		"restarted":     {before, {192, 10, 1, 0.5}},
	} {
		if d, ok := c[1].Since(c[0], time.Second, time.Second); ok {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if _, ok := ParseClasses([]byte(page)); ok {
		t.Error("a page without the classes was read")
	}
	if _, ok := ParseClasses([]byte("go_cpu_classes_total_cpu_seconds_total 1\ngo_cpu_classes_idle_cpu_seconds_total 2\n")); ok {
		t.Error("more was idle than there is")
	}
}
