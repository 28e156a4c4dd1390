// Package program answers: how much of one kind of work does this process get done with the CPUs it is given? In go the
// name of a workload and a few flags; out comes one line of JSON with what was done, in which time, at what cost. It sets
// no limit, changes no setting of the runtime and compares nothing: the lab starts it, under one setting at a time.
//
// The package is built twice. It is part of the unthrottle command, and its source is embedded there and built by other
// Go toolchains, so that one program can be compared between releases. So it keeps to the standard library and to what
// Go 1.18 has.
package program

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"time"
)

// A Result is what one run says, as one line of JSON.
type Result struct {
	Workload   string `json:"workload"`
	Go         string `json:"go"`
	GOMAXPROCS int    `json:"gomaxprocs"` // at the end of the run: Go 1.25 and later may change it on the way
	NumCPU     int    `json:"num_cpu"`

	Seconds float64 `json:"seconds"` // the measured window; warming up and checking lie outside it
	Ops     int64   `json:"ops"`     // operations begun and finished in the window

	// Metrics are the figures of the window by unit, and the units are named as Go's benchmarks name theirs.
	Metrics map[string]float64 `json:"metrics"`

	// CPUSeconds is the CPU time of the whole process in the window, or nil where the system does not report it.
	CPUSeconds *float64 `json:"cpu_seconds,omitempty"`

	// GCCPUShare is the garbage collector's part of the CPU time, nil before Go 1.20. See gcShare.
	GCCPUShare *float64 `json:"gc_cpu_share"`

	// How long a goroutine that could run waited until it ran, nil when none was observed. The runtime observes one
	// goroutine in eight and keeps a histogram, so each is the upper bound of its bucket.
	SchedLatencyP50 *float64 `json:"sched_latency_p50_seconds"`
	SchedLatencyP99 *float64 `json:"sched_latency_p99_seconds"`

	// Activity is when the process ran, for the workload readfile only.
	Activity []Interval `json:"activity,omitempty"`
}

// An Interval is a start and an end, in microseconds from the start of the window.
type Interval [2]int64

// options are a run's flags.
type options struct {
	window time.Duration // how long to measure, for the workloads that are not of a fixed size
	size   int
	rate   int
}

// A workload is one of the programs.
type workload struct {
	name, about string
	size        int    // default of --size
	sizeOf      string // what --size counts; empty when the workload has none
	run         func(o options) (Result, error)
}

func workloads() []workload {
	return []workload{
		{"fib", "a flood of goroutines, each computing fib(10)", 0, "", runFib},
		{"chain", "one integer through a row of goroutines and channels", 100, "goroutines", runChain},
		{"chainbuf", "the same with buffered channels", 100, "goroutines", runChainBuf},
		{"sieve", "the concurrent prime sieve", 2500, "primes", runSieve},
		{"powser", "power series as streams of coefficients", 240, "coefficients", runPowser},
		{"garbage", "trees that are replaced over and over", 120, "live trees", runGarbage},
		{"http", "a client and a server in one process", 16, "clients", runHTTP},
		{"json", "a large document decoded and encoded", 4000, "records", runJSON},
		{"readfile", "goroutines that read a file and note when they ran", 2, "goroutines", runReadFile},
		{"agent", "a telemetry agent, events at a fixed rate", 0, "", runAgent},
	}
}

// Names returns the workloads' names in their fixed order.
func Names() []string {
	var names []string
	for _, w := range workloads() {
		names = append(names, w.name)
	}
	return names
}

// Main runs the workload that args[0] names, with the flags that follow, and returns the exit code: 0 when it is done, 1
// when it failed, 2 for wrong usage.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help" || args[0] == "-help") {
		usage(stdout)
		return 0
	}
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	w, ok := find(args[0])
	if !ok {
		fmt.Fprintf(stderr, "workload: no workload %q\n", args[0])
		usage(stderr)
		return 2
	}
	o, err := w.parse(args[1:])
	if errors.Is(err, flag.ErrHelp) {
		usage(stdout)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "workload %s: %v\n", w.name, err)
		return 2
	}
	if err := w.write(stdout, o); err != nil {
		fmt.Fprintf(stderr, "workload %s: %v\n", w.name, err)
		return 1
	}
	return 0
}

func find(name string) (workload, bool) {
	for _, w := range workloads() {
		if w.name == name {
			return w, true
		}
	}
	return workload{}, false
}

func (w workload) parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet(w.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&o.window, "for", time.Second, "")
	flags.IntVar(&o.size, "size", 0, "")
	if w.name == "agent" {
		flags.IntVar(&o.rate, "rate", agentRate, "")
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.window <= 0:
		return o, fmt.Errorf("--for must be more than 0, not %v", o.window)
	case o.size < 0:
		return o, fmt.Errorf("--size must not be negative, not %d", o.size)
	case o.size > 0 && w.sizeOf == "":
		return o, errors.New("this workload has no --size")
	case w.name == "agent" && (o.rate < 1 || o.rate > agentMaxRate):
		return o, fmt.Errorf("--rate must be from 1 to %d, not %d", agentMaxRate, o.rate)
	}
	if o.size == 0 {
		o.size = w.size
	}
	return o, nil
}

func (w workload) write(stdout io.Writer, o options) error {
	r, err := w.run(o)
	if err != nil {
		return err
	}
	r.Workload = w.name
	r.Go = runtime.Version()
	r.GOMAXPROCS = runtime.GOMAXPROCS(0)
	r.NumCPU = runtime.NumCPU()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	_, err = stdout.Write(append(line, '\n'))
	return err
}

func usage(to io.Writer) {
	fmt.Fprint(to, "Usage: workload NAME [--for DURATION] [--size N]\n\nWorkloads:\n")
	for _, w := range workloads() {
		fmt.Fprintf(to, "  %-10s%s\n", w.name, w.about)
		switch {
		case w.sizeOf != "":
			fmt.Fprintf(to, "  %-10s--size is the number of %s, %d unless given\n", "", w.sizeOf, w.size)
		case w.name == "agent":
			fmt.Fprintf(to, "  %-10s--rate is the number of events a second, %d unless given\n", "", agentRate)
		}
	}
	fmt.Fprint(to, "\n--for is how long to measure, 1s unless given. sieve and powser run to completion instead.\n")
}
