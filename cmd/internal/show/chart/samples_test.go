package chart

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// samples are charts such as the verbs have.
func samples() map[string]sheet.Chart {
	return map[string]sheet.Chart{
		"rows-blocks":       blocks(4, 10),
		"rows-alone":        blocks(1, 1),
		"rows-many":         blocks(14, 30),
		"rows-effects":      effects(),
		"field-percentiles": percentiles(),
		"field-settings":    settings(),
		"field-tries":       tries(),
		"field-front":       front(),
		"field-limits":      limits(),
		"strips-time":       overTime(),
		"strips-activity":   activity(),
		"strips-shades":     shadedStrips(),
		"fold-quota":        fold(5, true),
		"fold-long":         fold(300, false),
		"fold-seconds":      seconds(),
		"flame":             flame(),
	}
}

func p(v float64) *float64 { return &v }

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func blocks(settings, n int) *sheet.Rows {
	r := random(1)
	c := &sheet.Rows{
		Figure: sheet.Figure{
			About:  "time by GOMAXPROCS, a dot for each run",
			Legend: []string{"A dot is a run, the first block's on top, and a thin line joins the runs of one block.", "The thick line is the median, with its 95 % interval shaded behind it; the dashed one is the median of 1, the base."},
			Keys:   []sheet.Key{{Shape: sheet.Diamond, Open: true, Text: "far from the others"}, {Shape: sheet.Triangle, Text: "the host did something else meanwhile"}},
		},
		Factor: "GOMAXPROCS", X: sheet.Axis{Unit: quantity.Second}, Joined: settings > 1, Side: "throttled",
	}
	for i := range settings {
		middle := 0.0271 * math.Pow(1.12, float64(i))
		s := sheet.Series{
			Label:  sheet.Label{Name: fmt.Sprint(1 << min(i, 6)), Lines: []sheet.Cell{{Text: quantity.Second.Text(middle)}}},
			Middle: p(middle), Low: p(middle * 0.97), High: p(middle * 1.04), Share: p(float64(i) / 6), ShareText: quantity.Share(float64(i) / 6),
		}
		switch i {
		case 0:
			s.Color = sheet.BaseColor
			s.Lines = append(s.Lines, sheet.Cell{Text: "the base"})
		case 1:
			s.Tag = "best"
			s.Lines = append(s.Lines, sheet.Cell{Text: "+12 %, worse", Tone: sheet.Bad})
		case 2:
			s.Lines = append(s.Lines, sheet.Cell{Text: "−7.3 %, better", Tone: sheet.Good}, sheet.Cell{Text: "1 of 11 failed", Tone: sheet.Bad})
		}
		for b := range n {
			at := middle * (1 + 0.05*r.NormFloat64())
			m := sheet.Mark{At: at, Thread: b + 1, Place: 0.5, Title: fmt.Sprintf("block %d: %s", b+1, quantity.Second.Text(at))}
			if n > 1 {
				m.Place = float64(b) / float64(n-1)
			}
			switch r.IntN(30) {
			case 0:
				m.Shape, m.Open = sheet.Diamond, true
			case 1:
				m.Shape = sheet.Triangle
			}
			s.Marks = append(s.Marks, m)
		}
		c.Rows = append(c.Rows, s)
	}
	if settings > 3 {
		c.Rules = []sheet.Rule{{At: 0.0271, Color: sheet.BaseColor}}
		c.Rows[3] = sheet.Series{Label: sheet.Label{Name: "a name that is far too long for it", Lines: []sheet.Cell{{Text: "no figures"}}}, Empty: "3 runs failed"}
	}
	return c
}

func effects() *sheet.Rows {
	band := func(name string) *sheet.Band {
		if name == "p99" {
			return &sheet.Band{From: 1 / 1.25, To: 1.25}
		}
		return &sheet.Band{From: 1 / 1.05, To: 1.05}
	}
	row := func(name, values, verdict string, tone sheet.Tone, color sheet.Color, low, middle, high float64) sheet.Series {
		return sheet.Series{
			Label: sheet.Label{Name: name, Lines: []sheet.Cell{{Text: values}, {Text: verdict, Tone: tone}}, Color: color},
			Band:  band(name), Middle: p(middle), Low: p(low), High: p(high), MiddleText: quantity.Change(middle), RangeText: "(" + quantity.Changes(low, high) + ")",
		}
	}
	return &sheet.Rows{
		Figure: sheet.Figure{
			Title: "Change from 8 to 2", About: "Change from 8 to 2, with 95 % intervals",
			Legend: []string{"A dot is the ratio of a typical pair, the line its 95 % interval.", "Shaded: too small to count (5 %, for p99 25 %)."},
		},
		X: sheet.Axis{Scale: sheet.Changes}, Rules: []sheet.Rule{{At: 1}},
		Rows: []sheet.Series{
			row("p99", "114 ms → 55.9 ms", "better", sheet.Good, sheet.GoodColor, 0.41, 0.49, 0.6),
			row("CPU per request", "2.13 ms → 2.08 ms", "no relevant difference", sheet.Plain, sheet.NoColor, 0.96, 0.98, 1.01),
			row("peak memory", "12 MiB → 15 MiB", "worse", sheet.Bad, sheet.BadColor, 1.1, 1.25, 1.4),
			{Label: sheet.Label{Name: "throughput", Lines: []sheet.Cell{{Text: "400/s → 400/s"}}}, Band: band("throughput"), Middle: p(1), MiddleText: "0 %"},
		},
	}
}

