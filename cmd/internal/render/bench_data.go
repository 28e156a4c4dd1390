package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// BenchCSV writes a line for each run.
func BenchCSV(w io.Writer, b *report.Bench) error {
	c := csv.NewWriter(w)
	head := []string{
		"block", "place", "start", "workload", "go", "limit_cpus", "limit_kind", "gomaxprocs_env", "gomaxprocs", "error",
	}
	for _, m := range b.Metrics {
		head = append(head, m.Unit)
	}
	c.Write(head)
	for _, r := range b.Runs {
		s := b.Plan.Settings[r.Setting]
		goVersion := r.Go
		if goVersion == "" {
			goVersion = s.Go
		}
		row := []string{
			strconv.Itoa(r.Block), strconv.Itoa(r.Place), r.Start.UTC().Format(time.RFC3339Nano), s.Workload, goVersion,
			s.Value(lab.ByCPUs), r.LimitKind, s.Value(lab.ByProcs), strconv.Itoa(r.GOMAXPROCS), r.Error,
		}
		for _, m := range b.Metrics {
			v, ok := r.Metrics[m.Unit]
			text := ""
			if ok {
				text = strconv.FormatFloat(v, 'g', -1, 64)
			}
			row = append(row, text)
		}
		c.Write(row)
	}
	c.Flush()
	return c.Error()
}

// BenchMarkdown writes a table for each group, to be put into a pull request.
func BenchMarkdown(w io.Writer, b *report.Bench) error {
	var t strings.Builder
	for _, v := range b.Verdicts {
		fmt.Fprintf(&t, "**%s**\n\n", markdown(v))
	}
	for _, g := range b.Groups {
		fmt.Fprintf(&t, "%s: %s, %s is better\n\n", markdown(g.Name), markdown(figureText(g.Figure)), g.Figure.Better)
		shown := besides(b, &g)
		fmt.Fprintf(&t, "| %s | median | 95 %% interval | vs. %s |", factorTitle(b.Plan.Compare), markdown(g.Settings[0].Name))
		for _, m := range shown {
			fmt.Fprintf(&t, " %s |", benchTitle(m))
		}
		t.WriteString("\n|:---|---:|---:|:---|" + strings.Repeat("---:|", len(shown)) + "\n")
		for _, s := range g.Settings {
			m := s.Metrics[g.Figure.Unit]
			median := "–"
			if m.N > 0 {
				median = metric(g.Figure.Unit, m.Median)
			}
			fmt.Fprintf(&t, "| %s | %s | %s | %s |", markdown(s.Name), median, interval(g.Figure.Unit, m), versus(s.Versus))
			for _, other := range shown {
				text := ""
				if m, ok := s.Metrics[other.Unit]; ok {
					text = metric(other.Unit, m.Median)
				}
				fmt.Fprintf(&t, " %s |", text)
			}
			t.WriteByte('\n')
		}
		t.WriteByte('\n')
	}
	for _, warning := range b.Warnings {
		fmt.Fprintf(&t, "- %s\n", markdown(warning))
	}
	_, err := io.WriteString(w, t.String())
	return err
}

var markdownEscapes = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`)

func markdown(text string) string { return markdownEscapes.Replace(printable(text)) }

// BenchGo writes the runs in the format of Go benchmarks, a line each, for benchstat:
//
//	benchstat -col /gomaxprocs -ignore /block lab.txt
//
// GOMAXPROCS is the suffix, written also when it is 1. Where the program was left to choose it, /procs=default is part
// of the name, for otherwise its runs would be taken together with those of the same number.
func BenchGo(w io.Writer, b *report.Bench) error {
	var t strings.Builder
	e := b.Environment
	fmt.Fprintf(&t, "goos: %s\ngoarch: %s\n", e.OS, e.Arch)
	if e.CPU != "" {
		fmt.Fprintf(&t, "cpu: %s\n", printable(e.CPU))
	}
	fmt.Fprintf(&t, "pkg: unthrottle/bench\nkernel: %s\nlimit-kind: %s\nblock-seed: %d\n", printable(e.Kernel), e.LimitKind, b.Plan.Seed)
	for _, m := range b.Metrics {
		better := ""
		if m.Better != "" {
			better = " better=" + m.Better
		}
		fmt.Fprintf(&t, "Unit %s%s assume=nothing\n", m.Unit, better)
	}
	for _, r := range b.Runs {
		if r.Error != "" {
			continue
		}
		fmt.Fprintf(&t, "%s %d", goName(b.Plan.Settings[r.Setting], r), max(r.Ops, 1))
		for _, m := range b.Metrics {
			if v, ok := r.Metrics[m.Unit]; ok {
				fmt.Fprintf(&t, " %s %s", strconv.FormatFloat(v, 'g', -1, 64), m.Unit)
			}
		}
		t.WriteByte('\n')
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// goName is a benchmark's name: BenchmarkFib/limit=0.5/go=go1.26.8/block=3-2.
func goName(s lab.Setting, r lab.Run) string {
	text := s.Workload
	if !strings.HasPrefix(text, "Benchmark") {
		text = "Benchmark" + camel(text)
	}
	text += "/limit=" + s.Value(lab.ByCPUs)
	if s.Go != "" {
		text += "/go=" + s.Go
	}
	if s.Procs == 0 {
		text += "/procs=default"
	}
	procs := s.Procs
	if procs == 0 {
		procs = r.GOMAXPROCS
	}
	text += fmt.Sprintf("/block=%d", r.Block)
	if procs > 0 {
		text += "-" + strconv.Itoa(procs)
	}
	return text
}

// camel makes a name of letters and digits: GocmdList of gocmd-list.
func camel(text string) string {
	var name []rune
	upper := true
	for _, c := range text {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			upper = true
			continue
		case upper:
			c = unicode.ToUpper(c)
		}
		upper = false
		name = append(name, c)
	}
	return string(name)
}
