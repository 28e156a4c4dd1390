package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// BenchClassic writes the old style's table: a line for each workload and GOMAXPROCS, a column for each Go version, and in
// each cell the mean, and minimum and maximum as ratios to it.
func BenchClassic(w io.Writer, b *report.Bench, style Style) error {
	b = printableBench(b)
	var t strings.Builder
	for i, limit := range values(b, lab.ByCPUs) {
		if i > 0 {
			t.WriteByte('\n')
		}
		classicTable(&t, b, limit, style)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// values lists what the plan's settings have of a factor, each once.
func values(b *report.Bench, f lab.Factor) (list []string) {
	seen := map[string]bool{}
	for _, s := range b.Plan.Settings {
		if v := s.Value(f); !seen[v] {
			seen[v] = true
			list = append(list, v)
		}
	}
	return list
}

func classicTable(t *strings.Builder, b *report.Bench, limit string, style Style) {
	title := "limit " + limit
	if limit == "none" {
		title = "no limit"
	}
	goes := values(b, lab.ByGo)
	head := append([]string{title}, goes...)
	if len(goes) == 1 && goes[0] == "" {
		head[1] = b.Environment.Go
	}
	rows := [][]string{head}
	for _, work := range values(b, lab.ByWorkload) {
		for _, procs := range values(b, lab.ByProcs) {
			row := []string{classicName(work, procs)}
			for _, g := range goes {
				row = append(row, classicCell(b, work, g, limit, procs))
			}
			rows = append(rows, row)
		}
	}
	width := make([]int, len(head))
	for _, row := range rows {
		for j, text := range row {
			width[j] = max(width[j], visible(text))
		}
	}
	for i, row := range rows {
		line := ""
		for j, text := range row {
			line += pad(text, width[j]) + "  "
		}
		line = strings.TrimRight(line, " ")
		if i == 0 {
			line = style.dim(line)
		}
		t.WriteString(line + "\n")
	}
}

// classicName is Chain for one P and Chain-2 for two, as Go benchmarks have it.
func classicName(work, procs string) string {
	name := strings.ToUpper(work[:min(1, len(work))]) + work[min(1, len(work)):]
	if procs == "1" {
		return name
	}
	return name + "-" + procs
}

func classicCell(b *report.Bench, work, g, limit, procs string) string {
	for _, group := range b.Groups {
		for _, row := range group.Settings {
			s := b.Plan.Settings[row.Setting]
			if s.Workload != work || s.Go != g || s.Value(lab.ByCPUs) != limit || s.Value(lab.ByProcs) != procs {
				continue
			}
			m, ok := row.Metrics[group.Figure.Unit]
			if !ok || m.Mean == 0 {
				return "–"
			}
			mean := strings.ReplaceAll(metric(group.Figure.Unit, m.Mean), " ", "")
			if strings.HasSuffix(group.Figure.Unit, "/s") {
				mean += "/s"
			}
			return fmt.Sprintf("%s × (%s,%s)", mean, ratio(m.Min/m.Mean), ratio(m.Max/m.Mean))
		}
	}
	return ""
}

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
