// Command startup measures what a program pays for importing automaxprocs or unthrottle, each alone and with what sets
// GOMEMLIMIT: file size, and time from start to exit. It builds a small web server plain and with these imports, runs them in
// turn, many times, and prints a table in Markdown.
//
// Every block runs each program once, in random order, so that anything else that the machine does affects all alike. A program's addition
// is the median over all blocks of its time minus that of the plain one in the same block.
package main

import (
	"debug/elf"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/bench/internal/quota"
)

func main() {
	blocks := flag.Int("blocks", 400, "how often each program is run in each situation")
	flag.Parse()
	if err := run(os.Stdout, *blocks); err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(1)
	}
}

// names are the build tags of the programs. The first is what the others are compared with.
var names = []string{"plain", "automaxprocs", "unthrottle", "automaxprocs,automemlimit", "unthrottle,memory"}

// A program is a build of hello.
type program struct {
	name   string
	linked string // as built
	path   string // the copy that is run
	size   size
}

type size struct {
	file     int64 // segments are rounded up to whole pages here
	sections int64 // what is in them
}

// A situation is the limit that the programs find, and their environment.
type situation struct {
	name string
	cpus float64
	mib  int64 // of memory
	env  []string
}

// By its own choice unthrottle rounds up and automaxprocs down. With the policy floor both come to the same number, and
// both must change GOMAXPROCS.
var situations = []situation{
	{name: "no limit"},
	{name: fmt.Sprintf("limit %d CPUs", runtime.NumCPU()), cpus: float64(runtime.NumCPU())},
	{name: "limit 1.5 CPUs, floor", cpus: 1.5, env: []string{"UNTHROTTLE=floor"}},
	{name: fmt.Sprintf("limit %d CPUs and 512 MiB", runtime.NumCPU()), cpus: float64(runtime.NumCPU()), mib: 512},
}

func run(w io.Writer, blocks int) error {
	dir, err := os.MkdirTemp("", "startup")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var programs []program
	for _, name := range names {
		p, err := build(dir, name)
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	writeSizes(w, programs)
	writeTimesHead(w)
	for _, s := range situations {
		runs, err := measure(programs, s, blocks)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		writeTimes(w, s.name, runs)
	}
	return nil
}

func build(dir, name string) (program, error) {
	p := program{name: name, linked: filepath.Join(dir, name+".linked"), path: filepath.Join(dir, name)}
	cmd := exec.Command("go", "build", "-tags", name, "-trimpath", "-ldflags=-s -w", "-o", p.linked,
		"github.com/unthrottle/unthrottle/bench/startup/hello")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return p, fmt.Errorf("building %s: %w", name, err)
	}
	var err error
	p.size, err = sizeOf(p.linked)
	return p, err
}

// renew makes a new copy of the program to run. Where a file's pages happen to lie in memory decides a good part of how long it takes to
// start: the linker's own output took up to 0.3 ms more than a copy of it, and copies differ by some 0.05 ms, as much as what is being
// measured. Many copies average that out.
func (p program) renew() error {
	data, err := os.ReadFile(p.linked)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(p.path); err != nil {
		return err
	}
	return os.WriteFile(p.path, data, 0o755)
}

func sizeOf(path string) (size, error) {
	info, err := os.Stat(path)
	if err != nil {
		return size{}, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return size{}, err
	}
	defer f.Close()
	s := size{file: info.Size()}
	for _, section := range f.Sections {
		if section.Type != elf.SHT_NOBITS {
			s.sections += int64(section.Size)
		}
	}
	return s, nil
}

// A sample is one run of a program.
type sample struct {
	wall time.Duration // from start to exit, as this process sees it
	cpu  time.Duration // user and system time
}

// measure runs the programs in turn and returns the samples of each, in the order of blocks.
func measure(programs []program, s situation, blocks int) ([][]sample, error) {
	if s.cpus > 0 {
		leave, err := quota.Enter(s.cpus)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	if s.mib > 0 {
		leave, err := quota.EnterMemory(s.mib << 20)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	const blocksPerCopy = 10
	samples := make([][]sample, len(programs))
	for block := range blocks {
		for _, i := range rand.Perm(len(programs)) {
			if block%blocksPerCopy == 0 {
				if err := programs[i].renew(); err != nil {
					return nil, err
				}
				if _, err := runOnce(programs[i].path, s.env); err != nil { // not counted: the first run of a copy
					return nil, err
				}
			}
			one, err := runOnce(programs[i].path, s.env)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], one)
		}
	}
	return samples, nil
}

func runOnce(path string, env []string) (sample, error) {
	cmd := exec.Command(path) // what it writes goes to /dev/null
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", path, err)
	}
	return sample{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// An addition is what a program takes more than the plain one.
type addition struct {
	median, low, high float64 // low and high bound the median at 95 %
}

// added compares two programs block by block. The interval is that of the order statistics, which assumes nothing about the shape of the
// distribution.
func added(plain, other []sample, of func(sample) time.Duration) addition {
	diffs := make([]float64, len(plain))
	for i := range plain {
		diffs[i] = float64(of(other[i])-of(plain[i])) / float64(time.Microsecond)
	}
	slices.Sort(diffs)
	n := float64(len(diffs))
	at := func(rank float64) float64 {
		return diffs[int(math.Max(0, math.Min(n-1, rank)))]
	}
	half := 0.98 * math.Sqrt(n)
	return addition{at(n / 2), at(n/2 - half - 1), at(n/2 + half)}
}

func median(samples []sample, of func(sample) time.Duration) float64 {
	sorted := slices.Clone(samples)
	slices.SortFunc(sorted, func(a, b sample) int { return int(of(a) - of(b)) })
	return float64(of(sorted[len(sorted)/2])) / float64(time.Microsecond)
}

func wall(s sample) time.Duration { return s.wall }
func cpu(s sample) time.Duration  { return s.cpu }

func writeSizes(w io.Writer, programs []program) {
	fmt.Fprintf(w, "%s, %s/%s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintln(w, "| program | file, bytes | added | sections, bytes | added |")
	fmt.Fprintln(w, "|---|--:|--:|--:|--:|")
	plain := programs[0].size
	for _, p := range programs {
		fmt.Fprintf(w, "| %s | %d | %+d | %d | %+d |\n", p.name,
			p.size.file, p.size.file-plain.file, p.size.sections, p.size.sections-plain.sections)
	}
}

func writeTimesHead(w io.Writer) {
	fmt.Fprintln(w, "\n| situation | program | wall, µs | added (95 % interval) | CPU, µs | added (95 % interval) |")
	fmt.Fprintln(w, "|---|---|--:|--:|--:|--:|")
}

func writeTimes(w io.Writer, situation string, samples [][]sample) {
	for i, name := range names {
		fmt.Fprintf(w, "| %s | %s | %.0f | %s | %.0f | %s |\n", situation, name,
			median(samples[i], wall), addedText(samples[0], samples[i], wall),
			median(samples[i], cpu), addedText(samples[0], samples[i], cpu))
	}
}

func addedText(plain, other []sample, of func(sample) time.Duration) string {
	if &plain[0] == &other[0] {
		return ""
	}
	a := added(plain, other, of)
	return fmt.Sprintf("%+.0f (%+.0f … %+.0f)", a.median, a.low, a.high)
}
