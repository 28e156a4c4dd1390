//go:build linux

// Command servers measures what sets GOMEMLIMIT, and what collects less often, changes about servers that others wrote, each under a CPU
// limit of one CPU and several memory limits. Each server is built unchanged, with automemlimit, and with packages auto/memory and
// auto/heapfloor; the variants run in turn, at the same rate, which is 60 % of what the unchanged server can do with the most memory. It
// prints a table in Markdown: CPU time a request, p99, the peak of the group, and how many runs were killed. It needs root.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/bench/internal/command"
)

func main() {
	b := bench{}
	flag.IntVar(&b.runs, "runs", 3, "of each; the table has the medians")
	flag.DurationVar(&b.window, "window", 6*time.Second, "in which each is measured")
	only := flag.String("only", "", "names of servers; none: all of them")
	memory := flag.String("memory", "64,128,256,512", "MiB")
	flag.Parse()
	command.Main(func(ctx context.Context) error { return b.all(ctx, *only, *memory) })
}

// A server is a program by others.
type server struct {
	name, module, main, version string
	args                        func(dir, address string) ([]string, error)
	path                        string
}

var servers = []server{
	{"httpbin /gzip", "github.com/mccutchen/go-httpbin/v2", "cmd/go-httpbin", "v2.26.0", httpbin, "/gzip"},
	{"opa, a query", "github.com/open-policy-agent/opa", ".", "v1.22.2", opa(200), "/v1/data/shop/allowed?input=" + url.QueryEscape(`{"user": "user150"}`)},
	{"opa, 40,000 users", "github.com/open-policy-agent/opa", ".", "v1.22.2", opa(40000), "/v1/data/shop/allowed?input=" + url.QueryEscape(`{"user": "user150"}`)},
	{"caddy, 64 KB", "github.com/caddyserver/caddy/v2", "cmd/caddy", "v2.11.9", caddy, "/page.html"},
	{"gofakes3, a listing", "github.com/johannesboyne/gofakes3", "cmd/gofakes3", "v1.2.0", s3, "/pages"},
}

func httpbin(_, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	return []string{"-host", host, "-port", port, "-log-level", "OFF"}, err
}

// opa holds that many users in memory, and decides about one.
func opa(users int) func(dir, address string) ([]string, error) {
	return func(dir, address string) ([]string, error) {
		const policy = "package shop\n\ndefault allowed := false\n\nallowed if {\n\tsome role in data.users[input.user]\n\tdata.roles[role]\n}\n"
		var all []string
		for i := range users {
			all = append(all, fmt.Sprintf(`"user%d": ["role%d", "role%d", "role%d", "role%d"]`, i, i%20, i%7, i%3, 20+i))
		}
		data := `{"users": {` + strings.Join(all, ", ") + `}, "roles": {"role3": true}}`
		err := errors.Join(
			os.WriteFile(filepath.Join(dir, "shop.rego"), []byte(policy), 0o644),
			os.WriteFile(filepath.Join(dir, "data.json"), []byte(data), 0o644),
		)
		return []string{
			"run", "--server", "--addr", address, "--log-level", "error", "--skip-version-check",
			filepath.Join(dir, "shop.rego"), filepath.Join(dir, "data.json"),
		}, err
	}
}

func caddy(dir, address string) ([]string, error) {
	page := bytes.Repeat([]byte("<p>Some text <b>here</b>.</p>\n"), 64<<10/30)
	return []string{"file-server", "--listen", address, "--root", dir}, os.WriteFile(filepath.Join(dir, "page.html"), page, 0o644)
}

func s3(dir, address string) ([]string, error) {
	pages := filepath.Join(dir, "pages")
	err := os.Mkdir(pages, 0o755)
	for i := range 100 {
		err = errors.Join(err, os.WriteFile(filepath.Join(pages, fmt.Sprintf("%d.txt", i)), []byte("a page\n"), 0o644))
	}
	return []string{"-quiet", "-host", address, "-backend", "directfs", "-directfs.path", pages, "-directfs.bucket", "pages"}, err
}

