package exectrace

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// recorded reads a trace of testdata. They are made by "go run ./trace -testdata DIR" in the bench module, on a machine
// with quotas; the names say what was done to the programs.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".trace.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRecorded: the facts of recorded traces are as they were, and the causes are what was done.
func TestRecorded(t *testing.T) {
	for name, want := range map[string]struct {
		cause freeze.Cause
		sure  bool
	}{
		"throttled-http":         {freeze.Throttled, true},
		"throttled-two":          {freeze.Throttled, false}, // of two quotas, neither of them known
		"throttled-busy":         {freeze.Throttled, false},
		"throttled-mild":         {freeze.Throttled, false},
		"throttled-mild-samples": {freeze.Throttled, true},
		"throttled-20ms":         {freeze.Throttled, true},
		"flight":                 {freeze.Throttled, true},
		"guard":                  {freeze.Throttled, true}, // two busy loops: without what it says about the kernel it would be unsure
		"go1.22":                 {freeze.Throttled, true},
		"go1.24":                 {freeze.Throttled, true},
		"go1.27":                 {freeze.Throttled, true},
		"contended-http":         {freeze.Contended, true},
		"contended-busy-samples": {freeze.Contended, true},
		"neighbour-http":         {freeze.Contended, false},
		"neighbour-far":          {freeze.Unsure, false},
		"clean-http":             {freeze.None, true},
		"clean-ticker":           {freeze.Unsure, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(context.Background(), bytes.NewReader(recorded(t, name)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Cause != want.cause || got.Sure != want.sure {
				t.Errorf("%s (sure: %v), want %s (%v): %s", got.Cause, got.Sure, want.cause, want.sure, got.Why)
			}
			golden(t, name, got)
		})
	}
}

// TestRecordedKnown: what is known of the limit decides whose quota's rhythm a trace has.
func TestRecordedKnown(t *testing.T) {
	never, counted := freeze.Kernel{Counts: true}, freeze.Kernel{Counts: true, Most: time.Minute}
	for _, c := range []struct {
		name  string
		o     Options
		cause freeze.Cause
		sure  bool
	}{
		{"neighbour-http", Options{Kernel: never}, freeze.Contended, true},
		{"neighbour-far", Options{Kernel: never}, freeze.Contended, true},
		{"neighbour-http", Options{Unseen: true}, freeze.Contended, false},
		{"neighbour-http", Options{Limit: 4, Quotas: freeze.Quotas{Period: 100 * time.Millisecond, Levels: 1}}, freeze.Contended, true}, // it used 0.5
		{"neighbour-far", Options{Limit: 4}, freeze.Contended, true},
		{"throttled-http", Options{Kernel: counted}, freeze.Throttled, true},
		{"throttled-http", Options{Limit: 0.15}, freeze.Throttled, true},
		{"throttled-http", Options{Limit: 0.3}, freeze.Throttled, true}, // others in its group may use the rest
		{"throttled-http", Options{Unseen: true}, freeze.Throttled, false},
		{"throttled-two", Options{Kernel: counted, Quotas: freeze.Quotas{Period: 100 * time.Millisecond, Levels: 2}}, freeze.Throttled, true},
		{"throttled-mild-samples", Options{Kernel: counted}, freeze.Throttled, true},
		{"contended-http", Options{Kernel: counted}, freeze.Unsure, false},
		{"contended-http", Options{Kernel: freeze.Kernel{Counts: true, Most: 30 * time.Millisecond}}, freeze.Contended, true}, // 1 %
		{"contended-busy-samples", Options{Kernel: counted}, freeze.Unsure, false},
		{"clean-http", Options{Kernel: never}, freeze.None, true},
		{"clean-ticker", Options{Kernel: never}, freeze.Unsure, false},
	} {
		got, err := Read(context.Background(), bytes.NewReader(recorded(t, c.name)), c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got.Cause != c.cause || got.Sure != c.sure || got.Throttled > 0 != (c.cause == freeze.Throttled) || c.name == "throttled-two" && got.Contended > 0 {
			t.Errorf("%s, %+v: %s, sure %v, throttled %v: %s %s", c.name, c.o, got.Cause, got.Sure, got.Throttled, got.Why, got.Doubt)
		}
	}
}

// golden compares the facts, with the first five of the freezes and two of the longest.
func golden(t *testing.T, name string, got *Trace) {
	t.Helper()
	cut := *got
	cut.Freezes = cut.Freezes[:min(5, len(cut.Freezes))]
	cut.Longest = cut.Longest[:min(2, len(cut.Longest))]
	text, err := json.MarshalIndent(struct {
		Count int // of the freezes
		*Trace
	}{len(got.Freezes), &cut}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !sameButLastDigits(text, want) {
		t.Errorf("the facts differ from %s (-update rewrites it):\n%s", file, text)
	}
}

// sameButLastDigits: floats may differ in the last digits on another architecture.
func sameButLastDigits(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && same(x, y)
}

func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if !same(v, b[k]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || a-b < 1e-9*(a+b) && b-a < 1e-9*(a+b) || a-b <= 1 && b-a <= 1 && a > 1e4)
	}
	return a == b
}

// TestCut: a trace that is cut anywhere gives what was read up to there, and a warning.
func TestCut(t *testing.T) {
	for _, name := range []string{"throttled-http", "go1.22", "go1.24", "flight"} {
		data := recorded(t, name)
		whole, err := Read(context.Background(), bytes.NewReader(data), Options{})
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for i := range 40 {
			n := len(data) * i / 40
			got, err := Read(context.Background(), bytes.NewReader(data[:n]), Options{})
			if err != nil {
				continue // nothing of the first second could be read
			}
			read++
			if len(got.Warnings) == 0 && got.Wall > whole.Wall*9/10 && n < len(data)*8/10 {
				t.Errorf("%s cut at %d of %d: no warning", name, n, len(data))
			}
			if got.Wall > whole.Wall {
				t.Errorf("%s cut at %d: %v, the whole is %v", name, n, got.Wall, whole.Wall)
			}
		}
		if read == 0 && name != "flight" {
			t.Errorf("%s: nothing was read of any cut", name)
		}
	}
}

func TestNoTrace(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "not an execution trace",
		"go 1.26":                          "not an execution trace",
		"<html><body>404</body></html>":    "not an execution trace",
		"go 1.21 trace\x00\x00\x00":        "older than that of Go 1.22",
		"go 1.26 trace\x00\x00\x00":        "no events",
		"go 1.26 trace\x00\x00\x00\x07abc": "no batch",
		"go 1.99 trace\x00\x00\x00\x01\x01\x01\x01\x00\x34": "unknown or unsupported",
	} {
		_, err := Read(context.Background(), strings.NewReader(in), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", in, err, want)
		}
	}
}

