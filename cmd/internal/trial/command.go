package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/workload"
)

// A Subject is what a lab runs and compares.
type Subject struct {
	Workloads []string
	Programs  func(lab.Setting) (Program, error)
	Figures   map[string]lab.Metric // of each workload: what its settings are compared by
	Costs     map[string]lab.Metric // what those are compared by as well that have one
	Metrics   []lab.Metric          // that the workloads tell beside their figures
}

// Command is a program of the user's.
type Command struct {
	Args   []string
	Metric *regexp.Regexp // its first group holds the figure; nil: wall time is
	Unit   string
}

// Program is what runs it, under any setting.
func (c Command) Program(lab.Setting) (Program, error) {
	p := Program{Args: c.Args}
	if c.Metric != nil {
		p.Read = c.read
	}
	return p, nil
}

// Subject is the command as the only workload.
func (c Command) Subject() Subject {
	name, figure := filepath.Base(c.Args[0]), lab.WallTime.Metric("wall time")
	if c.Metric != nil {
		figure = lab.Metric{Unit: c.Unit, Better: lab.Lower}
	}
	return Subject{Workloads: []string{name}, Programs: c.Program, Figures: map[string]lab.Metric{name: figure}}
}

// read takes the last match: a program that prints its figure again and again prints the best last.
func (c Command) read(stdout []byte) (Reading, error) {
	matches := c.Metric.FindAllSubmatch(stdout, -1)
	if len(matches) == 0 {
		return Reading{}, fmt.Errorf("nothing in its output matches %q", c.Metric)
	}
	text := string(matches[len(matches)-1][1])
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Reading{}, fmt.Errorf("%q, which matches %q, is not a number", text, c.Metric)
	}
	return Reading{Metrics: map[string]float64{c.Unit: v}}, nil
}

// ParseMetric checks a regular expression for a figure.
func ParseMetric(text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err == nil && re.NumSubexp() != 1 {
		err = errors.New("it must have one group, in brackets, which holds the number")
	}
	return re, err
}

// GoBench are the Go benchmarks of a package.
type GoBench struct {
	Package string
	Regexp  string
	For     string // as -benchtime; but see Times
	Dir     string // private to this lab

	from   string            // directory in which go is called: the package's, if that is what Package names; "": here
	binary map[string]string // toolchain → test binary
	dir    string            // the package's
	Path   string            // its import path
	Names  []string          // of the benchmarks
	Times  map[string]int64  // how often an operation of each is done; where it isn't told, as often as fits into For
}

// Prepare builds the benchmarks with each toolchain and lists them.
func (g *GoBench) Prepare(ctx context.Context, toolchains []string, progress func(string)) error {
	if _, err := regexp.Compile(g.Regexp); err != nil {
		return fmt.Errorf("no benchmark can match %q: %w", g.Regexp, err)
	}
	name := g.Package
	if d, err := os.Stat(name); err == nil && d.IsDir() && (filepath.IsAbs(name) || build.IsLocalImport(name)) {
		name, g.from = ".", name // it may be in another module than what is here
	}
	out, err := g.goCommand(ctx, "", "list", "-f", "{{.ImportPath}} {{.Dir}}", name)
	if cause := new(goError); errors.As(err, &cause) && cause.said != "" {
		return fmt.Errorf("no Go package at %s: %s", g.Package, cause.said)
	} else if err != nil {
		return err
	}
	g.Path, g.dir, _ = strings.Cut(strings.TrimSpace(out), " ")
	if g.dir == "" || strings.Contains(g.dir, "\n") {
		return fmt.Errorf("%s is not one package", g.Package)
	}
	g.binary = map[string]string{}
	for _, t := range toolchains {
		progress(strings.TrimSpace("building " + g.Package + " " + t))
		path := filepath.Join(g.Dir, "bench-"+t+".test")
		if _, err := g.goCommand(ctx, t, "test", "-c", "-o", path, name); err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s has no tests", g.Package)
		}
		g.binary[t] = path
	}
	return g.list(ctx, g.binary[toolchains[0]])
}

