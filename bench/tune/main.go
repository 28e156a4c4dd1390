// Command tune holds the verdicts of "unthrottle tune" against an exhaustive sweep: every GOMAXPROCS from 1 to twice the
// limit and two more, again and again in random order, by the verbs run and load alone. Its programs are the built-in server and
// workloads, and programs that others wrote: Caddy, present, the node exporter and minify, which are fetched and built.
// It takes about an hour; -only takes fewer.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	blocks := flag.Int("blocks", 20, "of the sweep; each runs every setting once")
	window := flag.Duration("for", 3*time.Second, "the window of a run of a server")
	limit := flag.Float64("cpus", 1, "the limit")
	only := flag.String("only", "", "these subjects, such as caddy,minify")
	seed := flag.Uint64("seed", 1, "")
	flag.Parse()
	b := &bench{blocks: *blocks, window: *window, limit: *limit, seed: *seed}
	if err := b.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "tune:", err)
		os.Exit(1)
	}
}

type bench struct {
	blocks int
	window time.Duration
	limit  float64
	seed   uint64

	dir     string // private
	command string // unthrottle
}

// A subject is a program that is tuned.
type subject struct {
	name string
	args []string
	url  string // "": a job
	rate float64
}

func (b *bench) run(only string) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "unthrottle-bench-tune-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.command = filepath.Join(b.dir, "unthrottle")
	if err := command("go", "build", "-o", b.command, "github.com/unthrottle/unthrottle/cmd/unthrottle"); err != nil {
		return err
	}
	fmt.Printf("limit %v, windows of %v, a sweep of GOMAXPROCS 1 to %d in %d blocks\n\n", b.limit, b.window, b.most(), b.blocks)
	fmt.Println("| subject | by itself | tune says | in | the sweep's best | in | what tune's costs against it |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, make := range b.subjects() {
		if only != "" && !slices.Contains(strings.Split(only, ","), make.name) {
			continue
		}
		s, err := make.make()
		if err != nil {
			return fmt.Errorf("%s: %w", make.name, err)
		}
		s.name = make.name
		if err := b.compare(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (b *bench) most() int { return 2*int(math.Ceil(b.limit)) + 2 }

// compare tunes and sweeps one subject.
func (b *bench) compare(s subject) error {
	begin := time.Now()
	verdict, err := b.tune(&s)
	if err != nil {
		return err
	}
	tuned := time.Since(begin)
	begin = time.Now()
	costs, err := b.sweep(s)
	if err != nil {
		return err
	}
	swept := time.Since(begin)
	best := choose(costs)
	row := []string{
		s.name, strconv.Itoa(verdict.Current.Procs), fmt.Sprintf("%s %d", verdict.Verdict.Kind, verdict.Verdict.Procs), tuned.Round(time.Second).String(),
		strconv.Itoa(best), swept.Round(time.Second).String(),
	}
	if gogc := verdict.Verdict.GOGC; gogc > 0 {
		row[2] += fmt.Sprintf(" with GOGC=%d", gogc)
		row = append(row, "the sweep has no GOGC")
	} else {
		row = append(row, costs.against(verdict.Verdict.Procs, best))
	}
	fmt.Println("| " + strings.Join(row, " | ") + " |")
	fmt.Fprintf(os.Stderr, "%s: %s\n    %s\n", s.name, verdict.Verdict.Text, costs)
	return nil
}

// document is what is needed of tune's.
type document struct {
	Verdict struct {
		Kind  string `json:"kind"`
		Procs int    `json:"gomaxprocs"`
		GOGC  int    `json:"gogc"`
		Text  string `json:"text"`
	} `json:"verdict"`
	Current struct {
		Procs int `json:"gomaxprocs"`
	} `json:"current"`
	Loads []struct {
		Rate float64 `json:"rate"`
	} `json:"loads"`
}

func (b *bench) tune(s *subject) (d document, err error) {
	args := []string{"tune", "--json", "--cpus", fmt.Sprint(b.limit), "--seed", fmt.Sprint(b.seed), "--runs", filepath.Join(b.dir, s.name+".jsonl")}
	if s.url == "" {
		args = append(args, "--batch")
	} else {
		args = append(args, "--url", s.url, "--for", b.window.String())
	}
	out, err := b.unthrottle(append(append(args, "--"), s.args...)...)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return d, err
	}
	s.rate = d.Loads[0].Rate
	return d, nil
}

// costs are the figures of a sweep, by GOMAXPROCS.
type costs map[int]*figures

type figures struct{ main, cpu []float64 } // p99 or time, and CPU a request or run; seconds

// sweep runs all settings again and again.
func (b *bench) sweep(s subject) (costs, error) {
	c := costs{}
	random := rand.New(rand.NewPCG(b.seed, 1))
	for block := range b.blocks {
		for _, i := range random.Perm(b.most()) {
			procs := i + 1
			main, cpu, err := b.once(s, procs, b.seed<<16+uint64(block))
			if err != nil {
				return nil, err
			}
			if c[procs] == nil {
				c[procs] = &figures{}
			}
			c[procs].main, c[procs].cpu = append(c[procs].main, main), append(c[procs].cpu, cpu)
		}
	}
	return c, nil
}

// once is one run of the sweep.
func (b *bench) once(s subject, procs int, seed uint64) (main, cpu float64, err error) {
	limit := []string{"run", "--cpus", fmt.Sprint(b.limit), "--gomaxprocs", strconv.Itoa(procs)}
	if s.url == "" {
		file := filepath.Join(b.dir, "run.json")
		if _, err := b.unthrottle(append(append(limit, "--json", "-o", file, "--"), s.args...)...); err != nil {
			return 0, 0, err
		}
		var run struct {
			Wall float64 `json:"wall_seconds"`
			CPU  float64 `json:"cpu_seconds"`
		}
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &run)
		}
		return run.Wall, run.CPU, err
	}
	server := exec.Command(b.command, append(append(limit, "--quiet", "--"), s.args...)...)
	if err := server.Start(); err != nil {
		return 0, 0, err
	}
	defer server.Wait()
	defer server.Process.Signal(os.Interrupt)
	if err := awaitURL(s.url); err != nil {
		return 0, 0, err
	}
	for range 5 { // a window that the generator has spoiled is done again
		out, err := b.unthrottle("load", s.url, "--json", "--rate", strconv.FormatFloat(s.rate, 'f', -1, 64), "--warmup", "1s",
			"--for", b.window.String(), "--seed", strconv.FormatUint(seed, 10), "--grace", "3s", "--timeout", "10s")
		if err != nil {
			return 0, 0, err
		}
		var load struct {
			OurFault bool `json:"generator_at_fault"`
			Response struct {
				P99 float64 `json:"p99"`
			} `json:"response"`
			Server struct {
				CPU float64 `json:"cpu_seconds_per_request"`
			} `json:"server"`
		}
		if err := json.Unmarshal(out, &load); err != nil {
			return 0, 0, err
		}
		main, cpu = load.Response.P99, load.Server.CPU
		if !load.OurFault {
			break
		}
	}
	return main, cpu, nil
}

