// Command load compares "unthrottle load" with hey and wrk: how many requests a second each can send, and the CPU time that one costs it;
// how late the generator is; what a request costs at a rate; which highest rate --find-max finds, compared with what closed loops do; and
// what each says of a server that is throttled. Rounds are interleaved in random order, and medians compared. It needs root for the limit,
// and Debian's packages hey and wrk; wrk2 is compared as well if it is there.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/bench/internal/command"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often each is run")
	window := flag.Duration("for", 2*time.Second, "how long each runs")
	what := flag.String("what", "peak,pacing,cost,findmax,throttled", "what is compared")
	serve := flag.String("serve", "", "be the server: hello, or work, which takes 2 ms of CPU time; or be spin, which uses half of a CPU")
	flag.Parse()
	if *serve != "" {
		if err := server(*serve); err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
			os.Exit(1)
		}
		return
	}
	b := &bench{rounds: *rounds, window: *window}
	if err := b.run(strings.Split(*what, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// server answers until it is killed. It writes its address to stdout.
func server(kind string) error {
	if kind == "spin" {
		spin(5*time.Millisecond, 5*time.Millisecond)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	hello := []byte("Hello, world!")
	rounds := 0
	if kind == "work" {
		rounds = calibrate(2 * time.Millisecond)
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sink.Add(burn(rounds))
		w.Write(hello)
	}))
}

var sink atomic.Uint64

func burn(rounds int) uint64 {
	x := uint64(88172645463325252)
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x & 1
}

// spin works and sleeps in turns until it is killed.
func spin(work, sleep time.Duration) {
	for {
		for begin := time.Now(); time.Since(begin) < work; {
			sink.Add(burn(1000))
		}
		time.Sleep(sleep)
	}
}

// calibrate finds how many rounds take a time, from the fastest of many tries: the others were disturbed, or throttled.
func calibrate(d time.Duration) int {
	const rounds = 100_000
	best := time.Hour
	for range 200 {
		begin := time.Now()
		sink.Add(burn(rounds))
		best = min(best, time.Since(begin))
	}
	return int(float64(rounds) * float64(d) / float64(best))
}

type bench struct {
	rounds int
	window time.Duration
	dir    string
	self   string
	tool   string // unthrottle
}

func (b *bench) run(what []string) error {
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "benchload"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.tool = filepath.Join(b.dir, "unthrottle")
	if err := command.Build(context.Background(), b.tool, "cmd/unthrottle"); err != nil {
		return err
	}
	for _, w := range what {
		f, ok := map[string]func() error{"peak": b.peak, "pacing": b.pacing, "cost": b.cost, "findmax": b.findMax, "throttled": b.throttled}[w]
		if !ok {
			return fmt.Errorf("-what=%s: peak, pacing, cost, findmax or throttled", w)
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// start starts a server, with what is put before its command line, and returns its address.
func (b *bench) start(kind string, before ...string) (address string, stop func(), err error) {
	args := append(before, b.self, "-serve", kind)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() }
	line := make([]byte, 100)
	n, err := out.Read(line)
	return strings.TrimSpace(string(line[:n])), stop, err
}

// A client is a way to send requests as fast as they are answered.
type client struct {
	name  string
	args  []string
	count func(out string) (requests, seconds float64, err error)

	rate, cpu []float64 // a run each: requests a second, seconds of CPU per request
}

const connections = 16

// peak compares closed loops: the client has one CPU, the server another.
func (b *bench) peak() error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("the client and the server need a CPU each")
	}
	address, stop, err := b.start("hello", "taskset", "-c", "0")
	if err != nil {
		return err
	}
	defer stop()
	url := "http://" + address + "/"
	seconds := strconv.FormatFloat(b.window.Seconds(), 'f', -1, 64)
	ours := func(engine string) []string {
		return []string{b.tool, "load", url, "-c", strconv.Itoa(connections), "--for", b.window.String(), "--engine", engine, "--server-pid", "0", "--json"}
	}
	clients := []*client{
		{name: "wrk", args: []string{"wrk", "-t1", "-c" + strconv.Itoa(connections), "-d" + seconds + "s", url}, count: countWrk},
		{name: "hey", args: []string{"hey", "-c", strconv.Itoa(connections), "-z", seconds + "s", "-cpus", "1", url}, count: countHey},
		{name: "unthrottle load, lean", args: ours("lean"), count: countOurs},
		{name: "unthrottle load, net/http", args: ours("net/http"), count: countOurs},
		{name: "unthrottle hey", args: []string{b.tool, "hey", "-c", strconv.Itoa(connections), "-z", seconds + "s", "-cpus", "1", url}, count: countHey},
	}
	for round := range b.rounds + 1 { // the first warms up
		for _, i := range rand.Perm(len(clients)) {
			c := clients[i]
			cmd := exec.Command("taskset", append([]string{"-c", "1"}, c.args...)...)
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			requests, took, err := c.count(out.String())
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 {
				cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				c.rate, c.cpu = append(c.rate, requests/took), append(c.cpu, cpu.Seconds()/requests)
			}
		}
	}
	fmt.Printf("\nPeak: %d connections, closed loop, client on one CPU, server on another, median of %d rounds of %v\n\n", connections, b.rounds, b.window)
	fmt.Printf("| client | requests/s | of hey's, within a round | CPU per request |\n|---|---|---|---|\n")
	hey := clients[1]
	for _, c := range clients {
		ratios := make([]float64, len(c.rate))
		for i := range ratios {
			ratios[i] = c.rate[i] / hey.rate[i]
		}
		fmt.Printf("| %s | %.0f | %.2f | %.1f µs |\n", c.name, median(c.rate), median(ratios), median(c.cpu)*1e6)
	}
	return nil
}

var (
	heyRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	heyTime = regexp.MustCompile(`Total:\s+([0-9.]+) secs`)
	wrkSum  = regexp.MustCompile(`([0-9]+) requests in ([0-9.]+)s`)
)

func countHey(out string) (requests, seconds float64, err error) {
	rate, took := heyRate.FindStringSubmatch(out), heyTime.FindStringSubmatch(out)
	if rate == nil || took == nil {
		return 0, 0, fmt.Errorf("no rate in %q", out)
	}
	r, _ := strconv.ParseFloat(rate[1], 64)
	t, _ := strconv.ParseFloat(took[1], 64)
	return r * t, t, nil
}

func countWrk(out string) (requests, seconds float64, err error) {
	m := wrkSum.FindStringSubmatch(out)
	if m == nil {
		return 0, 0, fmt.Errorf("no count in %q", out)
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	t, _ := strconv.ParseFloat(m[2], 64)
	return n, t, nil
}

// A document is what is needed of ours.
type document struct {
	Requests float64 `json:"requests"`
	Elapsed  float64 `json:"elapsed_seconds"`
	Rate     float64 `json:"rate"`
	Valid    bool    `json:"valid"`
	Response dist    `json:"response"`
	Service  dist    `json:"service"`
	Late     dist    `json:"pacer_late"`
	Server   *struct {
		Periods   int64 `json:"periods"`
		Throttled int64 `json:"throttled_periods"`
	} `json:"server"`
}

type dist struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

func countOurs(out string) (requests, seconds float64, err error) {
	var d document
	err = json.Unmarshal([]byte(out), &d)
	return d.Requests, d.Elapsed, err
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// pacing compares how late requests at a given rate are, on a CPU that has nothing else to do.
func (b *bench) pacing() error {
	address, stop, err := b.start("hello", "taskset", "-c", "0")
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("\nPacing: lateness of a request that is due, client on one CPU, server on another, median of %d rounds of %v\n\n", b.rounds, b.window)
	fmt.Printf("| rate | way | p50 | p99 |\n|---|---|---|---|\n")
	for _, rate := range []int{100, 1000, 5000} {
		var ours, sleep [2][]float64
		for range b.rounds {
			cmd := exec.Command("taskset", "-c", "1", b.tool, "load", "http://"+address+"/", "--rate", strconv.Itoa(rate), "--arrivals=const",
				"--for", b.window.String(), "--server-pid", "0", "--json")
			out, err := cmd.Output()
			if err != nil {
				return err
			}
			var d document
			if err := json.Unmarshal(out, &d); err != nil {
				return err
			}
			p50, p99 := sleepLate(rate, b.window)
			ours[0], ours[1] = append(ours[0], d.Late.P50), append(ours[1], d.Late.P99)
			sleep[0], sleep[1] = append(sleep[0], p50), append(sleep[1], p99)
		}
		fmt.Printf("| %d/s | unthrottle load | %.0f µs | %.0f µs |\n", rate, median(ours[0])*1e6, median(ours[1])*1e6)
		fmt.Printf("| %d/s | a loop of time.Sleep | %.0f µs | %.0f µs |\n", rate, median(sleep[0])*1e6, median(sleep[1])*1e6)
	}
	fmt.Printf("\nhey has no schedule; asked for 1000/s by -c 1 -q 1000 it sent, in %d rounds:", b.rounds)
	for range b.rounds {
		out, err := exec.Command("taskset", "-c", "1", "hey", "-c", "1", "-q", "1000", "-z", b.window.String(), "http://"+address+"/").Output()
		if err != nil {
			return err
		}
		requests, took, err := countHey(string(out))
		if err != nil {
			return err
		}
		fmt.Printf(" %.0f/s", requests/took)
	}
	fmt.Println()
	return nil
}

// sleepLate is how late a loop is that sleeps until the next due time.
func sleepLate(rate int, window time.Duration) (p50, p99 float64) {
	var late []float64
	begin := time.Now()
	for i := 0; ; i++ {
		due := time.Duration(i) * time.Second / time.Duration(rate)
		if due > window {
			break
		}
		time.Sleep(due - time.Since(begin))
		late = append(late, (time.Since(begin) - due).Seconds())
	}
	slices.Sort(late)
	return late[len(late)/2], late[len(late)*99/100]
}

// A costing is what requests at a rate cost a client.
type costing struct {
	name  string
	args  []string
	count func(out string) (requests, seconds float64, err error)
	late  func(out string) (p50, p99 float64, err error) // nil: it does not say

	rate, cpu, switches, p50, p99 []float64 // a run each: CPU seconds and voluntary switches are of a request
}

// cost compares what a request costs the client, which shares all CPUs with the server, at rates and in a closed loop.
func (b *bench) cost() error {
	address, stop, err := b.start("hello")
	if err != nil {
		return err
	}
	defer stop()
	url := "http://" + address + "/"
	fmt.Printf("\nCost: client and server share the CPUs, median of %d rounds of %v\n\n", b.rounds, b.window)
	fmt.Printf("| load | client | requests/s | CPU per request | of ours, within a round | switches a request | late p50 | p99 |\n|---|---|---|---|---|---|---|---|\n")
	for _, rate := range []int{500, 2000, 10000, 0} {
		clients := b.costings(url, rate)
		for round := range b.rounds + 1 { // the first warms up
			for _, i := range rand.Perm(len(clients)) {
				if err := clients[i].run(round > 0); err != nil {
					return fmt.Errorf("%s: %w", clients[i].name, err)
				}
			}
		}
		load := strconv.Itoa(rate) + "/s"
		if rate == 0 {
			load = "closed, " + strconv.Itoa(closedConns)
		}
		for _, c := range clients {
			c.print(load, clients[0])
		}
	}
	return nil
}

// closedConns are the connections of a closed loop where costs are compared.
const closedConns = 32

func (b *bench) costings(url string, rate int) (clients []*costing) {
	seconds, conns := strconv.FormatFloat(b.window.Seconds(), 'f', -1, 64), strconv.Itoa(closedConns)
	for _, engine := range []string{"lean", "net/http"} {
		args := []string{b.tool, "load", url, "--for", b.window.String(), "--engine", engine, "--server-pid", "0", "--json"}
		c := &costing{name: "unthrottle load, " + engine, args: append(args, "-c", conns), count: countOurs}
		if rate > 0 {
			c.args, c.late = append(args, "--rate", strconv.Itoa(rate)), lateOurs
		}
		clients = append(clients, c)
	}
	if rate == 0 {
		return append(clients,
			&costing{name: "wrk", args: []string{"wrk", "-t1", "-c" + conns, "-d" + seconds + "s", url}, count: countWrk},
			&costing{name: "hey", args: []string{"hey", "-c", conns, "-z", b.window.String(), url}, count: countHey})
	}
	if _, err := exec.LookPath("wrk2"); err == nil {
		clients = append(clients, &costing{name: "wrk2", args: []string{"wrk2", "-t1", "-c" + conns, "-d" + seconds + "s", "-R" + strconv.Itoa(rate), url}, count: countWrk})
	}
	const workers = 10
	return append(clients, &costing{
		name: "hey", args: []string{"hey", "-c", strconv.Itoa(workers), "-q", strconv.Itoa(rate / workers), "-z", b.window.String(), url}, count: countHey,
	})
}

func (c *costing) run(counts bool) error {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return err
	}
	requests, took, err := c.count(out.String())
	if err != nil || !counts {
		return err
	}
	if c.late != nil {
		p50, p99, err := c.late(out.String())
		if err != nil {
			return err
		}
		c.p50, c.p99 = append(c.p50, p50), append(c.p99, p99)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	c.rate, c.cpu = append(c.rate, requests/took), append(c.cpu, cpu.Seconds()/requests)
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	c.switches = append(c.switches, float64(used.Nvcsw)/requests)
	return nil
}

func (c *costing) print(load string, ours *costing) {
	ratios := make([]float64, len(c.cpu))
	for i := range ratios {
		ratios[i] = c.cpu[i] / ours.cpu[i]
	}
	late := "– | –"
	if len(c.p50) > 0 {
		late = fmt.Sprintf("%.0f µs | %.0f µs", median(c.p50)*1e6, median(c.p99)*1e6)
	}
	fmt.Printf("| %s | %s | %.0f | %.1f µs | %.2f | %.2f | %s |\n", load, c.name, median(c.rate), median(c.cpu)*1e6, median(ratios), median(c.switches), late)
}

func lateOurs(out string) (p50, p99 float64, err error) {
	var d document
	err = json.Unmarshal([]byte(out), &d)
	return d.Late.P50, d.Late.P99, err
}

// findMax compares the highest rate that --find-max finds with what closed loops do, ours and wrk's, at a p99 of 50 ms before and
// after it. The server is "unthrottle serve", and all share the CPUs.
func (b *bench) findMax() error {
	address, err := command.FreeAddress()
	if err != nil {
		return err
	}
	stop, err := background(b.tool, "serve", "--listen", address)
	if err != nil {
		return err
	}
	defer stop()
	url := "http://" + address + "/isPrime/20003"
	for range 100 { // until it listens
		if r, err := http.Get(url); err == nil {
			r.Body.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Printf("\nHighest rate: /isPrime/20003 of the built-in server, p99 ≤ 50 ms, %d rounds; closed loops: the most of 8, 16, 32 and 64 connections\n\n",
		b.rounds)
	fmt.Printf("| beside | closed before | after | wrk before | after | --find-max | of the closed loops' | of wrk's | time | it says |\n")
	fmt.Printf("|---|---|---|---|---|---|---|---|---|---|\n")
	for range b.rounds {
		for _, beside := range []string{"nothing", "half of a CPU"} {
			if err := b.findMaxBeside(url, beside); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) findMaxBeside(url, beside string) error {
	if beside != "nothing" {
		stop, err := background(b.self, "-serve", "spin")
		if err != nil {
			return err
		}
		defer stop()
	}
	before, err := b.closedLoops(url)
	if err != nil {
		return err
	}
	began := time.Now()
	out, err := exec.Command(b.tool, "load", url, "--find-max", "--slo", "p99=50ms", "--json").Output()
	took := time.Since(began)
	var d struct {
		FindMax struct {
			Sustains float64 `json:"sustains"`
			Text     string  `json:"text"`
		} `json:"find_max"`
	}
	if jsonErr := json.Unmarshal(out, &d); jsonErr != nil { // one that finds none exits with 3, and has a document
		return fmt.Errorf("--find-max: %w: %w", jsonErr, err)
	}
	after, err := b.closedLoops(url)
	if err != nil {
		return err
	}
	found := d.FindMax.Sustains
	fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.2f | %.2f | %.1f s | %s |\n", beside, before[0], after[0], before[1], after[1],
		found, 2*found/(before[0]+after[0]), 2*found/(before[1]+after[1]), took.Seconds(), d.FindMax.Text)
	return nil
}

// closedLoops are the highest rates of ours and of wrk, of those with a p99 within 50 ms; 0: none was.
func (b *bench) closedLoops(url string) (most [2]float64, err error) {
	seconds := strconv.FormatFloat(b.window.Seconds(), 'f', -1, 64)
	for _, conns := range []string{"8", "16", "32", "64"} {
		for i, args := range [][]string{
			{b.tool, "load", url, "-c", conns, "--for", b.window.String(), "--json"},
			{"wrk", "-t1", "-c" + conns, "-d" + seconds + "s", "--latency", url},
		} {
			out, err := exec.Command(args[0], args[1:]...).Output()
			if err != nil {
				return most, fmt.Errorf("%s: %w", args[0], err)
			}
			rate, _, _, p99, err := said(args[0], string(out))
			if err != nil {
				return most, fmt.Errorf("%s: %w", args[0], err)
			}
			if p99 <= 0.05 {
				most[i] = max(most[i], rate)
			}
		}
	}
	return most, nil
}

// background runs a command until it is stopped.
func background(args ...string) (stop func(), err error) {
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { cmd.Process.Kill(); cmd.Wait() }, nil
}

// throttled shows what each says of one server at a limit of 0.4 CPU, at the same rate. The server's counters are the
// truth: they are read around each run.
func (b *bench) throttled() error {
	const rate = 150
	address, stop, err := b.start("work", b.tool, "run", "--quiet", "--limit-with=cgroup", "--cpus", "0.4", "--")
	if err != nil {
		return err
	}
	defer stop()
	url := "http://" + address + "/"
	seconds := 6 * time.Second
	group, err := limited()
	if err != nil {
		return err
	}
	fmt.Printf("\nA server of 2 ms CPU per request at 0.4 CPU, asked for %d/s for %v\n\n", rate, seconds)
	fmt.Printf("| client | sent | p50 | p90 | p99 | periods throttled |\n|---|---|---|---|---|---|\n")
	each := func(n int) string { return strconv.Itoa(rate / n) }
	for _, c := range []struct {
		name string
		args []string
	}{
		{"hey -c 1 -q " + each(1), []string{"hey", "-c", "1", "-q", each(1), "-z", seconds.String(), url}},
		{"hey -c 15 -q " + each(15), []string{"hey", "-c", "15", "-q", each(15), "-z", seconds.String(), url}},
		{"wrk -t1 -c1 (as fast as it can)", []string{"wrk", "-t1", "-c1", "-d" + seconds.String(), "--latency", url}},
		{"unthrottle load --arrivals const", []string{b.tool, "load", url, "--rate", strconv.Itoa(rate), "--arrivals", "const", "--for", seconds.String(), "--json"}},
		{"unthrottle load", []string{b.tool, "load", url, "--rate", strconv.Itoa(rate), "--for", seconds.String(), "--json"}},
	} {
		time.Sleep(time.Second) // what is left of the load before
		before, err := counters(group)
		if err != nil {
			return err
		}
		out, err := exec.Command(c.args[0], c.args[1:]...).Output()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		after, err := counters(group)
		if err != nil {
			return err
		}
		sent, p50, p90, p99, err := said(c.args[0], string(out))
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("| %s | %.0f/s | %s | %s | %s | %d of %d |\n", c.name, sent, millis(p50), millis(p90), millis(p99), after[1]-before[1], after[0]-before[0])
	}
	return nil
}

// limited finds the group that run made for the server.
func limited() (string, error) {
	for _, pattern := range []string{"/sys/fs/cgroup/cpu*/unthrottle-run-*", "/sys/fs/cgroup/cpu*/*/unthrottle-run-*", "/sys/fs/cgroup/unthrottle-run-*"} {
		if dirs, _ := filepath.Glob(pattern); len(dirs) > 0 {
			return dirs[0], nil
		}
	}
	return "", fmt.Errorf("the server's group can't be found")
}

// counters reads nr_periods and nr_throttled.
func counters(group string) (c [2]int64, err error) {
	data, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		for i, name := range []string{"nr_periods", "nr_throttled"} {
			if len(f) == 2 && f[0] == name {
				c[i], _ = strconv.ParseInt(f[1], 10, 64)
			}
		}
	}
	return c, nil
}

// said reads the rate and the percentiles, in seconds, that a client's report has.
func said(client, out string) (rate, p50, p90, p99 float64, err error) {
	switch client {
	case "hey":
		requests, took, err := countHey(out)
		if err != nil {
			return 0, 0, 0, 0, err
		}
		at := func(p string) float64 {
			m := regexp.MustCompile(p + `%+ in ([0-9.]+) secs`).FindStringSubmatch(out)
			if m == nil {
				return 0
			}
			v, _ := strconv.ParseFloat(m[1], 64)
			return v
		}
		return requests / took, at("50"), at("90"), at("99"), nil
	case "wrk":
		requests, took, err := countWrk(out)
		if err != nil {
			return 0, 0, 0, 0, err
		}
		at := func(p string) float64 {
			m := regexp.MustCompile(p + `%\s+([0-9.]+)(us|ms|s)`).FindStringSubmatch(out)
			if m == nil {
				return 0
			}
			v, _ := strconv.ParseFloat(m[1], 64)
			return v * map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1}[m[2]]
		}
		return requests / took, at("50"), at("90"), at("99"), nil
	}
	var d document
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		return 0, 0, 0, 0, err
	}
	return d.Rate, d.Response.P50, d.Response.P90, d.Response.P99, nil
}

func millis(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1e3) }