// list finds the benchmarks' names by running each once: those inside of others are not known otherwise.
func (g *GoBench) list(ctx context.Context, binary string) error {
	cmd := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.bench="+g.Regexp, "-test.benchtime=1x")
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running the benchmarks once: %w: %s", err, complaint(out))
	}
	results, err := parseBench(out)
	if err != nil {
		return err
	}
	for _, r := range results {
		if name := "Benchmark" + string(r.Name.Full()); !slices.Contains(g.Names, name) {
			g.Names = append(g.Names, name)
		}
	}
	if len(g.Names) == 0 {
		return fmt.Errorf("%s has no benchmark that matches %q", g.Package, g.Regexp)
	}
	return nil
}

// Subject is the benchmarks, when they are prepared.
func (g *GoBench) Subject() Subject {
	s := Subject{Workloads: g.Names, Programs: g.Program, Figures: map[string]lab.Metric{}}
	for _, name := range g.Names {
		s.Figures[name] = lab.OpTime.Metric("time for an operation")
	}
	return s
}

// Program is what runs one benchmark.
func (g *GoBench) Program(s lab.Setting) (Program, error) {
	parts := strings.Split(s.Workload, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	times := g.For
	if n := g.Times[s.Workload]; n > 0 {
		times = strconv.FormatInt(n, 10) + "x"
	}
	args := []string{g.binary[s.Go], "-test.run=^$", "-test.bench=" + strings.Join(parts, "/"), "-test.benchtime=" + times}
	return Program{Args: args, Dir: g.dir, Read: func(stdout []byte) (Reading, error) {
		results, err := parseBench(stdout)
		if err != nil {
			return Reading{}, err
		}
		if len(results) != 1 {
			return Reading{}, fmt.Errorf("%s gave %d results, want 1", s.Workload, len(results))
		}
		said := Reading{GOMAXPROCS: 1, Ops: int64(results[0].Iters), Metrics: map[string]float64{}}
		_, parts := results[0].Name.Parts()
		if n := len(parts); n > 0 && parts[n-1][0] == '-' {
			said.GOMAXPROCS, _ = strconv.Atoi(string(parts[n-1][1:]))
		}
		for _, v := range results[0].Values {
			unit, value := v.Unit, v.Value
			if v.OrigUnit != "" { // ns/op, which benchfmt makes sec/op
				unit, value = v.OrigUnit, v.OrigValue
			}
			said.Metrics[unit] = value
		}
		return said, nil
	}}, nil
}

func parseBench(out []byte) (results []*benchfmt.Result, err error) {
	r := benchfmt.NewReader(bytes.NewReader(out), "benchmarks")
	for r.Scan() {
		if res, ok := r.Result().(*benchfmt.Result); ok {
			results = append(results, res.Clone())
		}
	}
	return results, r.Err()
}

// goCommand runs the go command of a toolchain, "" being the one in the PATH.
func (g *GoBench) goCommand(ctx context.Context, toolchain string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = g.from, append(os.Environ(), workload.BuildCache(filepath.Join(g.Dir, "gocache"))...)
	if toolchain != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+toolchain)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", &goError{args, err, string(bytes.TrimSpace(stderr.Bytes()))}
	}
	return string(out), nil
}

// A goError is a call of go that failed, with what it said.
type goError struct {
	args []string
	err  error
	said string
}

func (e *goError) Error() string {
	return fmt.Sprintf("go %s: %v: %s", strings.Join(e.args, " "), e.err, e.said)
}
func (e *goError) Unwrap() error { return e.err }

// complaint takes from the output of a test binary what says why it failed: its last line but those that only say that it did.
func complaint(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := len(lines) - 1; i > 0; i-- {
		line := strings.TrimSpace(lines[i])
		if line != "" && line != "FAIL" && !strings.HasPrefix(line, "exit status ") && !strings.HasPrefix(line, "FAIL\t") {
			return line
		}
	}
	return strings.TrimSpace(lines[0])
}
