package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/perf/benchfmt"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// A Subject is what a lab runs and compares.
type Subject struct {
	Workloads []string
	Builds    []Build     // of each of them, the base's first
	About     []lab.Build // what they are, where there are several
	Same      []string    // what is the same in all builds, and none of the workloads
	Programs  func(lab.Setting) (Program, error)
	Figures   map[string]lab.Metric // of each workload: what its settings are compared by
	Costs     map[string]lab.Metric // what those are compared by as well that have one
	Metrics   []lab.Metric          // that the workloads report besides their figures
}

// Command is a program of the user's.
type Command struct {
	Name   string
	Builds map[Build][]string // its command line in each
	Copy   string             // see Program
	Metric *regexp.Regexp     // its first group holds the figure; nil: wall time is
	Unit   string
}

// Program is what runs it.
func (c Command) Program(s lab.Setting) (Program, error) {
	p := Program{Args: c.Builds[BuildOf(s)], Copy: c.Copy}
	if c.Metric != nil {
		p.Read = c.read
	}
	return p, nil
}

// One is a command with a single build.
func One(args ...string) Command {
	return Command{Name: filepath.Base(args[0]), Builds: map[Build][]string{{}: args}}
}

// Subject is the command as the only workload. Where builds are compared, CPU time counts as well: it distinguishes a change of the program
// from one of the machine.
func (c Command) Subject(builds bool) Subject {
	figure := lab.WallTime.Metric("wall time")
	if c.Metric != nil {
		figure = lab.Metric{Unit: c.Unit, Better: lab.Lower}
	}
	s := Subject{Workloads: []string{c.Name}, Programs: c.Program, Figures: map[string]lab.Metric{c.Name: figure}}
	if builds {
		s.Costs = map[string]lab.Metric{c.Name: lab.CPUTime.Metric("CPU time")}
	}
	return s
}

// read takes the last match: a program that prints its figure repeatedly prints the best last.
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
		err = errors.New("want one group in brackets, for the number")
	}
	return re, err
}

// GoBench are the Go benchmarks of packages, in one or several builds.
type GoBench struct {
	Package  string // a package, or a pattern of several
	Regexp   string
	For      string // as -benchtime; but see Times
	Dir      string // private to this lab
	Variants []Variant

	Path  string           // the package's, or the pattern
	Names []string         // of the benchmarks that all builds have
	Same  []string         // packages that are the same in all builds, byte for byte: none of their benchmarks is among Names
	Alone []string         // benchmarks that not all builds have
	Sums  []string         // of what was built, by variant
	Times map[string]int64 // how often an operation of each is done; if not given, as often as fits into For

	tests map[Build]map[string]test // by benchmark
	fixed sync.Mutex                // for Times, where several run at the same time
}

// A Variant is a way to build what is run, for the settings of one Build.
type Variant struct {
	workload.Variant
	Build Build
}

// A Build is what settings have in common that run the same file.
type Build struct{ Name, Go string }

// BuildOf is that of a setting.
func BuildOf(s lab.Setting) Build { return Build{s.Build, s.Go} }

// A test is a program that has a benchmark.
type test struct {
	workload.Program
	name string // that the benchmark has in it
}

// Prepare builds the benchmarks, and lists those that can be compared.
func (g *GoBench) Prepare(ctx context.Context, note func(string)) error {
	if _, err := regexp.Compile(g.Regexp); err != nil {
		return fmt.Errorf("no benchmark can match %q: %w", g.Regexp, err)
	}
	if len(g.Variants) == 0 {
		g.Variants = []Variant{{}}
	}
	m := &workload.Maker{Dir: g.Dir, Note: note}
	made := make([][]workload.Program, len(g.Variants))
	for i, v := range g.Variants {
		var err error
		if made[i], err = m.Benchmarks(ctx, v.Variant, g.Package); err != nil {
			return err
		}
		g.Sums = append(g.Sums, workload.Sum(made[i]))
	}
	if g.Path = g.Package; len(made[0]) == 1 {
		g.Path = made[0][0].Path
	}
	g.tests = map[Build]map[string]test{}
	for i, v := range g.Variants {
		own := map[string]test{}
		g.tests[v.Build] = own
		for _, p := range made[i] {
			if same(made, p) {
				if i == 0 {
					g.Same = append(g.Same, p.Name)
				}
				continue
			}
			names, err := g.list(ctx, p)
			if err != nil && v.Name != "" {
				err = fmt.Errorf("%s: %w", v.Name, err)
			}
			if err != nil {
				return err
			}
			for _, name := range names {
				full := name
				if len(made[0]) > 1 {
					full = p.Name + "." + name
				}
				own[full] = test{p, name}
				g.Names = append(g.Names, full)
			}
		}
	}
	g.keepCommon()
	if len(g.Names)+len(g.Same) == 0 {
		return fmt.Errorf("%s has no benchmark that matches %q%s", g.Package, g.Regexp, inAll(g.Variants))
	}
	return nil
}

