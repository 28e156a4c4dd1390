package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// small are sizes at which a run is short.
var small = map[string]string{
	"chain": "5", "chainbuf": "5", "sieve": "30", "powser": "12", "garbage": "3", "http": "2", "json": "20",
}

func TestRuns(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			args := []string{name, "--for", "20ms"}
			if size, ok := small[name]; ok {
				args = append(args, "--size", size)
			}
			var stdout, stderr bytes.Buffer
			if code := Main(args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
				t.Fatalf("exit code %d, stderr %q", code, &stderr)
			}
			if n := strings.Count(stdout.String(), "\n"); n != 1 {
				t.Errorf("%d lines: %q", n, &stdout)
			}
			var r Result
			d := json.NewDecoder(&stdout)
			d.DisallowUnknownFields()
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			if r.Workload != name || r.Go != runtime.Version() || r.NumCPU != runtime.NumCPU() || r.GOMAXPROCS != runtime.GOMAXPROCS(0) {
				t.Errorf("%+v", r)
			}
			if r.Seconds <= 0 || r.Ops < 1 || len(r.Metrics) == 0 {
				t.Errorf("%+v", r)
			}
			for unit, value := range r.Metrics {
				if value < 0 || value == 0 && unit != "standstill-share" {
					t.Errorf("%s is %v", unit, value)
				}
			}
			if _, ok := cpuTime(); ok && (r.CPUSeconds == nil || *r.CPUSeconds < 0) {
				t.Errorf("CPU time %v", r.CPUSeconds)
			}
			if r.GCCPUShare == nil || *r.GCCPUShare < 0 || *r.GCCPUShare > 1 {
				t.Errorf("collector's share %v", r.GCCPUShare)
			}
			if (r.Activity != nil) != (name == "readfile") {
				t.Errorf("activity %v", r.Activity)
			}
			for i, on := range r.Activity {
				if on[0] >= on[1] || i > 0 && on[0] <= r.Activity[i-1][1] {
					t.Errorf("activity %v", r.Activity)
				}
			}
		})
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

func TestAgentEvents(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := Main([]string{"agent", "--for", "30ms", "--rate", "2000"}, &stdout, &stderr); code != 0 {
		t.Fatal(code, &stderr)
	}
	var r Result
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Ops != 60 { // 30 ms of 2000 a second, however long it took
		t.Errorf("%d events", r.Ops)
	}
	if r.Seconds < 59.0/2000 { // the last one arrives then
		t.Errorf("done after %v s", r.Seconds)
	}
}

func TestMainUsage(t *testing.T) {
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"", 2, "", "Usage:"},
		{"--help", 0, "Usage:", ""},
		{"fib -h", 0, "Usage:", ""},
		{"nothing", 2, "", `no workload "nothing"`},
		{"fib --for 1", 2, "", "invalid value"},
		{"fib --for 0s", 2, "", "--for must be more than 0"},
		{"fib --for -1s", 2, "", "--for must be more than 0"},
		{"fib --size 3", 2, "", "has no --size"},
		{"chain --size -3", 2, "", "--size must not be negative"},
		{"chain 3", 2, "", `unexpected argument "3"`},
		{"chain --rate 3", 2, "", "not defined"},
		{"agent --rate 0", 2, "", "--rate must be"},
		{"agent --rate 1000001", 2, "", "--rate must be"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(strings.Fields(test.args), &stdout, &stderr)
		if code != test.code {
			t.Errorf("%q: exit code %d, want %d", test.args, code, test.code)
		}
		for _, out := range []struct{ got, want string }{{stdout.String(), test.stdout}, {stderr.String(), test.stderr}} {
			if !strings.Contains(out.got, out.want) || out.want == "" && out.got != "" {
				t.Errorf("%q: printed %q, want %q", test.args, out.got, out.want)
			}
		}
	}
}

func TestMainFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/absent")
	var stdout, stderr bytes.Buffer
	if code := Main([]string{"readfile", "--for", "1ms"}, &stdout, &stderr); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "workload readfile: ") {
		t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
	}

	stderr.Reset()
	if code := Main([]string{"chain", "--for", "1ms", "--size", "2"}, full{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "full") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestSpread(t *testing.T) {
	seen := make([][]int64, 3)
	n, err := spread(3, time.Nanosecond, func(worker int, i int64) error {
		seen[worker] = append(seen[worker], i)
		return nil
	})
	if err != nil || n < 3 {
		t.Fatal(n, err)
	}
	calls := map[int64]bool{}
	for _, worker := range seen {
		for _, i := range worker {
			calls[i] = true
		}
	}
	if int64(len(calls)) != n || !calls[0] || !calls[n-1] {
		t.Errorf("%d calls counted, made were %v", n, seen)
	}

	bad := errors.New("bad")
	_, err = spread(3, time.Hour, func(worker int, _ int64) error {
		if worker == 1 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
}

// The checks of the workloads must be able to fail.
func TestWrongResults(t *testing.T) {
	first, last := newChain(3, 0)
	defer close(first)
	if _, err := passAlong(first, last, 4, time.Nanosecond); err == nil {
		t.Error("a chain of 3 passed as one of 4")
	}

	for _, want := range [][]int{{2, 3, 6}, {2, 3, 5, 6}, {2, 5}} {
		if err := sieveTo(want); err == nil {
			t.Errorf("the sieve found %v", want)
		}
	}

	f := make(forest, 1)
	f[0].tree = newTree(garbageDepth, 7)
	f[0].tree.left.right.value++
	if err := f.replace(0); err == nil {
		t.Error("a damaged tree passed")
	}
	f[0].tree = newTree(garbageDepth-1, 7)
	if err := f.replace(0); err == nil {
		t.Error("a small tree passed")
	}
	if err := f.replace(0); err != nil { // the tree that replaced it is good
		t.Error(err)
	}
}

func TestPrimes(t *testing.T) {
	if got, want := primes(10), []int{2, 3, 5, 7, 11, 13, 17, 19, 23, 29}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if got := primes(2500); got[2499] != 22307 { // the 2500th prime, from tables
		t.Errorf("got %d", got[2499])
	}
}

func TestDocument(t *testing.T) {
	a, err := json.Marshal(newDocument(4000))
	if err != nil {
		t.Fatal(err)
	}
	if len(a) < 1<<20 || len(a) > 2<<20 {
		t.Errorf("%d bytes", len(a))
	}
	if b, _ := json.Marshal(newDocument(4000)); !bytes.Equal(a, b) {
		t.Error("two documents differ")
	}
}
