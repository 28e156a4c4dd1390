//go:build linux

// Command emulate compares the limit that unthrottle emulates with the kernel's own. It runs a small web server under
// each, with several GOMAXPROCS, sends all of them the same requests at the same moments, and prints tables in Markdown: what
// each limit did, how the two differ, and how a comparison of two GOMAXPROCS differs, which is the bias of a verdict that was
// found under an emulated limit.
//
// Requests come from outside of the limit at random moments, whether or not the server keeps up. A block is one run of each
// setting under each limit, in random order and with the same arrivals. Ratios are of runs of one block; a table has their
// geometric mean and its 95 % interval over the blocks.
//
// It needs a machine where `unthrottle run --limit-with=cgroup` works, with nothing else to do. A run during which other
// programs used more than -others of a CPU is repeated, and each begins when the machine is quiet.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	blocks := flag.Int("blocks", 5, "runs of each setting under each limit")
	length := flag.Duration("length", 3*time.Second, "of a run")
	cpus := flag.String("cpus", "0.5,1", "limits")
	loads := flag.String("loads", "0.65,0.85", "shares of the limit that the requests need")
	procs := flag.String("procs", "1,2,4,8", "GOMAXPROCS")
	work := flag.Duration("work", time.Millisecond, "CPU time of a request, without the server's own")
	alloc := flag.Int("alloc", 64<<10, "bytes that a request allocates")
	kinds := flag.String("kinds", "cgroup,emulate", "the limits to compare: the same one twice shows how much is chance")
	others := flag.Float64("others", 0.05, "CPUs that other programs may use during a run")
	verbose := flag.Bool("v", false, "print each run to standard error")
	flag.Parse()
	b := bench{
		blocks: *blocks, length: *length, work: *work, alloc: *alloc, kinds: strings.Split(*kinds, ","), others: *others,
		verbose: *verbose,
	}
	if len(b.kinds) != 2 || b.length < time.Second {
		fmt.Fprintln(os.Stderr, "emulate: -kinds takes two of them, -length at least a second")
		os.Exit(2)
	}
	err := b.run(os.Stdout, numbers(*cpus), numbers(*loads), numbers(*procs))
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulate:", err)
		os.Exit(1)
	}
}

func numbers(list string) (out []float64) {
	for _, text := range strings.Split(list, ",") {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			fmt.Fprintf(os.Stderr, "emulate: %q is not a number\n", text)
			os.Exit(2)
		}
		out = append(out, v)
	}
	return out
}

type bench struct {
	blocks  int
	length  time.Duration
	work    time.Duration
	alloc   int
	kinds   []string
	others  float64
	verbose bool

	dir     string        // with the two programs
	loops   string        // work of a request
	request time.Duration // CPU time of a request, all in all
	again   int           // runs that were done again
}

// A setting is what a server runs with. Its runs are those of its blocks, under the two limits.
type setting struct {
	cpus, load float64
	procs      int
}

// A pair is a run under each of the two limits.
type pair [2]trial

// A trial is one run of the server.
type trial struct {
	throttled     float64 // share of periods
	p50, p90, p99 float64 // seconds, from when a request was due
	tail          float64 // seconds: geometric mean of the seconds' p99s, from when a request was ready to be sent
	cpu           float64 // seconds a request, of the server
	cost          float64 // CPU time of unthrottle itself, as a share of one CPU
	others        float64 // CPU time of other programs, as a share of one CPU
}

// warmUp comes before each run, and is not counted.
const warmUp = time.Second / 2

