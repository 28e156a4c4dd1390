package report

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
)

func TestOverTime(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	d := &Load{}
	d.Planned, d.Axis = 2.5, []loadtest.Step{
		{At: 0, Length: 1, Sent: 100, P99: 0.2, ServiceP99: 0.1, Periods: n(10), Throttled: n(4)},
		{At: 1, Length: 1, Sent: 200, Failed: 50, P99: 0.1, Periods: n(0), Throttled: n(0)},
	}
	if d.OverTime() != nil {
		t.Error("two steps are no course")
	}
	d.Axis = append(d.Axis, loadtest.Step{At: 2, Length: 1, Sent: 40, Periods: n(10), Throttled: n(12)})
	got := d.OverTime()
	if want := (LoadMoment{0, 1, 100, 0.2, 0.1, 0.4, 0, 4, 10}); got.Moments[0] != want {
		t.Errorf("got %+v, want %+v", got.Moments[0], want)
	}
	if want := (LoadMoment{1, 2, 200, 0.1, -1, -1, 0.25, 0, 0}); got.Moments[1] != want {
		t.Errorf("got %+v, want %+v", got.Moments[1], want)
	}
	if last := got.Moments[2]; last.Rate != 80 || last.P99 != -1 || last.Throttled != 1 {
		t.Errorf("the last step lasted half a second: %+v", last)
	}
	if got.End != 3 || got.LowestRate != 80 || got.Rate != 200 || got.P99 != 0.2 || got.Throttled != 1 || got.Failed != 0.25 {
		t.Errorf("got %+v", got)
	}
	d.Planned = 2.05
	if rate := d.OverTime().Moments[2].Rate; rate != -1 {
		t.Errorf("a twentieth of a step has the rate %v", rate)
	}
	d.Axis = make([]loadtest.Step, 5)
	if none := d.OverTime(); none != nil {
		t.Errorf("no time at all: %+v", none)
	}
}
