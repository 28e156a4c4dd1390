package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	for _, test := range []struct {
		arrivals Arrivals
		rate     float64
		duration time.Duration
		requests int64
		want     int64
	}{
		{Poisson, 500, 30 * time.Second, 0, 15000},
		{Constant, 500, 30 * time.Second, 0, 15000},
		{Poisson, 500, 30 * time.Second, 100, 100},
		{Poisson, 0.5, 3 * time.Second, 0, 2},
		{Constant, 3, 0, 7, 7},
		{Poisson, 1e6, time.Second, 0, 1000000},
	} {
		n := planned(test.rate, test.duration, test.requests)
		if n != test.want {
			t.Errorf("%+v: %d planned", test, n)
		}
		s := newSchedule(shape{arrivals: test.arrivals, rate: test.rate}, n, 1)
		end := time.Duration(float64(n) / test.rate * float64(time.Second))
		got, last := int64(0), time.Duration(0)
		for at, ok := s.next(); ok; at, ok = s.next() {
			if at < last || at > end {
				t.Fatalf("%+v: due at %v after %v, end %v", test, at, last, end)
			}
			got, last = got+1, at
		}
		if got != n {
			t.Errorf("%+v: %d due, want %d", test, got, n)
		}
	}
	if planned(10, 0, 0) != -1 {
		t.Error("a load without end has one")
	}
	endless := newSchedule(shape{arrivals: Poisson, rate: 1000}, -1, 1)
	for range 100000 {
		if _, ok := endless.next(); !ok {
			t.Fatal("a load without end has ended")
		}
	}
	if s := endless.at; math.Abs(s-100) > 3 { // 100,000 gaps of 1 ms: standard deviation 0.32 s
		t.Errorf("100,000 requests at 1000/s take %v s", s)
	}
}

// The gaps are exponential: their mean is 1/rate, their standard deviation as well, and a fraction 1-1/e is shorter than
// the mean. The same seed gives the same times.
func TestPoisson(t *testing.T) {
	const n, rate = 100000, 1000.0
	s, same, other := newSchedule(shape{arrivals: Poisson, rate: rate}, n, 7), newSchedule(shape{arrivals: Poisson, rate: rate}, n, 7), newSchedule(shape{arrivals: Poisson, rate: rate}, n, 8)
	var sum, squares float64
	short, equal, last := 0, 0, time.Duration(0)
	for range n {
		at, _ := s.next()
		again, _ := same.next()
		if at != again {
			t.Fatal("the same seed gives other times")
		}
		if b, _ := other.next(); b == at {
			equal++
		}
		gap := (at - last).Seconds() * rate
		last = at
		sum += gap
		squares += gap * gap
		if gap < 1 {
			short++
		}
	}
	mean := sum / n
	sd := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean-1) > 0.001 || math.Abs(sd-1) > 0.02 || math.Abs(float64(short)/n-(1-1/math.E)) > 0.01 || equal > 10 {
		t.Errorf("mean %v, deviation %v, shorter than the mean %v, equal with another seed %d", mean, sd, float64(short)/n, equal)
	}
}

// TestBurst: as many requests as without bursts, a burst's worth at once, and the bursts as far apart as requests would be at their rate.
func TestBurst(t *testing.T) {
	for _, arrivals := range []Arrivals{Poisson, Constant} {
		p := Plan{Rate: 100, Arrivals: arrivals, Burst: 20, Duration: 100 * time.Second, Requests: 9990, Seed: 3}
		at := map[time.Duration]int{}
		var order []time.Duration
		s := p.main()
		for due, ok := s.next(); ok; due, ok = s.next() {
			if at[due]++; at[due] == 1 {
				order = append(order, due)
			}
		}
		if len(order) != 500 || !slices.IsSorted(order) || order[len(order)-1] >= 100*time.Second {
			t.Errorf("%s: %d bursts until %v", arrivals, len(order), order[len(order)-1])
		}
		for i, due := range order {
			want := 20
			if i == 499 {
				want = 10
			}
			if at[due] != want {
				t.Errorf("%s: burst %d has %d requests", arrivals, i, at[due])
			}
		}
		if arrivals == Constant && (order[1] != 200*time.Millisecond || order[499] != 99800*time.Millisecond) {
			t.Errorf("bursts at %v and %v", order[1], order[499])
		}
	}
}

