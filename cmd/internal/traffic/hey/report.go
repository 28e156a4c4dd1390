package hey

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// A Report is what templates of -o work on. Names, types and their order are hey's, and so is that Max and Min of the
// phases are swapped: ConnMax is the shortest. Times are in seconds, Total aside.
type Report struct {
	AvgTotal float64 // the sum, not an average
	Fastest  float64
	Slowest  float64
	Average  float64
	Rps      float64

	AvgConn  float64
	AvgDNS   float64
	AvgReq   float64
	AvgRes   float64
	AvgDelay float64
	ConnMax  float64
	ConnMin  float64
	DnsMax   float64
	DnsMin   float64
	ReqMax   float64
	ReqMin   float64
	ResMax   float64
	ResMin   float64
	DelayMax float64
	DelayMin float64

	// Of each result with an answer, in the order in which they ended; no more than a million.
	Lats        []float64
	ConnLats    []float64
	DnsLats     []float64
	ReqLats     []float64
	ResLats     []float64
	DelayLats   []float64
	Offsets     []float64
	StatusCodes []int

	Total time.Duration

	ErrorDist      map[string]int
	StatusCodeDist map[int]int
	SizeTotal      int64
	SizeReq        int64
	NumRes         int64

	LatencyDistribution []LatencyDistribution
	Histogram           []Bucket

	below    []string // the lines below the report
	warnings []string
	failed   bool
}

// A LatencyDistribution is a percentile.
type LatencyDistribution struct {
	Percentage int
	Latency    float64
}

// A Bucket is a row of the histogram: how many took up to Mark, and longer than the row before.
type Bucket struct {
	Mark      float64
	Count     int
	Frequency float64
}

// Report makes the report of a run that has ended.
func (c *Collector) Report(res *load.Result) *Report {
	k := &c.kept
	r := &Report{
		AvgTotal: c.took.sum.Seconds(), Fastest: c.took.min.Seconds(), Slowest: c.took.max.Seconds(), Average: c.took.average(),
		AvgConn: c.connect.average(), ConnMax: c.connect.min.Seconds(), ConnMin: c.connect.max.Seconds(),
		AvgDNS: c.lookup.average(), DnsMax: c.lookup.min.Seconds(), DnsMin: c.lookup.max.Seconds(),
		AvgReq: c.write.average(), ReqMax: c.write.min.Seconds(), ReqMin: c.write.max.Seconds(),
		AvgDelay: c.wait.average(), DelayMax: c.wait.min.Seconds(), DelayMin: c.wait.max.Seconds(),
		AvgRes: c.read.average(), ResMax: c.read.min.Seconds(), ResMin: c.read.max.Seconds(),

		Lats: k.took, ConnLats: k.connect, DnsLats: k.lookup, ReqLats: k.write, ResLats: k.read, DelayLats: k.wait,
		Offsets: k.offset, StatusCodes: k.status,

		Total: res.Elapsed, StatusCodeDist: c.statuses, SizeTotal: c.bytes, NumRes: c.n, failed: !c.good,
	}
	if res.Elapsed > 0 {
		r.Rps = float64(c.n) / res.Elapsed.Seconds()
	}
	if c.took.n > 0 {
		r.SizeReq = c.bytes / c.took.n
		r.LatencyDistribution = c.percentiles()
		r.Histogram = c.histogram()
	}
	r.ErrorDist = map[string]int{}
	for _, e := range res.Errors {
		r.ErrorDist[c.errorText(e.Text)] += int(e.Count)
	}
	r.below = c.below(r, res)
	r.warnings = c.warnings(res)
	return r
}

// AllFailed reports whether there was no success: an answer with a status below 400.
func (r *Report) AllFailed() bool { return r.failed }

// Warnings are the doubts about the report, for stderr.
func (r *Report) Warnings() []string { return r.warnings }

func (c *Collector) warnings(res *load.Result) (w []string) {
	w = append(w, res.Invalid...)
	if res.Elsewhere != "" {
		w = append(w, "redirects lead to "+res.Elsewhere+": not followed, and counted as answers")
	}
	if c.detail && c.took.n > maxKept {
		w = append(w, fmt.Sprintf("of %d results the first %d are in the lists; averages and distributions are of all", c.took.n, maxKept))
	}
	return w
}

var percentages = []int{10, 25, 50, 75, 90, 95, 99}

