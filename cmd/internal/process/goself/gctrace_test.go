package goself

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestParseCycle(t *testing.T) {
	for _, test := range []struct {
		line string
		want Cycle
		ok   bool
	}{
		{
			"gc 12 @0.345s 3%: 0.018+0.48+0.003 ms clock, 0.14+0.08/0.30/0.12+0.02 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 8 P",
			Cycle{380 * time.Microsecond, 1 << 20, 4 << 20, 8},
			true,
		},
		{ // a pause of 0.6 ms is one of 300 ms on 500 Ps, which had 100 ms in all
			"gc 3 @9.345s 3%: 0.6+9.48+0.5 ms clock, 300+1.5/2.5/0+250 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 500 P",
			Cycle{4 * time.Millisecond, 1 << 20, 4 << 20, 500},
			true,
		},
		{ // Go 1.17 and earlier
			"gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, 0.21+0.88/0.52/0+0.82 ms cpu, 4->5->3 MB, 5 MB goal, 2 P (forced)",
			Cycle{1400 * time.Microsecond, 3 << 20, 5 << 20, 2},
			true,
		},
		{"gc 1 @0.012s 2%: 0.026+0.39 ms clock, 0.21+0.88/0.52+0.82 ms cpu, 4->5->3 MB, 5 MB goal, 2 P", Cycle{}, false},
		{"gc 1 @0.012s 2%: 0+0+0 ms clock, 0+NaN/0/0+0 ms cpu, 4->5->3 MB, 5 MB goal, 2 P", Cycle{}, false},
		{"gc 1 @0.012s 2%", Cycle{}, false},
		{"listening on http://localhost:8080", Cycle{}, false},
		{"scvg: 0 MB released", Cycle{}, false},
		{"", Cycle{}, false},
	} {
		got, ok := ParseCycle([]byte(test.line))
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%q: got %+v, %v, want %+v, %v", test.line, got, ok, test.want, test.ok)
		}
	}
}

// TestGCLog reads what this Go version writes.
func TestGCLog(t *testing.T) {
	if os.Getenv("GCTRACE_TEST") != "" {
		for range 4 { // the line of the last may still be written at the end
			runtime.GC()
		}
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestGCLog$")
	cmd.Env = append(os.Environ(), "GCTRACE_TEST=1", "GODEBUG="+GCTrace, "GOMAXPROCS=3")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var l GCLog
	for line := range strings.Lines(stderr.String()) {
		l.Line([]byte(strings.TrimSuffix(line, "\n")))
	}
	s := l.Since(0)
	if s.Collections < 3 || s.Procs != 3 || s.CPU <= 0 || s.Goal < 1<<20 {
		t.Errorf("%+v from %s", s, &stderr)
	}
	if none := l.Since(l.Mark()); none != (GCSummary{}) {
		t.Errorf("after all of them: %+v", none)
	}
}

func FuzzParseCycle(f *testing.F) {
	f.Add("gc 12 @0.345s 3%: 0.018+0.48+0.003 ms clock, 0.14+0.08/0.30/0.12+0.02 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 8 P")
	f.Add("gc 1 @0.012s 2%: 0+0+0 ms clock, 0+1e300/0/0+0 ms cpu, 4->5->3 MB, 5 MB goal, 2 P (forced)")
	f.Fuzz(func(t *testing.T, line string) {
		c, ok := ParseCycle([]byte(line))
		if ok && (c.CPU < 0 || c.Live < 0 || c.Goal < 0 || c.Procs < 1) {
			t.Errorf("%q: %+v", line, c)
		}
		var l GCLog
		l.Line([]byte(line))
		l.Since(0)
	})
}
