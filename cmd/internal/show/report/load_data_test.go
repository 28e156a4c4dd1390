package report

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// TestLoadHGRM reads the format as HdrHistogram's plotter does: of lines with four fields the first and the last.
func TestLoadHGRM(t *testing.T) {
	h := hdrhistogram.New(1, int64(2*time.Hour), 3)
	for i := range int64(12_000) {
		h.RecordValue(1_000_000 + i*i)
	}
	r := &load.Result{Response: h, Service: h, Lag: h, PacerLate: h, NoConnection: h, Successes: h, FromReady: h, CaughtUp: h}
	d := &Load{Summary: loadtest.Summarise(r, nil)}
	var b strings.Builder
	if err := LoadHGRM(&b, d); err != nil {
		t.Fatal(err)
	}
	points, last := 0, 0.0
	for _, line := range strings.Split(b.String(), "\n") {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(fields) != 4 {
			continue
		}
		value, err1 := strconv.ParseFloat(fields[0], 64)
		inverse, err2 := strconv.ParseFloat(fields[3], 64)
		if err1 != nil || err2 != nil {
			continue
		}
		if value < last || inverse < 1 {
			t.Errorf("after %v: %s", last, line)
		}
		points, last = points+1, value
	}
	if points != len(d.Response.Curve)-1 {
		t.Errorf("%d points of %d, the last of which has no inverse", points, len(d.Response.Curve))
	}
	for _, want := range []string{"#[Mean    =", "StdDeviation   =", "#[Max     =", "Total count    =        12000]", "#[Buckets ="} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
}