const library = "github.com/unthrottle/unthrottle"

// A build is what is linked into a server besides itself.
type build struct{ name, imports string }

var (
	plain        = build{"plain", ""}
	automemlimit = build{"automemlimit", "github.com/KimMachineGun/automemlimit"}
	unthrottle   = build{"unthrottle", library + "/auto/memory " + library + "/auto/heapfloor"}
)

// A variant is a build in an environment.
type variant struct {
	title string
	build build
	env   []string
}

var variants = []variant{
	{"default", plain, nil},
	{"GOGC=400", plain, []string{"GOGC=400"}},
	{"automemlimit", automemlimit, nil},
	{"heap floor", unthrottle, []string{"UNTHROTTLE_HEAP_FLOOR=32MiB", "UNTHROTTLE_MEMORY=off"}},
	{"`auto/memory`", unthrottle, nil},
	{"`auto/memory` and a heap floor", unthrottle, []string{"UNTHROTTLE_HEAP_FLOOR=32MiB"}},
}

type bench struct {
	runs    int
	window  time.Duration
	dir     string
	command string // unthrottle
}

func (b *bench) all(ctx context.Context, only, memory string) (err error) {
	if b.dir, err = os.MkdirTemp("", "servers-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.command = filepath.Join(b.dir, "unthrottle")
	if err := command.Build(ctx, b.command, "cmd/unthrottle"); err != nil {
		return err
	}
	limits := strings.Split(memory, ",")
	fmt.Println("| server | memory, MiB | | CPU a request | p99 | peak, MiB | killed |")
	fmt.Println("|---|--:|---|--:|--:|--:|--:|")
	for _, s := range servers {
		if only != "" && !slices.ContainsFunc(strings.Split(only, ","), func(name string) bool { return strings.HasPrefix(s.name, name) }) {
			continue
		}
		if err := b.server(ctx, s, limits); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// server measures one server at all limits.
func (b *bench) server(ctx context.Context, s server, limits []string) error {
	programs := map[string]string{}
	for _, v := range variants {
		if programs[v.build.name] == "" {
			program, err := b.build(ctx, s, v.build)
			if err != nil {
				return err
			}
			programs[v.build.name] = program
		}
	}
	most, err := b.once(ctx, s, programs[plain.name], limits[len(limits)-1], nil, "-c", "8", "--for", "3s")
	if err != nil {
		return err
	}
	rate := strconv.FormatFloat(0.6*most.Goodput, 'f', 0, 64)
	for _, limit := range limits {
		results := make([][]result, len(variants))
		for n := range b.runs {
			for i, v := range variants {
				r, err := b.once(ctx, s, programs[v.build.name], limit, v.env, "--rate", rate, "--warmup", "2s", "--for", b.window.String(), "--seed", strconv.Itoa(n+1))
				if err != nil {
					return err
				}
				results[i] = append(results[i], r)
			}
		}
		for i, v := range variants {
			row(s.name+", "+rate+"/s", limit, v.title, results[i])
		}
	}
	return nil
}

// build builds a server in a copy of its module, with what is linked besides it.
func (b *bench) build(ctx context.Context, s server, with build) (program string, err error) {
	fmt.Fprintf(os.Stderr, "building %s, %s\n", s.name, with.name)
	program = filepath.Join(b.dir, with.name+"-"+strings.ReplaceAll(s.module, "/", "-"))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.module+"@"+s.version).Output()
	if err != nil {
		return "", fmt.Errorf("fetching it: %w", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	source, err := os.MkdirTemp(b.dir, "source-")
	if err != nil {
		return "", err
	}
	here, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", library).Output()
	if err != nil {
		return "", err
	}
	steps := [][]string{{"cp", "-r", module.Dir + "/.", source}, {"chmod", "-R", "u+w", source}}
	main := filepath.Join(source, s.main)
	var imports strings.Builder
	for _, path := range strings.Fields(with.imports) {
		fmt.Fprintf(&imports, "import _ %q\n", path)
		if strings.HasPrefix(path, library) {
			steps = append(steps, []string{"go", "mod", "edit", "-require", library + "@v0.0.0", "-replace", library + "=" + strings.TrimSpace(string(here))})
		} else {
			steps = append(steps, []string{"go", "get", path + "@v1.0.1"})
		}
	}
	steps = append(steps, []string{"go", "build", "-mod=mod", "-o", program, "./" + s.main})
	for i, step := range steps {
		if i == 2 { // it is writable now
			if err := os.WriteFile(filepath.Join(main, "limits.go"), []byte("package main\n\n"+imports.String()), 0o644); err != nil {
				return "", err
			}
		}
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		cmd.Dir, cmd.Env = source, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		if _, err := command.Output(cmd); err != nil {
			return "", err
		}
	}
	return program, os.RemoveAll(source)
}

// A result is one run.
type result struct {
	Goodput float64 `json:"goodput"`
	Ready   struct {
		P99 float64 `json:"p99"`
	} `json:"from_ready"`
	Server *struct {
		CPU *float64 `json:"cpu_seconds_per_request"`
	} `json:"server"`

	peak   float64
	killed bool
}

// once runs a server under its limits, and loads it.
func (b *bench) once(ctx context.Context, s server, program, memory string, env []string, load ...string) (r result, err error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	address, err := command.FreeAddress()
	if err != nil {
		return r, err
	}
	args, err := s.args(dir, address)
	if err != nil {
		return r, err
	}
	told := filepath.Join(dir, "run.json")
	cmd := exec.Command(b.command, append([]string{"run", "--quiet", "--cpus", "1", "--memory", memory + "MiB", "-o", told, "--", program}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=") || strings.HasPrefix(v, "GOMAXPROCS=")
	}), append(env, "HOME="+dir)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	stop := func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	defer stop()
	address = "http://" + address + s.path
	if !answers(ctx, address, ended) {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		stop()
		if err := r.read(told); err != nil {
			return r, err
		}
		if !r.killed {
			return r, errors.New("no answer")
		}
		return r, nil
	}
	loading := exec.CommandContext(ctx, b.command, append([]string{"load", address, "--json"}, load...)...)
	loading.Cancel = func() error { return loading.Process.Signal(syscall.SIGTERM) }
	out, loadErr := loading.Output()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	stop()
	if err := r.read(told); err != nil || r.killed {
		return r, err
	}
	if loadErr != nil {
		return r, fmt.Errorf("load: %w", loadErr)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, err
	}
	if r.Server == nil || r.Server.CPU == nil {
		return r, errors.New("its CPU time is not known")
	}
	return r, nil
}

// read reads what run reports about the server's memory.
func (r *result) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var told struct {
		Peak  float64 `json:"peak_memory_bytes"`
		Kills int     `json:"oom_kills"`
	}
	err = json.Unmarshal(text, &told)
	r.peak, r.killed = told.Peak, told.Kills > 0
	return err
}

// answers waits until a server answers, at most 20 s.
func answers(ctx context.Context, url string, ended <-chan struct{}) bool {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for begin := time.Now(); time.Since(begin) < 20*time.Second && ctx.Err() == nil; {
		if res, err := client.Get(url); err == nil {
			res.Body.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

func row(name, memory, title string, all []result) {
	lived := slices.DeleteFunc(slices.Clone(all), func(r result) bool { return r.killed })
	cpu, p99 := "–", "–"
	if len(lived) > 0 {
		cpu = fmt.Sprintf("%.0f µs", 1e6*median(lived, func(r result) float64 { return *r.Server.CPU }))
		p99 = fmt.Sprintf("%.1f ms", 1e3*median(lived, func(r result) float64 { return r.Ready.P99 }))
	}
	fmt.Printf("| %s | %s | %s | %s | %s | %.0f | %d of %d |\n", name, memory, title, cpu, p99,
		slices.MaxFunc(all, func(a, b result) int { return int(a.peak - b.peak) }).peak/(1<<20), len(all)-len(lived), len(all))
}

func median(results []result, of func(result) float64) float64 {
	var values []float64
	for _, r := range results {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
