// Command grpc compares "unthrottle load --grpc" with ghz, in turn and at the same rates, against a server of google.golang.org/grpc: the CPU
// time that a call costs the generator, and what it says of the latencies. It prints a table in Markdown.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/bench/grpc/server"
)

func main() {
	b := bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "how often each runs; the table has the medians")
	flag.DurationVar(&b.window, "for", 5*time.Second, "how long")
	flag.StringVar(&b.ghz, "ghz", "ghz", "where that is")
	serve := flag.Bool("serve", false, "be the server")
	flag.Parse()
	do := b.run
	if *serve {
		do = listen
	}
	if err := do(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

// listen answers until it is killed. It writes its address to stdout.
func listen(context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return server.New().Serve(l)
}

type bench struct {
	rounds  int
	window  time.Duration
	ghz     string
	command string // unthrottle
}

// A contender sends calls at a rate, through a number of connections.
type contender struct {
	name string
	args func(address string, rate, conns int) []string
	read func(out []byte) (result, error)
}

// A result is what a generator says.
type result struct {
	count, failed int64
	p50, p99      float64 // seconds
	cpu           time.Duration
}

const (
	method  = "grpc.testing.TestService/UnaryCall"
	message = `{"responseSize": 100}`
)

func (b *bench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "grpc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.command = filepath.Join(dir, "unthrottle")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", b.command, "github.com/unthrottle/unthrottle/cmd/unthrottle").CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	serving := exec.CommandContext(ctx, self, "-serve")
	serving.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := serving.StdoutPipe()
	if err != nil {
		return err
	}
	if err := serving.Start(); err != nil {
		return err
	}
	defer func() { serving.Process.Kill(); serving.Wait() }()
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		return err
	}
	contenders := []contender{
		{"unthrottle load --grpc", func(address string, rate, conns int) []string {
			return []string{b.command, "load", "--grpc", method, "-d", message, address, "--rate", strconv.Itoa(rate), "--arrivals", "const", "--for", b.window.String(), "--http2-conns", strconv.Itoa(conns), "--json"}
		}, ours},
		{"ghz", func(address string, rate, conns int) []string {
			return []string{b.ghz, "--insecure", "--call", method, "-d", message, "--rps", strconv.Itoa(rate), "-z", b.window.String(), "--connections", strconv.Itoa(conns), "--concurrency", "50", "-O", "json", address}
		}, theirs},
	}
	fmt.Println("| calls/s | connections | | calls | failed | CPU a call | p50 | p99 |")
	fmt.Println("|--:|--:|---|--:|--:|--:|--:|--:|")
	for _, rate := range []int{500, 2000, 4000} {
		for _, conns := range []int{1, 8} {
			results := make([][]result, len(contenders))
			for range b.rounds {
				for i, c := range contenders {
					r, err := once(ctx, c, c.args(address, rate, conns))
					if err != nil {
						return err
					}
					results[i] = append(results[i], r)
				}
			}
			for i, c := range contenders {
				median := func(of func(result) float64) float64 {
					var values []float64
					for _, r := range results[i] {
						values = append(values, of(r))
					}
					slices.Sort(values)
					return values[len(values)/2]
				}
				fmt.Printf("| %d | %d | %s | %.0f | %.0f | %.0f µs | %.2f ms | %.2f ms |\n", rate, conns, c.name,
					median(func(r result) float64 { return float64(r.count) }), median(func(r result) float64 { return float64(r.failed) }),
					1e6*median(func(r result) float64 { return r.cpu.Seconds() / float64(r.count) }),
					1e3*median(func(r result) float64 { return r.p50 }), 1e3*median(func(r result) float64 { return r.p99 }))
			}
		}
	}
	return nil
}

func once(ctx context.Context, c contender, args []string) (r result, err error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.name, err)
	}
	if r, err = c.read(out); err != nil {
		return r, fmt.Errorf("%s: %w", c.name, err)
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, nil
}

func ours(out []byte) (r result, err error) {
	var d struct {
		Requests, Failed int64
		Response         struct{ P50, P99 float64 }
	}
	err = json.Unmarshal(out, &d)
	return result{count: d.Requests, failed: d.Failed, p50: d.Response.P50, p99: d.Response.P99}, err
}

func theirs(out []byte) (r result, err error) {
	var d struct {
		Count        int64
		Distribution map[string]int64 `json:"statusCodeDistribution"`
		Latencies    []struct {
			Percentage int
			Latency    float64
		} `json:"latencyDistribution"`
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return r, err
	}
	r = result{count: d.Count, failed: d.Count - d.Distribution["OK"]}
	for _, l := range d.Latencies {
		switch l.Percentage {
		case 50:
			r.p50 = l.Latency / 1e9
		case 99:
			r.p99 = l.Latency / 1e9
		}
	}
	return r, nil
}