// percentiles follow hey's rule: the first result with at least that percentage of all before it.
func (c *Collector) percentiles() (d []LatencyDistribution) {
	var before int64
	c.times(func(v float64, n int64) {
		before += n
		for len(d) < len(percentages) {
			p := int64(percentages[len(d)])
			index := min((p*c.took.n+99)/100, c.took.n-1)
			if index >= before {
				break
			}
			d = append(d, LatencyDistribution{Percentage: int(p), Latency: v})
		}
	})
	return d
}

// histogram has a row for the fastest and ten of equal width up to the slowest.
func (c *Collector) histogram() []Bucket {
	const steps = 10
	rows := make([]Bucket, steps+1)
	fastest, slowest := c.took.min.Seconds(), c.took.max.Seconds()
	for i := range rows {
		rows[i].Mark = fastest + (slowest-fastest)/steps*float64(i)
	}
	rows[steps].Mark = slowest
	at := 0
	c.times(func(v float64, n int64) {
		for at < steps && v > rows[at].Mark {
			at++
		}
		rows[at].Count += int(n)
	})
	for i := range rows {
		rows[i].Frequency = float64(rows[i].Count) / float64(c.took.n)
	}
	return rows
}

// errorText puts the method and the URL before a cause, as net/http does for hey: Get "http://…": …
func (c *Collector) errorText(cause string) string {
	if len(c.plan.Targets) == 0 {
		return cause
	}
	t := &c.plan.Targets[0]
	method := "Get"
	if t.Method != "" {
		method = t.Method[:1] + strings.ToLower(t.Method[1:])
	}
	return fmt.Sprintf("%s %q: %s", method, redacted(t.URL), cause)
}

// below are three lines that hey does not have: what the latencies above are not.
func (c *Collector) below(r *Report, res *load.Result) []string {
	if c.plan.EachRate > 0 {
		return c.intended(res)
	}
	url := "URL"
	if len(c.plan.Targets) > 0 {
		url = quoted(redacted(c.plan.Targets[0].URL))
	}
	rate := "100"
	if r.Rps > 0 && !r.AllFailed() {
		rate = twoDigits(r.Rps)
	}
	return []string{
		"Closed loop: a worker waits for its answer before it sends again, so the load falls while the server is slow,",
		fmt.Sprintf("and a standstill is met by no more than %d requests. The latencies above hide what users would wait in it.", c.plan.Conns),
		fmt.Sprintf("To see that: unthrottle load %s --rate %s   # or less", url, rate),
	}
}

// intended are the latencies that count the time for which a slow answer kept a worker from its next request. They are
// not written as hey writes percentiles, so that what reads hey's report does not take them for its own.
func (c *Collector) intended(res *load.Result) []string {
	times := "no request was answered"
	if h := res.Response; h != nil && h.TotalCount() > 0 {
		at := func(p float64) float64 { return time.Duration(h.ValueAtQuantile(p)).Seconds() }
		times = fmt.Sprintf("p50 %4.4f secs, p90 %4.4f secs, p99 %4.4f secs", at(50), at(90), at(99))
	}
	sent := "nothing was"
	if res.Sending > 0 {
		sent = fmt.Sprintf("%.1f/s were", float64(res.Sent)/res.Sending.Seconds())
	}
	share := 0.0
	if c.n > 0 {
		share = 100 * float64(c.late) / float64(c.n)
	}
	return []string{
		"Intended-time latency (-q: each request counts from when its worker should have sent it):",
		"  " + times,
		fmt.Sprintf("  %d of %d requests (%.1f %%) were sent %v late or more; %.1f/s were asked for, %s sent",
			c.late, c.n, share, c.lateFrom(), c.plan.EachRate*float64(c.plan.Conns), sent),
	}
}

// twoDigits rounds a rate down, for an open loop at more than the server can do only shows its queue grow.
func twoDigits(x float64) string {
	exponent := int(math.Floor(math.Log10(x))) - 1
	unit := math.Pow10(exponent)
	return fmt.Sprintf("%.*f", max(0, -exponent), math.Floor(x/unit*(1+1e-9))*unit)
}

// redacted hides the password in a URL.
func redacted(text string) string {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}

// quoted makes a URL fit for a shell.
func quoted(url string) string {
	if strings.ContainsFunc(url, func(c rune) bool {
		return c > '~' || c <= ' ' || strings.ContainsRune("&?;*'\"$`\\!<>|()[]{}~#^", c)
	}) {
		return "'" + strings.ReplaceAll(url, "'", `'\''`) + "'"
	}
	return url
}
