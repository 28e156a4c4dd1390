package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An SLO is what users may expect: percentiles of the response, and how many requests may fail.
type SLO struct {
	Latencies []Latency
	Errors    float64 // share that may fail, from 0 to 1
}

// A Latency is a time that a share of the requests may not exceed.
type Latency struct {
	Percentile float64 // 100: all of them
	Limit      time.Duration
}

func (l Latency) String() string { return PercentileName(l.Percentile) + "=" + l.Limit.String() }

// PercentileName writes 99.9 as p99.9, and 100 as max.
func PercentileName(percentile float64) string {
	if percentile == 100 {
		return "max"
	}
	return "p" + strconv.FormatFloat(percentile, 'f', -1, 64)
}

// ParseSLO reads p99=50ms,errors=0.1%. Without errors, as many may fail as the highest percentile leaves out: requests
// that fail are slower than any limit.
func ParseSLO(text string) (slo SLO, err error) {
	given := false
	for _, part := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if bound, limit, less := strings.Cut(part, "<"); !ok && less { // as k6 writes it
			return SLO{}, fmt.Errorf("%q: write it as %s=%s", part, strings.TrimSpace(bound), strings.TrimSpace(limit))
		}
		if !ok {
			return SLO{}, fmt.Errorf("%q is not an objective such as p99=50ms or errors=0.1%%", part)
		}
		if name == "errors" {
			if slo.Errors, err = parseShare(value); err != nil {
				return SLO{}, err
			}
			given = true
			continue
		}
		l := Latency{}
		if l.Percentile, err = parsePercentile(name); err != nil {
			return SLO{}, err
		}
		if l.Limit, err = time.ParseDuration(value); err != nil || l.Limit <= 0 {
			return SLO{}, fmt.Errorf("%q is not a time such as 50ms", value)
		}
		slo.Latencies = append(slo.Latencies, l)
	}
	if !given {
		slo.Errors = 1
		for _, l := range slo.Latencies {
			slo.Errors = min(slo.Errors, math.Round(1e9*(1-l.Percentile/100))/1e9)
		}
	}
	return slo, nil
}

// parsePercentile reads p99, p99.9 and p999, which is the same, and max.
func parsePercentile(name string) (float64, error) {
	if name == "max" {
		return 100, nil
	}
	digits, ok := strings.CutPrefix(name, "p")
	if ok && len(digits) > 2 && digits != "100" && !strings.Contains(digits, ".") {
		digits = digits[:2] + "." + digits[2:]
	}
	v, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(v > 0 && v <= 100) {
		return 0, fmt.Errorf("%q is not a percentile such as p99, p99.9 or max", name)
	}
	return v, nil
}

// parseShare reads 0.1%, and 0.001, which is the same.
func parseShare(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is not a share of requests such as 0.1%%", text)
	}
	return v, nil
}

func (s SLO) String() string {
	var parts []string
	for _, l := range s.Latencies {
		parts = append(parts, l.String())
	}
	return strings.Join(append(parts, "errors="+strconv.FormatFloat(100*s.Errors, 'g', 6, 64)+"%"), ",")
}

// Within is the time by which an answer is good: the highest percentile's. 0: any time.
func (s SLO) Within() time.Duration {
	var best Latency
	for _, l := range s.Latencies {
		if l.Percentile > best.Percentile {
			best = l
		}
	}
	return best.Limit
}

// A Missed is an objective that was not held.
type Missed struct {
	Objective string
	Was       string
}

// Judge returns the objectives that a result does not hold.
func (s SLO) Judge(r *Result) (missed []Missed) {
	for _, l := range s.Latencies {
		if was, all := r.ResponseOrFailed(l.Percentile); !all {
			missed = append(missed, Missed{l.String(), "more than that failed"})
		} else if was > l.Limit {
			missed = append(missed, Missed{l.String(), round(was).String()})
		}
	}
	if r.Requests == 0 {
		return append(missed, Missed{s.String(), "no request was counted"})
	}
	if share := float64(r.Failed) / float64(r.Requests); share > s.Errors {
		missed = append(missed, Missed{"errors=" + strconv.FormatFloat(100*s.Errors, 'g', 6, 64) + "%", fmt.Sprintf("%.3g %%", 100*share)})
	}
	return missed
}

// HeldFromReady reports whether a result would hold all objectives without what the pacer was late by.
func (s SLO) HeldFromReady(r *Result) bool {
	for _, l := range s.Latencies {
		if was := Quantile(r.FromReady, l.Percentile); was > l.Limit || was >= r.Plan.FailedAs() {
			return false
		}
	}
	return r.Requests > 0 && float64(r.Failed)/float64(r.Requests) <= s.Errors
}

// ResponseOrFailed is the percentile of the response among all requests, where those that failed are slower than all others,
// however fast they did so: a server that turns requests away is no better for it. ok is false if it is one of them.
func (r *Result) ResponseOrFailed(percentile float64) (d time.Duration, ok bool) {
	if r.Requests == 0 {
		return 0, true
	}
	const exact = 1e-9 // what 0.99 times a number may be off by
	rank := max(1, math.Ceil(percentile/100*float64(r.Requests)-exact))
	succeeded := float64(r.Successes.TotalCount())
	if rank > succeeded {
		return 0, false
	}
	return Quantile(r.Successes, 100*rank/succeeded), true
}
