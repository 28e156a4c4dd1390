package render

import (
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// A fakeLoad makes results that look like those of a server, which stands still for the end of each period while it is
// throttled.
type fakeLoad struct {
	plan      load.Plan
	service   time.Duration // median
	throttled [2]time.Duration
	still     time.Duration // of each 100 ms in that time
	fail      func(i int64) error
	status    func(i int64) int
	until     time.Duration // where it was stopped
	change    func(*load.Result)
}

const loadPeriod = 100 * time.Millisecond

func (f fakeLoad) result() *load.Result {
	random := rand.New(rand.NewPCG(5, 6))
	hist := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(2*time.Hour), 3) }
	r := &load.Result{
		Plan: f.plan, Engine: load.Lean, Began: time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC), Statuses: map[int]int64{},
		Response: hist(), Service: hist(), Lag: hist(), PacerLate: hist(), NoConnection: hist(),
		MostConns: 37, Opened: 41, CPUs: 2, CPU: 1200 * time.Millisecond,
	}
	length := f.plan.Duration
	if f.until > 0 {
		length, r.Stopped = f.until, true
	}
	rate := f.plan.Rate
	if rate == 0 {
		rate = float64(f.plan.Conns) / f.service.Seconds() / 20
	}
	n := int64(rate * length.Seconds())
	errors := map[string]int64{}
	var steps [][]time.Duration
	for i := range n {
		due := time.Duration(float64(i) / rate * float64(time.Second))
		late := time.Duration(20_000 + 30_000*random.ExpFloat64())
		took := time.Duration(float64(f.service) * math.Exp(0.3*random.NormFloat64()))
		wait := time.Duration(0)
		if due >= f.throttled[0] && due < f.throttled[1] {
			if into := due % loadPeriod; into > loadPeriod-f.still {
				wait = loadPeriod - into
			}
		}
		step := int(due / time.Second)
		for len(steps) <= step {
			steps = append(steps, nil)
			r.Axis = append(r.Axis, load.Step{At: time.Duration(len(steps)-1) * time.Second, Length: time.Second})
		}
		r.Requests++
		r.Axis[step].Sent++
		noConn := time.Duration(0)
		if wait > f.still/2 {
			noConn = wait / 4
		}
		if f.plan.Rate > 0 {
			r.Lag.RecordValue(int64(late + noConn))
			r.PacerLate.RecordValue(int64(late))
			r.NoConnection.RecordValue(int64(noConn))
		}
		status, err := 200, error(nil)
		if f.status != nil {
			status = f.status(i)
		}
		if f.fail != nil {
			err = f.fail(i)
		}
		if err != nil {
			r.Failed++
			r.Axis[step].Failed++
			errors[err.Error()]++
			if err != load.ErrTimeout {
				continue
			}
			r.Timeouts++
			took = f.plan.Client.Timeout
		} else {
			r.Statuses[status]++
			r.Bytes += 1234
		}
		r.Sent++
		response := late + wait + took
		r.Response.RecordValue(int64(response))
		r.Service.RecordValue(int64(response - late - noConn))
		steps[step] = append(steps[step], response)
		switch {
		case err != nil:
		case status >= 400:
			r.Failed++
			r.Axis[step].Failed++
		case f.plan.Within == 0 || response <= f.plan.Within:
			r.Good++
		}
	}
	for i, all := range steps {
		h := hist()
		for _, d := range all {
			h.RecordValue(int64(d))
		}
		r.Axis[i].P50, r.Axis[i].P99, r.Axis[i].Max = load.Quantile(h, 50), load.Quantile(h, 99), load.Quantile(h, 100)
		r.Axis[i].ServiceP50, r.Axis[i].ServiceP99 = r.Axis[i].P50, r.Axis[i].P99
	}
	for text, count := range errors {
		r.Errors = append(r.Errors, load.ErrorCount{Text: text, Count: count})
	}
	slices.SortFunc(r.Errors, func(a, b load.ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	r.Planned, r.Sending, r.Elapsed = n, length, length+4*time.Millisecond
	if f.change != nil {
		f.change(r)
	}
	return r
}

// document is the result's document, with all that the verb adds to it.
func (f fakeLoad) document(slo string, args ...string) *report.Load {
	var objective *load.SLO
	if slo != "" {
		parsed, err := load.ParseSLO(slo)
		if err != nil {
			panic(err)
		}
		objective, f.plan.Within = &parsed, parsed.Within()
	}
	d := report.Load{Summary: loadtest.Summarise(f.result(), objective)}
	d.Header = report.Header{Version: 2, Verb: "load", MadeBy: "unthrottle v0.1.0", Time: "2026-11-02T09:30:36Z"}
	d.Command = append([]string{"unthrottle", "load"}, args...)
	return &d
}

// serve adds what is known of the server.
func serve(d *report.Load, from, to float64, share float64) {
	s := &report.LoadServer{PID: 4711, Name: "shop", LimitCPUs: ptr(1.0), PeriodSeconds: 0.1, CPUSeconds: ptr(24.6), CPUPerRequest: ptr(0.00205)}
	for i := range d.Axis {
		step := &d.Axis[i]
		step.Periods, step.Throttled, step.CPUSeconds = ptr(int64(10)), ptr(int64(0)), ptr(0.82)
		if step.At >= from && step.At < to {
			*step.Throttled = int64(10 * share * (0.6 + 0.4*float64(i%3)/2))
		}
		s.Periods += *step.Periods
		s.ThrottledPeriods += *step.Throttled
	}
	s.ThrottledShare = ptr(float64(s.ThrottledPeriods) / float64(s.Periods))
	s.ThrottledSeconds = float64(s.ThrottledPeriods) * 0.0613
	d.Server = s
}

type textError string

func (e textError) Error() string { return string(e) }

const refused = textError("dial tcp 127.0.0.1:8080: connect: connection refused")

// loads are documents that are rendered in the tests.
func loads() map[string]*report.Load {
	target := []load.Target{{URL: "http://127.0.0.1:8080/cart"}}
	open := func(rate float64, length time.Duration) load.Plan {
		return load.Plan{
			Targets: target, Rate: rate, Arrivals: load.Poisson, Seed: 7, Duration: length, WarmUp: 5 * time.Second, Conns: 1000,
			Client: load.Client{Timeout: 5 * time.Second},
		}
	}
	all := map[string]*report.Load{}

	good := fakeLoad{plan: open(400, 30*time.Second), service: 2 * time.Millisecond, throttled: [2]time.Duration{11 * time.Second, 17 * time.Second}, still: 45 * time.Millisecond}
	all["held"] = good.document("p99=100ms,errors=0.1%", "--rate", "400", "--time", "30s", "--slo", "p99=100ms,errors=0.1%", "--pid", "4711", "http://127.0.0.1:8080/cart")
	serve(all["held"], 11, 17, 1)

	invalid := good
	invalid.change = func(r *load.Result) {
		r.Invalid = []string{"the generator was late by itself: 7.3ms at p99, where 1ms are allowed", "the generator used 93 % of its 2 CPUs: what it measured may be itself"}
		r.OurFault = true
		r.CPU = 56 * time.Second
	}
	all["invalid"] = invalid.document("p99=100ms", "--rate", "400", "--time", "30s", "--slo", "p99=100ms", "http://127.0.0.1:8080/cart")

	missed := good
	missed.plan.Targets = []load.Target{{URL: "http://127.0.0.1:8080/cart", Weight: 3}, {Method: "POST", URL: "http://127.0.0.1:8080/order"}}
	missed.fail = func(i int64) error {
		switch {
		case i%97 == 0:
			return load.ErrTimeout
		case i > 9000 && i%31 == 0:
			return refused
		}
		return nil
	}
	missed.status = func(i int64) int {
		if i%50 == 0 {
			return 503
		}
		return 200
	}
	missed.change = func(r *load.Result) { r.AllConns, r.MostConns = true, 1000 }
	all["missed"] = missed.document("p50=5ms,p99=50ms,errors=1%", "--rate", "400", "--targets", "shop.txt")
	all["missed"].Warnings = []string{"the server's group is not known: it does not run on this machine"}

	closed := fakeLoad{plan: load.Plan{Targets: target, Duration: 10 * time.Second, Conns: 50}, service: 5 * time.Millisecond}
	closed.change = func(r *load.Result) { r.MostConns, r.Opened = 50, 50 }
	all["closed"] = closed.document("", "--conns", "50", "--time", "10s", "http://127.0.0.1:8080/cart")

	none := fakeLoad{plan: open(50, 5*time.Second), service: time.Millisecond, fail: func(int64) error { return refused }}
	none.change = func(r *load.Result) { r.Sent, r.MostConns, r.Opened, r.CPU = 0, 3, 0, 20*time.Millisecond }
	all["refused"] = none.document("p99=50ms", "--rate", "50", "--time", "5s", "http://127.0.0.1:8080/cart")

	stopped := fakeLoad{plan: open(30, time.Minute), service: 30 * time.Millisecond, until: 12400 * time.Millisecond}
	all["stopped"] = stopped.document("", "--rate", "30", "--time", "1m", "http://127.0.0.1:8080/cart")

	all["find-max"] = searched()
	return all
}

// searched is the document of a search: of its windows there is no result.
func searched() *report.Load {
	d := report.Load{Summary: loadtest.Summarise(fakeLoad{plan: load.Plan{Targets: []load.Target{{URL: "http://127.0.0.1:8080/cart"}}, Rate: 1}, change: func(r *load.Result) {
		r.CPU, r.MostConns, r.Opened = 0, 0, 0
	}}.result(), nil)}
	d.Header = report.Header{Version: 2, Verb: "load", MadeBy: "unthrottle v0.1.0", Time: "2026-11-02T09:30:36Z"}
	d.Command = []string{"unthrottle", "load", "--find-max", "--slo", "p99=50ms", "http://127.0.0.1:8080/cart"}
	d.SLO = &report.LoadSLO{Text: "p99=50ms,errors=1%", Held: true, Latencies: []report.LoadObjective{{Percentile: 99, Seconds: 0.05}}, Within: 0.05}
	d.RateAsked, d.Elapsed = nil, 203
	d.Search = &report.LoadSearch{Text: "sustains 840/s (5 of 5 windows), fails 924/s (4 of 5)", Sustains: 840, Fails: 924}
	window := func(phase string, rate, p99 float64) {
		w := report.LoadWindow{Phase: phase, Rate: rate, Held: p99 <= 0.05, Valid: true, P50: 0.0021 + rate/5e5, P99: p99}
		if !w.Held {
			w.Missed, w.Failed = "p99=50ms: "+time.Duration(p99*1e9).String(), int64(rate/100)
		}
		d.Search.Windows = append(d.Search.Windows, w)
	}
	window("ramp", 100, 0.0071)
	window("ramp", 200, 0.0093)
	window("ramp", 400, 0.0122)
	window("ramp", 800, 0.0341)
	window("ramp", 1600, 1.84)
	window("bisect", 1131, 0.731)
	d.Search.Windows[5].Valid, d.Search.Windows[5].Missed = false, ""
	window("bisect", 1131, 0.702)
	window("bisect", 951, 0.0963)
	for i := range 5 {
		window("confirm", 840, 0.038+float64(i)*0.0021)
		window("confirm", 924, 0.0489+float64(i)*0.0092)
	}
	return &d
}

// golden compares with a file in testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i, line := range gotLines {
		if i >= len(wantLines) || line != wantLines[i] {
			t.Fatalf("line %d is\n%.300s\nwhich is not that of %s; -update writes it anew", i+1, line, file)
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Errorf("%s: got %d lines, want %d", file, len(gotLines), len(wantLines))
	}
}