// TestRush: a warm-up's first requests come at once, the others as they would without them; what is measured is left alone.
func TestRush(t *testing.T) {
	times := func(s *schedule) (all []time.Duration) {
		for due, ok := s.next(); ok; due, ok = s.next() {
			all = append(all, due)
		}
		return all
	}
	for _, arrivals := range []Arrivals{Poisson, Constant} {
		calm := Plan{Rate: 100, Arrivals: arrivals, WarmUp: time.Second, Duration: time.Second, Seed: 3}
		for _, rush := range []int64{1, 25, 100, 500} {
			p := calm
			p.Rush = rush
			want := times(calm.warmUp())
			clear(want[:min(rush, 100)])
			if got := times(p.warmUp()); !slices.Equal(got, want) {
				t.Errorf("%s, %d at once: %v, want %v", arrivals, rush, got, want)
			}
			if got, want := times(p.main()), times(calm.main()); !slices.Equal(got, want) {
				t.Errorf("%s, %d at once: the window's %v, want %v", arrivals, rush, got, want)
			}
		}
	}
}

// TestChanging: the rate goes evenly from one number to another, either way.
func TestChanging(t *testing.T) {
	for _, from := range []float64{100, 1900} {
		for _, arrivals := range []Arrivals{Poisson, Constant} {
			p := Plan{Rate: 1000, From: from, Arrivals: arrivals, Duration: 20 * time.Second, Seed: 5}
			if h := p.Highest(); h != 1900 {
				t.Errorf("highest %v", h)
			}
			var each [20]int
			s, all, last := p.main(), 0, time.Duration(0)
			for due, ok := s.next(); ok; due, ok = s.next() {
				if due < last || due > p.Duration {
					t.Fatalf("%v after %v", due, last)
				}
				last = due
				each[min(19, int(due/time.Second))]++
				all++
			}
			if all != 20000 {
				t.Errorf("%d requests", all)
			}
			for i, n := range each {
				want := from + (1900+100-2*from)*(float64(i)+0.5)/20
				if math.Abs(float64(n)-want) > 5*math.Sqrt(want) {
					t.Errorf("%s, from %v: %d in second %d, want about %.0f", arrivals, from, n, i, want)
				}
			}
			p.WarmUp = time.Second
			warm, n := p.warmUp(), 0
			for _, ok := warm.next(); ok; _, ok = warm.next() {
				n++
			}
			if float64(n) != from {
				t.Errorf("the warm-up sends %d, want %v", n, from)
			}
		}
	}
}

func TestRecorded(t *testing.T) {
	times := []time.Duration{0, time.Second, time.Second, 3 * time.Second}
	for _, c := range []struct {
		duration time.Duration
		requests int64
		want     int
	}{{0, 0, 4}, {2 * time.Second, 0, 3}, {0, 2, 2}, {time.Hour, 0, 4}} {
		p := Plan{Rate: 1, Arrivals: Recorded, Times: times, Duration: c.duration, Requests: c.requests}
		s := p.main()
		for i := range c.want {
			if due, ok := s.next(); !ok || due != times[i] {
				t.Errorf("%+v: request %d at %v, %v", c, i, due, ok)
			}
		}
		if due, ok := s.next(); ok {
			t.Errorf("%+v: one more at %v", c, due)
		}
	}
}