func awaitURL(url string) error {
	for range 500 {
		if res, err := http.Get(url); err == nil {
			res.Body.Close()
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%s does not answer", url)
}

// choose is the sweep's answer by tune's rule: of the settings whose p99 or time is within a tenth of the best, the one that
// takes the least CPU.
func choose(c costs) (best int) {
	least := math.Inf(+1)
	for _, f := range c {
		least = min(least, median(f.main))
	}
	for _, procs := range c.sorted() {
		f := c[procs]
		if median(f.main) <= 1.1*least && (best == 0 || median(f.cpu) < median(c[best].cpu)) {
			best = procs
		}
	}
	return best
}

func (c costs) sorted() (procs []int) {
	for p := range c {
		procs = append(procs, p)
	}
	slices.Sort(procs)
	return procs
}

// against is what one setting costs more than another.
func (c costs) against(a, b int) string {
	if c[a] == nil || c[b] == nil {
		return "not swept"
	}
	return fmt.Sprintf("p99 or time %+.0f %%, CPU %+.0f %%", 100*(median(c[a].main)/median(c[b].main)-1), 100*(median(c[a].cpu)/median(c[b].cpu)-1))
}

func (c costs) String() string {
	var parts []string
	for _, p := range c.sorted() {
		parts = append(parts, fmt.Sprintf("%d: %.3g ms, CPU %.3g ms", p, 1e3*median(c[p].main), 1e3*median(c[p].cpu)))
	}
	return strings.Join(parts, "; ")
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (b *bench) unthrottle(args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(b.command, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("unthrottle %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// A maker makes a subject ready.
type maker struct {
	name string
	make func() (subject, error)
}

func (b *bench) subjects() []maker {
	own := func(path string) func() (subject, error) {
		return func() (subject, error) {
			address, err := freeAddress()
			return subject{args: []string{b.command, "serve", "--listen", address}, url: "http://" + address + path}, err
		}
	}
	workload := func(args ...string) func() (subject, error) {
		return func() (subject, error) {
			return subject{args: append([]string{b.command, "workload"}, args...)}, nil
		}
	}
	return []maker{
		{"prime", own("/isPrime/300007")},
		{"alloc", own("/work?cpu=20us&alloc=64k")},
		{"agent", workload("agent")},
		{"sieve", workload("sieve")},
		{"caddy", b.caddy},
		{"present", b.present},
		{"exporter", b.exporter},
		{"minify", b.minify},
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Programs that others wrote, as they are at these versions.
const (
	caddy    = "github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9"
	present  = "golang.org/x/tools/cmd/present@v0.52.0"
	exporter = "github.com/prometheus/node_exporter@v1.12.1"
	minify   = "github.com/tdewolff/minify/v2/cmd/minify@v2.24.25"
)

// install builds a program and returns its file. Go keeps what it has built, so that only the first time is long.
func (b *bench) install(program string) (string, error) {
	fmt.Fprintf(os.Stderr, "building %s\n", program)
	cmd := exec.Command("go", "install", program)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GOBIN="+b.dir, "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w: %s", program, err, out)
	}
	path, _, _ := strings.Cut(program, "@")
	return filepath.Join(b.dir, filepath.Base(path)), nil
}

// caddy serves a file of 64 KB.
func (b *bench) caddy() (s subject, err error) {
	file, err := b.install(caddy)
	if err != nil {
		return s, err
	}
	root := filepath.Join(b.dir, "files")
	if err := errors.Join(os.MkdirAll(root, 0o755), os.WriteFile(filepath.Join(root, "page.html"), page(64<<10), 0o644)); err != nil {
		return s, err
	}
	address, err := freeAddress()
	return subject{args: []string{file, "file-server", "--listen", address, "--root", root}, url: "http://" + address + "/page.html"}, err
}

// present renders slides by html/template.
func (b *bench) present() (s subject, err error) {
	file, err := b.install(present)
	if err != nil {
		return s, err
	}
	slides := "# Talk\n\nSpeaker\n\n" + strings.Repeat("## Slide\n\nSome text with *emphasis* and `code`.\n\n- one\n- two\n- three\n\n", 30)
	root := filepath.Join(b.dir, "talks")
	if err := errors.Join(os.MkdirAll(root, 0o755), os.WriteFile(filepath.Join(root, "talk.slide"), []byte(slides), 0o644)); err != nil {
		return s, err
	}
	address, err := freeAddress()
	return subject{args: []string{file, "-http", address, "-content", root}, url: "http://" + address + "/talk.slide"}, err
}

// exporter tells figures of this machine.
func (b *bench) exporter() (s subject, err error) {
	file, err := b.install(exporter)
	if err != nil {
		return s, err
	}
	address, err := freeAddress()
	return subject{args: []string{file, "--web.listen-address=" + address, "--log.level=error", "--web.max-requests=0"}, url: "http://" + address + "/metrics"}, err
}

// minify makes pages smaller, many at once.
func (b *bench) minify() (s subject, err error) {
	file, err := b.install(minify)
	if err != nil {
		return s, err
	}
	in := filepath.Join(b.dir, "pages")
	if err := os.MkdirAll(in, 0o755); err != nil {
		return s, err
	}
	for i := range 60 {
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("%d.html", i)), page(256<<10), 0o644); err != nil {
			return s, err
		}
	}
	return subject{args: []string{file, "--quiet", "-r", "-o", filepath.Join(b.dir, "smaller") + "/", in + "/"}}, nil
}

// page is a page of about so many bytes.
func page(size int) []byte {
	const part = "<div class=\"row  wide\">\n  <!-- a row -->\n  <p>Some   text <b>here</b>.</p>\n  <a href=\"https://example.org/a?b=c\">A link</a>\n</div>\n"
	return []byte("<!doctype html>\n<html><head><title>Page</title></head><body>\n" + strings.Repeat(part, size/len(part)) + "</body></html>\n")
}