// endless is a trace of one generation with that many batches of 60 kB.
func endless(batches int) io.Reader {
	return forged(func(f *forge) {
		f.generation(func() {
			for data := make([]byte, 60_000); batches > 0; batches-- {
				f.batch(1, data)
			}
		})
	})
}

// TestLargeGeneration: what doesn't fit is left out, and the memory is bounded.
func TestLargeGeneration(t *testing.T) {
	slowtest.Plain(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Read(context.Background(), endless(2*maxGeneration/60_000), Options{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "it has more than 48 MB") {
		t.Fatal(err)
	}
	if grown := after.HeapSys - min(after.HeapSys, before.HeapSys); grown > 200<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// FuzzRead: no trace makes it panic. Damaged traces are made from recorded ones: cut at a byte, and one byte changed.
func FuzzRead(f *testing.F) {
	names := []string{"throttled-busy", "clean-ticker", "go1.22", "go1.24"}
	var traces [][]byte
	for _, name := range names {
		traces = append(traces, recorded(f, name))
	}
	f.Add(byte(0), uint32(1000), uint32(500), byte(1), []byte(nil))
	f.Add(byte(1), uint32(1<<31), uint32(16), byte(255), []byte(nil))
	f.Add(byte(2), uint32(1<<31), uint32(17), byte(3), []byte{1, 2, 3})
	f.Add(byte(3), uint32(1<<31), uint32(9000), byte(7), []byte{1, 1, 1, 1, 1, 2, 4, 5})
	f.Add(byte(200), uint32(0), uint32(0), byte(0), []byte("go 1.26 trace\x00\x00\x00\x01\x01\x01\x01\x01\x02"))
	f.Fuzz(func(t *testing.T, which byte, cut, at uint32, flip byte, insert []byte) {
		data := insert
		if int(which) < len(traces) {
			data = bytes.Clone(traces[which])
			data = data[:min(int64(cut), int64(len(data)))]
			if len(data) > 0 {
				i := int(int64(at) % int64(len(data)))
				data[i] ^= flip
				data = append(data[:i:i], append(insert, data[i:]...)...)
			}
		}
		got, err := Read(context.Background(), bytes.NewReader(data), Options{})
		if err != nil {
			return
		}
		if _, err := json.Marshal(got); err != nil { // NaN, Inf
			t.Fatal(err)
		}
		if got.Frozen < 0 || got.Frozen > 1.01 {
			t.Errorf("frozen for %v of the time", got.Frozen)
		}
	})
}

// broken fails after some bytes.
type broken struct{ r io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = errors.New("connection reset")
	}
	return n, err
}

func TestBrokenConnection(t *testing.T) {
	data := recorded(t, "throttled-busy")
	got, err := Read(context.Background(), broken{bytes.NewReader(data[:len(data)/2])}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "connection reset") {
		t.Errorf("warnings %q", got.Warnings)
	}
}