// curve is the percentiles of a latency: slow from some percentile on.
func curve(fast, slow, from float64) (points []sheet.Point) {
	for _, at := range []float64{0, 10, 25, 50, 75, 80, 85, 90, 92, 94, 95, 96, 97, 98, 99, 99.3, 99.6, 99.9, 99.95, 99.99, 100} {
		v := fast * (1 + at/100)
		if at >= from {
			v = slow * (1 + (at-from)/100)
		} else if at >= from-15 {
			v = fast * 2 * math.Pow(slow/fast/2, (at-from+15)/15)
		}
		points = append(points, sheet.Point{X: at, Y: v})
	}
	return points
}

func percentiles() *sheet.Field {
	response, service := curve(0.0012, 0.041, 99), curve(0.0011, 0.02, 99)
	for i, at := range response {
		if at.X == 50 || at.X == 90 || at.X == 99 || at.X == 99.9 {
			response[i].Show, service[i].Show, service[i].Open = sheet.Small, sheet.Small, true
			response[i].Text, response[i].Title = quantity.Second.Text(at.Y), "response"
		}
	}
	return &sheet.Field{
		Figure: sheet.Figure{About: "Percentiles of response and service", Legend: []string{"Response, the unbroken line, counts from when a request was due; service, the dotted one, from when it was sent."}},
		X:      sheet.Axis{Scale: sheet.Percentiles, High: 100 * (1 - 1/12000.)}, Y: sheet.Axis{Unit: quantity.Second}, Chance: p(100 * (1 - 1/1200.)),
		Lines: []sheet.Line{
			{Name: "response", Color: sheet.BaseColor, Points: response},
			{Name: "service", Stroke: sheet.Dotted, Points: service},
		},
		Limits: []sheet.Limit{{X: 99, Y: 0.1, Text: "p99 ≤ 100 ms"}},
	}
}

