package report

import (
	"fmt"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
)

func TestLoadVerdict(t *testing.T) {
	held := &loadtest.SLO{Text: "p99=100ms,errors=0.01%", Held: true}
	missed := &loadtest.SLO{Text: "p99=10ms,errors=1%", Missed: []loadtest.Missed{{Objective: "p99=10ms", Was: "41.123ms"}, {Objective: "errors=1%", Was: "2.04 %"}, {Objective: "max=1s", Was: "more than that failed"}}}
	for _, c := range []struct {
		d    Load
		want string
	}{
		{Load{Summary: loadtest.Summary{Requests: 5, Valid: true, SLO: held}}, "SLO held: p99 ≤ 100 ms, errors ≤ 0.01 % [] true"},
		{Load{Summary: loadtest.Summary{Requests: 5, OurFault: true, SLO: held}}, "SLO held: p99 ≤ 100 ms, errors ≤ 0.01 % [] true"},
		{Load{Summary: loadtest.Summary{Requests: 5, SLO: missed}}, "SLO missed: p99 ≤ 10 ms, errors ≤ 1 % [p99 ≤ 10 ms: it was 41.1 ms errors ≤ 1 %: it was 2.04 % max ≤ 1 s: more than that failed] false"},
		{Load{Summary: loadtest.Summary{Requests: 5, OurFault: true, SLO: &loadtest.SLO{Text: "p99=10ms,errors=1%"}}}, "SLO not judged: p99 ≤ 10 ms, errors ≤ 1 % []"},
		{Load{Summary: loadtest.Summary{Requests: 5, Valid: true, SLO: &loadtest.SLO{Text: "p99=10ms,errors=1%", HeldFromReady: true}}}, "SLO not judged: p99 ≤ 10 ms, errors ≤ 1 % []"},
		{Load{Summary: loadtest.Summary{SLO: &loadtest.SLO{Text: "nonsense"}}}, "SLO not judged: nonsense []"},
		{Load{Summary: loadtest.Summary{Valid: true}, Search: &LoadSearch{Text: "sustains 5/s", Sustains: 5}}, "highest rate: sustains 5/s [] true"},
		{Load{Search: &LoadSearch{Text: "sustains 5/s", Sustains: 5}}, "highest rate: sustains 5/s []"},
		{Load{}, "no SLO was given: No request was counted. []"},
		{Load{Summary: loadtest.Summary{Requests: 9}}, "no SLO was given: No request was answered, so there are no latencies. []"},
		{Load{Summary: loadtest.Summary{Requests: 9, Failed: 9, Response: loadtest.Latencies{Count: 9, P50: 0.002, P99: 0.1, Max: 0.2}}}, "no SLO was given: No request was answered: the latencies are how long each was waited for. []"},
		{Load{Summary: loadtest.Summary{Requests: 9, Failed: 2, Response: loadtest.Latencies{Count: 7, P50: 0.002, P99: 0.1, Max: 0.2}}}, "no SLO was given: Half of the responses within 2.00 ms, max 200 ms, 2 of 9 requests failed. []"},
	} {
		v := c.d.Verdict()
		got := fmt.Sprint(v.Word, ": ", v.Text, " ", v.Missed)
		if v.Held != nil {
			got += fmt.Sprint(" ", *v.Held)
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestAnswerText(t *testing.T) {
	for _, c := range []struct {
		answer search.Answer
		want   string
	}{
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 821, Held: 5, Of: 5}, Failing: search.Tally{Rate: 903, Held: 0, Of: 5}}, "sustains 821/s (5 of 5 windows), fails 903/s (5 of 5)"},
		{search.Answer{Verdict: search.AtLeast, Sustained: search.Tally{Rate: 1000, Held: 5, Of: 5}}, "sustains at least 1000/s (5 of 5 windows)"},
		{search.Answer{Verdict: search.AtLeast, Sustained: search.Tally{Rate: 100, Held: 5, Of: 5}}, "sustains at least 100/s (5 of 5 windows)"},
		{search.Answer{Verdict: search.None, Failing: search.Tally{Rate: 1, Held: 0, Of: 2}}, "fails even 1/s (2 of 2 windows)"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 49.1, Held: 5, Of: 5}, Failing: search.Tally{Rate: 54, Held: 0, Of: 5}}, "sustains 49.1/s (5 of 5 windows), fails 54/s (5 of 5)"},
		{search.Answer{Verdict: search.Generator, Beyond: 114, Sustained: search.Tally{Rate: 76.1, Held: 1, Of: 1}}, "the generator's limit is reached at 114/s; the server holds at least 76.1/s (1 of 1 window)"},
		{search.Answer{Verdict: search.Generator, Beyond: 10}, "the generator's limit is reached at 10/s; no rate has held"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 821, Held: 5, Of: 5}, Failing: search.Tally{Rate: 842, Held: 0, Of: 1}, Beyond: 903}, "sustains 821/s (5 of 5 windows), fails 842/s (1 of 1)"},
		{search.Answer{Verdict: search.Generator, Beyond: 821, Sustained: search.Tally{Rate: 739, Held: 5, Of: 5}}, "the generator's limit is reached at 821/s; the server holds at least 739/s (5 of 5 windows)"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 835, Held: 5, Of: 5}, Failing: search.Tally{Rate: 919, Held: 0, Of: 5}}, "sustains 835/s (5 of 5 windows), fails 919/s (5 of 5)"},
		{search.Answer{Verdict: search.Sustains, Sustained: search.Tally{Rate: 821, Held: 3, Of: 3}, Failing: search.Tally{Rate: 903, Held: 0, Of: 3}}, "sustains 821/s (3 of 3 windows), fails 903/s (3 of 3)"},
		{search.Answer{Verdict: search.Unconfirmed, Sustained: search.Tally{Rate: 821, Held: 2, Of: 2}, Failing: search.Tally{Rate: 842, Held: 0, Of: 1}}, "the server holds at least 821/s (2 of 2 windows), fails 842/s (1 of 1); this was not confirmed"},
		{search.Answer{Verdict: search.Unconfirmed, Sustained: search.Tally{Rate: 1000, Held: 1, Of: 1}}, "the server holds at least 1000/s (1 of 1 window); this was not confirmed"},
		{search.Answer{Verdict: search.Unknown}, "interrupted after 0 windows; no rate has held, unconfirmed"},
		{search.Answer{Verdict: search.Unknown, Sustained: search.Tally{Rate: 100, Held: 1, Of: 1}, Windows: 1}, "interrupted after 1 window; the server holds at least 100/s (1 of 1 window), unconfirmed"},
		{search.Answer{Verdict: search.Unknown, Sustained: search.Tally{Rate: 100, Held: 1, Of: 1}, Windows: 2}, "interrupted after 2 windows; the server holds at least 100/s (1 of 1 window), unconfirmed"},
		{search.Answer{Verdict: search.Unknown, Sustained: search.Tally{Rate: 100, Held: 1, Of: 1}, Failing: search.Tally{Rate: 150, Held: 0, Of: 2}, Windows: 3}, "interrupted after 3 windows; the server holds at least 100/s (1 of 1 window), fails 150/s (2 of 2), unconfirmed"},
		{search.Answer{Verdict: search.AtLeast, Sustained: search.Tally{Rate: 1e7, Held: 5, Of: 5}}, "sustains at least 10000000/s (5 of 5 windows)"},
	} {
		if got := NewLoadSearch(c.answer, nil).Text; got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
