//go:build linux

// Command emulate compares the limit that unthrottle emulates with the kernel's own. It runs a small web server under
// each in turn, sends both the same requests at the same moments, and prints a table in Markdown: the share of periods
// that were throttled, the latencies, and the ratios of the two.
//
// Requests come from outside of the limit at random moments, whether or not the server keeps up; a latency counts from
// the moment at which its request was to be sent. A pair is one run under each limit, in random order. A ratio in the
// table is the median of the ratios of the pairs.
//
// It needs a machine where `unthrottle run --limit-with=cgroup` works, with nothing else to do. A run during which other
// programs used more than -others of a CPU is done again, and each begins when the machine is quiet.
package main

import (
	"bufio"
	"encoding/json"
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
	pairs := flag.Int("pairs", 5, "runs under each limit for each setting")
	length := flag.Duration("length", 8*time.Second, "of a run")
	cpus := flag.String("cpus", "0.5,1", "limits")
	loads := flag.String("loads", "0.5,0.8,0.95", "shares of the limit that the requests need")
	procs := flag.String("procs", "1,2", "GOMAXPROCS")
	work := flag.Duration("work", 5*time.Millisecond, "CPU time of a request")
	kinds := flag.String("kinds", "cgroup,emulate", "the limits to compare: the same twice tells how much is chance")
	others := flag.Float64("others", 0.05, "CPUs that other programs may use during a run")
	verbose := flag.Bool("v", false, "print each run to standard error")
	flag.Parse()
	b := bench{pairs: *pairs, length: *length, work: *work, kinds: strings.Split(*kinds, ","), others: *others, verbose: *verbose}
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
			fmt.Fprintf(os.Stderr, "emulate: %q is no number\n", text)
			os.Exit(2)
		}
		out = append(out, v)
	}
	return out
}

type bench struct {
	pairs   int
	length  time.Duration
	work    time.Duration
	kinds   []string
	others  float64
	verbose bool

	dir   string // with the two programs
	loops string // work of a request
	seed  uint64
	costs [2][]float64
	again int // runs that were done again
}

// A setting is one row of the table.
type setting struct {
	cpus, load float64
	procs      int
}

// A trial is one run of the server.
type trial struct {
	throttled     float64 // share of periods
	p50, p90, p99 float64 // seconds
	cost          float64 // CPU time of unthrottle itself, as a share of one CPU
	others        float64 // CPU time of other programs, as a share of one CPU
}

