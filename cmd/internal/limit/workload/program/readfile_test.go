package program

import (
	"reflect"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestActivityLog(t *testing.T) {
	for _, test := range []struct {
		name string
		ran  []time.Duration
		want []span
	}{
		{"never", nil, nil},
		{"all the time", []time.Duration{1 * ms, 3 * ms, 6 * ms}, []span{{0, 6 * ms}}},
		{"the gap is not a standstill yet", []time.Duration{1 * ms, 6 * ms}, []span{{0, 6 * ms}}},
		{"a standstill", []time.Duration{1 * ms, 6*ms + 1, 8 * ms}, []span{{0, 1 * ms}, {6*ms + 1, 8 * ms}}},
		{"one at the start", []time.Duration{50 * ms, 51 * ms}, []span{{50 * ms, 51 * ms}}},
		{"25 on, 75 off", []time.Duration{5 * ms, 10 * ms, 100 * ms, 104 * ms}, []span{{0, 10 * ms}, {100 * ms, 104 * ms}}},
		{"a moment alone is not a stretch of time", []time.Duration{1 * ms, 50 * ms, 100 * ms, 101 * ms}, []span{{0, 1 * ms}, {100 * ms, 101 * ms}}},
	} {
		var l activityLog
		for _, now := range test.ran {
			l.ran(now)
		}
		if got := l.close(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		name     string
		in, want []span
	}{
		{"nothing", nil, nil},
		{"one", []span{{1, 2}}, []span{{1, 2}}},
		{"one inside another", []span{{0, 100}, {10, 20}}, []span{{0, 100}}},
		{"overlapping, in any order", []span{{50, 150}, {0, 100}}, []span{{0, 150}}},
		{"as far apart as the gap", []span{{0, 10}, {15, 20}}, []span{{0, 20}}},
		{"farther", []span{{0, 10}, {16, 20}}, []span{{0, 10}, {16, 20}}},
		{"one goroutine ran while the other stood", []span{{0, 10}, {30, 40}, {8, 32}}, []span{{0, 40}}},
		{"both stood", []span{{0, 25}, {100, 125}, {2, 24}, {101, 126}}, []span{{0, 25}, {100, 126}}},
	} {
		if got := merge(test.in, 5); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestPicture(t *testing.T) {
	for _, test := range []struct {
		name   string
		on     []span
		window time.Duration
		want   map[string]float64
	}{
		{"nothing ran", nil, 100 * ms, map[string]float64{"standstill-share": 1}},
		{"all the time", []span{{0, 100 * ms}}, 100 * ms, map[string]float64{"standstill-share": 0}},
		{"more than the window, as the clock is read twice", []span{{0, 101 * ms}}, 100 * ms, map[string]float64{"standstill-share": 0}},
		{"both intervals are cut", []span{{0, 25 * ms}, {75 * ms, 100 * ms}}, 100 * ms, map[string]float64{"standstill-share": 0.5, "off-ms": 50}},
		// The first and the last don't count for on-ms: 25 is the median of 25 and 25. It ran for 100 of 400 ms.
		{
			"25 on, 75 off",
			[]span{{0, 10 * ms}, {100 * ms, 125 * ms}, {200 * ms, 225 * ms}, {300 * ms, 340 * ms}},
			400 * ms,
			map[string]float64{"standstill-share": 0.75, "on-ms": 25, "off-ms": 75},
		},
		{"a standstill at the start", []span{{50 * ms, 100 * ms}}, 100 * ms, map[string]float64{"standstill-share": 0.5}},
	} {
		if got := picture(test.on, test.window); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		in   []time.Duration
		want time.Duration
	}{
		{[]time.Duration{7}, 7},
		{[]time.Duration{9, 1}, 5},
		{[]time.Duration{9, 1, 2}, 2},
		{[]time.Duration{8, 1, 4, 2}, 3},
	} {
		if got := median(test.in); got != test.want {
			t.Errorf("got %d, want %d", got, test.want)
		}
	}
}