// TestRecord: the rate is that of what is sent, in the time that it takes.
func TestRecord(t *testing.T) {
	times := []time.Duration{0, time.Second, time.Second, 3 * time.Second}
	for _, c := range []struct {
		duration time.Duration
		requests int64
		want     time.Duration
		rate     float64
	}{{0, 0, 4 * time.Second, 1}, {2 * time.Second, 0, 2 * time.Second, 1.5}, {0, 2, 0, 1}, {8 * time.Second, 0, 8 * time.Second, 0.5}, {8 * time.Second, 1, 8 * time.Second, 1}} {
		p := Plan{Duration: c.duration, Requests: c.requests}
		if p.Record(times); p.Duration != c.want || p.Rate != c.rate {
			t.Errorf("%+v: %v at %v a second", c, p.Duration, p.Rate)
		}
		if err := check(&p); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCheckShape(t *testing.T) {
	for _, p := range []Plan{
		{Burst: 20, Duration: time.Second},
		{Rate: 10, Burst: -1, Duration: time.Second},
		{Rate: 10, Burst: 1e6, Duration: time.Second},
		{WarmUp: time.Second, Rush: 5, Duration: time.Second},
		{Rate: 10, Rush: 5, Duration: time.Second},
		{Rate: 10, WarmUp: time.Second, Rush: 1e6, Duration: time.Second},
		{Rate: 10, From: 20, Duration: time.Second},
		{Rate: 10, From: math.NaN(), Duration: time.Second},
		{Rate: 10, From: 5},
		{Rate: 10, Arrivals: Recorded},
		{Rate: 10, Arrivals: Recorded, Times: []time.Duration{2, 1}},
		{Rate: 10, Arrivals: Recorded, Times: []time.Duration{1, 2}, Burst: 2},
		{Arrivals: Recorded, Times: []time.Duration{1, 2}},
	} {
		if err := check(&p); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	for _, p := range []Plan{
		{Rate: 10, Burst: 20, Duration: time.Second},
		{Rate: 10, WarmUp: time.Second, Rush: 5, Duration: time.Second},
		{Rate: 10, From: 19, Duration: time.Second},
		{Rate: 10, Arrivals: Recorded, Times: []time.Duration{0, 0, 5}},
	} {
		if err := check(&p); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestChoice(t *testing.T) {
	c := newChoice([]Target{{Weight: 1}, {Weight: 3}, {}}, 1)
	var n [3]int
	for range 50000 {
		n[c.next()]++
	}
	for i, want := range []int{10000, 30000, 10000} {
		if math.Abs(float64(n[i]-want)) > 500 {
			t.Errorf("%v, want weights 1, 3, 1", n)
		}
	}
}

func TestAxis(t *testing.T) {
	a := newAxis(0, time.Minute)
	for i := range 1000 {
		at := time.Duration(i) * time.Second
		s := Sample{Intended: at, Done: at + time.Duration(i+1)*time.Millisecond, Status: 200}
		a.add(&s, s.Response(), true)
	}
	steps := a.all()
	if a.step != 4*time.Second || len(steps) != 250 {
		t.Fatalf("%d steps of %v", len(steps), a.step)
	}
	for i, s := range steps {
		longest := time.Duration(4*i+4) * time.Millisecond
		if s.Sent != 4 || s.At != time.Duration(4*i)*time.Second || s.Max < longest || s.Max > longest*102/100 {
			t.Fatalf("step %d: %+v, want a maximum of %v", i, s, longest)
		}
	}
}

// Percentiles of a million values are within the histogram's promise of three digits of those of a sorted list, and
// counts are exact.
func TestMillion(t *testing.T) {
	const n = 1_000_000
	r := newRecorder(&Plan{Rate: 1, Within: 10 * time.Millisecond})
	random := rand.New(rand.NewPCG(1, 1))
	var all []time.Duration
	var good, failed int64
	for i := range n {
		d := time.Duration(math.Exp(random.NormFloat64()*2+14)) + 50*time.Microsecond // around 1.2 ms, to some minutes
		s := Sample{Intended: time.Duration(i) * time.Microsecond, Status: 200}
		s.Ready, s.Sent, s.Done = s.Intended+time.Microsecond, s.Intended+3*time.Microsecond, s.Intended+d
		if i%100 == 0 {
			s.Status = 503
			failed++
		} else if d <= 10*time.Millisecond {
			good++
		}
		all = append(all, d)
		r.add(&s)
	}
	slices.Sort(all)
	res := r.result()
	if res.Requests != n || res.Sent != n || res.Good != good || res.Failed != failed || res.Statuses[200] != n-failed || res.Statuses[503] != failed ||
		res.Response.TotalCount() != n || res.Service.TotalCount() != n || res.PacerLate.TotalCount() != n {
		t.Errorf("%+v", res)
	}
	for _, percentile := range []float64{1, 10, 50, 75, 90, 95, 99, 99.9, 99.99, 100} {
		want := all[min(n-1, int(math.Ceil(percentile/100*n))-1)]
		got := Quantile(res.Response, percentile)
		if math.Abs(float64(got-want)) > float64(want)/1000+1 {
			t.Errorf("p%v is %v, in the sorted list %v", percentile, got, want)
		}
	}
	if got := Quantile(res.NoConnection, 50); got != 2*time.Microsecond {
		t.Errorf("waited %v for a connection, want 2µs", got)
	}
	if got := Quantile(res.PacerLate, 99); got != time.Microsecond {
		t.Errorf("pacer late by %v, want 1µs", got)
	}
}

func TestJudge(t *testing.T) {
	result := func(change func(*Result)) *Result {
		r := newRecorder(&Plan{Rate: 100})
		for range 1000 {
			r.add(&Sample{Status: 200, Ready: 50 * time.Microsecond, Sent: 60 * time.Microsecond, Done: 5 * time.Millisecond})
		}
		res := r.result()
		res.Plan, res.Planned, res.CPUs, res.CPU, res.Sending = Plan{Rate: 100}, 1000, 2, time.Second, 10*time.Second
		change(res)
		return res
	}
	late := func(n int, by time.Duration) func(*Result) {
		return func(r *Result) {
			for range n {
				put(r.PacerLate, by)
				put(r.CaughtUp, by)
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*Result)
		want   string
	}{
		{"fine", func(*Result) {}, ""},
		{"in bursts", late(110, 7*time.Millisecond), "11 % of the requests were sent in bursts, to catch up: the generator had stood still for longer than an answer takes (4.95ms)"},
		{"in bursts now and then", late(90, time.Second), ""},
		{"in bursts that the server does not see", late(1000, 4*time.Millisecond), ""},
		{"late one by one", func(r *Result) {
			for range 1000 {
				put(r.PacerLate, time.Second)
			}
		}, ""},
		{"waits for a CPU", func(r *Result) { r.Waited = 3 * time.Second }, "waited for a CPU for 3ms with each request, and half of the answers took 4.95ms"},
		{"waits a little", func(r *Result) { r.Waited = 2 * time.Second }, ""},
		{"busy", func(r *Result) { r.CPU = 17 * time.Second }, "used 85 % of its 2 CPUs"},
		{"not sent", func(r *Result) { r.Unsent = 10 }, "99.0 % of the plan"},
		{"nearly sent", func(r *Result) { r.Unsent = 4 }, ""},
		{"no descriptors", func(r *Result) { r.Exhausted = 3 }, "3 requests failed for want of descriptors"},
		{"closed loop", func(r *Result) { r.Plan.Rate, r.Unsent = 0, 10 }, ""},
	} {
		invalid, ourFault := judge(result(test.change))
		got := strings.Join(invalid, "; ")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if want := test.want != "" && !strings.Contains(test.want, "of the plan"); ourFault != want {
			t.Errorf("%s: the generator's fault: %v", test.name, ourFault)
		}
	}
}

func TestParseSLO(t *testing.T) {
	for _, test := range []struct{ text, want, err string }{
		{"p99=50ms", "p99=50ms,errors=1%", ""},
		{"p99=50ms,errors=0.1%", "p99=50ms,errors=0.1%", ""},
		{"p999=1s, p50=5ms", "p99.9=1s,p50=5ms,errors=0.1%", ""},
		{"p99.9=1s", "p99.9=1s,errors=0.1%", ""},
		{"max=1s", "max=1s,errors=0%", ""},
		{"errors=0.01", "errors=1%", ""},
		{"p99", "", "not an objective"},
		{"p99 < 50ms", "", `"p99 < 50ms": write it as p99=50ms`},
		{"p99=50", "", "not a time"},
		{"p99=-5ms", "", "not a time"},
		{"p0=1s", "", "not a percentile"},
		{"q99=1s", "", "not a percentile"},
		{"errors=200%", "", "not a share"},
		{"errors=NaN", "", "not a share"},
	} {
		slo, err := ParseSLO(test.text)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q: %v, want %q", test.text, err, test.err)
			}
		} else if err != nil || slo.String() != test.want {
			t.Errorf("%q: %v, %v, want %q", test.text, slo, err, test.want)
		}
	}
}

func TestSLO(t *testing.T) {
	refused := errors.New("refused")
	result := func(fast, slow, refusedCount, status500 int) *Result {
		r := newRecorder(&Plan{Rate: 1})
		add := func(n int, s Sample) {
			for range n {
				r.add(&s)
			}
		}
		add(fast, Sample{Status: 200, Done: 10 * time.Millisecond})
		add(slow, Sample{Status: 200, Done: 100 * time.Millisecond})
		add(refusedCount, Sample{Err: refused, Sent: -1, Done: time.Millisecond})
		add(status500, Sample{Status: 500, Done: time.Millisecond})
		return r.result()
	}
	for _, test := range []struct {
		slo    string
		r      *Result
		missed int
	}{
		{"p99=50ms", result(995, 5, 0, 0), 0},
		{"p99=50ms", result(985, 15, 0, 0), 1},
		{"p99=50ms", result(985, 0, 15, 0), 2}, // those that were refused are slower than any limit
		{"p99=50ms", result(985, 0, 0, 15), 2}, // and so are those that were answered with an error, in a millisecond
		{"p99=50ms,errors=2%", result(985, 0, 0, 15), 1},
		{"p98=50ms,errors=2%", result(985, 0, 0, 15), 0},
		{"p50=50ms,errors=0.1%", result(990, 0, 10, 0), 1},
		{"errors=0.1%", result(9995, 0, 5, 0), 0},
		{"p99=50ms", result(0, 0, 10, 0), 2},
		{"p99=50ms", result(0, 0, 0, 0), 1},
	} {
		slo, err := ParseSLO(test.slo)
		if err != nil {
			t.Fatal(err)
		}
		if missed := slo.Judge(test.r); len(missed) != test.missed {
			t.Errorf("%s: missed %v, want %d", test.slo, missed, test.missed)
		}
	}
}

// TestShed: a server that sheds the slow requests by a quick 503 is no faster for that, neither to the SLO nor in what settings are
// compared by.
func TestShed(t *testing.T) {
	const timeout = 10 * time.Second
	result := func(shed int) *Result {
		p := Plan{Rate: 1000, Client: Client{Timeout: timeout}}
		r := newRecorder(&p)
		for i := range 10_000 {
			due := time.Duration(i) * time.Millisecond
			s := Sample{Intended: due, Ready: due + time.Millisecond, Sent: due + time.Millisecond, Done: due + 3*time.Millisecond, Status: 200}
			if i%66 == 65 && i < 66*150 { // 150 in all, 15 or 16 a second
				if s.Done = due + 101*time.Millisecond; shed > 0 {
					shed--
					s.Status, s.Done = 503, due+2*time.Millisecond
				}
			}
			r.add(&s)
		}
		res := r.result()
		res.Plan = p
		return res
	}
	slo, err := ParseSLO("p99=50ms,errors=5%")
	if err != nil {
		t.Fatal(err)
	}
	near := func(got, want time.Duration) bool { return math.Abs(float64(got-want)) < float64(want)/50 }
	for shed, tail := range map[int]time.Duration{0: 100 * time.Millisecond, 95: 0} {
		r := result(shed)
		if p99, ok := r.ResponseOrFailed(99); !ok || !near(p99, 101*time.Millisecond) {
			t.Errorf("%d shed: p99 %v, %v", shed, p99, ok)
		}
		if p99 := Quantile(r.FromReady, 99); !near(p99, 100*time.Millisecond) {
			t.Errorf("%d shed: p99 from ready %v", shed, p99)
		}
		if missed := slo.Judge(r); len(missed) != 1 || missed[0].Objective != "p99=50ms" {
			t.Errorf("%d shed: missed %v", shed, missed)
		}
		if got := r.FromReadyTail(); tail > 0 && !near(got, tail) || got < 100*time.Millisecond*49/50 {
			t.Errorf("%d shed: the tail is %v, want %v or more", shed, got, tail)
		}
	}
	if r := result(150); Quantile(r.FromReady, 99) < timeout || Quantile(r.Response, 99) > 5*time.Millisecond {
		t.Errorf("all of the slow shed: p99 from ready %v, of the responses %v", Quantile(r.FromReady, 99), Quantile(r.Response, 99))
	}
}

func TestParseTargets(t *testing.T) {
	read := func(name string) ([]byte, error) {
		if name != "body.json" {
			return nil, errors.New("no such file")
		}
		return []byte("{}"), nil
	}
	text := "# two requests\nGET http://a/1\nGET http://a/2\nX-A: b: c\n\nPOST http://a/3\nContent-Type: x/y\n@body.json\n"
	got, err := ParseTargets([]byte(text), read)
	if err != nil || len(got) != 3 || got[1].Header[0] != [2]string{"X-A", "b: c"} || got[2].Method != "POST" || string(got[2].Body) != "{}" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = ParseTargets([]byte(`{"method":"POST","url":"http://a/","body":"aGk=","header":{"X":["1","2"]},"weight":2}`+"\n\n"+`{"url":"http://b/"}`), read)
	if err != nil || len(got) != 2 || string(got[0].Body) != "hi" || len(got[0].Header) != 2 || got[0].Weight != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "#\n", "GET", "{}", `{"url":1}`, `{"url":"http://a/","wieght":1}`, "GET http://a/\nno field\n", "GET http://a/\n@missing\n"} {
		if got, err := ParseTargets([]byte(bad), read); err == nil {
			t.Errorf("%q is taken as %+v", bad, got)
		}
	}
}

func FuzzParseTargets(f *testing.F) {
	f.Add("GET http://a/1\nA: b\n\nPOST http://b/\n@f")
	f.Add(`{"url":"http://a/","body":"aGk="}`)
	f.Fuzz(func(t *testing.T, text string) {
		targets, err := ParseTargets([]byte(text), func(string) ([]byte, error) { return nil, nil })
		if err == nil && len(targets) == 0 {
			t.Error("no targets and no error")
		}
		for i := range targets {
			newRequest(&targets[i], Client{})
		}
	})
}

func FuzzParseSLO(f *testing.F) {
	f.Add("p99=50ms,errors=0.1%")
	f.Fuzz(func(t *testing.T, text string) {
		slo, err := ParseSLO(text)
		if err != nil {
			return
		}
		again, err := ParseSLO(slo.String())
		if err != nil || again.String() != slo.String() {
			t.Errorf("%q is read as %q, and that as %q (%v)", text, slo, again, err)
		}
	})
}

// FuzzAnswer reads answers in pieces, and compares what comes of them with net/http.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close, x\r\nContent-Length: 1\r\n\r\na",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(text), uint8(3), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece uint8, head bool) {
		a := answer{}
		a.reset(head)
		rest := text
		var err error
		for len(rest) > 0 && err == nil && a.state != done {
			p := rest[:min(len(rest), int(piece)+1)]
			var n int
			n, err = a.feed(p)
			if n > len(p) || n < len(p) && err == nil && a.state != done {
				t.Fatalf("%d bytes of %d taken", n, len(p))
			}
			rest = rest[n:]
		}
		ok := err == nil && (a.state == done || a.eof())
		if !ok {
			return
		}
		method := "GET"
		if head {
			method = "HEAD"
		}
		b := bufio.NewReader(bytes.NewReader(text))
		var res *http.Response
		for {
			if res, err = http.ReadResponse(b, &http.Request{Method: method}); err != nil {
				return // net/http is stricter: about the characters of names and values, for one
			}
			if res.StatusCode >= 200 {
				break
			}
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil {
			return
		}
		if res.StatusCode != a.status || n != a.body {
			t.Errorf("%q: status %d and %d bytes, net/http has %d and %d", text, a.status, a.body, res.StatusCode, n)
		}
	})
}

// What net/http's server sends is understood, in pieces of any size.
func TestAnswerPieces(t *testing.T) {
	const text = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"5\r\nhello\r\n10;a=\"b\"\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n"
	for size := 1; size <= len(text); size++ {
		a := answer{}
		a.reset(false)
		for rest := []byte(text); len(rest) > 0; {
			n, err := a.feed(rest[:min(size, len(rest))])
			if err != nil {
				t.Fatalf("in pieces of %d: %v", size, err)
			}
			rest = rest[n:]
		}
		if a.state != done || a.status != 200 || a.body != 21 || a.close {
			t.Fatalf("in pieces of %d: %+v", size, a)
		}
	}
}

func TestRequest(t *testing.T) {
	r, err := newRequest(&Target{URL: "http://h:1/p?q=1#f", Method: "POST", Body: []byte("hi"), Header: [][2]string{{"user-agent", "x"}, {"Host", "other"}, {"A", "1"}, {"A", "2"}}}, Client{})
	if err != nil {
		t.Fatal(err)
	}
	want := "POST /p?q=1 HTTP/1.1\r\nHost: other\r\nUser-Agent: x\r\nContent-Length: 2\r\nA: 1\r\nA: 2\r\nAccept-Encoding: gzip\r\n\r\nhi"
	if string(r.raw) != want || r.address != "h:1" || r.again {
		t.Errorf("%q\n%q\n%+v", r.raw, want, r)
	}
	for _, bad := range []Target{{URL: "localhost:8080"}, {URL: "ftp://x/"}, {URL: "http://"}, {URL: "http://a b/"}, {URL: "http://a/", Method: "G T"}, {URL: "http://a/", Weight: -1}} {
		if _, err := newRequest(&bad, Client{}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// A watcher is a witness that sees the machine stand still in the second half of each second, and learns of it late.
type watcher struct{ began, until time.Time }

func (w *watcher) Ran(at time.Time) (ran, known bool) {
	return at.Sub(w.began)%time.Second < time.Second/2, !at.After(w.until)
}

func (w *watcher) Await(at time.Time, _ time.Duration) { w.until = at }

// TestWitness: what counts as calm depends on when requests were due, however long they took and whenever that became known.
func TestWitness(t *testing.T) {
	began := time.Now()
	for _, late := range []time.Duration{0, 300 * time.Millisecond, time.Hour} {
		w := &watcher{began: began, until: began.Add(-time.Second)}
		r := newRecorder(&Plan{Rate: 1000, Witnesses: []Witness{w}})
		r.began = began
		for i := range 4000 {
			due := time.Duration(i) * time.Millisecond
			s := Sample{Intended: due, Ready: due, Sent: due, Done: due + time.Millisecond, Status: 200}
			if i%1000 >= 500 {
				s.Done = due + time.Second
			}
			r.add(&s)
			w.until = began.Add(due - late)
		}
		res := r.result()
		if res.LeftOut[0] != 2000 || res.Calm.TotalCount() != 2000 || Quantile(res.Calm, 100) > 2*time.Millisecond || res.CalmTail() > 2*time.Millisecond {
			t.Errorf("late by %v: %d stood, %d calm, at most %v, tail %v", late, res.LeftOut[0], res.Calm.TotalCount(), Quantile(res.Calm, 100), res.CalmTail())
		}
		if res.FromReady.TotalCount() != 4000 || len(res.Axis) != 4 || res.Axis[1].Calm != 500 || res.Axis[1].Sent != 1000 {
			t.Errorf("late by %v: %d in all, %+v", late, res.FromReady.TotalCount(), res.Axis)
		}
	}
}

// A fixed is a witness that leaves out what was due in a part of each second, and knows it up to a time.
type fixed struct {
	began    time.Time
	from, to time.Duration
	until    time.Duration
}

func (w fixed) Ran(at time.Time) (ran, known bool) {
	in := at.Sub(w.began) % time.Second
	return in < w.from || in >= w.to, at.Sub(w.began) < w.until
}

func (fixed) Await(time.Time, time.Duration) {}

// TestWitnesses: a request that several leave out counts once, by the first of them, and one of which a witness never learns counts by what
// the others know.
func TestWitnesses(t *testing.T) {
	began := time.Now()
	const half = time.Second / 2
	r := newRecorder(&Plan{Rate: 1000, Witnesses: []Witness{fixed{began, 0, half, time.Hour}, fixed{began, half / 2, half + half/2, 2 * time.Second}}})
	r.began = began
	for i := range 4000 {
		due := time.Duration(i) * time.Millisecond
		r.add(&Sample{Intended: due, Ready: due, Sent: due, Done: due, Status: 200})
	}
	if res := r.result(); !slices.Equal(res.LeftOut, []int64{2000, 500}) || res.Calm.TotalCount() != 1500 {
		t.Errorf("left out %v, kept %d", res.LeftOut, res.Calm.TotalCount())
	}
}

// ignorant is a witness that never knows.
type ignorant struct{}

func (ignorant) Ran(time.Time) (ran, known bool) { return false, false }
func (ignorant) Await(time.Time, time.Duration)  {}

// TestIgnorantWitness: a witness that has died leaves nothing out, and what waits for it is bounded.
func TestIgnorantWitness(t *testing.T) {
	r := newRecorder(&Plan{Rate: 1e6, Witnesses: []Witness{ignorant{}}})
	for i := range 2 * maxUndecided {
		due := time.Duration(i) * time.Microsecond
		r.add(&Sample{Intended: due, Ready: due, Sent: due, Done: due, Status: 200})
		if len(r.undecided) > 2*maxUndecided+1 {
			t.Fatal(len(r.undecided))
		}
	}
	if res := r.result(); res.LeftOut[0] != 0 || res.Calm.TotalCount() != 2*maxUndecided {
		t.Errorf("%d stood, %d calm", res.LeftOut[0], res.Calm.TotalCount())
	}
}