func (b *bench) run(w io.Writer, cpus, loads, procs []float64) (err error) {
	if b.dir, err = os.MkdirTemp("", "emulate"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
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
	fmt.Fprintf(w, "%s, %d CPUs, %d pairs of %v each, %v of work a request. First %s, then %s.\n\n",
		runtime.Version(), runtime.NumCPU(), b.pairs, b.length, b.work, b.kinds[0], b.kinds[1])
	fmt.Fprintln(w, "| limit | load | GOMAXPROCS | throttled | p50 ms | p90 ms | p99 ms | throttled | p50 | p90 | p99 |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, c := range cpus {
		for _, p := range procs {
			for _, l := range loads {
				if err := b.row(w, setting{c, l, int(p)}); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprintf(w, "\nCPU time of unthrottle itself, median: %.2f %% of a CPU with %s, %.2f %% with %s.\n",
		100*median(b.costs[0]), b.kinds[0], 100*median(b.costs[1]), b.kinds[1])
	fmt.Fprintf(w, "Done again because of other programs: %d runs.\n", b.again)
	return nil
}

func (b *bench) row(w io.Writer, s setting) error {
	var trials [2][]trial
	for len(trials[0]) < b.pairs {
		b.seed++
		pair, err := b.pair(s)
		if err != nil {
			return err
		}
		for k, t := range pair {
			trials[k] = append(trials[k], t)
			b.costs[k] = append(b.costs[k], t.cost)
		}
	}
	pick := func(f func(trial) float64, unit float64) (both, ratio string) {
		var values [2][]float64
		var ratios []float64
		for i := range b.pairs {
			first, second := f(trials[0][i]), f(trials[1][i])
			values[0], values[1] = append(values[0], first), append(values[1], second)
			if first > 0 {
				ratios = append(ratios, second/first)
			}
		}
		return fmt.Sprintf("%.3g / %.3g", unit*median(values[0]), unit*median(values[1])),
			fmt.Sprintf("%.2f", median(ratios))
	}
	throttled, throttledRatio := pick(func(t trial) float64 { return t.throttled }, 100)
	p50, p50Ratio := pick(func(t trial) float64 { return t.p50 }, 1e3)
	p90, p90Ratio := pick(func(t trial) float64 { return t.p90 }, 1e3)
	p99, p99Ratio := pick(func(t trial) float64 { return t.p99 }, 1e3)
	fmt.Fprintf(w, "| %g CPU | %.0f %% | %d | %s %% | %s | %s | %s | %s | %s | %s | %s |\n", s.cpus, 100*s.load, s.procs,
		throttled, p50, p90, p99, throttledRatio, p50Ratio, p90Ratio, p99Ratio)
	return nil
}

// pair runs the server under each limit, in random order.
func (b *bench) pair(s setting) (pair [2]trial, err error) {
	for _, k := range rand.Perm(2) {
		if pair[k], err = b.undisturbed(s, b.kinds[k]); err != nil {
			return pair, err
		}
	}
	return pair, nil
}

// undisturbed runs the server until no other program got in the way.
func (b *bench) undisturbed(s setting, kind string) (trial, error) {
	for ; ; b.again++ {
		for idleShare(time.Second/2) < 1-b.others {
		}
		t, err := b.trial(s, kind)
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

// median of nothing is no number.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// trial runs the server once.
func (b *bench) trial(s setting, kind string) (t trial, err error) {
	report := filepath.Join(b.dir, "report.json")
	begin, machine := time.Now(), machineTime()-ownTime()
	defer func() { t.others = (machineTime() - ownTime() - machine).Seconds() / time.Since(begin).Seconds() }()
	cmd := exec.Command(filepath.Join(b.dir, "unthrottle"), "run", "--limit-with="+kind, "--json", "-o", report,
		fmt.Sprintf("--cpus=%g", s.cpus), fmt.Sprintf("--gomaxprocs=%d", s.procs),
		"--", filepath.Join(b.dir, "server"), "-loops", b.loops)
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
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return t, fmt.Errorf("the server did not start: %w", err)
	}
	rate := s.load * s.cpus / b.work.Seconds()
	before := cpuTime(cmd.Process.Pid)
	latencies, err := b.load("http://"+strings.TrimSpace(address), rate)
	t.cost = (cpuTime(cmd.Process.Pid) - before).Seconds() / b.length.Seconds()
	stop.Close()
	if waitErr := cmd.Wait(); err == nil {
		err = waitErr
	}
	if err != nil {
		return t, err
	}
	t.p50, t.p90, t.p99 = quantile(latencies, 0.5), quantile(latencies, 0.9), quantile(latencies, 0.99)
	return t, t.read(report)
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

// load sends requests at random moments, the same for each trial of a pair.
func (b *bench) load(url string, rate float64) (latencies []float64, err error) {
	random := rand.New(rand.NewPCG(b.seed, 0))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()
	if err := fetch(client, url); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for at := time.Duration(0); ; {
		at += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		if at > b.length {
			break
		}
		time.Sleep(time.Until(begin.Add(at)))
		wg.Go(func() {
			failure := fetch(client, url)
			latency := time.Since(begin.Add(at)).Seconds()
			mu.Lock()
			defer mu.Unlock()
			if latencies = append(latencies, latency); failure != nil {
				err = failure
			}
		})
	}
	wg.Wait()
	return latencies, err
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
