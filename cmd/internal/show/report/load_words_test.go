package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

func TestLoadVerdict(t *testing.T) {
	held := &loadtest.SLO{Text: "p99=100ms,errors=0.01%", Held: true}
	missed := &loadtest.SLO{Text: "p99=10ms,errors=1%", Missed: []loadtest.Missed{{Objective: "p99=10ms", Was: "41.123ms"}, {Objective: "errors=1%", Was: "2.04 %"}, {Objective: "max=1s", Was: "more than that failed"}}}
	for _, c := range []struct {
		d    Load
		want string
	}{
		{Load{Summary: loadtest.Summary{Requests: 5, Valid: true, SLO: held}}, "SLO held: No request was answered, so there are no latencies. [] [Asked: p99 ≤ 100 ms, errors ≤ 0.01 %.] true"},
		{Load{Summary: loadtest.Summary{Requests: 5, OurFault: true, SLO: held}}, "SLO held: No request was answered, so there are no latencies. [] [Asked: p99 ≤ 100 ms, errors ≤ 0.01 %.] true"},
		{Load{Summary: loadtest.Summary{Requests: 5, SLO: missed}}, "SLO missed: No request was answered, so there are no latencies. [p99 ≤ 10 ms: it was 41.1 ms errors ≤ 1 %: it was 2.04 % max ≤ 1 s: more than that failed] [] false"},
		{Load{Summary: loadtest.Summary{Requests: 5, OurFault: true, SLO: &loadtest.SLO{Text: "p99=10ms,errors=1%"}}}, "SLO not judged: No request was answered, so there are no latencies. [] [Asked: p99 ≤ 10 ms, errors ≤ 1 %.]"},
		{Load{Summary: loadtest.Summary{Requests: 5, Valid: true, SLO: &loadtest.SLO{Text: "p99=10ms,errors=1%", HeldFromReady: true}}}, "SLO not judged: No request was answered, so there are no latencies. [] [Asked: p99 ≤ 10 ms, errors ≤ 1 %.]"},
		{Load{Summary: loadtest.Summary{SLO: &loadtest.SLO{Text: "nonsense"}}}, "SLO not judged: No request was counted. [] [Asked: nonsense.]"},
		{Load{Summary: loadtest.Summary{Valid: true}, Search: &LoadSearch{Text: "sustains 5/s", Also: []string{"At 5/s."}, Sustains: 5}}, "highest rate: sustains 5/s [] [At 5/s.] true"},
		{Load{Search: &LoadSearch{Text: "sustains 5/s", Sustains: 5}}, "highest rate: sustains 5/s [] []"},
		{Load{}, "no SLO was given: No request was counted. [] []"},
		{Load{Summary: loadtest.Summary{Requests: 9}}, "no SLO was given: No request was answered, so there are no latencies. [] []"},
		{Load{Summary: loadtest.Summary{Requests: 9, Failed: 9, Response: loadtest.Latencies{Count: 9, P50: 0.002, P99: 0.1, Max: 0.2}}}, "no SLO was given: No request was answered: the latencies are how long each waited. [] []"},
		{Load{Summary: loadtest.Summary{Requests: 9, Failed: 2, Response: loadtest.Latencies{Count: 7, P50: 0.002, P99: 0.1, Max: 0.2}}}, "no SLO was given: max 200 ms, 2 of 9 requests failed. [] [Half of the responses within 2.00 ms.]"},
		{Load{Summary: loadtest.Summary{Requests: 7, Response: loadtest.Latencies{Count: 7, P50: 0.002, P99: 0.1, Max: 0.2}}}, "no SLO was given: Half of the responses within 2.00 ms, max 200 ms. [] [None of 7 requests failed.]"},
		{Load{Summary: loadtest.Summary{Requests: 7, Valid: true, SLO: held, Response: loadtest.Latencies{Count: 7, P50: 0.002, P99: 0.1, Max: 0.2}}}, "SLO held: max 200 ms, none of 7 requests failed. [] [Half of the responses within 2.00 ms. Asked: p99 ≤ 100 ms, errors ≤ 0.01 %.] true"},
	} {
		v := c.d.Verdict()
		got := fmt.Sprint(v.Word, ": ", v.Text, " ", v.Missed, " ", v.Also)
		if n := quantity.Words(v.Text); n > HeadlineWords {
			t.Errorf("%d words: %s", n, v.Text)
		}
		if v.Held != nil {
			got += fmt.Sprint(" ", *v.Held)
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestOverload: what a server can't do is the first line, and nothing else looks like that.
func TestOverload(t *testing.T) {
	half, steps := 0.71, func(p50s ...float64) (axis []loadtest.Step) {
		for _, p := range p50s {
			axis = append(axis, loadtest.Step{P50: p})
		}
		return axis
	}
	load := func(change func(*Load)) *Load {
		asked := 1500.0
		d := &Load{Summary: loadtest.Summary{
			Loop: "open", RateAsked: &asked, Rate: 914.4, Requests: 45000, Valid: true, Failed: 1, Timeout: 20,
			Response: loadtest.Latencies{Count: 45000, P50: 7.96, P99: 19.9}, Axis: steps(0.5, 2, 5, 8, 10, 12, 15, 18),
			Server: &loadtest.Server{ThrottledShare: &half},
		}}
		change(d)
		return d
	}
	const throttled = "It can't keep up: 914/s of 1,500/s; 71 % of periods throttled."
	for name, c := range map[string]struct {
		change func(*Load)
		want   string
	}{
		"throttled":             {func(*Load) {}, throttled},
		"SLO":                   {func(d *Load) { d.SLO = &loadtest.SLO{Text: "p99=10ms"} }, throttled},
		"a loose SLO held":      {func(d *Load) { d.SLO = &loadtest.SLO{Text: "p99=1m", Held: true} }, ""},
		"by itself":             {func(d *Load) { d.Server = nil }, "It can't keep up: 914/s of 1,500/s."},
		"most wait for nothing": {func(d *Load) { d.Rate, d.Timeouts, d.Axis = 1490, 22500, steps(20, 20, 20, 20) }, "It can't keep up: 745/s of 1,500/s; 71 % of periods throttled."},
		"most are waited for":   {func(d *Load) { d.Rate, d.Unfinished = 1363.6, 15300 }, "It can't keep up: 900/s of 1,500/s; 71 % of periods throttled."},
		"it can":                {func(d *Load) { d.Rate = 1490 }, ""},
		"slow, and short":       {func(d *Load) { d.Axis = steps(3, 3.2, 2.9, 3.1) }, ""},
		"nobody knows":          {func(d *Load) { d.Axis = steps(3, 4) }, ""},
		"the generator":         {func(d *Load) { d.OurFault = true }, ""},
		"stopped":               {func(d *Load) { d.Stopped = true }, ""},
		"closed loop":           {func(d *Load) { d.RateAsked = nil }, ""},
	} {
		v := load(c.change).Verdict()
		if got := v.Text; got != c.want && (c.want != "" || strings.Contains(got, "keep up")) || quantity.Words(got) > HeadlineWords {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if tail := "p99 19.9 s, 1 of 45,000 requests failed."; c.want != "" && v.Also[0] != tail {
			t.Errorf("%s: %q below it, want %q", name, v.Also, tail)
		}
	}
}

func TestAnswerText(t *testing.T) {
	for _, c := range []struct {
		answer search.Answer
		want   string
	}{
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 821, Held: 5, Of: 5}, Failing: search.Tally{Rate: 903, Held: 0, Of: 5}}, "sustains 821/s, fails 903/s (At 821/s 5 of 5 windows held, at 903/s 5 of 5 windows failed.)"},
		{search.Answer{Verdict: search.AtLeast, Sustained: search.Tally{Rate: 1000, Held: 5, Of: 5}}, "sustains at least 1000/s (At 1000/s 5 of 5 windows held.)"},
		{search.Answer{Verdict: search.AtLeast, Sustained: search.Tally{Rate: 100, Held: 5, Of: 5}}, "sustains at least 100/s (At 100/s 5 of 5 windows held.)"},
		{search.Answer{Verdict: search.None, Failing: search.Tally{Rate: 1, Held: 0, Of: 2}}, "fails even 1/s (At 1/s 2 of 2 windows failed.)"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 49.1, Held: 5, Of: 5}, Failing: search.Tally{Rate: 54, Held: 0, Of: 5}}, "sustains 49.1/s, fails 54/s (At 49.1/s 5 of 5 windows held, at 54/s 5 of 5 windows failed.)"},
		{search.Answer{Verdict: search.Generator, Beyond: 114, Sustained: search.Tally{Rate: 76.1, Held: 1, Of: 1}}, "at least 76.1/s; the generator's limit is 114/s (At 76.1/s 1 of 1 window held.)"},
		{search.Answer{Verdict: search.Generator, Beyond: 10}, "no rate has held; the generator's limit is 10/s"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 821, Held: 5, Of: 5}, Failing: search.Tally{Rate: 842, Held: 0, Of: 1}, Beyond: 903}, "sustains 821/s, fails 842/s (At 821/s 5 of 5 windows held, at 842/s 1 of 1 window failed.)"},
		{search.Answer{Verdict: search.Generator, Beyond: 821, Sustained: search.Tally{Rate: 739, Held: 5, Of: 5}}, "at least 739/s; the generator's limit is 821/s (At 739/s 5 of 5 windows held.)"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 835, Held: 5, Of: 5}, Failing: search.Tally{Rate: 919, Held: 0, Of: 5}}, "sustains 835/s, fails 919/s (At 835/s 5 of 5 windows held, at 919/s 5 of 5 windows failed.)"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 821, Held: 3, Of: 3}, Failing: search.Tally{Rate: 903, Held: 0, Of: 3}}, "sustains 821/s, fails 903/s (At 821/s 3 of 3 windows held, at 903/s 3 of 3 windows failed.)"},
		{search.Answer{Verdict: search.Unconfirmed, Sustained: search.Tally{Rate: 821, Held: 2, Of: 2}, Failing: search.Tally{Rate: 842, Held: 0, Of: 1}}, "at least 821/s, fails 842/s; this was not confirmed (At 821/s 2 of 2 windows held, at 842/s 1 of 1 window failed.)"},
		{search.Answer{Verdict: search.Unconfirmed, Sustained: search.Tally{Rate: 1000, Held: 1, Of: 1}}, "at least 1000/s; this was not confirmed (At 1000/s 1 of 1 window held.)"},
		{search.Answer{Verdict: search.Unknown}, "not found: interrupted after 0 windows"},
		{search.Answer{Verdict: search.Unconfirmed}, "not found: the time was too short to try a rate"},
		{search.Answer{Verdict: search.Unknown, Sustained: search.Tally{Rate: 100, Held: 1, Of: 1}, Windows: 1}, "at least 100/s; interrupted after 1 window (At 100/s 1 of 1 window held.)"},
		{search.Answer{Verdict: search.Unknown, Sustained: search.Tally{Rate: 100, Held: 1, Of: 1}, Windows: 2}, "at least 100/s; interrupted after 2 windows (At 100/s 1 of 1 window held.)"},
		{search.Answer{Verdict: search.Unknown, Sustained: search.Tally{Rate: 100, Held: 1, Of: 1}, Failing: search.Tally{Rate: 150, Held: 0, Of: 2}, Windows: 3}, "at least 100/s, fails 150/s; interrupted after 3 windows (At 100/s 1 of 1 window held, at 150/s 2 of 2 windows failed.)"},
		{search.Answer{Verdict: search.AtLeast, Sustained: search.Tally{Rate: 1e7, Held: 5, Of: 5}}, "sustains at least 10000000/s (At 10000000/s 5 of 5 windows held.)"},
	} {
		found := NewLoadSearch(c.answer, nil)
		if n := quantity.Words(found.Text); n > HeadlineWords {
			t.Errorf("%d words: %s", n, found.Text)
		}
		got := found.Text
		for _, also := range found.Also {
			got += " (" + also + ")"
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestMachine: what the tail is without the machine's pauses is said once, and not where it is not known or no different.
func TestMachine(t *testing.T) {
	const without = "; without the 100 requests (5 %) that were due then, and what the generator was late by, p99 is "
	all := loadtest.Latencies{Count: 2000, P99: 0.02}
	for name, test := range map[string]struct {
		machine      *loadtest.Machine
		failed       int64
		fact, remark string
	}{
		"not known": {},
		"none":      {&loadtest.Machine{Calm: all}, 0, "never stood still", ""},
		"no matter": {
			&loadtest.Machine{Pauses: 1, Longest: 0.001, Stood: 100, Calm: loadtest.Latencies{Count: 1900, P99: 0.019}}, 0,
			"stood still once, 1.00 ms at most" + without + "19.0 ms", "",
		},
		"a matter": {
			&loadtest.Machine{Pauses: 2, Longest: 0.03, Stood: 100, Calm: loadtest.Latencies{Count: 1900, P99: 0.001}}, 0,
			"stood still twice, 30.0 ms at most", "The machine itself stood still twice, 30.0 ms at most" + without + "1.00 ms.",
		},
		"others, too": {
			&loadtest.Machine{
				Pauses: 2, Longest: 0.03, Stood: 60, Others: &loadtest.Others{CPUs: 0.4, Busy: 1.9, Left: 40}, Calm: loadtest.Latencies{Count: 1900, P99: 0.001},
			}, 0,
			"stood still twice, 30.0 ms at most, other programs were busy for 1.90 s",
			"The machine itself stood still twice, 30.0 ms at most, and other programs were busy for 1.90 s" + without + "1.00 ms.",
		},
		"others alone": {
			&loadtest.Machine{Others: &loadtest.Others{CPUs: 0.4, Busy: 1.9, Left: 100}, Calm: loadtest.Latencies{Count: 1900, P99: 0.001}}, 0,
			"never stood still, other programs were busy for 1.90 s", "Beside it other programs were busy for 1.90 s" + without + "1.00 ms.",
		},
		"quiet": {&loadtest.Machine{Others: &loadtest.Others{CPUs: 0.01}, Calm: all}, 0, "never stood still", ""},
		"failed": {
			&loadtest.Machine{Pauses: 3, Longest: 0.03, Stood: 100, Calm: loadtest.Latencies{Count: 1900, P99: 0.001}}, 1,
			"stood still 3 times, 30.0 ms at most", "",
		},
	} {
		d := &Load{Summary: loadtest.Summary{Loop: "open", Requests: 2000, Failed: test.failed, FromReady: all, Response: all, Machine: test.machine}}
		if got := d.MachineText(); got != test.fact {
			t.Errorf("%s: got %q, want %q", name, got, test.fact)
		}
		if got := strings.Join(d.Remarks(), " "); got != test.remark {
			t.Errorf("%s: got %q, want %q", name, got, test.remark)
		}
	}
}
