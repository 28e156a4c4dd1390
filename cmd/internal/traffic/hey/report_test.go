package hey

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

var update = flag.Bool("update", false, "write the golden files again")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

const ms = time.Millisecond

// answer is a sample that was ready at a time, that late, and took that long.
func answer(at, late, took time.Duration, status int) load.Sample {
	return load.Sample{
		Intended: at - late, Ready: at, Sent: at + took/10, Done: at + took, Status: status, Bytes: 100,
		Phases: load.Phases{Connect: took / 10, Lookup: took / 20, Write: took / 100, Wait: took / 2, Read: took / 8},
	}
}

func failure(at, took time.Duration, text string) load.Sample {
	return load.Sample{Intended: at, Ready: at, Sent: -1, Done: at + took, Err: errors.New(text)}
}

// run makes the report of a run of these samples, and the result that the engine would make of them.
func run(o Options, samples []load.Sample) *Report {
	c := NewCollector(o)
	res := &load.Result{Plan: o.Plan, Response: hdrhistogram.New(1, int64(time.Hour), 3)}
	causes := map[string]int64{}
	for i := range samples {
		s := &samples[i]
		c.Add(s)
		if s.Sent >= 0 {
			res.Sent++
			res.Sending = max(res.Sending, s.Sent)
		}
		res.Elapsed = max(res.Elapsed, s.Done)
		if s.Err == nil {
			res.Response.RecordValue(int64(s.Response()))
		} else {
			causes[s.Err.Error()]++
		}
	}
	for text, n := range causes {
		res.Errors = append(res.Errors, load.ErrorCount{Text: text, Count: n})
	}
	return c.Report(res)
}

func text(t *testing.T, r *Report, output string) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b, output); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func plan(o load.Plan) Options {
	o.Targets = []load.Target{{Method: "GET", URL: "http://localhost:8080/a%2Fb"}}
	if o.Conns == 0 {
		o.Conns = 4
	}
	return Options{Plan: o}
}

// ascending are n answers that take 1 ms, 2 ms, …
func ascending(n int) (s []load.Sample) {
	for i := range n {
		s = append(s, answer(time.Duration(i)*10*ms, 0, time.Duration(i+1)*ms, 200))
	}
	return s
}

func TestGolden(t *testing.T) {
	errs := append(ascending(100), failure(2*time.Second, ms, "timeout"))
	for i := range 3 {
		errs = append(errs, failure(time.Duration(i)*ms, ms, "dial tcp 127.0.0.1:1: connect: connection refused"))
	}
	errs[7].Status, errs[8].Status = 500, 404
	var late []load.Sample
	for i := range 200 {
		late = append(late, answer(time.Duration(i)*10*ms, time.Duration(max(0, i-150))*ms, 5*ms, 200))
	}
	empty := ascending(20)
	for i := range empty {
		empty[i].Bytes = 0
	}
	for _, c := range []struct {
		name    string
		options Options
		samples []load.Sample
	}{
		{"plain.txt", plan(load.Plan{}), ascending(100)},
		{"errors.txt", plan(load.Plan{}), errs},
		{"rate.txt", plan(load.Plan{EachRate: 25}), late},
		{"none.txt", plan(load.Plan{}), nil},
		{"none-rate.txt", plan(load.Plan{EachRate: 25}), nil},
		{"one.txt", plan(load.Plan{}), ascending(1)},
		{"few.txt", plan(load.Plan{}), ascending(4)},
		{"no-bytes.txt", plan(load.Plan{}), empty},
		{"all-failed.txt", plan(load.Plan{}), errs[100:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(c.options, c.samples)
			got := text(t, r, "")
			golden(t, c.name, got)
			p := mustParse(t, got)
			if len(p.below) != 3 {
				t.Errorf("%d lines below the report", len(p.below))
			}
			if p.answered()+p.failed() != len(c.samples) {
				t.Errorf("%d + %d of %d", p.answered(), p.failed(), len(c.samples))
			}
		})
	}
}

func TestCSV(t *testing.T) {
	o := plan(load.Plan{})
	o.Output = csv
	samples := append(ascending(3), failure(0, ms, "timeout"), answer(1234567*time.Microsecond, ms, 20*ms, 503))
	golden(t, "rows.csv", text(t, run(o, samples), csv))
	golden(t, "none.csv", text(t, run(o, nil), csv))
}

func TestCSVWithoutRows(t *testing.T) {
	if err := run(plan(load.Plan{}), ascending(2)).Write(io.Discard, csv); err == nil {
		t.Error("rows that were not kept are written")
	}
}

func TestJSONify(t *testing.T) {
	o := plan(load.Plan{})
	o.Output = "{{ jsonify . }}"
	for name, samples := range map[string][]load.Sample{"report.json": ascending(3), "none.json": nil} {
		got := text(t, run(o, samples), o.Output)
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(got), "", "  "); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		golden(t, name, b.String())
	}
}

