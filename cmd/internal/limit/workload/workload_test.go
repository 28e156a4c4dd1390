package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload/program"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

func TestList(t *testing.T) {
	var own []string
	for _, w := range List() {
		if found, ok := Find(w.Name); !ok || !reflect.DeepEqual(found, w) {
			t.Errorf("%s is not found", w.Name)
		}
		if w.goArg == nil {
			own = append(own, w.Name)
		}
		if w.About == "" || w.Source == "" {
			t.Errorf("%s lacks a text", w.Name)
		}
		for _, m := range append(w.More, w.Figure) {
			if m.Unit == "" || m.About == "" || m.Better != "higher" && m.Better != "lower" {
				t.Errorf("%s: %+v", w.Name, m)
			}
		}
	}
	if !slices.Equal(own, program.Names()) {
		t.Errorf("the catalogue has %q, the programs are %q", own, program.Names())
	}
	if _, ok := Find("nothing"); ok {
		t.Error("found nothing")
	}
}

// TestRun starts every program as the lab would, in this process, and reads what it printed.
func TestRun(t *testing.T) {
	small := map[string]int{"sieve": 10, "powser": 5, "json": 10, "garbage": 2}
	for _, w := range List() {
		if w.goArg != nil {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			o := Options{
				Program: []string{"program"}, For: 5 * time.Millisecond, Size: small[w.Name],
				Dir: filepath.Join(t.TempDir(), "lab"),
			}
			if err := w.Prepare(context.Background(), o); err != nil {
				t.Error(err)
			}
			c, err := w.Command(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range c.Env {
				name, value, _ := strings.Cut(e, "=")
				t.Setenv(name, value)
			}
			var stdout, stderr bytes.Buffer
			if code := program.Main(c.Args[1:], &stdout, &stderr); code != 0 {
				t.Fatal(code, &stderr)
			}
			r, err := w.Parse(stdout.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			for unit := range r.Metrics {
				if !slices.ContainsFunc(append(w.More, w.Figure), func(m Metric) bool { return m.Unit == unit }) {
					t.Errorf("%s is not in the catalogue", unit)
				}
			}
		})
	}
}

func TestCommand(t *testing.T) {
	self := []string{"/bin/unthrottle", "workload"}
	for _, test := range []struct {
		name    string
		o       Options
		want    string // arguments
		env     []string
		problem string
	}{
		{"fib", Options{Program: self}, "/bin/unthrottle workload fib", nil, ""},
		{"fib", Options{Program: self, For: 1500 * time.Millisecond}, "/bin/unthrottle workload fib --for 1.5s", nil, ""},
		{"chain", Options{Program: self, For: time.Minute, Size: 7}, "/bin/unthrottle workload chain --for 1m0s --size 7", nil, ""},
		{"sieve", Options{Program: []string{"/cache/w"}, For: time.Second}, "/cache/w sieve", nil, ""},
		{"readfile", Options{Program: self, Dir: "/lab"}, "/bin/unthrottle workload readfile", []string{"TMPDIR=/lab"}, ""},
		{"fib", Options{}, "", nil, "no program"},
		{"fib", Options{Program: self, Size: 3}, "", nil, "has no size"},
		{"chain", Options{Program: self, Size: -3}, "", nil, "must not be negative"},
		{"chain", Options{Program: self, For: -time.Second}, "", nil, "must not be negative"},
		{"gocmd-list", Options{}, "", nil, "no directory"},
		{"gocmd-list", Options{Dir: "/lab", Size: 3}, "", nil, "has no size"},
	} {
		w, _ := Find(test.name)
		got, err := w.Command(test.o)
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s %+v: error %v, want %q", test.name, test.o, err, test.problem)
			}
			continue
		}
		if err != nil || strings.Join(got.Args, " ") != test.want || !slices.Equal(got.Env, test.env) || got.Dir != "" {
			t.Errorf("%s %+v: got %+v, %v, want %q", test.name, test.o, got, err, test.want)
		}
	}
	if len(self) != 2 || self[1] != "workload" {
		t.Errorf("the caller's slice became %q", self)
	}
}