func (b *bench) run(w io.Writer, cpus, loads, procs []float64) error {
	if err := b.build(); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	first := setting{cpus: 1, load: 0.5, procs: 2}
	b.request = b.work
	pilot, err := b.undisturbed(first, b.kinds[0], 0)
	if err != nil {
		return err
	}
	b.request = time.Duration(pilot.cpu * float64(time.Second))
	fmt.Fprintf(w, "%s, %d CPUs, %d blocks of runs of %v; a request takes %v of CPU, %v of them its work, and allocates %d KiB.\n"+
		"First %s, then %s.\n\n", runtime.Version(), runtime.NumCPU(), b.blocks, b.length, b.request.Round(10*time.Microsecond), b.work,
		b.alloc>>10, b.kinds[0], b.kinds[1])

	var settings []setting
	for _, c := range cpus {
		for _, l := range loads {
			for _, p := range procs {
				settings = append(settings, setting{c, l, int(p)})
			}
		}
	}
	runs := map[setting][]pair{}
	begin := time.Now()
	for block := range b.blocks {
		if err := b.block(settings, uint64(block+1), runs); err != nil {
			return err
		}
		left := time.Since(begin) / time.Duration(block+1) * time.Duration(b.blocks-block-1)
		fmt.Fprintf(os.Stderr, "block %d of %d is done, %v left\n", block+1, b.blocks, left.Round(time.Second))
	}
	results{settings, runs, b.kinds}.write(w)
	fmt.Fprintf(w, "\nDone again because of other programs: %d runs.\n", b.again)
	return nil
}

// build makes the two programs, and finds out how many loops the work of a request is.
func (b *bench) build() (err error) {
	if b.dir, err = os.MkdirTemp("", "emulate"); err != nil {
		return err
	}
	for _, pkg := range []string{"cmd/unthrottle", "bench/emulate/server"} {
		cmd := exec.Command("go", "build", "-o", b.dir, "github.com/unthrottle/unthrottle/"+pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w: %s", pkg, err, out)
		}
	}
	out, err := exec.Command(filepath.Join(b.dir, "server"), "-work", b.work.String()).Output()
	if err != nil {
		return fmt.Errorf("measuring the work of a request: %w", err)
	}
	b.loops = strings.TrimSpace(string(out))
	return nil
}

// block runs each setting under each limit, in random order.
func (b *bench) block(settings []setting, seed uint64, runs map[setting][]pair) error {
	for _, s := range settings {
		runs[s] = append(runs[s], pair{})
	}
	for _, i := range rand.Perm(2 * len(settings)) {
		s, kind := settings[i/2], i%2
		t, err := b.undisturbed(s, b.kinds[kind], seed)
		if err != nil {
			return err
		}
		runs[s][len(runs[s])-1][kind] = t
	}
	return nil
}

// undisturbed runs the server until no other program got in the way.
func (b *bench) undisturbed(s setting, kind string, seed uint64) (trial, error) {
	for ; ; b.again++ {
		for idleShare(time.Second/4) < 1-b.others {
		}
		t, err := b.trial(s, kind, seed)
		if b.verbose {
			fmt.Fprintf(os.Stderr, "%v %s: %+v %v\n", s, kind, t, err)
		}
		if err != nil || t.others <= b.others {
			return t, err
		}
	}
}

// idleShare is 1 less the CPUs that are used.
func idleShare(d time.Duration) float64 {
	before := machineTime() - ownTime()
	time.Sleep(d)
	return 1 - (machineTime()-ownTime()-before).Seconds()/d.Seconds()
}

