// Command subject is a program whose execution trace is known: it computes, serves HTTP, asks for pages or spins, in the cgroup that it is
// given, and writes its trace. It uses the standard library of Go 1.22 only, so that older toolchains build it; see its parent.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	what    = flag.String("what", "", "busy, http, ticker, client, spin or heartbeat")
	group   = flag.String("group", "", "directories of the cgroups to enter first, separated by commas")
	file    = flag.String("trace", "", "file for the trace")
	flight  = flag.Bool("flight", false, "the trace is a snapshot of a flight recorder")
	samples = flag.Bool("samples", false, "with CPU samples")
	window  = flag.Duration("for", 10*time.Second, "how long")
	number  = flag.Int("n", 2, "goroutines of busy, connections of client, threads of spin")
	work    = flag.Duration("work", time.Millisecond, "CPU time of a request or of a tick")
	rate    = flag.Float64("rate", 0, "requests a second of all connections; 0: as fast as it goes")
	procs   = flag.Int("procs", 0, "GOMAXPROCS")
	address = flag.String("address", "", "of http and client")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "subject:", err)
		os.Exit(1)
	}
}

func run() error {
	for _, dir := range strings.FieldsFunc(*group, func(r rune) bool { return r == ',' }) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			return err
		}
	}
	if *procs > 0 {
		runtime.GOMAXPROCS(*procs)
	}
	setup := map[string]func() error{
		"busy": busy, "http": serve, "ticker": tick, "client": client, "spin": spin, "heartbeat": heartbeat,
	}[*what]
	if setup == nil {
		return fmt.Errorf("no such -what: %q", *what)
	}
	if err := setup(); err != nil {
		return err
	}
	if *file == "" {
		time.Sleep(*window)
		return nil
	}
	return record()
}

func record() error {
	f, err := os.Create(*file)
	if err != nil {
		return err
	}
	defer f.Close()
	stop, err := start(f)
	if err != nil {
		return err
	}
	if *samples {
		if err := pprof.StartCPUProfile(io.Discard); err != nil {
			return err
		}
	}
	fmt.Println("recording")
	time.Sleep(*window)
	if *samples {
		pprof.StopCPUProfile()
	}
	if err := stop(); err != nil {
		return err
	}
	return f.Close()
}

func start(w io.Writer) (stop func() error, err error) {
	if *flight {
		return startFlight(w)
	}
	return func() error { trace.Stop(); return nil }, trace.Start(w)
}

// calibrated is how many rounds of burn take a microsecond.
var calibrated int

// burn uses CPU time, not wall time: a freeze makes it no shorter.
func burn(d time.Duration) {
	x := uint32(1)
	for i := 0; i < calibrated*int(d/time.Microsecond); i++ {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
	}
	sink.Store(x)
}

var sink atomic.Uint32

func calibrate() {
	calibrated = 1000
	best := time.Hour
	for i := 0; i < 20; i++ { // the shortest: the others were disturbed
		begin := time.Now()
		burn(time.Microsecond)
		if d := time.Since(begin); d < best {
			best = d
		}
	}
	calibrated = int(1000 * time.Microsecond / best)
}

func busy() error {
	calibrate()
	for i := 0; i < *number; i++ {
		go func() {
			for {
				burn(time.Second)
			}
		}()
	}
	return nil
}

// tick computes without an event in the trace at a rhythm of its own: it looks like a quota and isn't one.
func tick() error {
	calibrate()
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			burn(*work)
		}
	}()
	return nil
}

func serve() error {
	calibrate()
	l, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		burn(*work)
		page := make([]byte, 16<<10)
		w.Write(page)
	}))
	return nil
}

func client() error {
	every := time.Duration(0)
	if *rate > 0 {
		every = time.Duration(float64(*number) / *rate * float64(time.Second))
	}
	for i := 0; i < *number; i++ {
		go func(i int) {
			time.Sleep(every * time.Duration(i) / time.Duration(*number))
			var next <-chan time.Time
			if every > 0 {
				next = time.Tick(every)
			}
			for {
				if next != nil {
					<-next
				}
				answer, err := http.Get("http://" + *address)
				if err != nil {
					time.Sleep(10 * time.Millisecond) // it has not begun, or has ended
					continue
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}(i)
	}
	return nil
}

func spin() error {
	runtime.GOMAXPROCS(*number + 1)
	return busy()
}
