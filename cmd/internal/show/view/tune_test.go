package view

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// tunes are the documents that package report keeps, of every kind of end.
func tunes() map[string]*report.Tune {
	files, err := filepath.Glob("../report/testdata/tune-*.json")
	if err != nil || len(files) == 0 {
		panic("there are no documents of tune")
	}
	all := map[string]*report.Tune{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		d := &report.Tune{}
		if err := json.Unmarshal(data, d); err != nil {
			panic(err)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "tune-"), ".json")] = d
	}
	return all
}

func TestTune(t *testing.T) {
	for name, d := range tunes() {
		s := Tune(d)
		golden(t, "tune "+name, s)
		shown(t, s)
		selfContained(t, s)
		switch name {
		case "change", "trade", "limits", "memory", "loads", "doubts", "gogc", "interrupted", "failed", "fallen", "nothing":
			screen(t, "tune "+name, s)
		}
	}
}

// TestTuneSays holds what a reader must not miss.
func TestTuneSays(t *testing.T) {
	all := tunes()
	for name, want := range map[string][]string{
		"change":      {"Set GOMAXPROCS=1: p99 −59 %, CPU −6.7 %.", "p99 fell from", "GOMAXPROCS=8 was dropped:", "noise: p99 ±", "2 fresh pairs"},
		"trade":       {"Keep GOMAXPROCS=2; GOMAXPROCS=1 is a trade: CPU −15 %, p99 +148 %.", "→ marks the trade", "To take the trade: --objective cpu", "Settings that no other beats in both"},
		"undecided":   {"the budget of 60 s is used up", "→ marks the candidate"},
		"gogc":        {"GOGC=800"},
		"interrupted": {"Undecided: interrupted after 7 runs", "unthrottle tune --resume tune.jsonl"},
		"fallen":      {"Set GOMAXPROCS=1: the current 500 does not survive this load.", "The current setting, GOMAXPROCS=500, does not survive this load: out of memory: limit 256Mi.", "Of those that do, GOMAXPROCS=2 is what the others are compared with.", "500 (current)", "2 (base)", "Changes are against GOMAXPROCS=2,"},
		"failed":      {"Error: the meter stood still: it saw 4.161s of 6.075s.", "Undecided: it ended after 5 runs", "unthrottle tune --resume tune.jsonl"},
		"job":         {"CPU per run", "time"},
		"loads":       {"40 % of its limit (270/s)", "keep 2", "set 1"},
		"limits":      {"Set a limit of 1 CPU", "yes, smallest", "15 of 15", "0.2 % (≤0.36 %)", "kubectl set resources"},
		"doubts":      {"the limit is emulated", "panic: out of file descriptors", "were sent in bursts", "missed the SLO in"},
		"nothing":     {"before anything was measured"},
	} {
		for form, text := range forms(t, Tune(all[name])) {
			text = strings.NewReplacer(`\_`, "_", "&#39;", "'").Replace(text)
			for _, want := range want {
				if form == "markdown" && strings.Contains(want, "--resume") {
					continue
				}
				if !strings.Contains(text, want) {
					t.Errorf("%s: the %s does not say %q", name, form, want)
				}
			}
		}
	}
}

// TestTuneAtOnce: how much was made at the same time is said, and why not more, where there might have been.
func TestTuneAtOnce(t *testing.T) {
	const together = "8 runs, all settings of a block at the same time, each in a network of its own"
	for _, c := range []struct {
		is   *report.TuneAtOnce
		node string
		want string
	}{
		{nil, "", ""},
		{&report.TuneAtOnce{InTurn: "it writes /data"}, "", "nothing, as it writes /data"}, // there was no room from the start
		{&report.TuneAtOnce{Most: 2}, "", ""},
		{&report.TuneAtOnce{Most: 2, InTurn: "it writes /data"}, "", "nothing, as it writes /data"},
		{&report.TuneAtOnce{Most: 4, Runs: 8}, "", together},
		{&report.TuneAtOnce{Most: 4, Runs: 8}, "node1", "8 runs, all settings of a block at the same time"},
		{&report.TuneAtOnce{Most: 4, Runs: 8, InTurn: "CPUs were short"}, "", together + "; then in turn, as CPUs were short"},
	} {
		d := &report.Tune{AtOnce: c.is, Subject: report.TuneSubject{Kind: "server"}}
		d.Environment.Node = c.node
		if got := newTuneDoc(d).atOnceText(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.is, got, c.want)
		}
	}
}

// TestTuneDraws: what has no data is not drawn.
func TestTuneDraws(t *testing.T) {
	for name, want := range map[string]int{"change": 6, "keep": 5, "job": 4, "nothing": 0, "limits": 1, "interrupted": 6, "loads": 16} {
		if got := strings.Count(forms(t, Tune(tunes()[name]))["page"], `<svg role="img"`); got != want {
			t.Errorf("%s: %d drawings, want %d", name, got, want)
		}
	}
}

// TestTuneColors: a setting has the same colour wherever it is seen, and the current one that of the base.
func TestTuneColors(t *testing.T) {
	for name, d := range tunes() {
		colors := map[string]sheet.Color{}
		see := func(name string, c sheet.Color) {
			name, _, _ = strings.Cut(name, " (")
			if before, ok := colors[name]; ok && before != c {
				t.Errorf("%s has two colours, %d and %d", name, before, c)
			}
			colors[name] = c
		}
		for _, section := range Tune(d).Sections {
			for _, b := range section.Blocks {
				if detail, ok := b.(sheet.Detail); ok {
					b = detail.Block
				}
				switch b := b.(type) {
				case *sheet.Table:
					for _, r := range b.Rows {
						if name := r.Cells[0].Text; strings.HasPrefix(b.Columns[0].Title, "GOMAXPROCS") && b.Columns[1].Title != "GOGC" {
							see(name, r.Color)
						}
					}
				case *sheet.Rows:
					for _, s := range b.Rows {
						if b.Factor != "" {
							see(s.Name, s.Color)
						}
					}
				case *sheet.Strips:
					for _, s := range b.Rows {
						see(s.Name, s.Color)
					}
				case *sheet.Field:
					for _, l := range b.Lines {
						if l.Name != "" {
							see(l.Name, l.Color)
						}
					}
				}
			}
		}
		for _, s := range d.Settings {
			of := newTuneDoc(d).name(s.Key())
			if s.Current && colors[of] != sheet.BaseColor {
				t.Errorf("%s: the current setting has the colour %d", name, colors[of])
			}
		}
	}
}

