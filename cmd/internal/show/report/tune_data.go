package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// TuneCSV writes a line for each run, or for each setting under several limits.
func TuneCSV(w io.Writer, d *Tune) error {
	d = Sane(d)
	c := csv.NewWriter(w)
	if len(d.Limits) > 0 {
		return d.limitsCSV(c)
	}
	write := func(row []string) { c.Write(cells(row)) }
	head := []string{
		"load", "rate", "phase", "block", "gomaxprocs", "gogc", "seed", "start", "seconds", "valid", "slo_held", "invalid", "marks", "error",
	}
	for _, v := range d.Varied {
		head = append(head, "vary_"+v.Name)
	}
	for _, m := range d.Metrics {
		head = append(head, m.Unit)
	}
	write(head)
	for _, r := range d.Runs {
		row := []string{
			strconv.Itoa(r.Load), d.rate(r), r.Phase, strconv.Itoa(r.Block), strconv.Itoa(r.Procs), "", strconv.FormatUint(r.Seed, 10), r.Start,
			float(r.Seconds), strconv.FormatBool(r.Valid), strconv.FormatBool(r.SLOHeld), strings.Join(r.Invalid, "; "), strings.Join(r.Marks, "; "), r.Error,
		}
		if r.GOGC != 0 {
			row[5] = strconv.Itoa(r.GOGC)
		}
		for i := range d.Varied {
			text := ""
			if i < len(r.Vary) {
				text = r.Vary[i].Value
			}
			row = append(row, text)
		}
		for _, m := range d.Metrics {
			text := ""
			if v, ok := r.Metrics[m.Unit]; ok {
				text = float(v)
			}
			row = append(row, text)
		}
		write(row)
	}
	c.Flush()
	return c.Error()
}

// limitsCSV writes a line for each setting under a limit. The figures of the limit are in that of the setting which they are of.
func (d *Tune) limitsCSV(c *csv.Writer) error {
	c.Write([]string{
		"limit_cpus", "memory_limit_bytes", "gomaxprocs", "gomemlimit", "answer", "held_windows", "window_count", "killed_windows", "requests", "beyond",
		"beyond_share", "low", "high", "highest_rate", "p99", "cpu_seconds_per_request", "cpu_ratio", "cpu_ratio_low", "cpu_ratio_high", "peak_memory_bytes",
	})
	known := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	for _, l := range d.Limits {
		for _, s := range l.Settings {
			at, figures, beside := &TuneAtRate{}, TuneLimit{}, &TuneBeside{}
			if s.AtRate != nil {
				at = s.AtRate
			}
			if s.Procs == l.Procs {
				figures = l
			}
			if figures.Beside != nil {
				beside = figures.Beside
			}
			c.Write(cells([]string{
				known(l.CPUs), known(float64(l.Memory)), strconv.Itoa(s.Procs), l.Memlimit, at.Answer, strconv.Itoa(at.Held), strconv.Itoa(at.Of),
				strconv.Itoa(at.Killed), strconv.FormatInt(at.Requests, 10), strconv.FormatInt(at.Beyond, 10), float(at.Share), float(at.Low), float(at.High),
				known(s.Rate), known(figures.P99), known(figures.CPU), known(beside.Ratio), known(beside.Low), known(beside.High), known(float64(figures.Peak)),
			}))
		}
	}
	c.Flush()
	return c.Error()
}

// cells makes texts cells of CSV.
func cells(row []string) []string {
	for i := range row {
		row[i] = plain.Cell(row[i])
	}
	return row
}

func float(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// rate is that of a run's load, "" if it has none.
func (d *Tune) rate(r TuneRun) string {
	if r.Load < 0 || r.Load >= len(d.Loads) || d.Loads[r.Load].Rate <= 0 {
		return ""
	}
	return float(d.Loads[r.Load].Rate)
}

// TuneGo writes the runs that are valid in the format of Go benchmarks, a line each, for benchstat:
//
//	benchstat -col /gomaxprocs -filter /phase:confirm -ignore /block tune.txt
//
// GOMAXPROCS is the suffix, written also when it is 1.
func TuneGo(w io.Writer, d *Tune) error {
	d = Sane(d)
	var t strings.Builder
	line := func(format string, args ...any) { t.WriteString(plain.Line(fmt.Sprintf(format, args...)) + "\n") }
	e := d.Environment
	line("goos: %s", e.OS)
	line("goarch: %s", e.Arch)
	if e.CPU != "" {
		line("cpu: %s", e.CPU)
	}
	line("pkg: unthrottle/tune")
	line("kernel: %s", e.Kernel)
	line("limit-kind: %s", d.LimitKind)
	line("tune-seed: %d", d.Seed)
	for _, m := range d.Metrics {
		better := ""
		if m.Better == lab.Lower || m.Better == lab.Higher {
			better = " better=" + m.Better
		}
		line("Unit %s%s assume=nothing", goWord(m.Unit), better)
	}
	for _, r := range d.Runs {
		values := ""
		for _, m := range d.Metrics {
			if v, ok := r.Metrics[m.Unit]; ok {
				values += " " + float(v) + " " + goWord(m.Unit)
			}
		}
		if r.good() && values != "" { // a line without a value doesn't count as one
			line("%s 1%s", d.goName(r), values)
		}
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// goName is a benchmark's name: BenchmarkShop/limit=1/load=120/phase=confirm/block=3-2.
func (d *Tune) goName(r TuneRun) string {
	text := d.Subject.Name
	if !strings.HasPrefix(text, "Benchmark") || strings.ContainsFunc(text, unicode.IsSpace) {
		text = "Benchmark" + inCamelCase(text)
	}
	if text == "Benchmark" {
		text = "BenchmarkTune"
	}
	if d.LimitCPUs > 0 {
		text += "/limit=" + float(d.LimitCPUs)
	}
	if rate := d.rate(r); rate != "" {
		text += "/load=" + rate
	} else {
		text += "/load=none"
	}
	if r.GOGC != 0 {
		text += "/gogc=" + strconv.Itoa(r.GOGC)
	}
	for _, pair := range r.Vary {
		text += "/" + goWord(strings.ReplaceAll(pair.Name+"="+pair.Value, "/", "_"))
	}
	return fmt.Sprintf("%s/phase=%s/block=%d-%d", text, goWord(r.Phase), r.Block, max(r.Procs, 1))
}

// goWord is a word without spaces.
func goWord(text string) string {
	word := strings.Join(strings.FieldsFunc(text, unicode.IsSpace), "-")
	if word == "" {
		return "none"
	}
	return word
}

// inCamelCase is the letters and digits of a text.
func inCamelCase(text string) string {
	var name strings.Builder
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		name.WriteString(capital(word))
	}
	return name.String()
}