func settings() *sheet.Field {
	c := &sheet.Field{Figure: sheet.Figure{About: "Percentiles of the response by GOMAXPROCS"}, X: sheet.Axis{Scale: sheet.Percentiles, High: 99.99}, Y: sheet.Axis{Unit: quantity.Second}, Chance: p(99.9)}
	for i := range 7 {
		l := sheet.Line{Name: fmt.Sprint(1 << i), Color: sheet.Color(i + 1), Points: curve(0.001*float64(i+8), 0.05*math.Pow(1.2, float64(i)), 97)}
		switch i {
		case 0:
			l.Tag = "now"
		case 1:
			l.Tag = "best"
		case 6:
			l.Stroke = sheet.Dotted
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

func tries() *sheet.Field {
	l := sheet.Line{Stroke: sheet.NoStroke}
	for i, rate := range []float64{100, 200, 400, 800, 600, 700, 650, 660, 655} {
		at := sheet.Point{X: rate, Y: 0.004 * math.Exp(rate/180), Show: sheet.Small, Color: sheet.BaseColor, Title: fmt.Sprintf("try %d", i+1)}
		switch {
		case i == 5:
			at.Shape, at.Open, at.Color = sheet.Diamond, true, sheet.NoColor
		case at.Y > 0.15:
			at.Shape, at.Open, at.Color = sheet.Triangle, true, sheet.BadColor
		}
		l.Points = append(l.Points, at)
	}
	return &sheet.Field{
		Figure: sheet.Figure{About: "p99 of the windows by rate", Keys: []sheet.Key{
			{Color: sheet.BaseColor, Text: "held"},
			{Shape: sheet.Triangle, Open: true, Color: sheet.BadColor, Text: "missed"},
			{Shape: sheet.Diamond, Open: true, Text: "invalid: the generator could not keep up"},
		}},
		X: sheet.Axis{Title: "requests a second", Unit: quantity.Rate}, Y: sheet.Axis{Title: "p99", Unit: quantity.Second},
		Lines: []sheet.Line{l}, Rules: []sheet.Rule{{At: 0.15, Text: "p99 ≤ 150 ms", Color: sheet.BadColor}},
	}
}

func front() *sheet.Field {
	r := random(3)
	c := &sheet.Field{
		Figure: sheet.Figure{About: "p99 by CPU per request", Legend: []string{"A large dot is the median of a setting, a faint one a run.", "The dashed line joins the settings that no other beats in both."}},
		X:      sheet.Axis{Title: "CPU per request", Unit: quantity.Second}, Y: sheet.Axis{Title: "p99", Unit: quantity.Second},
	}
	var best []sheet.Point
	for i, name := range []string{"1", "2 best", "4", "8 current", "16 dropped", "32 dropped"} {
		x, y := 0.002*math.Pow(1.15, float64(i)), 0.11-0.05*math.Exp(-math.Pow(float64(i)-1, 2)/2)
		l := sheet.Line{Stroke: sheet.NoStroke, Color: sheet.Color(i + 1), Points: []sheet.Point{{X: x, Y: y, Show: sheet.Large, Name: name, Title: name}}}
		for range 8 {
			l.Points = append(l.Points, sheet.Point{X: x * (1 + 0.03*r.NormFloat64()), Y: y * (1 + 0.08*r.NormFloat64()), Show: sheet.Background})
		}
		if i < 2 {
			best = append(best, sheet.Point{X: x, Y: y})
		}
		c.Lines = append(c.Lines, l)
	}
	c.Lines = append(c.Lines, sheet.Line{Stroke: sheet.Dashed, Points: best})
	return c
}

func limits() *sheet.Field {
	c := &sheet.Field{
		Figure: sheet.Figure{About: "The highest rate at which the SLO holds, by limit", Legend: []string{"A line is a GOMAXPROCS."}},
		X:      sheet.Axis{Title: "limit", Unit: quantity.CPU, Ticks: []float64{0.5, 1, 1.5, 2, 4}}, Y: sheet.Axis{Title: "highest rate, a second", Unit: quantity.Rate},
		Rules: []sheet.Rule{{At: 400, Text: "your rate, 400/s", Color: sheet.BadColor}}, Posts: []sheet.Rule{{At: 1, Text: "1 CPU will do"}},
	}
	for i := range 3 {
		l := sheet.Line{Name: fmt.Sprint(i + 1), Color: sheet.Color(i + 1)}
		for _, cpus := range []float64{0.5, 1, 1.5, 2, 4} {
			l.Points = append(l.Points, sheet.Point{X: cpus, Y: 300 * min(cpus, float64(i+1)) / (1 + 0.05*float64(i)), Show: sheet.Small, Open: i == 1 && cpus == 2})
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

func overTime() *sheet.Strips {
	r := random(4)
	rate, response, service, throttled := sheet.Lane{}, sheet.Lane{}, sheet.Lane{Kind: sheet.Drawn}, sheet.Lane{}
	for i := range 30 {
		at := float64(i)
		slow := 1.0
		if i > 10 && i < 18 {
			slow = 15
			throttled.Steps = append(throttled.Steps, sheet.Step{From: at, To: at + 1, Value: 0.4 + 0.6*r.Float64(), Title: fmt.Sprintf("at %d s: throttled", i)})
		} else {
			throttled.Steps = append(throttled.Steps, sheet.Step{From: at, To: at + 1})
		}
		rate.Steps = append(rate.Steps, sheet.Step{From: at, To: at + 1, Value: 380 + 40*r.Float64()})
		response.Steps = append(response.Steps, sheet.Step{From: at, To: at + 1, Value: 0.003 * slow * (1 + 0.2*r.Float64())})
		service.Steps = append(service.Steps, sheet.Step{From: at, To: at + 1, Value: 0.0025 * slow})
	}
	label := func(name, about string, color sheet.Color) sheet.Label {
		return sheet.Label{Name: name, Lines: []sheet.Cell{{Text: about}}, Color: color}
	}
	return &sheet.Strips{
		Figure: sheet.Figure{About: "Over time", Legend: []string{"Requests belong to the moment when they were due.", "p99: the response is filled, the dotted line is the service.", "throttled: the share of the server’s periods."}},
		X:      sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: 30},
		Rows: []sheet.Strip{
			{Label: label("rate", "380 to 420/s", 0), Y: sheet.Axis{Unit: quantity.Rate, Scale: sheet.Linear, High: 420}, Lanes: []sheet.Lane{rate}, Page: true},
			{Label: label("p99", "max 53.4 ms", sheet.BaseColor), Y: sheet.Axis{Unit: quantity.Second}, Lanes: []sheet.Lane{response, service}, Rule: &sheet.Rule{At: 0.04, Text: "≤ 40 ms", Color: sheet.BadColor}, End: "max 53.4 ms"},
			{Label: label("throttled", "max 98 % of the periods", 0), Y: sheet.Axis{Scale: sheet.Linear, High: 1}, Lanes: []sheet.Lane{throttled}, End: "max 98 %"},
		},
	}
}

func activity() *sheet.Strips {
	c := &sheet.Strips{
		Figure: sheet.Figure{Title: "When it ran and when it stood still", Legend: []string{"Filled: it ran; grey: it stood still."}},
		X:      sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: 1}, Each: 0.1,
	}
	for i, on := range []float64{0.05, 0.025, 0.0125} {
		l := sheet.Lane{Kind: sheet.Ran, Title: "block 3, from 200 ms of the run"}
		for at := 0.01; at < 1; at += 0.1 {
			l.Steps = append(l.Steps, sheet.Step{From: at, To: at + on})
		}
		c.Rows = append(c.Rows, sheet.Strip{Label: sheet.Label{Name: fmt.Sprint(1 << i), Lines: []sheet.Cell{{Text: "25.0 ms on, 75.0 ms off"}}}, Lanes: []sheet.Lane{l}})
	}
	return c
}

func shadedStrips() *sheet.Strips {
	r := random(5)
	c := &sheet.Strips{
		Figure: sheet.Figure{Legend: []string{"A line is a run: the stronger its shade, the more of the periods were throttled:"}},
		Factor: "GOMAXPROCS / GOGC", X: sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: 12},
	}
	for i, name := range []string{"2 / 100", "4 / 100", "8 / 400"} {
		s := sheet.Strip{Label: sheet.Label{Name: name, Color: sheet.Color(i + 1), Lines: []sheet.Cell{{Text: "12 % throttled, 6 runs"}}}, Page: true}
		if i == 0 {
			s.Tag = "current, best"
		}
		for k := range 6 {
			l := sheet.Lane{Kind: sheet.Shaded, Title: fmt.Sprintf("pair %d", k+1)}
			for at := range 12 {
				l.Steps = append(l.Steps, sheet.Step{From: float64(at), To: float64(at + 1), Value: max(0, min(1, r.Float64()*float64(i)/2))})
			}
			s.Lanes = append(s.Lanes, l)
		}
		c.Rows = append(c.Rows, s)
	}
	return c
}

func fold(wall float64, refill bool) *sheet.Fold {
	r := random(6)
	c := &sheet.Fold{Wall: wall, Period: 0.1, Phase: 0.03, Refill: refill, Was: "frozen", Figure: sheet.Figure{Legend: []string{"Filled: nothing ran."}}}
	for at := 0.03; at+0.1 < wall; at += 0.1 {
		if refill {
			c.Spans = append(c.Spans, sheet.Span{From: at + 0.027 + 0.01*r.Float64(), To: at + 0.1})
		} else {
			begin := at + 0.1*r.Float64()
			c.Spans = append(c.Spans, sheet.Span{From: begin, To: begin + 0.03*r.Float64()})
		}
	}
	return c
}

func seconds() *sheet.Fold {
	c := fold(25.5, true)
	c.Seconds = true
	return c
}

func flame() *sheet.Flame {
	return &sheet.Flame{
		Figure: sheet.Figure{About: "Flame graph", Legend: []string{"A red line above: it grows with GOMAXPROCS."}},
		Frames: []sheet.Frame{
			{Depth: 1, From: 0, Width: 0.6, Name: "http.(*conn).serve", Title: "net/http.(*conn).serve: 1.2 s, 60 % of the CPU time, program", Class: "program"},
			{Depth: 2, From: 0, Width: 0.5, Name: "main.work", Title: "main.work: 1 s, 50 % of the CPU time, program", Class: "program"},
			{Depth: 3, From: 0.1, Width: 0.2, Name: "runtime.mallocgc", Title: "runtime.mallocgc: 0.4 s, 20 % of the CPU time, alloc", Class: "alloc"},
			{Depth: 1, From: 0.6, Width: 0.4, Name: "runtime.mcall", Title: "runtime.mcall: 0.8 s, 40 % of the CPU time, schedule", Class: "schedule"},
			{Depth: 2, From: 0.6, Width: 0.35, Name: "runtime.stealWork", Title: "runtime.stealWork: 0.7 s, 35 % of the CPU time, steal", Class: "steal", Marked: true},
			{Depth: 3, From: 0.6, Width: 0.005, Name: "runtime.x", Title: "runtime.x: 0.01 s, 0.5 % of the CPU time, steal", Class: "steal", Marked: true},
		},
		Classes: []sheet.Class{
			{Name: "program", Text: "40 %", Color: sheet.FirstFlame + 13},
			{Name: "steal", Text: "35 %", Color: sheet.FirstFlame, Marked: true},
			{Name: "alloc", Text: "20 %", Color: sheet.FirstFlame + 12},
			{Name: "schedule", Text: "5 %", Color: sheet.FirstFlame + 10},
		},
	}
}
