package hey

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A parsed report is what a script that reads hey's output sees. The parser takes hey's output of all versions, and ours.
type parsed struct {
	summary     map[string]float64 // by name: Total, Slowest, …
	histogram   []parsedRow
	percentiles map[int]float64
	rows        int // of percentiles, those of 0 % included
	details     map[string][3]float64
	statuses    map[int]int
	errors      map[string]int
	below       []string
}

type parsedRow struct {
	mark  float64
	count int
	bar   int
}

func (p *parsed) answered() (n int) {
	for _, count := range p.statuses {
		n += count
	}
	return n
}

func (p *parsed) failed() (n int) {
	for _, count := range p.errors {
		n += count
	}
	return n
}

const number = `( ?NaN|\d+\.\d{4})`

var (
	summaryLine    = regexp.MustCompile(`^  (Total|Slowest|Fastest|Average):\t` + number + ` secs$`)
	rateLine       = regexp.MustCompile(`^  (Requests/sec):\t` + number + `$`)
	dataLine       = regexp.MustCompile(`^  (Total data|Size/request):\t(\d+) bytes$`)
	histogramLine  = regexp.MustCompile(`^  (\d+\.\d{3}) \[(\d+)\]\t\|(■*)$`)
	percentileLine = regexp.MustCompile(`^  (\d+)%%? in ` + number + ` secs$`)
	detailLine     = regexp.MustCompile(`^  (DNS\+dialup|DNS-lookup|req write|resp wait|resp read):\t` + number + ` secs, ` + number + ` secs, ` + number + ` secs$`)
	statusLine     = regexp.MustCompile(`^  \[(\d+)\]\t(\d+) responses$`)
	errorLine      = regexp.MustCompile(`^  \[(\d+)\]\t(.+)$`)
)

// sections are in hey's order.
var sections = []string{
	"Summary:", "Response time histogram:", "Latency distribution:", "Details (average, fastest, slowest):",
	"Status code distribution:", "Error distribution:",
}

func parseReport(text string) (*parsed, error) {
	p := &parsed{
		summary: map[string]float64{}, percentiles: map[int]float64{}, details: map[string][3]float64{},
		statuses: map[int]int{}, errors: map[string]int{},
	}
	if !strings.HasPrefix(text, "\nSummary:\n") {
		return nil, fmt.Errorf("it does not begin as hey does: %.20q", text)
	}
	section := -1
	for i, line := range strings.Split(text, "\n") {
		if at := indexOf(sections, line); at >= 0 {
			if at <= section {
				return nil, fmt.Errorf("line %d: %q comes too late", i+1, line)
			}
			section = at
			continue
		}
		switch {
		case strings.TrimSpace(line) == "":
		case len(p.below) > 0 || section >= 4 && line[0] != ' ':
			p.below = append(p.below, line)
		case !p.line(section, line):
			return nil, fmt.Errorf("line %d: what is %q?", i+1, line)
		}
	}
	if section < 4 {
		return nil, fmt.Errorf("it ends in section %d", section)
	}
	return p, nil
}

func indexOf(list []string, s string) int {
	for i, l := range list {
		if l == s {
			return i
		}
	}
	return -1
}

func (p *parsed) line(section int, line string) bool {
	find := func(re *regexp.Regexp) []string { return re.FindStringSubmatch(line) }
	switch section {
	case 0:
		for _, re := range []*regexp.Regexp{summaryLine, rateLine, dataLine} {
			if m := find(re); m != nil {
				p.summary[m[1]] = float(m[2])
				return true
			}
		}
	case 1:
		if m := find(histogramLine); m != nil {
			p.histogram = append(p.histogram, parsedRow{float(m[1]), int(float(m[2])), strings.Count(m[3], "■")})
			return true
		}
	case 2:
		if m := find(percentileLine); m != nil {
			p.percentiles[int(float(m[1]))] = float(m[2])
			p.rows++
			return true
		}
	case 3:
		if m := find(detailLine); m != nil {
			p.details[m[1]] = [3]float64{float(m[2]), float(m[3]), float(m[4])}
			return true
		}
	case 4:
		if m := find(statusLine); m != nil {
			p.statuses[int(float(m[1]))] = int(float(m[2]))
			return true
		}
	case 5:
		if m := find(errorLine); m != nil {
			p.errors[m[2]] = int(float(m[1]))
			return true
		}
	}
	return false
}

func float(s string) float64 {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil {
		panic(err) // the regular expression has let it through
	}
	return x
}

// shape is what must be the same for hey and us: everything but the figures.
func (p *parsed) shape() string {
	var names []string
	for _, n := range []string{"Total", "Slowest", "Fastest", "Average", "Requests/sec", "Total data", "Size/request"} {
		if _, ok := p.summary[n]; ok {
			names = append(names, n)
		}
	}
	longest := 0
	for _, r := range p.histogram {
		longest = max(longest, r.bar)
	}
	return fmt.Sprintf("%v; %d rows, longest %d; %d percentiles; %d details; %d statuses; errors: %v",
		names, len(p.histogram), longest, p.rows, len(p.details), len(p.statuses), len(p.errors) > 0)
}

func mustParse(t *testing.T, text string) *parsed {
	t.Helper()
	p, err := parseReport(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}
