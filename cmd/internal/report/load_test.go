package report

import "testing"

func TestWorst(t *testing.T) {
	periods, throttled := int64(10), int64(4)
	for _, c := range []struct {
		steps []LoadStep
		want  LoadWorst
	}{
		{nil, LoadWorst{-1, -1, -1}},
		{[]LoadStep{{Sent: 0}}, LoadWorst{-1, -1, -1}},
		{[]LoadStep{{Sent: 100, P99: 0.2}, {Sent: 100, Failed: 50, P99: 0.1}}, LoadWorst{0.2, -1, 0.25}},
		{[]LoadStep{{Sent: 10, P99: 0.2, Periods: &periods, Throttled: &throttled}, {Periods: &periods, Throttled: new(int64)}}, LoadWorst{0.2, 0.2, 0}},
	} {
		if got := Worst(c.steps); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.steps, got, c.want)
		}
	}
}
