package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// A servedLoad makes results that look like those of a server, which stands still for the end of each period while it is
// throttled.
type servedLoad struct {
	plan      load.Plan
	behind    float64       // how much longer each waits than the one before, as a share of the time between them
	service   time.Duration // median
	throttled [2]time.Duration
	still     time.Duration // of each 100 ms in that time
	fail      func(i int64) error
	status    func(i int64) int
	until     time.Duration // where it was stopped
	change    func(*load.Result)
}

const loadPeriod = 100 * time.Millisecond

func (f servedLoad) result() *load.Result {
	random := rand.New(rand.NewPCG(5, 6))
	hist := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(2*time.Hour), 3) }
	r := &load.Result{
		Plan: f.plan, Engine: load.Lean, Began: time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC), Statuses: map[int]int64{},
		Response: hist(), Service: hist(), Lag: hist(), PacerLate: hist(), NoConnection: hist(),
		Successes: hist(), FromReady: hist(), CaughtUp: hist(),
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
	last := time.Duration(0)
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
		wait += time.Duration(f.behind * float64(due))
		last = max(last, due+wait+took)
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
		if err != nil || status >= 400 {
			r.FromReady.RecordValue(int64(f.plan.FailedAs()))
		} else {
			r.FromReady.RecordValue(int64(wait + took))
			r.Successes.RecordValue(int64(late + wait + took))
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
		r.Axis[i].FromReadyP99 = r.Axis[i].P99
	}
	for text, count := range errors {
		r.Errors = append(r.Errors, load.ErrorCount{Text: text, Count: count})
	}
	slices.SortFunc(r.Errors, func(a, b load.ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	r.Planned, r.Sending, r.Elapsed = n, length, max(length+4*time.Millisecond, last)
	if f.change != nil {
		f.change(r)
	}
	return r
}

// document is the result's document, with all that the verb adds to it.
func (f servedLoad) document(slo string, args ...string) *report.Load {
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

// loads are documents that are shown in the tests.
func loads() map[string]*report.Load {
	target := []load.Target{{URL: "http://127.0.0.1:8080/cart"}}
	open := func(rate float64, length time.Duration) load.Plan {
		return load.Plan{
			Targets: target, Rate: rate, Arrivals: load.Poisson, Seed: 7, Duration: length, WarmUp: 5 * time.Second, Conns: 1000,
			Client: load.Client{Timeout: 5 * time.Second},
		}
	}
	all := map[string]*report.Load{}

	good := servedLoad{plan: open(400, 30*time.Second), service: 2 * time.Millisecond, throttled: [2]time.Duration{11 * time.Second, 17 * time.Second}, still: 45 * time.Millisecond}
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

	closed := servedLoad{plan: load.Plan{Targets: target, Duration: 10 * time.Second, Conns: 50}, service: 5 * time.Millisecond}
	closed.change = func(r *load.Result) { r.MostConns, r.Opened = 50, 50 }
	all["closed"] = closed.document("", "--conns", "50", "--time", "10s", "http://127.0.0.1:8080/cart")

	none := servedLoad{plan: open(50, 5*time.Second), service: time.Millisecond, fail: func(int64) error { return refused }}
	none.change = func(r *load.Result) { r.Sent, r.MostConns, r.Opened, r.CPU = 0, 3, 0, 20*time.Millisecond }
	all["refused"] = none.document("p99=50ms", "--rate", "50", "--time", "5s", "http://127.0.0.1:8080/cart")

	stopped := servedLoad{plan: open(30, time.Minute), service: 30 * time.Millisecond, until: 12400 * time.Millisecond}
	all["stopped"] = stopped.document("", "--rate", "30", "--time", "1m", "http://127.0.0.1:8080/cart")

	all["find-max"] = searched()
	return all
}

// searched is the document of a search: it has no result of its windows.
func searched() *report.Load {
	d := report.Load{Summary: loadtest.Summarise(servedLoad{plan: load.Plan{Targets: []load.Target{{URL: "http://127.0.0.1:8080/cart"}}, Rate: 1}, change: func(r *load.Result) {
		r.CPU, r.MostConns, r.Opened = 0, 0, 0
	}}.result(), nil)}
	d.Header = report.Header{Version: 2, Verb: "load", MadeBy: "unthrottle v0.1.0", Time: "2026-11-02T09:30:36Z"}
	d.Command = []string{"unthrottle", "load", "--find-max", "--slo", "p99=50ms", "http://127.0.0.1:8080/cart"}
	d.SLO = &report.LoadSLO{Text: "p99=50ms,errors=1%", Held: true, Latencies: []report.LoadObjective{{Percentile: 99, Seconds: 0.05}}, Within: 0.05}
	d.RateAsked, d.Elapsed = nil, 203
	d.Search = &report.LoadSearch{Text: "sustains 840/s, fails 924/s", Also: []string{"At 840/s 5 of 5 windows held, at 924/s 4 of 5 windows failed."}, Sustains: 840, Fails: 924}
	window := func(phase string, rate, p99 float64) {
		w := report.LoadWindow{Phase: phase, Rate: rate, Held: p99 <= 0.05, Valid: true, P50: 0.0021 + rate/5e5, P99: p99}
		if !w.Held {
			w.Missed, w.Failed = "p99 ≤ 50 ms: "+quantity.Latency(p99), int64(rate/100)
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

func TestLoad(t *testing.T) {
	for name, d := range loads() {
		s := Load(d)
		golden(t, "load "+name, s)
		shown(t, s)
		selfContained(t, s)
		if name == "held" || name == "missed" || name == "find-max" || name == "refused" || name == "stopped" {
			screen(t, "load "+name, s)
		}
	}
}

// TestLoadAgrees draws random loads: no sentence of one denies another, nor the figures next to it.
func TestLoadAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	cannot := regexp.MustCompile(`It can't keep up: (\S+) of`)
	done := regexp.MustCompile(`(?m)throughput +\S+ asked, (\S+) done`)
	missed := regexp.MustCompile(`(p[\d.]+|errors) ≤ ([\d.]+ \S+): it was ([\d.]+ \S+)`)
	overloads, misses := 0, 0
	for range 300 {
		length := time.Duration(pick(1, 3, 8)) * time.Second
		f := servedLoad{
			plan: load.Plan{
				Targets: []load.Target{{URL: "http://127.0.0.1:8080/"}}, Rate: pick(0, 20, 100, 400), Arrivals: load.Poisson, Duration: length, Conns: 100,
				Client: load.Client{Timeout: time.Duration(pick(0.2, 5) * float64(time.Second))},
			},
			service: time.Duration(pick(0.2, 3, 40) * float64(time.Millisecond)), behind: pick(0, 0, 0.1, 0.6),
			throttled: [2]time.Duration{0, time.Duration(pick(0, 0.3, 1) * float64(length))}, still: time.Duration(pick(5, 75) * float64(time.Millisecond)),
			until: time.Duration(pick(0, 0, 0, 0.7) * float64(length)),
		}
		timeouts, refusals, failures := pick(0, 0, 0.01, 0.5, 1), pick(0, 0, 0.02), pick(0, 0, 0.01, 1)
		f.fail = func(int64) error {
			switch x := random.Float64(); {
			case x < timeouts:
				return load.ErrTimeout
			case x < timeouts+refusals:
				return refused
			}
			return nil
		}
		f.status = func(int64) int { return 200 + 303*int(random.Float64()+failures) }
		if random.IntN(8) == 0 {
			f.change = func(r *load.Result) {
				r.Invalid, r.OurFault = []string{"the generator was late by itself: 7.3ms at p99, where 1ms are allowed"}, true
			}
		}
		d := f.document([]string{"", "p99=50ms", "p50=3ms,p99=100ms,errors=1%", "errors=50%"}[random.IntN(4)])
		if random.IntN(2) == 0 {
			serve(d, 0, pick(0, 3, 8), pick(0.1, 1))
		}
		s := Load(d)
		text := drawn(t, s, 0)
		bad := contradictions(text)
		if m := cannot.FindStringSubmatch(text); m != nil {
			overloads++
			if row := done.FindStringSubmatch(text); row == nil || row[1] != m[1] {
				bad = append(bad, fmt.Sprintf("%q and %q", m, row))
			}
		}
		for _, m := range missed.FindAllStringSubmatch(text, -1) {
			misses++
			if m[2] == m[3] {
				bad = append(bad, m[0])
			}
		}
		if d.Failed > 0 == strings.Contains(strings.ToLower(text), "none of "+quantity.Plural(d.Requests, "request")+" failed") && d.Requests > 0 && d.Response.Count > 0 {
			bad = append(bad, fmt.Sprintf("%d of %d failed", d.Failed, d.Requests))
		}
		if len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, text)
		}
	}
	if overloads < 10 || misses < 50 {
		t.Errorf("%d overloads, %d objectives that were missed", overloads, misses)
	}
}

// TestLoadSays holds what a reader must not miss, in any form.
func TestLoadSays(t *testing.T) {
	all := loads()
	for name, want := range map[string]string{
		"held":     "SLO held: p99 ",
		"invalid":  "INVALID: the generator did not send as planned",
		"missed":   "Held: p50 ≤ 5 ms.",
		"closed":   "A closed loop slows down with the server",
		"refused":  "No request was answered",
		"stopped":  "Stopped after 12.4 s of 60 s",
		"find-max": "sustains 840/s, fails 924/s",
	} {
		for form, text := range forms(t, Load(all[name])) {
			if word, rest, ok := strings.Cut(want, ": "); ok && form == "page" { // there the word is on its own
				if !strings.Contains(text, word) {
					t.Errorf("%s: the %s does not say %q", name, form, word)
				}
				want = strings.TrimPrefix(rest, "t") // and begins a sentence
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s: the %s does not say %q", name, form, want)
			}
		}
	}
	// What the generator did wrong makes figures worse: an SLO that held did hold, one that was missed may have held.
	missed := *all["invalid"]
	missed.SLO = &report.LoadSLO{Text: "p99=10ms,errors=1%", Missed: []report.LoadMissed{{Objective: "p99=10ms", Was: "41ms"}}}
	for form, text := range forms(t, Load(&missed)) {
		if strings.Contains(text, "SLO missed") || !strings.Contains(text, "SLO not judged") {
			t.Errorf("the %s says that the SLO was missed, which may be the generator's doing", form)
		}
	}
}

// TestLoadCharts holds that charts draw what is in the document.
func TestLoadCharts(t *testing.T) {
	d := loads()["held"]
	curve := loadCurve(d)
	if got, want := len(curve.Lines[0].Points), len(d.Response.Curve); got != want {
		t.Errorf("%d points of %d", got, want)
	}
	if len(curve.Limits) != 1 || curve.Limits[0] != (sheet.Limit{X: 99, Y: 0.1, Text: "p99 ≤ 100 ms"}) {
		t.Errorf("limits: %+v", curve.Limits)
	}
	for _, p := range curve.Lines[2].Points {
		if p.X == 99 && (p.Y != d.Response.P99 || p.Text != quantity.Latency(d.Response.P99)) {
			t.Errorf("p99: %+v", p)
		}
		if p.X == 99.99 {
			t.Error("12,000 requests have a p99.99")
		}
	}
	if *curve.Chance < 99.91 || *curve.Chance > 99.92 {
		t.Errorf("12,000 requests carry p%v", *curve.Chance)
	}
	strips := loadOverTime(d)
	if names := fmt.Sprint(strips.Rows[0].Name, strips.Rows[1].Name, strips.Rows[2].Name); len(strips.Rows) != 3 || names != "ratep99throttled" {
		t.Errorf("%d strips: %s", len(strips.Rows), names)
	}
	if got := strips.Rows[2].Lanes[0].Steps[12]; got.Value != 0.6 || got.Title != "at 12 s: 6 of 10 periods throttled" {
		t.Errorf("at 12 s: %+v", got)
	}
	if tries := loadTries(loads()["find-max"]); len(tries.Lines[0].Points) != 18 || tries.Rules[0].At != 0.05 {
		t.Errorf("tries: %+v", tries)
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
	s := Load(d)
	shown(t, s)
	harmless(t, s)
	for form, text := range forms(t, s) {
		if n := strings.Count(text, `\x1b`); form != "page" && n < 5 {
			t.Errorf("%s: %d of the texts are shown:\n%s", form, n, text)
		}
		if form != "text" && strings.Contains(text, "<b>x") {
			t.Errorf("there is an element in the %s", form)
		}
	}
	if d.Warnings[0] != hostile || d.Targets[1].URL != hostile || d.SLO.Missed[0].Was != hostile || d.Search.Windows[0].Phase != hostile {
		t.Error("the document was changed")
	}
}

// TestLoadOdd shows documents that no load makes, but a file may hold.
func TestLoadOdd(t *testing.T) {
	wrong := loads()["held"]
	for i := range wrong.Axis {
		wrong.Axis[i].At, wrong.Axis[i].Length = -1e300, -1
		wrong.Axis[i].P99 = -5
		*wrong.Axis[i].Periods = -3
	}
	for i := range wrong.Response.Curve {
		wrong.Response.Curve[i].Percentile = float64(i*7) - 20
		wrong.Response.Curve[i].Seconds = math.Pow(-10, float64(i))
	}
	wrong.Response.Hist, wrong.SLO.Text, wrong.Response.P99 = "no histogram", "p99=", -1
	steps := loads()["held"]
	steps.Axis = slices.Repeat(steps.Axis, 10)
	zero := loads()["held"]
	zero.Response, zero.Service = report.Latencies{Count: 500000}, report.Latencies{Count: 500000, Curve: []report.CurvePoint{{}, {Percentile: 100}}}
	huge := loads()["held"]
	huge.Elapsed, huge.Rate, huge.Planned, huge.Response.Count, huge.Response.Max = 1e300, 1e300, 1e300, math.MaxInt64, 1e300
	one := loads()["held"]
	one.Response.Count, one.Lag.Count, one.Requests = 1, 0, 1
	search := loads()["find-max"]
	search.Search.Windows = []report.LoadWindow{{}, {Rate: -1, P99: -1}}
	for name, d := range map[string]*report.Load{
		"empty": {}, "wrong": wrong, "many steps": steps, "zero": zero, "huge": huge, "one": one, "search": search,
		"no windows": {Search: &report.LoadSearch{}}, "empty parts": {Summary: loadtest.Summary{SLO: &report.LoadSLO{}, Server: &report.LoadServer{}, Requests: 5}},
	} {
		t.Run(name, func(t *testing.T) { sane(t, Load(d)) })
	}
	if err := render.HTML(io.Discard, Load(&report.Load{Summary: loadtest.Summary{Rate: math.Inf(1)}})); err == nil {
		t.Error("a document that can't be JSON made a page all the same")
	}
}