// TestTemplate: a report written by hey's own functions is the report that is built in, down to the details.
func TestTemplate(t *testing.T) {
	o := plan(load.Plan{})
	o.Output = `{{ .NumRes }} of {{ len .Lats }}, 100 %, {{ formatNumber .Average }}, {{ formatNumberInt (index .StatusCodes 0) }}
{{ histogram .Histogram }}{{ range $code, $n := .StatusCodeDist }}{{ $code }}: {{ $n }}{{ end }}, {{ .Total.Seconds }} s`
	got := text(t, run(o, ascending(2)), o.Output)
	want := "2 of 2, 100 %, 0.0015, 200\n  0.001 [1]\t|" + strings.Repeat("■", 40) + "\n"
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "200: 2, 0.012 s\n") {
		t.Error(got)
	}
}

func TestTemplateFailsWhole(t *testing.T) {
	o := plan(load.Plan{})
	o.Output = "so far {{ index .Lats 9 }}"
	var b strings.Builder
	if err := run(o, ascending(2)).Write(&b, o.Output); err == nil || b.Len() > 0 {
		t.Errorf("%v; %q", err, b.String())
	}
}

// TestMillions: beyond a million the average is still that of all, and so are the distributions. hey divides the sum of
// all by a million.
func TestMillions(t *testing.T) {
	const n = 1_300_000
	o := plan(load.Plan{})
	c := NewCollector(o)
	random := rand.New(rand.NewPCG(1, 2))
	var sum time.Duration
	for i := range n {
		took := ms + time.Duration(random.Int64N(int64(9*ms)))
		if i > maxKept {
			took += 10 * ms
		}
		sum += took
		status := 200
		if i%10 == 0 {
			status = 500
		}
		s := answer(time.Duration(i)*time.Microsecond, 0, took, status)
		c.Add(&s)
	}
	r := c.Report(&load.Result{Elapsed: 13 * time.Second})
	if want := sum.Seconds() / n; math.Abs(r.Average-want) > 1e-12 {
		t.Errorf("average %v, want %v", r.Average, want)
	}
	if r.NumRes != n || r.StatusCodeDist[500] != n/10 || r.SizeReq != 100 || r.Rps != n/13 {
		t.Errorf("%d results, %v, %d bytes each, %v/s", r.NumRes, r.StatusCodeDist, r.SizeReq, r.Rps)
	}
	p := mustParse(t, text(t, r, ""))
	rows := 0
	for _, row := range p.histogram {
		rows += row.count
	}
	if rows != n {
		t.Errorf("the histogram has %d", rows)
	}
	// 10/13 are uniform in 1 … 10 ms, so the median is at 0.65 of these: 6.85 ms; 95 % is at (0.95·13−10)/3 of 11 … 20 ms.
	for percentage, want := range map[int]float64{50: 0.00685, 95: 0.01805} {
		if got := p.percentiles[percentage]; math.Abs(got-want) > 1e-4 {
			t.Errorf("%d %% in %v, want %v", percentage, got, want)
		}
	}
	if len(r.Lats) != maxKept || len(r.ConnLats) != 0 {
		t.Errorf("%d are kept, %d details", len(r.Lats), len(r.ConnLats))
	}
}

func TestSpread(t *testing.T) {
	var s spread
	for _, d := range []time.Duration{0, 1, 1023, 1024, 1025, 123456, ms, time.Second, time.Hour, math.MaxInt64, -1} {
		s = spread{}
		s.add(d)
		s.each(func(v float64, n int64) {
			if want := max(0, d.Seconds()); n != 1 || math.Abs(v-want) > want/512 {
				t.Errorf("%v: %v, %d times", d, v, n)
			}
		})
	}
	// Percentiles and rows are the same from a spread and one by one, to the extent that values allow.
	few, many := NewCollector(plan(load.Plan{})), NewCollector(plan(load.Plan{}))
	for _, sample := range ascending(1000) {
		few.Add(&sample)
		many.Add(&sample)
	}
	many.spread = newSpread(many.kept.took)
	a, b := few.percentiles(), many.percentiles()
	for i := range a {
		if a[i].Percentage != b[i].Percentage || math.Abs(a[i].Latency/b[i].Latency-1) > 1.0/512 {
			t.Errorf("%v, from the spread %v", a[i], b[i])
		}
	}
}

// TestPercentiles: the rule is hey's where hey has found one; it moves on by one result for each percentile.
func TestPercentiles(t *testing.T) {
	for n := 1; n < 300; n++ {
		c := NewCollector(plan(load.Plan{}))
		for _, s := range ascending(n) {
			c.Add(&s)
		}
		got := c.percentiles()
		if len(got) != len(percentages) {
			t.Fatalf("%d results: %v", n, got)
		}
		for i, p := range percentages {
			index := 0
			for index < n-1 && index*100/n < p {
				index++
			}
			if want := (time.Duration(index+1) * ms).Seconds(); got[i].Latency != want || got[i].Percentage != p {
				t.Errorf("%d results: %v, want %d %% in %v", n, got[i], p, want)
			}
		}
	}
}