// machineTime is the time that all CPUs worked, or a hypervisor kept from us.
//
//	cpu  user nice system idle iowait irq softirq steal …
func machineTime() (t time.Duration) {
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line) {
		if n, err := strconv.Atoi(field); err == nil && i <= 8 && i != 4 && i != 5 {
			t += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return t
}

// ownTime is that of this process, and of those that it has started and that have ended.
func ownTime() (t time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		syscall.Getrusage(who, &r)
		t += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return t
}

// trial runs the server once.
func (b *bench) trial(s setting, kind string, seed uint64) (t trial, err error) {
	report := filepath.Join(b.dir, "report.json")
	begin, machine := time.Now(), machineTime()-ownTime()
	defer func() { t.others = (machineTime() - ownTime() - machine).Seconds() / time.Since(begin).Seconds() }()
	cmd := exec.Command(filepath.Join(b.dir, "unthrottle"), "run", "--limit-with="+kind, "--json", "-o", report,
		fmt.Sprintf("--cpus=%g", s.cpus), fmt.Sprintf("--gomaxprocs=%d", s.procs),
		"--", filepath.Join(b.dir, "server"), "-loops", b.loops, "-alloc", strconv.Itoa(b.alloc))
	cmd.Stderr = os.Stderr
	stop, err := cmd.StdinPipe()
	if err != nil {
		return t, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return t, err
	}
	if err := cmd.Start(); err != nil {
		return t, err
	}
	var address string
	var pid int
	if _, err := fmt.Fscanln(bufio.NewReader(output), &address, &pid); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return t, fmt.Errorf("the server did not start: %w", err)
	}
	err = b.measure(&t, s, seed, "http://"+address, cmd.Process.Pid, pid)
	stop.Close()
	if waitErr := cmd.Wait(); err == nil {
		err = waitErr
	}
	if err != nil {
		return t, err
	}
	return t, t.read(report)
}

// measure sends the requests and takes what they took. The server's CPU time is the kernel's under either limit.
func (b *bench) measure(t *trial, s setting, seed uint64, url string, unthrottle, server int) error {
	rate := s.load * s.cpus / b.request.Seconds()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()
	if _, err := load(client, url, rate, warmUp, 0); err != nil {
		return err
	}
	own, used := cpuTime(unthrottle), cpuTime(server)
	answers, err := load(client, url, rate, b.length, seed)
	if err != nil || len(answers) == 0 {
		return errors.Join(err, errors.New("no answers"))
	}
	t.cpu = (cpuTime(server) - used).Seconds() / float64(len(answers))
	t.cost = (cpuTime(unthrottle) - own).Seconds() / b.length.Seconds()
	fromDue := make([]float64, len(answers))
	seconds := make([][]float64, (b.length+time.Second-1)/time.Second)
	for i, a := range answers {
		fromDue[i] = (a.done - a.due).Seconds()
		at := int(a.due / time.Second)
		seconds[at] = append(seconds[at], (a.done - a.ready).Seconds())
	}
	t.p50, t.p90, t.p99 = quantile(fromDue, 0.5), quantile(fromDue, 0.9), quantile(fromDue, 0.99)
	var logs []float64
	for _, second := range seconds {
		if len(second) > 0 {
			logs = append(logs, math.Log(quantile(second, 0.99)))
		}
	}
	t.tail = math.Exp(mean(logs))
	return nil
}

// read takes what was counted from the document.
func (t *trial) read(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var doc struct {
		Periods   float64 `json:"periods"`
		Throttled float64 `json:"throttled_periods"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	if doc.Periods == 0 {
		return fmt.Errorf("no periods in %s", data)
	}
	t.throttled = doc.Throttled / doc.Periods
	return nil
}

// An answer is a request's times, from the beginning of the load.
type answer struct{ due, ready, done time.Duration }

// load sends requests at random moments, the same for each run of a block, and waits for all answers.
func load(client *http.Client, url string, rate float64, length time.Duration, seed uint64) (answers []answer, err error) {
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for at := time.Duration(0); ; {
		at += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		if at >= length {
			break
		}
		time.Sleep(time.Until(begin.Add(at)))
		a := answer{due: at, ready: time.Since(begin)}
		wg.Go(func() {
			failure := fetch(client, url)
			a.done = time.Since(begin)
			mu.Lock()
			defer mu.Unlock()
			if answers = append(answers, a); failure != nil {
				err = failure
			}
		})
	}
	wg.Wait()
	return answers, err
}

func fetch(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

// cpuTime reads the CPU clock of a process; for its number see the kernel's posix-timers.h.
func cpuTime(pid int) time.Duration {
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|2), uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