func loadTextOf(t *testing.T, d *report.Load, style Style) string {
	t.Helper()
	var b strings.Builder
	if err := LoadText(&b, d, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var odd = regexp.MustCompile(`NaN|\bInf\b|ZgotmplZ|%!`)

func TestLoadText(t *testing.T) {
	for name, d := range loads() {
		golden(t, "load-"+name, loadTextOf(t, d, Style{}))
		golden(t, "load-"+name+".60", loadTextOf(t, d, Style{Width: 60}))
		golden(t, "load-"+name+".100", loadTextOf(t, d, Style{Width: 100}))
		for _, width := range []int{60, 80, 100, 200} {
			for i, line := range strings.Split(loadTextOf(t, d, Style{Width: width}), "\n") {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s: line %d has %d columns where there are %d: %s", name, i+1, n, width, line)
				}
			}
		}
	}
	golden(t, "load-held.color", loadTextOf(t, loads()["held"], Style{Color: true, Width: 80}))
}

// TestLoadTextSays holds what a reader must not miss.
func TestLoadTextSays(t *testing.T) {
	all := loads()
	for name, want := range map[string]string{
		"held":     "SLO held: p99 ≤ 100ms",
		"invalid":  "INVALID: the generator was late by itself",
		"missed":   "SLO missed",
		"closed":   "A closed loop slows down with the server",
		"refused":  "No request was answered",
		"stopped":  "Stopped after 12.4 s of 60 s",
		"find-max": "sustains 840/s (5 of 5 windows), fails 924/s (4 of 5)",
	} {
		for form, write := range map[string]func(io.Writer, *report.Load) error{
			"text": func(w io.Writer, d *report.Load) error { return LoadText(w, d, Style{}) }, "markdown": LoadMarkdown, "page": LoadHTML,
		} {
			var b strings.Builder
			if err := write(&b, all[name]); err != nil {
				t.Fatal(err)
			}
			text := plainWords.ReplaceAllString(strings.ReplaceAll(b.String(), "\u00a0", " "), "")
			want := strings.TrimPrefix(strings.TrimPrefix(want, "INVALID: "), "SLO held: ")
			if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
				t.Errorf("%s: the %s does not say %q", name, form, want)
			}
		}
	}
	// What the generator did wrong makes figures worse: an SLO that held did hold, one that was missed may have held.
	missed := *all["invalid"]
	missed.SLO = &report.LoadSLO{Text: "p99=10ms,errors=1%", Missed: []report.LoadMissed{{Objective: "p99=10ms", Was: "41ms"}}}
	for form, text := range map[string]string{"text": loadTextOf(t, &missed, Style{}), "page": loadPageOf(t, &missed)} {
		if strings.Contains(text, "SLO missed") || !strings.Contains(text, "SLO not judged") {
			t.Errorf("the %s says that the SLO was missed, which may be the generator's doing", form)
		}
	}
}