func TestGoCommand(t *testing.T) {
	needGo(t)
	for _, test := range []struct{ name, toolchain, args, env string }{
		{"gocmd-list", "", "list -json std", "GOTOOLCHAIN=local"},
		{"gocmd-test", "go1.21.13", "test -c -o /dev/null html/template", "GOTOOLCHAIN=go1.21.13"},
		{"gocmd-build", "devel go1.99-123456", "build -a std", "GOTOOLCHAIN=local"},
	} {
		w, _ := Find(test.name)
		c, err := w.Command(Options{Dir: "/lab", Go: test.toolchain})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(strings.Join(c.Args[1:], " "), nullDevice, "/dev/null"); got != test.args {
			t.Errorf("%s: %q", test.name, got)
		}
		for _, want := range []string{test.env, "GOFLAGS=", "GOWORK=off", "GOCACHE=" + filepath.Join("/lab", "gocache")} {
			if !slices.Contains(c.Env, want) {
				t.Errorf("%s: no %s in %q", test.name, want, c.Env)
			}
		}
		if c.Dir != filepath.Join("/lab", "gowork") {
			t.Errorf("%s: started in %s", test.name, c.Dir)
		}
		if r, err := w.Parse([]byte("anything")); err != nil || !reflect.DeepEqual(r, program.Result{}) {
			t.Errorf("%s: %+v, %v", test.name, r, err)
		}
	}
}

func TestGoCommandRuns(t *testing.T) {
	slowtest.Plain(t)
	needGo(t)
	w, _ := Find("gocmd-list")
	o := Options{Dir: t.TempDir()}
	if err := w.Prepare(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	c, err := w.Command(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir = append(cmd.Environ(), c.Env...), c.Dir
	out, err := cmd.Output()
	if err != nil || !bytes.Contains(out, []byte(`"ImportPath": "html/template"`)) {
		t.Errorf("%.200s, %v", out, err)
	}
}

func needGo(t *testing.T) {
	if _, err := lookGo(); err != nil {
		t.Skip(err)
	}
}

const goodResult = `{"workload":"fib","go":"go1.18.10","gomaxprocs":2,"num_cpu":2,"seconds":1.5,"ops":3,` +
	`"metrics":{"ops/s":2,"ns/op":5e8},"gc_cpu_share":null,"sched_latency_p50_seconds":1e-7,"sched_latency_p99_seconds":null}`

func TestParse(t *testing.T) {
	w, _ := Find("fib")
	r, err := w.Parse([]byte(goodResult + "\n"))
	p50 := 1e-7
	want := program.Result{
		Workload: "fib", Go: "go1.18.10", GOMAXPROCS: 2, NumCPU: 2, Seconds: 1.5, Ops: 3,
		Metrics: map[string]float64{"ops/s": 2, "ns/op": 5e8}, SchedLatencyP50: &p50,
	}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, test := range []struct{ text, want string }{
		{"", `reading the result of workload fib: no complete result in ""`},
		{"\n", "no complete result"},
		{goodResult[:50], "no complete result"},
		{"panic: no\n", `in "panic: no\n"`},
		{goodResult + goodResult, "something after the result"},
		{goodResult + "\nmore", "something after the result"},
		{strings.Replace(goodResult, `"fib"`, `"sieve"`, 1), `the result of workload "sieve"`},
		{strings.Replace(goodResult, `ops/s`, `ops`, 1), `no figure "ops/s"`},
		{strings.Replace(goodResult, `1.5`, `"1.5"`, 1), "cannot unmarshal"},
		{`[]`, "cannot unmarshal"},
		{`null`, `the result of workload ""`},
		{strings.Repeat("x", 300), `xxx"… (300 bytes)`},
	} {
		if _, err := w.Parse([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %q", test.text, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(goodResult))
	f.Add([]byte(goodResult[:60]))
	f.Add([]byte(`{"workload":"fib","metrics":{"ops/s":1},"activity":[[0,1],[2]]}`))
	f.Add([]byte("panic: x\n\ngoroutine 1 [running]:\n"))
	w, _ := Find("fib")
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := w.Parse(text)
		if err != nil {
			if len(err.Error()) > 4*200+len(text)+200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if _, ok := r.Metrics["ops/s"]; !ok || r.Workload != "fib" {
			t.Errorf("%q became %+v", text, r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if r2, err := w.Parse(again); err != nil || !reflect.DeepEqual(r, r2) {
			t.Errorf("%+v became %+v, %v", r, r2, err)
		}
	})
}
