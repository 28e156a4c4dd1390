package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// BenchCSV writes a line for each run.
func BenchCSV(w io.Writer, b *Bench) error {
	b = Sane(b)
	c := csv.NewWriter(w)
	head := []string{
		"block", "place", "start", "workload", "go", "limit_cpus", "limit_kind", "gomaxprocs_env", "gomaxprocs", "error",
	}
	builds := len(b.Plan.Builds) > 0
	if builds {
		head = append(head, "build")
	}
	for _, m := range b.Metrics {
		head = append(head, m.Unit)
	}
	c.Write(cells(head))
	for _, r := range b.Runs {
		s := b.Plan.Settings[r.Setting]
		row := []string{
			strconv.Itoa(r.Block), strconv.Itoa(r.Place), r.Start.UTC().Format(time.RFC3339Nano), s.Workload, cmp.Or(r.Go, s.Go),
			s.Value(lab.ByCPUs), r.LimitKind, s.Value(lab.ByProcs), strconv.Itoa(r.GOMAXPROCS), r.Error,
		}
		if builds {
			row = append(row, s.Build)
		}
		for _, m := range b.Metrics {
			text := ""
			if v, ok := r.Metrics[m.Unit]; ok {
				text = float(v)
			}
			row = append(row, text)
		}
		c.Write(cells(row))
	}
	c.Flush()
	return c.Error()
}

// BenchGo writes the runs in the format of Go benchmarks, a line each, for benchstat:
//
//	benchstat -col /gomaxprocs -ignore /block lab.txt
//
// GOMAXPROCS is the suffix, even if it is 1. If the program was left to choose it, /procs=default is part of the name:
// otherwise benchstat would pool its runs with those of the same number.
func BenchGo(w io.Writer, b *Bench) error {
	b = Sane(b)
	var t strings.Builder
	line := func(format string, args ...any) { t.WriteString(plain.Line(fmt.Sprintf(format, args...)) + "\n") }
	e := b.Environment
	line("goos: %s", e.OS)
	line("goarch: %s", e.Arch)
	if e.CPU != "" {
		line("cpu: %s", e.CPU)
	}
	line("pkg: unthrottle/bench")
	line("kernel: %s", e.Kernel)
	line("limit-kind: %s", e.LimitKind)
	line("block-seed: %d", b.Plan.Seed)
	for _, m := range b.Metrics {
		better := ""
		if m.Better == lab.Lower || m.Better == lab.Higher {
			better = " better=" + m.Better
		}
		line("Unit %s%s assume=nothing", goWord(m.Unit), better)
	}
	pkg := ""
	for _, r := range b.Runs {
		if r.Error != "" {
			continue
		}
		if own := packageOf(b.Plan.Settings[r.Setting].Workload); own != pkg {
			line("pkg: %s", cmp.Or(own, "unthrottle/bench"))
			pkg = own
		}
		values := ""
		for _, m := range b.Metrics {
			if v, ok := r.Metrics[m.Unit]; ok {
				values += " " + float(v) + " " + goWord(m.Unit)
			}
		}
		line("%s %d%s", goName(b.Plan.Settings[r.Setting], r), max(r.Ops, 1), values)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// packageOf is the package of a benchmark, where there are several; "": there are not.
func packageOf(workload string) string {
	pkg, _, several := strings.Cut(workload, ".Benchmark")
	if !several {
		return ""
	}
	return pkg
}

// goName is a benchmark's name: BenchmarkFib/limit=0.5/go=go1.26.8/block=3-2.
func goName(s lab.Setting, r lab.Run) string {
	text := s.Workload
	if pkg := packageOf(text); pkg != "" {
		text = text[len(pkg)+1:]
	}
	if !strings.HasPrefix(text, "Benchmark") || strings.ContainsFunc(text, unicode.IsSpace) {
		text = "Benchmark" + inCamelCase(text)
	}
	if s.Build != "" {
		text += "/build=" + goWord(s.Build)
	}
	text += "/limit=" + s.Value(lab.ByCPUs)
	if s.Go != "" {
		text += "/go=" + goWord(s.Go)
	}
	if s.Procs == 0 {
		text += "/procs=default"
	}
	text += fmt.Sprintf("/block=%d", r.Block)
	if procs := cmp.Or(s.Procs, r.GOMAXPROCS); procs > 0 {
		text += "-" + strconv.Itoa(procs)
	}
	return text
}
