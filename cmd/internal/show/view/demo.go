package view

import (
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// DemoHead says what is going to be seen, before anything is known; DemoRate what the server is sent.
func DemoHead(cpus float64, kind string) string {
	return "A server under a limit of " + quantity.CPUs(cpus) + around(" (", limitKind(kind), ")") + ", with three values of GOMAXPROCS."
}

func DemoRate(rate float64) string { return "It is sent " + quantity.PerSecond(rate) + " with each." }

// DemoPicture draws two seconds of each setting.
func DemoPicture(d *report.Demo) *chart.Picture {
	const from, seconds = 1, 2
	p := &chart.Picture{
		Title: "A server under a limit of " + quantity.CPUs(d.CPUs) + ", " + quantity.PerSecond(d.Rate) + " with each GOMAXPROCS",
		From:  from, To: from + seconds, Ran: "it ran", Was: "stood still, throttled",
	}
	for _, leg := range d.Legs {
		p.Rows = append(p.Rows, chart.PictureRow{
			Name: "GOMAXPROCS=" + strconv.Itoa(leg.Procs), Spans: DemoSpans(leg.Still),
			Notes: []string{report.DemoTail(leg), "CPU per request " + quantity.Latency(leg.CPU)},
		})
	}
	return p
}

// DemoSpans are pieces of time as a drawing has them.
func DemoSpans(still []trial.Span) (spans []sheet.Span) {
	for _, s := range still {
		spans = append(spans, sheet.Span(s))
	}
	return spans
}

// Demo shows what a demo has shown, and what to do next.
func Demo(d *report.Demo) *sheet.Sheet {
	tone := sheet.Strong
	if !d.Shown() {
		tone = sheet.Unsure
	}
	s := &sheet.Sheet{Verb: "demo", Claims: []sheet.Claim{{Word: "demo", Tone: tone, Text: d.Answer(), Whole: true, More: d.More()}}}
	s.Add(sheet.Section{Title: "What next", Blocks: []sheet.Block{sheet.Commands{
		{About: "What is wrong with the Go programs that run here:", Lines: []string{"unthrottle ps"}},
		{About: "Which limit a program has, and which GOMAXPROCS it chose:", Lines: []string{"unthrottle explain -- ./server"}},
		{About: "Which GOMAXPROCS is right for it, by trying:", Lines: []string{"unthrottle tune -- ./server"}},
	}}})
	return s
}
