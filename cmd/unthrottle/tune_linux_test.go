package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// asTuned as the first argument makes the test binary a program to be tuned. It is not a variable of the environment, as
// the command's environment is that of the programs that it starts.
const asTuned = "tuned-by-a-test"

func init() {
	if len(os.Args) > 2 && os.Args[1] == asTuned {
		tuned(os.Args[2], append(os.Args[3:], "", "")) // an address, a file
		os.Exit(0)
	}
}

// tuned is a server or a job of a kind. A request takes time and hardly any CPU, so that several tunes can run at once.
func tuned(kind string, args []string) {
	address, file := args[0], args[1]
	withOne := os.Getenv("GOMAXPROCS") == "1"
	switch kind {
	case "crash":
		fmt.Println("starting")
		fmt.Fprintln(os.Stderr, "panic: no such table")
		os.Exit(3)
	case "mute":
		time.Sleep(time.Hour)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "leaky":
		leak(file)
	case "own":
		runtime.GOMAXPROCS(3)
	case "writes":
		f, err := os.Create(file)
		if err != nil {
			panic(err)
		}
		defer f.Close()
	case "job":
		return
	case "long job":
		time.Sleep(200 * time.Millisecond)
		return
	case "job that fails with 1":
		if withOne {
			fmt.Fprintln(os.Stderr, "one is not enough")
			os.Exit(4)
		}
		return
	}
	var held []byte
	if kind == "hungry" {
		held = eat(80 << 20)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var asked atomic.Int64
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		time.Sleep(5 * time.Millisecond)
		switch {
		case kind == "dies" && n == 20, kind == "dies with 1" && withOne && n == 3:
			fmt.Println("out of luck")
			os.Exit(7)
		case kind == "errors":
			w.WriteHeader(http.StatusInternalServerError)
		case kind == "own":
			runtime.GC() // which shows GOMAXPROCS
		case kind == "hungry later" && n == 3:
			held = eat(80 << 20)
		case kind == "works":
			kerneltest.Burn(2 * time.Millisecond)
		case kind == "cold" && n < 100:
			kerneltest.Burn(time.Duration(20/n) * time.Millisecond)
		}
	}))
	runtime.KeepAlive(held)
}

// eat takes memory, and writes to it.
func eat(bytes int) []byte {
	memory := make([]byte, bytes)
	for i := 0; i < bytes; i += os.Getpagesize() {
		memory[i] = 1
	}
	return memory
}

// leak starts a process and adds its number to a file.
func leak(file string) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		os.Exit(1)
	}
	fmt.Fprintln(f, cmd.Process.Pid)
	f.Close()
}

// tuneDoc is what the tests look at of tune's document.
type tuneDoc struct {
	Verdict struct {
		Kind  string
		Procs int `json:"gomaxprocs"`
		Text  string
	}
	LimitKind string `json:"limit_kind"`
	Loads     []struct {
		WarmUp  float64 `json:"warm_up_seconds"`
		Invalid int     `json:"invalid_runs"`
	}
	Runs   []tuneRun
	AtOnce *struct {
		Most   int
		Runs   int
		InTurn string `json:"in_turn"`
	} `json:"at_once"`
	Finished bool
	Resume   string
	Warnings []string
}

type tuneRun struct {
	Start  string
	Phase  string
	Block  int
	AtOnce int `json:"at_once"`
	Procs  int `json:"gomaxprocs"`
	Marks  []string
	Valid  bool
	Error  string
}

// A tuning is a call of tune, with directories of its own.
type tuning struct {
	address        string
	dir            string // what is left behind shows in its tmp
	cmd            *exec.Cmd
	stdout, stderr *record
	err            error
	ended          chan struct{}
}

// A record is output that can be read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// brief makes windows short. With a number of connections the capacity need not be looked for.
var brief = []string{"--conns", "4", "--rate", "100", "--for", "100ms", "--warmup", "100ms", "--procs", "1", "--blocks", "3", "--pairs", "6", "--seed", "1"}

// once lets one run do.
var once = append(slices.Clone(brief), "--budget", "4s")

// newTuning tunes a server of a kind.
func newTuning(t *testing.T, kind string, args ...string) *tuning {
	t.Helper()
	address := freeAddress(t)
	self := executable(t)
	args = append(slices.Clone(args), "--url", "http://"+address+"/", "--", self, asTuned, kind, address, "leaked")
	return newTune(t, address, args)
}

