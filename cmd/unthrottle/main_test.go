package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/unthrottle/unthrottle/cmd/internal/command/cli"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	labs "github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

var update = flag.Bool("update", false, "write what was printed into the scripts' expected files")

// asCommand in the environment makes the test binary the command.
const asCommand = "UNTHROTTLE_TEST_COMMAND"

// asFake makes it the command with the fake lab.
const asFake = "UNTHROTTLE_TEST_FAKE"

// noSleep in GORACE removes the second that a program with -race waits at its end.
const noSleep = "atexit_sleep_ms=10"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	if os.Getenv(asFake) != "" {
		fakeMain()
	}
	testscript.Main(m, map[string]func(){"unthrottle": main, "unthrottle-fake": fakeMain, "server": recipeServer})
}

// recipeServer is the ./server of the recipes: the built-in one, at the address that the test has chosen for them.
func recipeServer() {
	os.Args = []string{"unthrottle", "serve", "--listen", os.Getenv("RECIPE_ADDRESS")}
	main()
}

// fakeMain is the command with a lab that gives set numbers and takes no time: a run lasts a second of its own clock, and
// GOMAXPROCS 1 does 1.3 times as much as 2, which is the default. FAKE_STOP=n interrupts the command in run n, FAKE_FAIL=n
// lets GOMAXPROCS n fail, FAKE_LIMIT is the kind of its limit. FAKE_SERVER lets it have the figures of a server: CPU per request
// grows with GOMAXPROCS, the tail falls.
func fakeMain() {
	lab := &fakeLab{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	environment := fakeEnvironment
	environment.LimitKind = cmp.Or(os.Getenv("FAKE_LIMIT"), environment.LimitKind)
	os.Exit(cli.Run(context.Background(), cli.IO{
		IO: verb.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Args: os.Args[1:]},
		Lab: &cli.Lab{
			Runner: lab, Environment: environment, Clock: func() time.Time { return lab.now },
			Lock: func(context.Context, func(string), func(string) error) (func(), error) { return func() {}, nil },
		},
	}))
}

var fakeEnvironment = labs.Environment{
	OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPU: "A CPU", CPUs: 4, Memory: 8 << 30, Go: "go1.26.0", LimitKind: "cgroup-v2",
}

type fakeLab struct {
	now  time.Time
	runs int
}

func (f *fakeLab) Run(ctx context.Context, s labs.Setting, _ int) (labs.Run, error) {
	f.runs++
	if os.Getenv("FAKE_STOP") == strconv.Itoa(f.runs) {
		self, _ := os.FindProcess(os.Getpid())
		self.Signal(os.Interrupt)
		<-ctx.Done()
	}
	start := f.now
	f.now = f.now.Add(time.Second)
	if s.Procs != 0 && os.Getenv("FAKE_FAIL") == strconv.Itoa(s.Procs) {
		return labs.Run{Start: start, Error: "exit code 3: no luck"}, nil
	}
	procs := s.Procs
	if procs == 0 {
		procs = 2
	}
	// A drift from block to block, the same for all, and a little of its own for each.
	drift := 1 + 0.1*math.Sin(float64(f.runs/4))
	own := 1 + 0.01*math.Sin(float64(3*f.runs))
	ops := 1e6 * drift * own / (1 + 0.3*float64(procs-1))
	run := labs.Run{
		Start: start, Seconds: 1, GOMAXPROCS: procs, Go: s.Go, LimitKind: "cgroup-v2",
		Metrics: map[string]float64{
			"ops/s": math.Round(ops), "ns/op": math.Round(1e9 / ops), "wall-sec": 1, "cpu-sec": 0.5, "throttled-%": float64(10 * (procs - 1)),
			"peak-RSS-bytes": 8 << 20,
		},
	}
	if os.Getenv("FAKE_SERVER") != "" {
		tail := math.Round(1e7 * drift * own / float64(procs))
		run.Metrics = map[string]float64{
			"tail-latency-ns": tail, "p99-latency-ns": 1.2 * tail, "p90-latency-ns": tail / 2, "p50-latency-ns": tail / 4, "errors-%": 0,
			"cpu-ns/req": math.Round(1e12 / ops), "req/s": 500,
		}
	}
	return run, nil
}

// TestScripts runs the command as its users do. A script's name is the verb's; cases that came from bugs carry the
// issue's number.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// TestSlowScripts are those of verbs that measure for a while.
func TestSlowScripts(t *testing.T) {
	slowtest.Plain(t) // the command that they run most of the time waits; TestTune and others run the same with the detector
	runScripts(t, "testdata/script/slow")
}