func inAll(v []Variant) string {
	if len(v) > 1 {
		return " in all builds"
	}
	return ""
}

// same reports whether there are several builds, and a program is the same in all of them.
func same(made [][]workload.Program, p workload.Program) bool {
	for _, programs := range made {
		if !slices.ContainsFunc(programs, func(o workload.Program) bool { return o.Path == p.Path && o.Sum == p.Sum }) {
			return false
		}
	}
	return len(made) > 1
}

// keepCommon names each benchmark once, in the order in which the first build has them, and sorts out what not all have.
func (g *GoBench) keepCommon() {
	all := g.Names
	g.Names = nil
	for _, name := range all {
		if slices.Contains(g.Names, name) || slices.Contains(g.Alone, name) {
			continue
		}
		to := &g.Names
		for _, own := range g.tests {
			if _, has := own[name]; !has {
				to = &g.Alone
			}
		}
		*to = append(*to, name)
	}
}

// list finds the names of a program's benchmarks by running each once: those inside other benchmarks can't be known otherwise.
func (g *GoBench) list(ctx context.Context, p workload.Program) (names []string, err error) {
	cmd := exec.CommandContext(ctx, p.File, "-test.run=^$", "-test.bench="+g.Regexp, "-test.benchtime=1x")
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("running the benchmarks of %s once: %w: %s", p.Name, err, complaint(out))
	}
	results, err := parseBench(out)
	for _, r := range results {
		if name := "Benchmark" + string(r.Name.Full()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
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
	times := g.For
	g.fixed.Lock()
	defer g.fixed.Unlock()
	if n := g.Times[s.Workload]; n > 0 {
		times = strconv.FormatInt(n, 10) + "x"
	}
	return g.program(s, times)
}

// fix says how often an operation is done from now on, unless that is known.
func (g *GoBench) fix(name string, times int64) {
	g.fixed.Lock()
	defer g.fixed.Unlock()
	if g.Times == nil {
		g.Times = map[string]int64{}
	}
	if g.Times[name] == 0 {
		g.Times[name] = times
	}
}

// Once is what runs one operation of it.
func (g *GoBench) Once(s lab.Setting) (Program, error) { return g.program(s, "1x") }

func (g *GoBench) program(s lab.Setting, times string) (Program, error) {
	t := g.tests[BuildOf(s)][s.Workload]
	parts := strings.Split(t.name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	args := []string{t.File, "-test.run=^$", "-test.bench=" + strings.Join(parts, "/"), "-test.benchtime=" + times}
	p := Program{Args: args, Dir: t.Dir, Read: func(stdout []byte) (Reading, error) { return oneResult(stdout, t.name) }}
	if len(g.Variants) > 1 {
		p.Copy = g.Dir
	}
	return p, nil
}

// oneResult is what a benchmark says of its run. Where a name has slashes of its own, others whose names go on from it run, too: then its
// operations are not those of the process.
func oneResult(stdout []byte, name string) (said Reading, err error) {
	results, err := parseBench(stdout)
	if err != nil {
		return said, err
	}
	all := len(results)
	if all > 1 {
		results = slices.DeleteFunc(results, func(r *benchfmt.Result) bool {
			rest, ok := strings.CutPrefix("Benchmark"+string(r.Name.Full()), name)
			return !ok || rest != "" && !procsSuffix.MatchString(rest)
		})
	}
	if len(results) != 1 {
		return said, fmt.Errorf("%s gave %d results, want 1", name, all)
	}
	said = Reading{GOMAXPROCS: 1, Ops: int64(results[0].Iters), Metrics: map[string]float64{}}
	if all > 1 {
		said.Ops = 0
	}
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
}

var procsSuffix = regexp.MustCompile(`^-[0-9]+$`)

func parseBench(out []byte) (results []*benchfmt.Result, err error) {
	r := benchfmt.NewReader(bytes.NewReader(out), "benchmarks")
	for r.Scan() {
		if res, ok := r.Result().(*benchfmt.Result); ok {
			results = append(results, res.Clone())
		}
	}
	return results, r.Err()
}

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