var plainWords = regexp.MustCompile(`\*\*`)

func TestLoadData(t *testing.T) {
	for name, d := range loads() {
		var hgrm, markdown strings.Builder
		if err := LoadHGRM(&hgrm, d); err != nil {
			t.Fatal(err)
		}
		golden(t, "load-"+name+".hgrm", hgrm.String())
		if err := LoadMarkdown(&markdown, d); err != nil {
			t.Fatal(err)
		}
		golden(t, "load-"+name+".md", markdown.String())
	}
}

// TestLoadHGRM reads the format as HdrHistogram's plotter does: of lines with four fields the first and the last.
func TestLoadHGRM(t *testing.T) {
	d := loads()["held"]
	var b strings.Builder
	if err := LoadHGRM(&b, d); err != nil {
		t.Fatal(err)
	}
	points, last := 0, 0.0
	for _, line := range strings.Split(b.String(), "\n") {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(fields) != 4 {
			continue
		}
		value, err1 := strconv.ParseFloat(fields[0], 64)
		inverse, err2 := strconv.ParseFloat(fields[3], 64)
		if err1 != nil || err2 != nil {
			continue
		}
		if value < last || inverse < 1 {
			t.Errorf("after %v: %s", last, line)
		}
		points, last = points+1, value
	}
	if points != len(d.Response.Curve)-1 {
		t.Errorf("%d points of %d, the last of which has no inverse", points, len(d.Response.Curve))
	}
	for _, want := range []string{"#[Mean    =", "StdDeviation   =", "#[Max     =", "Total count    =        12000]", "#[Buckets ="} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// hostileLoad has texts from outside in every place that has any.
func hostileLoad() *report.Load {
	d := loads()["missed"]
	d.Targets = []report.LoadTarget{{Method: hostile, URL: "/" + hostile, Weight: 1}, {Method: "GET", URL: hostile, Weight: 2}}
	d.Causes = append(d.Causes, report.CauseCount{Cause: hostile, Count: 3})
	d.Command, d.MadeBy, d.Began, d.Engine, d.Arrivals = []string{hostile, "it's"}, hostile, hostile, hostile, hostile
	d.Invalid, d.Valid, d.Warnings = []string{hostile}, false, []string{hostile}
	d.SLO = &report.LoadSLO{Text: hostile, Missed: []report.LoadMissed{{Objective: hostile, Was: hostile}}}
	d.Server = &report.LoadServer{PID: 1, Name: hostile}
	d.Search = &report.LoadSearch{Text: hostile, Windows: []report.LoadWindow{{Phase: hostile, Missed: hostile, Rate: 5, Valid: true, P99: 0.1}}}
	return d
}

func TestLoadIsSafe(t *testing.T) {
	d := hostileLoad()
	var text, markdown strings.Builder
	if err := LoadText(&text, d, Style{}); err != nil {
		t.Fatal(err)
	}
	if err := LoadMarkdown(&markdown, d); err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"text": text.String(), "markdown": markdown.String()} {
		for _, line := range strings.Split(text, "\n") {
			if printable(line) != line {
				t.Errorf("%s is not safe: %q", form, line)
			}
		}
		if n := strings.Count(text, `\x1b[2J`); n < 5 {
			t.Errorf("%s: %d of the texts are shown:\n%s", form, n, text)
		}
	}
	if strings.Contains(markdown.String(), "<b>") {
		t.Error("there is an element in the markdown")
	}
	if d.Warnings[0] != hostile || d.Targets[1].URL != hostile || d.SLO.Missed[0].Was != hostile || d.Search.Windows[0].Phase != hostile {
		t.Error("the document was changed")
	}
}

func TestLoadNumbers(t *testing.T) {
	for v, want := range map[float64]string{840: "840/s", 0.5: "0.5/s", 12.34: "12.3/s", 5: "5/s", 12345.6: "12,346/s", 999.96: "1000/s", 0: "0/s", 100: "100/s"} {
		if got := perSecond(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	for v, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := thousands(v); got != want {
			t.Errorf("%d: got %s, want %s", v, got, want)
		}
	}
	if got := sloText("p99=50ms,errors=0.1%"); got != "p99 ≤ 50ms, errors ≤ 0.1 %" {
		t.Error(got)
	}
	if got := sparkline([]float64{-1, 0, 0.01, 0.5, 1}, axis{high: 1}); got != " ·▁▅█" {
		t.Errorf("got %q", got)
	}
}
