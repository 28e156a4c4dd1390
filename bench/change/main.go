//go:build linux

// Command change proves the verdicts of "unthrottle bench --base": a benchmark of the standard library's JSON decoder is compared with
// itself, and with one that does 5 or 10 percent more work. Each pair of commits is judged twice, for the same time: by unthrottle, and the
// usual way: ten runs of each, one after the other, and benchstat's test.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/unthrottle/unthrottle/bench/internal/command"
	"github.com/unthrottle/unthrottle/bench/internal/neighbour"
)

func main() {
	neighbour.Become()
	b := &bench{}
	flag.IntVar(&b.times, "times", 20, "how often each change is judged")
	flag.IntVar(&b.beside, "beside", math.MaxInt, "how often of these it is judged by benchstat as well")
	flag.DurationVar(&b.budget, "budget", 20*time.Second, "the time that each judge has")
	flag.StringVar(&b.neighbour, "neighbour", "none", "what runs beside: "+strings.Join(neighbour.Kinds, ", "))
	flag.StringVar(&b.more, "more", "0,5,10", "the changes: percent of work that is added")
	flag.Uint64Var(&b.seed, "seed", 1, "of the neighbour")
	flag.BoolVar(&b.commits, "commits", false, "judge commits of modules by others instead, ten that say to be faster and ten about something else")
	flag.Parse()
	command.Main(b.run)
}

type bench struct {
	times     int
	beside    int
	budget    time.Duration
	neighbour string
	more      string
	seed      uint64
	commits   bool

	dir, command string
}

// base is how much work an operation is: one percent is five units of it.
const base = 500

// files are those of the module. The mark of a build makes it another file, and changes nothing else.
func files(units int, mark string) map[string]string {
	return map[string]string{
		"go.mod": "module example.com/change\n\ngo 1.21\n",
		"change.go": fmt.Sprintf(`package change

import "encoding/json"

const Mark = %q

var doc = []byte(`+"`"+`{"id": 17, "name": "a shop", "open": true, "items": [{"n": 1, "price": 2.5}, {"n": 3, "price": 4.25}]}`+"`"+`)

type shop struct {
	ID    int
	Name  string
	Open  bool
	Items []struct {
		N     int
		Price float64
	}
}

func Work() (n int) {
	for i := 0; i < %d; i++ {
		var s shop
		if json.Unmarshal(doc, &s) == nil {
			n += len(s.Items)
		}
	}
	return n
}
`, mark, units),
		"change_test.go": `package change

import (
	"os"
	"testing"
)

var sink int

func TestMain(m *testing.M) {
	if os.Getenv("MARK") != "" {
		println(Mark)
	}
	os.Exit(m.Run())
}

func BenchmarkWork(b *testing.B) {
	for i := 0; i < b.N; i++ {
		sink += Work()
	}
}
`,
	}
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "unthrottle-bench-change-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.command = filepath.Join(b.dir, "unthrottle")
	os.Setenv("GOFLAGS", "")
	if err := command.Build(ctx, b.command, "cmd/unthrottle"); err != nil {
		return err
	}
	quiet, err := neighbour.Start(ctx, b.neighbour, b.seed)
	if err != nil {
		return err
	}
	defer quiet()
	os.Setenv("GOWORK", "off") // what is judged is in no workspace
	if b.commits {
		return b.judgeCommits(ctx)
	}
	return b.judgeChanges(ctx)
}

