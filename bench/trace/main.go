// Command trace compares the detector of "unthrottle trace" with the truth: it runs programs in cgroups with real quotas, records their
// execution traces, and prints what the detector says next to the kernel's counters and to a heartbeat, a thread in the same cgroup that
// sleeps 2 ms at a time and so is late only when the group is frozen. With -testdata it records the small traces of the detector's tests
// instead. It needs root and the cgroup's CPU controller.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

func main() {
	window := flag.Duration("for", 10*time.Second, "how long a trace is")
	only := flag.String("only", "", "these cases, separated by ;")
	keep := flag.String("keep", "", "directory for the traces")
	testdata := flag.String("testdata", "", "write the traces of the tests into this directory, and no table")
	flag.Parse()
	b := &bench{window: *window, keep: *keep}
	if err := b.run(*only, *testdata); err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(1)
	}
}

// A bench is one call of this command.
type bench struct {
	window time.Duration
	keep   string

	dir     string // private
	top     string // of the CPU hierarchy
	version cgroup.Version
	facts   string            // a command
	subject map[string]string // commands, by toolchain
}

// A situation is a program, its limit and its neighbours.
type situation struct {
	name     string
	quota    int // µs; 0: none
	period   int // µs; 0: 100,000
	parent   bool
	both     bool // the quota is on the parent, too, whose periods began at another time: as kubelets do it
	spinners int  // threads outside of the group
	weight   int  // of the group, of 1024; 0: as any
	beside   int  // µs of each 100 ms that a spinner in a group of its own may use, on the one CPU that the program shares with it
	subject  string
	client   string // arguments; "": none
	samples  bool
	flight   bool
	window   time.Duration // 0: the usual one
	tool     string        // a Go toolchain; "": this one
}

const (
	busy  = "-what busy -n 2"
	http  = "-what http -work 200us"
	paced = "-what http -work 1ms"
	few   = "-n 4 -rate 50"
	full  = "-n 4"
)

// situations of the table.
var situations = []situation{
	{name: "busy, 2 Ps, 50/100", quota: 50000, subject: busy},
	{name: "busy, 2 Ps, 50/100, samples", quota: 50000, subject: busy, samples: true},
	{name: "busy, 2 Ps, 150/100", quota: 150000, subject: busy},
	{name: "busy, 2 Ps, 150/100, samples", quota: 150000, subject: busy, samples: true},
	{name: "HTTP, 50/100", quota: 50000, subject: http, client: full},
	{name: "HTTP, 80/100", quota: 80000, subject: http, client: full},
	{name: "HTTP, 10/20", quota: 10000, period: 20000, subject: http, client: full},
	{name: "HTTP, 25/50, samples", quota: 25000, period: 50000, subject: http, client: full, samples: true},
	{name: "HTTP, GOMAXPROCS 1, 50/100", quota: 50000, subject: http + " -procs 1", client: full},
	{name: "HTTP, GOMAXPROCS 16, 50/100", quota: 50000, subject: http + " -procs 16", client: "-n 32"},
	{name: "HTTP, 50/s, 5/100", quota: 5000, subject: paced, client: few},
	{name: "HTTP, 50/s, 20/100", quota: 20000, subject: paced, client: few},
	{name: "HTTP, 50/s, 10/100, samples", quota: 10000, subject: paced, client: few, samples: true},
	{name: "HTTP, 50/100 on the parent", quota: 50000, parent: true, subject: http, client: full},
	{name: "HTTP, 20/100 on both", quota: 20000, both: true, subject: http, client: full},
	{name: "HTTP, GOMAXPROCS 16, 20/100 on both", quota: 20000, both: true, subject: http + " -procs 16", client: "-n 32"},
	{name: "HTTP, 50/s, 10/100 on both", quota: 10000, both: true, subject: paced, client: few},
	{name: "HTTP, 20/100 on both, 3 spinners", quota: 20000, both: true, subject: http, client: full, spinners: 3},
	{name: "HTTP, 50/100, flight recorder", quota: 50000, subject: http, client: full, flight: true},
	{name: "HTTP, no quota", subject: http, client: full},
	{name: "HTTP, 50/s, no quota", subject: paced, client: few},
	{name: "busy, no quota", subject: busy},
	{name: "busy, no quota, samples", subject: busy, samples: true},
	{name: "a ticker that computes, no quota", subject: "-what ticker -work 8ms"},
	{name: "a ticker that computes, no quota, samples", subject: "-what ticker -work 8ms", samples: true},
	{name: "HTTP, no quota, 6 spinners", subject: http, client: full, spinners: 6},
	{name: "HTTP, no quota, a low weight, 2 spinners", subject: http, client: full, spinners: 2, weight: 100},
	{name: "HTTP, GOMAXPROCS 1, no quota, 6 spinners", subject: http + " -procs 1", client: full, spinners: 6},
	{name: "busy, no quota, 3 spinners", subject: busy, spinners: 3},
	{name: "busy, no quota, 3 spinners, samples", subject: busy, spinners: 3, samples: true},
	{name: "busy, no quota, a low weight, 2 spinners, samples", subject: busy, spinners: 2, weight: 100, samples: true},
	{name: "HTTP, 50/100, 3 spinners", quota: 50000, subject: http, client: full, spinners: 3},
	{name: "busy, 50/100, 3 spinners, samples", quota: 50000, subject: busy, spinners: 3, samples: true},
	{name: "HTTP, no quota, a low weight, beside 50/100", subject: http, client: full, weight: 50, beside: 50000},
	{name: "HTTP, no quota, as any, beside 50/100", subject: http, client: full, beside: 50000},
	{name: "HTTP, no quota, a low weight, beside 25/100, samples", subject: http, client: full, weight: 50, beside: 25000, samples: true},
	{name: "HTTP, 400/100, a low weight, beside 50/100", quota: 400000, subject: http, client: full, weight: 50, beside: 50000},
	{name: "busy, no quota, a low weight, beside 50/100, samples", subject: busy, weight: 50, beside: 50000, samples: true},
	{name: "HTTP, 20/100, beside 25/100", quota: 20000, subject: http, client: full, beside: 25000},
}

