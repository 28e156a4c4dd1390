package generator

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// TestRead reads what generators have printed: testdata has an output of each.
func TestRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var got strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Read(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[r.By] = true
		fmt.Fprintf(&got, "%s: %s, %g units, %g failed, %g a second", filepath.Base(file), r.By, r.Units, r.Failed, r.Rate)
		for _, m := range slices.Sorted(maps.Keys(r.Latencies)) {
			fmt.Fprintf(&got, ", %s %.6g s", strings.TrimSuffix(string(m), "-latency-ns"), r.Latencies[m])
		}
		got.WriteByte('\n')
	}
	want, err := os.ReadFile("testdata/want")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
	for _, teller := range tellers {
		if !seen[teller.name] {
			t.Errorf("there is no output of %s", teller.name)
		}
	}
}

func TestMetric(t *testing.T) {
	const output = "p99: 12, took 1.5ms, 1,200 done, 3 lost\r\np99: 14, took 2.5ms, 1,300 done, 4 lost\n"
	for text, want := range map[string]string{
		"p99=ms:p99: ([0-9]+)":    "p99 0.014",
		"p99=us:p99: ([0-9]+)":    "p99 1.4e-05",
		"p50=took ([0-9.a-z]+)":   "p50 0.0025",
		"p99.9=took ([0-9.a-z]+)": "p999 0.0025",
		"units=([0-9,]+) done":    "units 1300",
		"failed=([0-9]+) lost":    "failed 4",
		"rate=([0-9,]+) done":     "rate 1300",
		"p99=ms:nosuch ([0-9]+)":  `nothing in what the load printed matches "nosuch ([0-9]+)"`,
		"p99=p99: ([0-9]+)":       `p99: "14" is not a time: its unit is missing, as in ` + Example,
		"units=(took)":            `units: "took" is not a number`,
		"p95=ms:([0-9]+)":         "want p50=, p90=, p99=, p99.9=, units=, failed= or rate=",
		"([0-9]+)":                "want p50=, p90=, p99=, p99.9=, units=, failed= or rate=",
		"units=[0-9]+":            "want one group in brackets, for the number",
		"units=((":                "error parsing regexp: missing closing ): `((`",
	} {
		got := ""
		m, err := ParseMetric(text)
		if err == nil {
			var r Reading
			if r, err = Read([]byte(output), []Metric{m}); err == nil {
				for measure, v := range r.Latencies {
					got = fmt.Sprintf("%s %g", strings.TrimSuffix(string(measure), "-latency-ns"), v)
				}
				for name, v := range map[string]float64{"units": r.Units, "failed": r.Failed, "rate": r.Rate} {
					if v > 0 {
						got = fmt.Sprintf("%s %g", name, v)
					}
				}
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if m, err := ParseMetric("p90=ms:(x)"); err != nil || m.Measure() != lab.P90 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]float64{"1.5ms": 0.0015, "12 ms": 0.012, "0.5 secs": 0.5, "1m2.5s": 62.5, "7µs": 7e-6, "3us": 3e-6, "9ns": 9e-9, "1h": 3600} {
		if got, err := seconds(text, 0); err != nil || got < want*0.999999 || got > want*1.000001 {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"5", "x", "1.2.3ms", "5 parsecs"} {
		if got, err := seconds(text, 0); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for m, v := range r.Latencies {
			if !(v > 0) {
				t.Errorf("%s is %v", m, v)
			}
		}
		if r.Units < 0 || r.Failed < 0 || r.Rate < 0 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestPath(t *testing.T) {
	const output = "done {really}\n" // whose brackets are none of JSON
	const document = "starting\n{\"latencies\": {\"p99\": 0.0125, \"p(50)\": \"2ms\"}, \"list\": [1, {\"n\": 300}], \"none\": null}\nbye\n"
	for text, want := range map[string]string{
		"p99=s:$.latencies.p99":    "p99 0.0125",
		"p99=ms:$.latencies.p99":   "p99 1.25e-05",
		`p50=$.latencies["p(50)"]`: "p50 0.002",
		"units=$.list[1].n":        "units 300",
		"units=$.list[0]":          "units 1",
		"units=$.list[2]":          "has no 2 there",
		"units=$.nosuch":           "has no nosuch there",
		"units=$.list.n":           "has no n there",
		"units=$.list":             "has no number there",
		"units=$.none":             "has no number there",
		"units=$.":                 "not a path such as",
		"units=$.a..b":             "not a path such as",
		"units=$[x]":               "not a path such as",
		`units=$["x`:               "not a path such as",
		"units=$.list[0]x":         "not a path such as",
	} {
		m, err := ParseMetric(text)
		got := ""
		if err == nil {
			r := Reading{Latencies: map[lab.Measure]float64{}}
			if err = m.read(document, &r); err == nil {
				got = fmt.Sprint(m.Name, " ", r.Units+r.Latencies[m.Measure()])
			}
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	m, err := ParseMetric("units=$.n")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{output, "", "}{"} {
		if err := m.read(text, &Reading{}); err == nil || !strings.Contains(err.Error(), "JSON object") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
