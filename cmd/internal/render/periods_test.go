package render

import (
	"reflect"
	"strings"
	"testing"
)

func TestCutPeriods(t *testing.T) {
	tests := []struct {
		name  string
		first float64
		spans []span
		want  []periodPiece
	}{
		{"none", 0, nil, nil},
		{"within a period", 0, []span{{1, 3}}, []periodPiece{{0, 0.25, 0.75}}},
		{"over an edge", 0, []span{{3, 5}}, []periodPiece{{0, 0.75, 1}, {1, 0, 0.25}}},
		{"over several", 0, []span{{3, 13}}, []periodPiece{{0, 0.75, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 0.25}}},
		{"up to an edge", 0, []span{{2, 4}}, []periodPiece{{0, 0.5, 1}}},
		{"rows that begin earlier", -1, []span{{0, 3}, {3, 4}}, []periodPiece{{0, 0.25, 1}, {1, 0, 0.25}}},
		{"beyond the ends", 0, []span{{-3, 1}, {15, 99}}, []periodPiece{{0, 0, 0.25}, {3, 0.75, 1}}},
		{"turned round", 0, []span{{3, 1}}, nil},
	}
	for _, tt := range tests {
		if got := cutPeriods(tt.first, 4, 16, tt.spans); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPeriodChart(t *testing.T) {
	c := newPeriodChart(1, 0.1, 0.03, []span{{0.11, 0.13}, {0.2, 0.24}})
	// Rows begin at −0.07, 0.03, 0.13 and so on.
	if c.Rows != 11 || c.Each != 1 || c.Height != 11*periodsTall || len(c.Shades) != 1 {
		t.Fatalf("%+v", c)
	}
	if want := "M8000 1h2000v1h-2000zM7000 2h3000v1h-3000zM0 3h1000v1h-1000z"; c.Shades[0].Path != want {
		t.Errorf("drew %s, want %s", c.Shades[0].Path, want)
	}
	if want := "11 periods of 100 ms, 1 s in all, of which nothing ran for 6 %"; c.Label != want {
		t.Errorf("it is called %q, want %q", c.Label, want)
	}
	for _, bad := range [][2]float64{{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {1e9, 1e-9}} {
		if newPeriodChart(bad[0], bad[1], 0, nil) != nil {
			t.Errorf("%v can be drawn", bad)
		}
	}
}

// TestPeriodChartLong shares rows among periods: half of them frozen is half as dark.
func TestPeriodChartLong(t *testing.T) {
	var spans []span
	for i := range 2400 {
		if i%2 == 0 {
			spans = append(spans, span{float64(i)*0.1 + 0.05, float64(i)*0.1 + 0.1})
		}
	}
	c := newPeriodChart(240, 0.1, 0, spans)
	if c.Each != 4 || c.Rows != 600 || c.Height > 2*periodsMost || len(c.Shades) != 1 || c.Shades[0].Opacity != "0.5" {
		t.Fatalf("%d each, %d rows, %d pixels, %d shades", c.Each, c.Rows, c.Height, len(c.Shades))
	}
	if n := strings.Count(c.Shades[0].Path, "M5000 "); n != 600 {
		t.Errorf("%d rows have their second half frozen, want 600", n)
	}
}