func TestAllFailed(t *testing.T) {
	for _, c := range []struct {
		samples []load.Sample
		want    bool
	}{
		{nil, true},
		{ascending(1), false},
		{[]load.Sample{failure(0, ms, "timeout")}, true},
		{[]load.Sample{answer(0, 0, ms, 500), answer(0, 0, ms, 404)}, true},
		{[]load.Sample{answer(0, 0, ms, 500), answer(0, 0, ms, 302)}, false},
	} {
		if got := run(plan(load.Plan{}), c.samples).AllFailed(); got != c.want {
			t.Errorf("%v: %v", c.samples, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	o := plan(load.Plan{})
	o.Output = csv
	c := NewCollector(o)
	s := answer(0, 0, ms, 200)
	for range maxKept + 5 {
		c.Add(&s)
	}
	w := c.Report(&load.Result{Invalid: []string{"the generator was late"}}).Warnings()
	want := []string{
		"the generator was late",
		"of 1000005 results the first 1000000 are in the lists; averages and distributions are of all",
	}
	if strings.Join(w, "\n") != strings.Join(want, "\n") {
		t.Error(w)
	}
}

func TestTwoDigits(t *testing.T) {
	for x, want := range map[float64]string{
		28520.7: "28000", 840.3: "840", 99.99: "99", 100: "100", 5.37: "5.3", 1: "1.0", 0.0123: "0.012", 0.3: "0.30", 1e6: "1000000",
	} {
		if got := twoDigits(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"http://localhost:8080/":        "http://localhost:8080/",
		"http://u:secret@localhost/":    "http://u:xxxxx@localhost/",
		"http://localhost/?a=1&b=2":     "'http://localhost/?a=1&b=2'",
		"http://localhost/it's":         `'http://localhost/it'\''s'`,
		"http://localhost/%2F~a":        "'http://localhost/%2F~a'",
		"http://localhost/\u00e4":       "'http://localhost/\u00e4'",
		"http://localhost/%zz no URL !": "'http://localhost/%zz no URL !'",
	} {
		if got := quoted(redacted(url)); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// FuzzReport: the report of any samples can be written and parsed.
func FuzzReport(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0.0)
	f.Add([]byte{255, 0, 0, 0, 255, 0, 0}, 10.0)
	f.Fuzz(func(t *testing.T, data []byte, rate float64) {
		if !(rate >= 0 && rate <= 1e7) {
			t.Skip()
		}
		var samples []load.Sample
		for i := 0; i+2 < len(data); i += 3 {
			at := time.Duration(data[i]) * ms
			took := time.Duration(data[i+1]) * time.Duration(data[i+1]) * time.Microsecond
			if data[i+2] < 30 {
				samples = append(samples, failure(at, took, string(data[i:i+3])+"?"))
			} else {
				samples = append(samples, answer(at, ms, took, 100+int(data[i+2])))
			}
		}
		r := run(plan(load.Plan{EachRate: rate}), samples)
		p := mustParse(t, text(t, r, ""))
		if len(p.below) != 3 || p.answered() != len(r.Lats) {
			t.Errorf("%d lines below, %d of %d answers", len(p.below), p.answered(), len(r.Lats))
		}
	})
}

// costly are templates that would take their time, as asked. Those that call themselves and those that go through the nanoseconds of
// the total are among them.
var costly = regexp.MustCompile(`(?s)\d{3}|range.*range|define|block|range.*Total|Total.*range|[xXoObBeEpP_]\d`)

// FuzzTemplate: a template can fail, but not panic, and then nothing is written.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"{{ jsonify . }}", "{{ .Foo }}", "{{ range .Lats }}{{ formatNumber . }}{{ end }}", "{{ index .Lats 9 }}", "{{", "100 %",
		"{{ histogram .Histogram }}", "{{ .Total.Seconds }}", "{{ printf \"%d\" .NumRes }}", "{{ formatNumberInt .NumRes }}",
		"{{ .Total.Truncate 0 }}", "{{ .Write nil \"\" }}", "{{ .AllFailed }}",
	} {
		f.Add(s)
	}
	o := plan(load.Plan{})
	o.Output = "x"
	r := run(o, ascending(3))
	f.Fuzz(func(t *testing.T, text string) {
		if costly.MatchString(text) || text == "" || text == csv {
			t.Skip()
		}
		tryTemplate(text)
		var b strings.Builder
		if err := r.Write(&b, text); err != nil && b.Len() > 0 {
			t.Errorf("%v, but %q is written", err, b.String())
		}
	})
}