// recorded are the traces of the tests.
var recorded = []situation{
	{name: "throttled-http", quota: 15000, subject: paced, client: "-n 4 -rate 150", window: 4 * time.Second},
	{name: "throttled-two", quota: 10000, both: true, subject: paced, client: "-n 4 -rate 150", window: 4 * time.Second},
	{name: "throttled-busy", quota: 50000, subject: busy},
	{name: "throttled-mild", quota: 150000, subject: busy},
	{name: "throttled-mild-samples", quota: 150000, subject: busy, samples: true},
	{name: "throttled-20ms", quota: 3000, period: 20000, subject: paced, client: "-n 4 -rate 150", window: 3 * time.Second},
	{name: "contended-http", subject: "-what http -work 2ms", client: full, spinners: 8, window: 3 * time.Second},
	{name: "contended-busy-samples", subject: busy, samples: true, spinners: 3, window: 6 * time.Second},
	{name: "neighbour-http", subject: paced, client: full, weight: 50, beside: 50000, window: 3 * time.Second},
	{name: "neighbour-far", quota: 400000, subject: paced, client: full, weight: 50, beside: 25000, window: 3 * time.Second},
	{name: "clean-http", subject: paced, client: "-n 4 -rate 150", window: 3 * time.Second},
	{name: "clean-ticker", subject: "-what ticker -work 8ms", window: 4 * time.Second},
	{name: "flight", quota: 50000, subject: paced, client: full, window: 3 * time.Second, flight: true},
	{name: "go1.22", quota: 15000, subject: paced, client: "-n 4 -rate 150", window: 3 * time.Second, tool: "go1.22.12"},
	{name: "go1.24", quota: 15000, subject: paced, client: "-n 4 -rate 150", window: 3 * time.Second, tool: "go1.24.13"},
	{name: "go1.27", quota: 15000, subject: paced, client: "-n 4 -rate 150", window: 3 * time.Second, tool: "go1.27.4"},
}