func runScripts(t *testing.T, dir string) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close) // after the scripts, which run in parallel
	profiled := httptest.NewServer(profiled())
	t.Cleanup(profiled.Close)
	profiles, err := filepath.Abs("../internal/diagnose/cpuprofile/testdata")
	if err != nil {
		t.Fatal(err)
	}
	traces, err := filepath.Abs("../internal/diagnose/exectrace/testdata")
	if err != nil {
		t.Fatal(err)
	}
	nobody := httptest.NewServer(nil)
	nobody.Close()
	out, _ := exec.Command("go", "env", "GOCACHE").Output() // without a go command it is not needed
	goCache := strings.TrimSpace(string(out))
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOMAXPROCS", "")
			e.Setenv("GODEBUG", "")
			e.Setenv("SERVER", server.URL)
			e.Setenv("NOBODY", nobody.URL)
			e.Setenv("FREE", freeAddress(t)) // where the script starts a server
			e.Setenv("PPROF", profiled.URL)
			e.Setenv("PROFILES", profiles)
			e.Setenv("TRACES", traces)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("GORACE", noSleep)
			e.Setenv("GOCACHE", goCache) // an empty one would have the standard library built again
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"mask":  mask,
			"end":   end,
		},
	})
}

// freeAddress is one that no client's connection takes by chance, as it may one of the kernel's choice.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(int(20000+nextPort.Add(1)%10000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

var nextPort atomic.Int64

// answer is the server that the scripts load.
func answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/none":
		http.NotFound(w, r)
	case "/error":
		http.Error(w, "no", http.StatusInternalServerError)
	case "/never":
		<-r.Context().Done()
	case "/echo":
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		if r.Method != "PUT" || r.Header.Get("X-A") != "b" || r.Header.Get("Authorization") != "Basic dXNlcjpzZWNyZXQ=" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		io.Copy(w, r.Body)
	default:
		io.WriteString(w, "hello")
	}
}

// profiled is a server with the pages of net/http/pprof.
func profiled() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		go work(r.Context()) // a profile of nothing is refused
		pprof.Profile(w, r)
	})
	mux.HandleFunc("/idle", func(w http.ResponseWriter, _ *http.Request) { w.Write(idleProfile()) })
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Could not enable CPU profiling: cpu profiling already in use", http.StatusInternalServerError)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })
	return mux
}

// work uses CPU time until ctx is done.
func work(ctx context.Context) {
	for ctx.Err() == nil {
		for range 1000 {
			_ = math.Sqrt(2)
		}
	}
}

// idleProfile is the CPU profile of a Go program that did nothing for a second.
func idleProfile() []byte {
	main := &profile.Function{ID: 1, Name: "runtime.main"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10_000_000, DurationNanos: 1_000_000_000,
		Function: []*profile.Function{main}, Location: []*profile.Location{{ID: 1, Line: []profile.Line{{Function: main}}}},
	}
	var b bytes.Buffer
	p.Write(&b)
	return b.Bytes()
}

// exits runs a command and compares its exit code, as in: exits 2 unthrottle bogus.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGS]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// mask replaces in a file what changes from run to run: mask FILE.
func mask(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		path := ts.MkAbs(file)
		data, err := os.ReadFile(path)
		ts.Check(err)
		text := string(data)
		text = regexp.MustCompile(`"made_by": ".*?"`).ReplaceAllString(text, `"made_by": "MASKED"`)
		text = regexp.MustCompile(`"time": ".*?"`).ReplaceAllString(text, `"time": "MASKED"`)
		text = regexp.MustCompile(`[0-9-]+-fib-\d+\.jsonl`).ReplaceAllString(text, "MASKED.jsonl")
		text = strings.ReplaceAll(text, filepath.ToSlash(ts.Getenv("WORK")), "$WORK")
		ts.Check(os.WriteFile(path, []byte(text), 0o666))
	}
}

// end kills the process whose pid is the last word of a file, and which must be running: end FILE.
func end(ts *testscript.TestScript, _ bool, args []string) {
	words := strings.Fields(ts.ReadFile(args[0]))
	if len(words) == 0 {
		ts.Fatalf("%s holds no pid", args[0])
	}
	pid, err := strconv.Atoi(words[len(words)-1])
	ts.Check(err)
	p, err := os.FindProcess(pid)
	ts.Check(err)
	ts.Check(p.Kill())
}