// hostileTune is a document with a text from outside in every place that has any.
func hostileTune(text string) *report.Tune {
	d := tunes()["doubts"]
	var change func(v reflect.Value)
	change = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(text)
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.String && v.Len() == 0 {
				v.Set(reflect.ValueOf([]string{text}))
			}
			for i := range v.Len() {
				change(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "Phase" && name != "Unit" && name != "Verb" {
					change(v.Field(i))
				}
			}
		case reflect.Pointer:
			if !v.IsNil() {
				change(v.Elem())
			}
		}
	}
	change(reflect.ValueOf(d).Elem())
	d.Subject.Kind, d.Finished = "server", false
	for i := range d.Metrics {
		d.Metrics[i].Better = text
	}
	d.Metrics = append(d.Metrics, lab.Metric{Unit: text})
	d.Runs[0].Metrics[text] = 5
	d.Runs[1].Phase = text
	return d
}

var hostileTexts = map[string]string{
	"escapes": hostile, "lines": "a\nb\r\n\nBenchmarkX 1 2 ns/op\n", "long": strings.Repeat("very", 2500), "spaces": "  \t ", "table": "| a | `b` |\n|---|",
	"csv": `=1+1,"x` + "\n", "tooLong": strings.Repeat("word ", 2000),
}

// fenced is what Markdown shows unchanged.
var fenced = regexp.MustCompile("(?s)\n```+\n.*?\n```+\n")

func TestTuneIsSafe(t *testing.T) {
	slowtest.Plain(t)
	for name, text := range hostileTexts {
		d := hostileTune(text)
		s := Tune(d)
		if name == "long" || name == "tooLong" { // of which a page has several copies
			sane(t, s)
		} else {
			harmless(t, s)
		}
		if md := fenced.ReplaceAllString(forms(t, s)["markdown"], ""); strings.Contains(md, "<b>") {
			t.Errorf("%s: there is an element in the markdown", name)
		}
		if d.Verdict.Text != text || d.Runs[3].Error != text || d.Verdict.How[0].Text != text {
			t.Errorf("%s: the document was changed", name)
		}
	}
}

// odd documents: no tune makes them, but a file may hold them.
func oddTunes() map[string]*report.Tune {
	odd := map[string]*report.Tune{"empty": {}}
	number := func(name string, v float64) {
		d := tunes()["change"]
		var change func(x reflect.Value)
		change = func(x reflect.Value) {
			switch x.Kind() {
			case reflect.Float64:
				x.SetFloat(v)
			case reflect.Int, reflect.Int64:
				x.SetInt(int64(max(-1e6, min(v, 1e6))))
			case reflect.Slice:
				for i := range x.Len() {
					change(x.Index(i))
				}
			case reflect.Map:
				for _, key := range x.MapKeys() {
					e := reflect.New(x.Type().Elem()).Elem()
					e.Set(x.MapIndex(key))
					change(e)
					x.SetMapIndex(key, e)
				}
			case reflect.Struct:
				for i := range x.NumField() {
					change(x.Field(i))
				}
			case reflect.Pointer:
				if !x.IsNil() {
					change(x.Elem())
				}
			}
		}
		change(reflect.ValueOf(d).Elem())
		for i := range d.Runs {
			d.Runs[i].Load = i % 3 * 5
		}
		odd[name] = d
		inside := tunes()["limits"]
		change(reflect.ValueOf(inside).Elem())
		odd[name+" limits"] = inside
	}
	number("negative", -1)
	number("zero", 0)
	number("huge", 1e300)
	number("large", 1e15)
	number("small", 1e-300)
	number("hundred", 100)
	mixed := tunes()["change"]
	for i := range mixed.Runs {
		mixed.Runs[i].Metrics["p99-latency-ns"] = math.Pow(10, float64(i%25-12))
		mixed.Runs[i].Block = i
	}
	odd["mixed"] = mixed
	none := tunes()["change"]
	none.Runs = nil
	odd["no runs"] = none
	loads := tunes()["change"]
	loads.Loads = nil
	odd["no loads"] = loads
	wrong := tunes()["change"]
	wrong.Verdict.Load = 99
	wrong.Settings = slices.Repeat(wrong.Settings, 5)
	for i := range wrong.Settings {
		wrong.Settings[i].Procs = i
	}
	odd["many settings"] = wrong
	return odd
}

func TestTuneOdd(t *testing.T) {
	for name, d := range oddTunes() {
		t.Run(name, func(t *testing.T) { sane(t, Tune(d)) })
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		d := tunes()["change"]
		d.Loads[0].Rate, d.Settings[0].Metrics["p99-latency-ns"], d.Runs[3].Metrics["p99-latency-ns"], d.Loads[0].Effects[0].Ratio = v, report.BenchSummary{N: 3, Median: v}, v, v
		d.Loads[0].Noise["p99"], d.Seconds, d.Margin = report.TuneNoise{SD: v, Low: v, High: v}, v, v
		s := Tune(d)
		s.Document = nil // which JSON can't hold
		sane(t, s)
	}
}