func (b *bench) run(only, testdata string) error {
	l := cgroup.Read(cgroup.Source{})
	if len(l.Levels) == 0 {
		return fmt.Errorf("no cgroup is visible: %w", l.Reason)
	}
	b.top, b.version = l.Levels[len(l.Levels)-1].Dir, l.Version
	var err error
	if b.dir, err = os.MkdirTemp("", "unthrottle-bench-trace-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.subject = map[string]string{}
	if testdata != "" {
		return b.record(only, testdata)
	}
	b.facts = filepath.Join(b.dir, "facts")
	if err := build("", b.facts, "github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace/testdata/facts"); err != nil {
		return err
	}
	if b.keep == "" {
		b.keep = b.dir
	}
	return b.table(only)
}

func chosen(all []situation, only string) (list []situation) {
	for _, s := range all {
		if only == "" || slices.Contains(strings.Split(only, ";"), s.name) {
			list = append(list, s)
		}
	}
	return list
}

// table prints the table.
func (b *bench) table(only string) error {
	fmt.Printf("%d CPUs, %s, cgroup v%d, traces of %v\n\n", runtime.NumCPU(), runtime.Version(), b.version, b.window)
	fmt.Println("| case | cpu.stat ÷ CPUs | PSI full | heartbeat | says frozen | throttled | contended | cause | sure | with the limit and the kernel's count | sure | throttled | offset | period | R | locked | starts | ends | CPUs | events/s |")
	fmt.Println("|" + strings.Repeat("---|", 20))
	for i, s := range chosen(situations, only) {
		file := filepath.Join(b.keep, fmt.Sprintf("%02d.trace", i+1))
		truth, err := b.trace(s, file)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		f, err := b.read(file)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		counted, err := b.read(file, truth.flags(s, b.window)...)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %v | %v | %.2f | %s | %s | %s | %.2f | %.0f |\n", s.name,
			percent(truth.stat), percent(truth.pressure), percent(truth.heartbeat),
			percent(f.Frozen), percent(f.Throttled), percent(f.Contended), f.Cause, yesNo(f.Sure), counted.Cause, yesNo(counted.Sure), percent(counted.Throttled), counted.Rhythm.Offset,
			f.Rhythm.Period, f.Rhythm.R, percent(f.Rhythm.Locked), percent(f.Rhythm.StartsAtOne), percent(f.Rhythm.EndsAtOne),
			f.CPUs, f.Silence.EventsPerSecond)
	}
	return nil
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func percent(share float64) string {
	if share < 0 {
		return "–"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + " %"
}

// Facts are what the table needs of the detector's.
type Facts struct {
	Cause                        string
	Sure                         bool
	Frozen, Throttled, Contended float64
	CPUs                         float64
	Rhythm                       struct {
		Period, Offset                    time.Duration
		R, Locked, StartsAtOne, EndsAtOne float64
	}
	Silence struct {
		EventsPerSecond float64
	}
}

// read asks the detector. The flags tell it what else is known.
func (b *bench) read(file string, flags ...string) (f Facts, err error) {
	out, err := exec.Command(b.facts, append(flags, file)...).Output()
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(out, &f)
}

// hybrid is where version 2 is mounted alongside version 1: a group there has the pressure.
const hybrid = "/sys/fs/cgroup/unified"

// A truth is the share of wall time in which a group was frozen, three times; -1 where it isn't known.
type truth struct {
	stat      float64 // its throttled time, which is a sum over CPUs, ÷ the CPUs: the heartbeat is on all of them
	pressure  float64 // PSI full: all threads that had something to do were waiting for a CPU, of the subject alone in version 1
	heartbeat float64
}

// flags tell the detector what is known besides the trace: the kernel's count, summed over CPUs, below 0 where it isn't known, and
// the quotas.
func (t truth) flags(s situation, window time.Duration) []string {
	most := time.Duration(t.stat * float64(runtime.NumCPU()) * float64(window))
	if s.both { // the count is that of the upper one
		most = window * time.Duration(runtime.NumCPU())
	}
	flags := []string{"-most", most.String()}
	if s.quota == 0 {
		return flags
	}
	levels := "1"
	if s.both {
		levels = "2"
	}
	return append(flags, "-levels", levels, "-period", (time.Duration(cmp.Or(s.period, 100_000)) * time.Microsecond).String())
}

// trace runs a situation and writes its trace into file.
func (b *bench) trace(s situation, file string) (t truth, err error) {
	window := b.window
	if s.window > 0 {
		window = s.window
	}
	command, err := b.program(s.tool)
	if err != nil {
		return t, err
	}
	helper, err := b.program("")
	if err != nil {
		return t, err
	}
	g, err := b.groups(s)
	if err != nil {
		return t, err
	}
	enter, pressure := g.own, g.own
	if dir := filepath.Join(hybrid, filepath.Base(g.made[0])); b.version == cgroup.V1 && os.Mkdir(dir, 0o755) == nil {
		g.made = append(g.made, dir)
		enter, pressure = g.own+","+dir, dir
	}
	defer func() {
		time.Sleep(100 * time.Millisecond) // until the kernel has forgotten the last thread
		err = errors.Join(err, g.remove())
	}()
	const address = "127.0.0.1:18099"
	var neighbours []*exec.Cmd
	defer func() {
		for _, c := range neighbours {
			c.Process.Kill()
			c.Wait()
		}
	}()
	start := func(args ...string) error {
		c := exec.Command(helper, append(args, "-for", (window+time.Minute).String())...)
		if err := c.Start(); err != nil {
			return err
		}
		neighbours = append(neighbours, c)
		return nil
	}
	if s.spinners > 0 {
		if err := start("-what", "spin", "-n", strconv.Itoa(s.spinners)); err != nil {
			return t, err
		}
	}
	if s.beside > 0 {
		c := onOneCPU(exec.Command(helper, "-what", "spin", "-n", "1", "-group", g.neighbour, "-for", (window + time.Minute).String()))
		if err := c.Start(); err != nil {
			return t, err
		}
		neighbours = append(neighbours, c)
	}
	if s.client != "" {
		if err := start(append(strings.Fields(s.client), "-what", "client", "-address", address)...); err != nil {
			return t, err
		}
	}
	beat := exec.Command(helper, "-what", "heartbeat", "-group", g.own, "-for", window.String())
	beatIn, err := beat.StdinPipe()
	if err != nil {
		return t, err
	}
	var beatOut bytes.Buffer
	beat.Stdout = &beatOut
	if err := beat.Start(); err != nil {
		return t, err
	}
	args := append(strings.Fields(s.subject), "-group", enter, "-for", window.String(), "-trace", file, "-address", address)
	if s.samples {
		args = append(args, "-samples")
	}
	if s.flight {
		args = append(args, "-flight")
	}
	subject := exec.Command(command, args...)
	if s.beside > 0 {
		subject = onOneCPU(subject)
	}
	subject.Stderr = os.Stderr
	out, err := subject.StdoutPipe()
	if err != nil {
		return t, err
	}
	if err := subject.Start(); err != nil {
		return t, errors.Join(err, beat.Process.Kill(), beat.Wait())
	}
	bufio.NewReader(out).ReadString('\n') // it records
	before := counters(g.owner, pressure)
	begin := time.Now()
	beatIn.Close() // it begins
	go io.Copy(io.Discard, out)
	time.Sleep(window)
	after, took := counters(g.owner, pressure), time.Since(begin)
	if err := errors.Join(subject.Wait(), beat.Wait()); err != nil {
		return t, err
	}
	t = share(before, after, took)
	_, err = fmt.Sscan(beatOut.String(), &t.heartbeat)
	return t, err
}

// onOneCPU lets a program run on the first CPU only.
func onOneCPU(c *exec.Cmd) *exec.Cmd {
	return exec.Command("taskset", append([]string{"-c", "0"}, c.Args...)...)
}

// program builds the subject with a toolchain.
func (b *bench) program(tool string) (string, error) {
	if name, ok := b.subject[tool]; ok {
		return name, nil
	}
	name := filepath.Join(b.dir, "subject"+tool)
	b.subject[tool] = name
	return name, build(tool, name, "./trace/subject")
}

func build(tool, output, pkg string) error {
	c := exec.Command("go", "build", "-o", output, pkg)
	c.Env = os.Environ()
	if tool != "" {
		// As a module of its own: the go line of this one is younger.
		c.Dir = output + "-source"
		if err := os.CopyFS(c.Dir, os.DirFS(pkg)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.Dir, "go.mod"), []byte("module subject\n\ngo 1.22\n"), 0o644); err != nil {
			return err
		}
		c.Args = []string{"go", "build", "-o", output, "."}
		c.Env = append(c.Env, "GOTOOLCHAIN="+tool, "GOWORK=off")
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// groups of a situation: the one with the quota, the one for the program, and the one of the neighbour.
type groups struct {
	owner, own, neighbour string
	made                  []string
}

// much is a weight at which hardly anything else on the machine disturbs a program and its neighbour.
const much = 100 * 1024

// groups makes the groups of a situation.
func (b *bench) groups(s situation) (g groups, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("making a cgroup: %w", errors.Join(err, g.remove()))
		}
	}()
	make := func(dir string, quota, period, weight int) string {
		if err == nil {
			if err = os.Mkdir(dir, 0o755); err == nil {
				g.made = append(g.made, dir)
				err = b.limit(dir, quota, period, weight)
			}
		}
		return dir
	}
	top := filepath.Join(b.top, "unthrottle-test-"+strconv.Itoa(os.Getpid())+"-trace")
	if s.beside > 0 {
		make(top, 0, 0, much)
		g.neighbour = make(filepath.Join(top, "neighbour"), s.beside, 0, 0)
		top = filepath.Join(top, "program")
	}
	g.owner = make(top, s.quota, s.period, s.weight)
	if g.own = g.owner; s.parent {
		g.own = make(filepath.Join(top, "own"), 0, 0, 0)
	} else if s.both {
		first := make(filepath.Join(top, "first"), 0, 0, 0)
		g.own = make(filepath.Join(top, "own"), s.quota, s.period, 0)
		if err == nil {
			err = begin(first)
		}
	}
	return g, err
}

// begin lets something run in a group, so that the periods of the one above begin, and waits until a part of one is over.
func begin(group string) error {
	err := exec.Command("sh", "-c", "echo $$ > "+filepath.Join(group, "cgroup.procs")).Run()
	time.Sleep(35 * time.Millisecond)
	return err
}

// remove removes the groups that were made.
func (g *groups) remove() (err error) {
	for _, dir := range slices.Backward(g.made) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

// limit sets what a group may use. 0 leaves it unchanged.
func (b *bench) limit(dir string, quota, period, weight int) error {
	period = cmp.Or(period, 100000)
	var files [][2]string
	if b.version == cgroup.V1 {
		files = append(files, [2]string{"cpu.cfs_period_us", strconv.Itoa(period)})
		if quota > 0 {
			files = append(files, [2]string{"cpu.cfs_quota_us", strconv.Itoa(quota)})
		}
		if weight > 0 {
			files = append(files, [2]string{"cpu.shares", strconv.Itoa(weight)})
		}
	} else {
		if quota > 0 {
			files = append(files, [2]string{"cpu.max", strconv.Itoa(quota) + " " + strconv.Itoa(period)})
		}
		if weight > 0 {
			files = append(files, [2]string{"cpu.weight", strconv.Itoa(max(1, weight*100/1024))})
		}
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// counters are the throttled time and the time of full pressure, in seconds; -1 if not there.
func counters(dir, pressure string) (c [2]float64) {
	c = [2]float64{-1, -1}
	number := func(text, before string) (float64, bool) {
		_, rest, ok := strings.Cut(text, before)
		if !ok {
			return 0, false
		}
		v, err := strconv.ParseFloat(strings.Fields(rest + " x")[0], 64)
		return v, err == nil
	}
	text, _ := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if v, ok := number(string(text), "throttled_time "); ok {
		c[0] = v / 1e9
	} else if v, ok := number(string(text), "throttled_usec "); ok {
		c[0] = v / 1e6
	}
	text, _ = os.ReadFile(filepath.Join(pressure, "cpu.pressure"))
	if _, fullLine, ok := strings.Cut(string(text), "full "); ok {
		if v, ok := number(fullLine, "total="); ok {
			c[1] = v / 1e6
		}
	}
	return c
}

func share(before, after [2]float64, took time.Duration) truth {
	t := truth{stat: -1, pressure: -1, heartbeat: -1}
	if before[0] >= 0 {
		t.stat = (after[0] - before[0]) / took.Seconds() / float64(runtime.NumCPU())
	}
	if before[1] >= 0 {
		t.pressure = (after[1] - before[1]) / took.Seconds()
	}
	return t
}

// record writes the traces of the tests, compressed.
func (b *bench) record(only, dir string) error {
	for _, s := range chosen(recorded, only) {
		file := filepath.Join(b.dir, s.name)
		truth, err := b.trace(s, file)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if _, err := z.Write(data); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, s.name+".trace.gz"), packed.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes, %d compressed; frozen by cpu.stat %s, PSI full %s, by the heartbeat %s\n", s.name, len(data), packed.Len(),
			percent(truth.stat), percent(truth.pressure), percent(truth.heartbeat))
	}
	return nil
}
