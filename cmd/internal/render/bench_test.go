package render

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
)

func TestMetric(t *testing.T) {
	for _, c := range []struct {
		unit string
		v    float64
		want string
	}{
		{"ns/op", 27100, "27.1 µs"},
		{"ns/op", 0.5, "0.50 ns"},
		{"ns/op", 2.11e10, "21.1 s"},
		{"ns/op", 999.97, "1.00 µs"},
		{"sched-p99-ns", 83.9e6, "83.9 ms"},
		{"wall-sec", 0.0123, "12.3 ms"},
		{"wall-sec", 5000, "5000 s"},
		{"cpu-s/12k-events", 0.095, "95.0 ms"},
		{"on-ms", 25.6, "25.6 ms"},
		{"peak-RSS-bytes", 16 << 20, "16 MiB"},
		{"throttled-%", 87.5, "87.5 %"},
		{"throttled-%", 0, "0 %"},
		{"ops/s", 3064751, "3.06 M"},
		{"ops/s", 12, "12.0"},
		{"req/s", 0, "0"},
		{"standstill-share", 0.75, "0.75"},
		{"metric", 123456, "123456"},
		{"metric", 0.00001, "1e-05"},
	} {
		if got := metric(c.unit, c.v); got != c.want {
			t.Errorf("%v %s: got %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// TestStrip draws two periods of 25 ms work and 75 ms standstill.
func TestStrip(t *testing.T) {
	got := strip([][2]int64{{0, 25000}, {100000, 125000}, {200000, 200001}})
	want := strings.Repeat("█", 5) + strings.Repeat("·", 15)
	if want += want; got != want+"·" {
		t.Errorf("got  %s\nwant %s·", got, want)
	}
	long := strip([][2]int64{{0, 400000}, {500000, 2000000}})
	if n := len([]rune(long)); n != pictureWidth {
		t.Errorf("%d columns, want %d", n, pictureWidth)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		s    lab.Setting
		r    lab.Run
		want string
	}{
		{lab.Setting{Workload: "fib", CPUs: 0.5, Procs: 1}, lab.Run{Block: 3, GOMAXPROCS: 1}, "BenchmarkFib/limit=0.5/block=3-1"},
		{lab.Setting{Workload: "gocmd-list", Go: "go1.18.10", Procs: 2}, lab.Run{Block: 1}, "BenchmarkGocmdList/limit=none/go=go1.18.10/block=1-2"},
		{lab.Setting{Workload: "fib", CPUs: 1}, lab.Run{Block: 1, GOMAXPROCS: 2}, "BenchmarkFib/limit=1/procs=default/block=1-2"},
		{lab.Setting{Workload: "BenchmarkB/x=2", CPUs: 1}, lab.Run{Block: 1}, "BenchmarkB/x=2/limit=1/procs=default/block=1"},
		{lab.Setting{Workload: "my server.sh", CPUs: 1, Procs: 4}, lab.Run{Block: 1}, "BenchmarkMyServerSh/limit=1/block=1-4"},
	} {
		if got := goName(c.s, c.r); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	for name, want := range map[string]string{"chain 1": "Chain", "chain 2": "Chain-2", "chain default": "Chain-default"} {
		work, procs, _ := strings.Cut(name, " ")
		if got := classicName(work, procs); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