// newJobTuning tunes a program that runs to its end.
func newJobTuning(t *testing.T, flags []string, job ...string) *tuning {
	t.Helper()
	args := append([]string{"--batch", "--procs", "1", "--blocks", "3", "--pairs", "6", "--seed", "1"}, flags...)
	return newTune(t, "", append(append(args, "--"), job...))
}

func newTune(t *testing.T, address string, args []string) *tuning {
	t.Helper()
	x := &tuning{address: address, dir: t.TempDir(), stdout: &record{}, stderr: &record{}, ended: make(chan struct{})}
	for _, name := range []string{"tmp", "work", "cache"} {
		if err := os.Mkdir(filepath.Join(x.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x.cmd = exec.Command(executable(t), append([]string{"tune"}, args...)...)
	x.cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE="+noSleep, "GOMAXPROCS=", "GODEBUG=", "GOGC=", "TMPDIR="+x.tmp(), "XDG_CACHE_HOME="+filepath.Join(x.dir, "cache"))
	x.cmd.Dir = filepath.Join(x.dir, "work")
	x.cmd.Stdout, x.cmd.Stderr = x.stdout, x.stderr
	return x
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func init() { nextPort.Store(int64(os.Getpid() * 37)) }

func (x *tuning) tmp() string             { return filepath.Join(x.dir, "tmp") }
func (x *tuning) file(name string) string { return filepath.Join(x.dir, "work", name) }

func (x *tuning) start(t *testing.T) {
	t.Helper()
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		x.err = x.cmd.Wait()
		close(x.ended)
	}()
	t.Cleanup(func() {
		x.cmd.Process.Kill()
		<-x.ended
	})
}

// await waits until it has written something to stderr.
func (x *tuning) await(t *testing.T, text string) {
	t.Helper()
	for {
		if strings.Contains(x.stderr.String(), text) {
			return
		}
		select {
		case <-x.ended:
			t.Fatalf("it has ended and not said %q\n%s", text, x.output())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (x *tuning) output() string {
	return fmt.Sprintf("%v: %v\nstdout:\n%s\nstderr:\n%s", x.cmd.Args[1:], x.err, x.stdout, x.stderr)
}

// ends waits for the end and checks the exit code, what was written, and that nothing is left behind.
func (x *tuning) ends(t *testing.T, code int, stdout, stderr []string) {
	t.Helper()
	<-x.ended
	failed := false
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
		failed = true
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		fail("exit code %d, want %d", got, code)
	}
	for _, want := range stdout {
		if !regexp.MustCompile(want).MatchString(x.stdout.String()) {
			fail("stdout has no %q", want)
		}
	}
	for _, want := range stderr {
		if !regexp.MustCompile(want).MatchString(x.stderr.String()) {
			fail("stderr has no %q", want)
		}
	}
	for _, left := range x.left(t) {
		fail("left behind: %s", left)
	}
	if failed {
		t.Log(x.output())
	}
}

// ofNoHome is the name of the directory of a user who has no home: of caches, and of a lock.
var ofNoHome = regexp.MustCompile(`^unthrottle-\d+(-\w+)?$`)

// left lists what the command has left behind of processes, groups and temporary files.
func (x *tuning) left(t *testing.T) (left []string) {
	t.Helper()
	left = processes(x.address)
	owner := "-" + strconv.Itoa(x.cmd.Process.Pid) + "-"
	for _, depth := range []string{"*", "*/*", "*/*/*"} {
		groups, _ := filepath.Glob("/sys/fs/cgroup/" + depth + "/unthrottle-run-*")
		for _, g := range groups {
			if strings.Contains(g, owner) {
				left = append(left, g)
			}
		}
	}
	files, err := os.ReadDir(x.tmp())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		switch {
		case f.Name() == "unthrottle-bench.lock":
			lock, err := os.Open(filepath.Join(x.tmp(), f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
				left = append(left, "the lock is held")
			}
			lock.Close()
		case !ofNoHome.MatchString(f.Name()):
			left = append(left, f.Name())
		}
	}
	work, err := os.ReadDir(filepath.Join(x.dir, "work"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range work {
		if strings.HasPrefix(f.Name(), ".") {
			left = append(left, "an output that was not finished: "+f.Name())
		}
	}
	return left
}

// processes lists those that have an address in their command line: the server, and the generator of its load.
func processes(address string) (found []string) {
	if address == "" {
		return nil
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte(address)) {
			found = append(found, file+": "+string(bytes.ReplaceAll(data, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// document reads what -o doc.json has written.
func (x *tuning) document(t *testing.T) (d tuneDoc) {
	t.Helper()
	data, err := os.ReadFile(x.file("doc.json"))
	if err != nil {
		t.Fatalf("%v\n%s", err, x.output())
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if !slices.Contains([]string{"change", "keep", "trade", "undecided"}, d.Verdict.Kind) || d.Verdict.Text == "" {
		t.Errorf("the verdict is %+v", d.Verdict)
	}
	return d
}

func (d tuneDoc) warns(text string) bool {
	return slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.Contains(w, text) })
}

// reaped checks that what its servers have started has ended with them.
func (x *tuning) reaped(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(x.file("leaked"))
	pids := strings.Fields(string(data))
	if err != nil || len(pids) == 0 { // of the pilot and of runs, if a busy machine leaves time for any
		t.Fatalf("%q, %v", pids, err)
	}
	for _, pid := range pids {
		if cmdline, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.HasPrefix(string(cmdline), "sleep") {
			t.Errorf("process %s has outlived the server that started it", pid)
		}
	}
}

// TestTune tunes programs that make trouble. Mostly that is waiting, so that some go on at once.
func TestTune(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	self := executable(t)
	withDoc := func(flags []string, more ...string) []string {
		return append(append(slices.Clone(flags), "-o", "doc.json"), more...)
	}
	tests := []struct {
		name           string
		tuning         *tuning
		code           int
		stdout, stderr []string
		check          func(*testing.T, *tuning) // nil: no document
	}{
		{
			"crash", newTuning(t, "crash", withDoc(brief)...), 1, nil,
			[]string{`error: .*it ended before it was ready: exit code 3; it wrote last:`, `panic: no such table`, `hint: --ready says`},
			nil,
		},
		{
			"never ready", newTuning(t, "mute", withDoc(brief, "--ready-timeout", "1s")...), 1, nil,
			[]string{`error: .*it was not ready within 1s \(http://\S+ did not answer with a status below 500\)`, `hint: .*--ready-timeout how long to wait`},
			nil,
		},
		{
			"children", newTuning(t, "leaky", withDoc(once)...), 0, nil, nil,
			func(t *testing.T, x *tuning) {
				x.reaped(t)
			},
		},
		{
			"deaf", newTuning(t, "deaf", withDoc(once)...), 0,
			[]string{`did not end on SIGTERM and was killed`},
			nil,
			func(t *testing.T, x *tuning) {
				if d := x.document(t); !d.warns("did not end on SIGTERM and was killed") {
					t.Errorf("warnings: %q", d.Warnings)
				}
			},
		},
		{
			"dies", newTuning(t, "dies", withDoc(brief)...), 1, nil,
			[]string{`error: the program failed with its current setting(, and with GOMAXPROCS=\d+)?: .*it ended while it was measured: exit code 7; it wrote last:`, `out of luck`, `hint: try it by hand`},
			nil,
		},
		{
			"dies with 1", newTuning(t, "dies with 1", withDoc(brief)...), 0, nil,
			[]string{`failed: .*exit code 7`},
			func(t *testing.T, x *tuning) {
				d := x.document(t)
				if d.Verdict.Kind == "change" || d.Verdict.Procs == 1 || !d.warns("runs failed") {
					t.Errorf("%+v, warnings %q", d.Verdict, d.Warnings)
				}
				for _, r := range d.Runs {
					if failed := r.Error != ""; failed != (r.Procs == 1) {
						t.Errorf("%+v", r)
					}
				}
			},
		},
		{
			"errors, by URL", newTuning(t, "errors", withDoc(brief, "--ready-timeout", "2s")...), 1, nil,
			[]string{`error: .*not ready within 2s \(http://\S+ answers with status 500\)`},
			nil,
		},
		{
			"errors", newTuning(t, "errors", withDoc(brief, "--ready", "300ms")...), 1, nil,
			[]string{`error: all of its requests failed: status 500`, `hint: try it by hand`},
			nil,
		},
		{
			"cold", newTuning(t, "cold", withDoc([]string{"--conns", "4", "--rate", "100", "--for", "100ms", "--procs", "1", "--blocks", "3", "--budget", "60s", "--ready", "300ms"})...), 0,
			nil,
			[]string{`warming it up`},
			func(t *testing.T, x *tuning) {
				if d := x.document(t); d.Loads[0].WarmUp < 1 {
					t.Errorf("a warm-up of %v s", d.Loads[0].WarmUp)
				}
			},
		},
		{
			"too much", newTuning(t, "good", withDoc(brief, "--slo", "p50=1us")...), 0, nil, nil,
			func(t *testing.T, x *tuning) {
				d := x.document(t)
				quiet := slices.ContainsFunc(d.Runs, func(r tuneRun) bool {
					others := slices.ContainsFunc(r.Marks, func(m string) bool { return strings.HasPrefix(m, "other processes used ") })
					return r.Procs == d.Verdict.Procs && !others
				})
				want := "No setting held the SLO"
				if !quiet { // then nothing is known of the current one
					want = "Undecided: others used "
				}
				if text := d.Verdict.Text; !strings.HasPrefix(text, want) && !strings.HasPrefix(text, "No setting held the SLO") {
					t.Errorf("%+v", d.Verdict)
				}
			},
		},
		{
			"sets its own", newTuning(t, "own", withDoc(brief)...), 1, nil,
			[]string{`error: it runs with GOMAXPROCS=3 although its environment says \d+: it sets the number itself`, `hint: `},
			nil,
		},
		{
			"job that fails", newJobTuning(t, withDoc(nil), "sh", "-c", "echo no such table >&2; exit 4"), 1, nil,
			[]string{`error: the program failed with its current setting: exit code 4: no such table`, `hint: try it by hand: unthrottle run --cpus 1 PROGRAM\n`},
			nil,
		},
		{
			"job that fails with 1", newJobTuning(t, withDoc(nil), self, asTuned, "job that fails with 1"), 0, nil,
			[]string{`failed: exit code 4: one is not enough`},
			func(t *testing.T, x *tuning) {
				if d := x.document(t); d.Verdict.Kind == "change" || d.Verdict.Procs == 1 {
					t.Errorf("%+v", d.Verdict)
				}
			},
		},
		{
			"no such job", newJobTuning(t, withDoc(nil), "nosuchprogram"), 1, nil,
			[]string{`error: starting nosuchprogram: executable file not found`, `hint: is it in the PATH`},
			nil,
		},
		{
			"no such server", newTune(t, "", []string{"-o", "doc.json", "--", "./nosuchprogram"}), 1, nil,
			[]string{`error: starting ./nosuchprogram: .*no such file`, `hint: is it in the PATH`},
			nil,
		},
		{
			"listens nowhere", newTune(t, "", []string{"--ready-timeout", "300ms", "-o", "doc.json", "--", "sleep", "1000"}), 1, nil,
			[]string{`error: sleep: it listens on no port within 300ms; it has written nothing`, `hint: --url \S+ says what to load; --batch is for a program`},
			nil,
		},
		{
			"address taken", taken(t, newTuning(t, "good", withDoc(brief)...)), 1, nil,
			[]string{`error: something already answers at \S+, before the server is started: is an old one still running\?`},
			nil,
		},
		{
			"no home", homeless(newJobTuning(t, withDoc(nil), self, asTuned, "job")), 0, nil,
			[]string{`the runs are in \S+/tmp/unthrottle-\d+/runs/\S+\.jsonl`},
			func(t *testing.T, x *tuning) { x.document(t) },
		},
		{
			"nobody's, not to be written to", unprivileged(t, newJobTuning(t, []string{"--limit-with", "emulate", "--any"}, "sleep", "0.1"), 0o555), 0,
			[]string{`the limit is emulated`},
			[]string{`the runs are in \S+/cache/unthrottle/runs/\S+\.jsonl`},
			func(*testing.T, *tuning) {},
		},
		{
			"nobody's, not to be looked into", barred(t, newJobTuning(t, []string{"--limit-with", "emulate", "--any"}, "sleep", "0.1")), 0,
			[]string{`the limit is emulated`},
			[]string{`the runs are in \S+/cache/unthrottle/runs/\S+\.jsonl`},
			func(*testing.T, *tuning) {},
		},
		{
			"nobody's output", unprivileged(t, newJobTuning(t, withDoc([]string{"--limit-with", "emulate"}), "true"), 0o555), 1, nil,
			[]string{`error: opening the output: .*permission denied`, `hint: -o needs a file in a directory that exists and is writable`},
			nil,
		},
		{
			"nobody's server", unprivileged(t, newTuning(t, "leaky", withDoc(once, "--limit-with", "emulate")...), 0o755), 0,
			[]string{`the limit is emulated`},
			nil,
			func(t *testing.T, x *tuning) {
				if d := x.document(t); d.LimitKind != "emulated" {
					t.Errorf("the limit is %s", d.LimitKind)
				}
				x.reaped(t)
			},
		},
		{
			"nobody's that sets its own", unprivileged(t, newTuning(t, "own", withDoc(brief, "--limit-with", "emulate")...), 0o755), 1, nil,
			[]string{`error: it runs with GOMAXPROCS=3 although its environment says \d+: it sets the number itself`},
			nil,
		},
	}
	const atOnce = 5
	slots := make(chan struct{}, atOnce)
	for _, test := range tests {
		go func() {
			slots <- struct{}{}
			x := test.tuning
			x.err = x.cmd.Run()
			<-slots
			close(x.ended)
		}()
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x := test.tuning
			<-x.ended
			if x.cmd.Process == nil {
				t.Fatal(x.err)
			}
			x.ends(t, test.code, test.stdout, test.stderr)
			if test.check != nil {
				test.check(t, x)
			} else if _, err := os.Stat(x.file("doc.json")); err == nil {
				t.Error("it has failed and written a document")
			}
		})
	}
}

// taken lets another server answer at its address.
func taken(t *testing.T, x *tuning) *tuning {
	t.Helper()
	l, err := net.Listen("tcp", x.address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return x
}

func homeless(x *tuning) *tuning {
	x.cmd.Env = slices.DeleteFunc(x.cmd.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "XDG_") })
	return x
}

// unprivileged makes it the command of a user without rights, in a directory of a mode. That user can't read where go test has put the test
// binary.
func unprivileged(t *testing.T, x *tuning, mode os.FileMode) *tuning {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(x.cmd.Dir, mode); err != nil {
			t.Fatal(err)
		}
		return x
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "unthrottle-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self := filepath.Join(dir, "command.test")
	if err := copyFile(self, executable(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "tmp", "work", "cache"} {
		os.Mkdir(filepath.Join(dir, name), 0o755)
		if err := os.Chown(filepath.Join(dir, name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "work"), mode); err != nil {
		t.Fatal(err)
	}
	for i, e := range x.cmd.Env {
		x.cmd.Env[i] = strings.ReplaceAll(e, x.dir, dir)
	}
	for i, a := range x.cmd.Args {
		if a == executable(t) {
			x.cmd.Args[i] = self
		}
	}
	x.cmd.Path, x.cmd.Dir, x.dir = self, filepath.Join(dir, "work"), dir
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return x
}

// barred makes it the command of a user who is in a directory of root's, such as one that root has become by setpriv or sudo -u.
func barred(t *testing.T, x *tuning) *tuning {
	t.Helper()
	x = unprivileged(t, x, 0o755)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || x.cmd.SysProcAttr == nil { // only root can become another
		return x
	}
	if err := errors.Join(os.Chown(x.cmd.Dir, 0, 0), os.Chmod(x.cmd.Dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	c := x.cmd.SysProcAttr.Credential
	x.cmd.Args = append([]string{"setpriv", fmt.Sprint("--reuid=", c.Uid), fmt.Sprint("--regid=", c.Gid), "--clear-groups", x.cmd.Path}, x.cmd.Args[1:]...)
	x.cmd.Path, x.cmd.SysProcAttr, x.cmd.Env = setpriv, nil, append(x.cmd.Env, "PWD="+x.cmd.Dir)
	return x
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// TestTuneInterrupted interrupts it in the middle, and lets it go on.
// TestKernelTuneAtOnce: two of a server that does no harm run at the same time, at one port, and one that writes a file runs alone.
func TestKernelTuneAtOnce(t *testing.T) {
	slowtest.Skip(t)
	kerneltest.New(t)
	n, err := runner.NewNetwork()
	if err != nil {
		t.Skip(err)
	}
	n.Close()
	tuned := func(kind string, args ...string) tuneDoc {
		x := newTuning(t, kind, append(append(slices.Clone(brief), "--cpus", "0.3", "--limit-with", "cgroup", "-o", "doc.json"), args...)...)
		x.start(t)
		x.ends(t, 0, nil, nil)
		return x.document(t)
	}
	if d := tuned("writes", "--budget", "10s"); d.AtOnce == nil || d.AtOnce.Runs > 0 || !strings.HasPrefix(d.AtOnce.InTurn, "it writes /") {
		t.Errorf("one that writes a file: %+v", d.AtOnce)
	}
	if d := tuned("good", "--budget", "10s", "--at-once", "no"); d.AtOnce != nil {
		t.Errorf("none wanted: %+v", d.AtOnce)
	}
	const tries = 3 // others may use the CPUs
	for try := range tries {
		d := tuned("works", "--rate", "50", "--for", "1s", "--budget", "30s")
		if d.AtOnce == nil {
			t.Fatal("it was not tried")
		}
		blocks := map[string][]tuneRun{}
		for _, r := range d.Runs {
			if r.AtOnce > 0 {
				block := fmt.Sprint(r.Phase, r.Block)
				blocks[block] = append(blocks[block], r)
			}
		}
		for block, runs := range blocks {
			if len(runs) != 2 || runs[0].AtOnce != 2 || runs[1].AtOnce != 2 || runs[0].Procs == runs[1].Procs || !runs[0].Valid || !runs[1].Valid {
				t.Errorf("%s: %+v", block, runs)
			}
		}
		if d.AtOnce.Runs > 0 {
			return
		}
		if d.AtOnce.InTurn == "" {
			t.Fatalf("nothing ran at once, for no reason: %+v", d.AtOnce)
		}
		t.Logf("try %d: %s", try+1, d.AtOnce.InTurn)
	}
	t.Skip("in no try the server was next to a copy of itself what it is alone")
}

func TestTuneInterrupted(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	x := newTuning(t, "good", append(brief, "--runs", "runs.jsonl", "-o", "doc.json")...)
	x.start(t)
	x.await(t, "block  2")
	x.cmd.Process.Signal(os.Interrupt)
	x.ends(t, 130, []string{`interrupted after \d+ runs?\.`, `GOMAXPROCS`}, []string{`unthrottle: interrupted`, `hint: continue with unthrottle tune --resume \S*runs\.jsonl`})
	before := x.document(t)
	if before.Finished || len(before.Runs) < 2 || !strings.Contains(before.Resume, "--resume") {
		t.Errorf("%+v", before)
	}
	if os.Remove(x.file("doc.json")) != nil {
		t.Fatal("no document")
	}

	next := newTune(t, x.address, []string{"--resume", x.file("runs.jsonl"), "-o", x.file("doc.json")})
	next.cmd.Env = x.cmd.Env
	next.start(t)
	next.ends(t, 0, nil, nil)
	if strings.Contains(next.stderr.String(), "warming it up") {
		t.Errorf("the pilot was done again\n%s", next.output())
	}
	after := x.document(t)
	if !after.Finished || after.Resume != "" || len(after.Runs) <= len(before.Runs) {
		t.Errorf("%+v", after)
	}
	for i, r := range before.Runs {
		if i >= len(after.Runs) || !reflect.DeepEqual(after.Runs[i], r) {
			t.Errorf("run %d is another one afterwards", i)
		}
	}
}

// TestTuneInterruptedEarly interrupts it in the pilot: there is nothing to show.
func TestTuneInterruptedEarly(t *testing.T) {
	t.Parallel()
	x := newTuning(t, "good", append(brief, "--runs", "runs.jsonl", "-o", "doc.json")...)
	x.start(t)
	x.await(t, "warming it up")
	x.cmd.Process.Signal(os.Interrupt)
	x.ends(t, 130, []string{`^$`}, []string{`unthrottle: interrupted`})
	for _, name := range []string{"runs.jsonl", "doc.json"} {
		if _, err := os.Stat(x.file(name)); err == nil {
			t.Errorf("there is %s, of no run", name)
		}
	}
}

// TestKernelTuneMemory: which memory limit a server needs that takes 80 MiB, at once or with its third request. With the race
// detector it takes some times that.
func TestKernelTuneMemory(t *testing.T) {
	slowtest.Plain(t) // the overload that begins each window takes CPU time by the minute; package tune searches such limits with the detector
	kerneltest.New(t) // or it is skipped
	tune := func(t *testing.T, kind string, args ...string) *tuning {
		x := newTuning(t, kind, append([]string{"--limit-with=cgroup", "--slo", "p50=9s", "--rate", "100", "--for", "100ms", "--warmup", "100ms", "--seed", "1", "--runs", "runs.jsonl"}, args...)...)
		x.start(t)
		<-x.ended
		return x
	}
	const dead = `\n +60 MiB +0 of \d+ .* out of memory\n`
	t.Run("at once", func(t *testing.T) {
		tune(t, "hungry", "--memory", "1g,60m", "--budget", "20s").ends(t, 0, []string{dead}, nil)
	})
	t.Run("later", func(t *testing.T) {
		x := tune(t, "hungry later", "--memory", "1g,60m")
		want := []string{dead}
		if !regexp.MustCompile(`\n +1 GiB +.* yes, smallest\n`).MatchString(x.stdout.String()) {
			t.Log("the machine is too busy for the rest: something else ran in most windows")
			want = append(want, `\n +1 GiB +.* (not known|seems so|–)\n`, `something else ran|something else had the machine`)
		} else {
			want = append(want, `^Set a memory limit of 1 GiB: p50=9s held at 100/s.\nSet GOMEMLIMIT=921MiB with it, as its runs had.\n`,
				`The next smaller, 60 MiB, fails: the kernel killed it for lack of memory in \d+ of \d+ windows.`, `docker run --memory 1024m -e GOMEMLIMIT=921MiB IMAGE`)
		}
		x.ends(t, 0, want, nil)
	})
}

// TestKernelTuneKilled kills tune itself, so that it can't remove anything.
func TestKernelTuneKilled(t *testing.T) {
	g := kerneltest.New(t)
	x := newTuning(t, "leaky", "--limit-with=cgroup", "--conns", "4", "--warmup", "30s")
	cmd := g.Command(x.cmd.Path, x.cmd.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = x.cmd.Env, x.cmd.Dir, x.stdout, x.stderr
	x.cmd = cmd
	x.start(t)
	x.await(t, "warming it up")
	for i := 0; len(processes(x.address)) < 3 && i < 1000; i++ { // tune, the server, the generator
		time.Sleep(10 * time.Millisecond)
	}
	x.cmd.Process.Kill()
	for i := 0; len(processes(x.address)) > 0 && i < 1000; i++ {
		time.Sleep(10 * time.Millisecond) // the kernel ends them with their parent
	}
	for _, p := range processes(x.address) {
		t.Errorf("it has outlived tune: %s", p)
	}
	if n := len(leftover(g)); n != 1 {
		t.Errorf("%d groups before the next run, want 1", n)
	}
	runIn(t, g, "--cpus", "1", "true")
	if left := leftover(g); left != nil {
		t.Errorf("after the next run there is %v", left)
	}
}

// TestTuneFullDisk has no room for the runs. What was measured is shown, and when there is room it goes on.
func TestTuneFullDisk(t *testing.T) {
	t.Parallel()
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("no small file system can be mounted (needs root): %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	runs := filepath.Join(small, "runs.jsonl")
	// Five settings run three times each at least, and one page does not hold them.
	x := newJobTuning(t, []string{"--runs", runs, "--procs", "1,3,4,5"}, executable(t), asTuned, "job")
	x.start(t)
	x.ends(t, 1, []string{`How it was measured`}, []string{`error: writing the runs: .*no space left on device`, `hint: continue with unthrottle tune --resume `})
	if err := syscall.Mount("tmpfs", small, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	next := newTune(t, "", []string{"--resume", runs})
	next.start(t)
	next.ends(t, 0, []string{`How it was measured`}, nil)
	if strings.Contains(next.stderr.String(), "running it once") {
		t.Errorf("the pilot was done again\n%s", next.output())
	}
}

// TestTuneWaits starts a second one while the first goes on.
func TestTuneWaits(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	first := newJobTuning(t, nil, executable(t), asTuned, "long job")
	second := newJobTuning(t, nil, executable(t), asTuned, "job")
	second.cmd.Env = first.cmd.Env
	first.start(t)
	first.await(t, "block  1")
	second.start(t)
	second.await(t, "waiting for another tune (process ")
	if strings.Contains(second.stderr.String(), "block") {
		t.Errorf("it has not waited\n%s", second.output())
	}
	first.cmd.Process.Signal(os.Interrupt)
	<-first.ended
	second.ends(t, 0, []string{`How it was measured`}, nil)
	first.ends(t, 130, []string{`interrupted`}, nil)
}