// judgeChanges judges changes that are made here, and prints a row for each.
func (b *bench) judgeChanges(ctx context.Context) error {
	repository := filepath.Join(b.dir, "repository")
	if err := os.Mkdir(repository, 0o755); err != nil {
		return err
	}
	for k, v := range map[string]string{
		"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com",
		"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		os.Setenv(k, v)
	}
	if err := write(repository, files(base, "base")); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "base"}} {
		if _, err := call(ctx, repository, "git", args...); err != nil {
			return err
		}
	}
	fmt.Printf("%d CPUs, %v for each judge, %d times each, neighbour: %s\n\n", runtime.NumCPU(), b.budget, b.times, b.neighbour)
	fmt.Println("| work added | unthrottle: worse | can't tell | no worse | better | ten runs each and benchstat: worse | ~ | better |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, text := range strings.Split(b.more, ",") {
		more, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-more: %w", err)
		}
		ours, theirs, done := map[string]int{}, map[string]int{}, 0
		for ; done < b.times; done++ {
			claim, word, err := b.both(ctx, repository, files(base+base*more/100, fmt.Sprint("change ", done)), done < b.beside)
			if ctx.Err() != nil {
				break // what was judged until then is printed
			}
			if err != nil {
				return err
			}
			ours[claim]++
			if word != "" {
				theirs[word]++
			}
		}
		share := func(n int) string { return fmt.Sprintf("%d of %d", n, done) }
		beside := func(n int) string { return fmt.Sprintf("%d of %d", n, min(done, b.beside)) }
		fmt.Printf("| %d %% | %s | %s | %s | %s | %s | %s | %s |\n", more, share(ours["worse"]), share(ours["undecided"]+ours["too few"]),
			share(ours["no worse"]), share(ours["better"]), beside(theirs["worse"]), beside(theirs["~"]), beside(theirs["better"]))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// both is what unthrottle claims of the files compared with what is committed, and what benchstat says, if that is wanted.
func (b *bench) both(ctx context.Context, repository string, changed map[string]string, beside bool) (claim, word string, err error) {
	if err := write(repository, changed); err != nil {
		return "", "", err
	}
	if claim, err = b.ours(ctx, repository); err != nil || !beside {
		return claim, "", err
	}
	word, err = b.theirs(ctx, repository)
	return claim, word, err
}

// ours is what unthrottle claims.
func (b *bench) ours(ctx context.Context, repository string) (string, error) {
	out, err := call(ctx, repository, b.command, "bench", "--base", "HEAD", "--gobench", ".", "--budget", b.budget.String(), "--json")
	if err != nil {
		return "", err
	}
	var doc struct {
		Groups []struct{ Claim, Text string }
	}
	if err := json.Unmarshal(out, &doc); err != nil || len(doc.Groups) != 1 {
		return "", fmt.Errorf("a document of %d groups: %w", len(doc.Groups), err)
	}
	fmt.Fprintln(os.Stderr, doc.Groups[0].Text)
	return doc.Groups[0].Claim, nil
}

// theirs is what ten runs of the base, ten of the change, and a Mann-Whitney test at 5 percent say.
func (b *bench) theirs(ctx context.Context, repository string) (string, error) {
	const runs = 10
	window := (b.budget / (2 * runs)).String()
	at := filepath.Join(b.dir, "base")
	if err := os.RemoveAll(at); err != nil {
		return "", err
	}
	if _, err := call(ctx, repository, "git", "clone", "-q", repository, at); err != nil {
		return "", err
	}
	var samples []*benchmath.Sample
	for i, dir := range []string{at, repository} {
		binary := filepath.Join(b.dir, strconv.Itoa(i)+".test")
		if _, err := call(ctx, dir, "go", "test", "-c", "-o", binary, "."); err != nil {
			return "", err
		}
		out, err := call(ctx, dir, binary, "-test.run=^$", "-test.bench=.", "-test.count="+strconv.Itoa(runs), "-test.benchtime="+window)
		if err != nil {
			return "", err
		}
		values, err := secondsPerOp(out)
		if err != nil {
			return "", err
		}
		samples = append(samples, benchmath.NewSample(values, &benchmath.DefaultThresholds))
	}
	c := benchmath.AssumeNothing.Compare(samples[0], samples[1])
	median := func(s *benchmath.Sample) float64 { return benchmath.AssumeNothing.Summary(s, 0.95).Center }
	from, to := median(samples[0]), median(samples[1])
	fmt.Fprintf(os.Stderr, "  benchstat: %s %s\n", c.FormatDelta(from, to), c)
	switch {
	case c.P > c.Alpha:
		return "~", nil
	case to > from:
		return "worse", nil
	}
	return "better", nil
}

func secondsPerOp(out []byte) (values []float64, err error) {
	r := benchfmt.NewReader(bytes.NewReader(out), "out")
	for r.Scan() {
		if res, ok := r.Result().(*benchfmt.Result); ok {
			if v, ok := res.Value("sec/op"); ok {
				values = append(values, v)
			}
		}
	}
	if len(values) == 0 {
		err = errors.New("no benchmark in what was printed")
	}
	return values, errors.Join(err, r.Err())
}

func write(dir string, files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func call(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return command.Output(cmd)
}
