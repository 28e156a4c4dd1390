package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Load shows how a server fared under a load: what was done and whether it held, the latencies and how they went over time,
// and what else is to be known.
func Load(d *report.Load) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "load", Subject: loadTarget(d.Targets) + ": " + loadAsked(d), Heading: true, Claims: loadClaims(d), Warnings: d.Warnings,
		Command: report.ShellWords(d.Command), Document: d,
	}
	add := func(title, about string, blocks ...sheet.Block) {
		s.Add(sheet.Section{Title: title, About: about, Quiet: true, Blocks: blocks})
	}
	if len(d.Targets) > 1 {
		add("Targets", "", loadTargets(d.Targets))
	}
	if d.Search != nil {
		s.Add(sheet.Section{Title: "What was tried", About: "p99 of the response by requests a second, a mark for each window", Detail: true, Blocks: []sheet.Block{loadTries(d)}})
		add("Windows", "", loadWindows(d.Search.Windows))
	}
	if d.Response.Count > 0 {
		add("Latencies", "", loadLatencies(d))
		add("Percentiles", "How many of the requests were done within which time", loadCurve(d))
	}
	add("Over time", "", loadOverTime(d))
	if d.Requests > 0 {
		add("Answers", "", loadAnswers(d))
		add("Server", "", loadServer(d.Server))
		add("Generator", "", loadGenerator(d))
	}
	s.Add(sheet.Section{Title: "What was asked", Detail: true, Blocks: []sheet.Block{loadPlan(d)}})
	if len(d.Causes) > causesListed {
		s.Add(sheet.Section{Title: "All errors", Detail: true, Blocks: []sheet.Block{sheet.Listed(loadCauses(d, d.Causes))}})
	}
	return s
}

// loadTarget names the target, or how many there are.
func loadTarget(targets []report.LoadTarget) string {
	switch len(targets) {
	case 0:
		return "no target"
	case 1:
		return targets[0].Method + " " + targets[0].URL
	}
	return quantity.Plural(len(targets), "target")
}

// loadTargets are several targets with their shares of the requests.
func loadTargets(targets []report.LoadTarget) (facts sheet.Facts) {
	sum := 0.0
	for _, t := range targets {
		sum += t.Weight
	}
	for _, t := range targets {
		share := dash
		if sum > 0 {
			share = quantity.Share(t.Weight / sum)
		}
		facts.Add(share, t.Method+" "+t.URL)
	}
	return facts
}

// loadAsked says how much was asked, in what manner, and for how long.
func loadAsked(d *report.Load) string {
	if d.Search != nil {
		text := "the highest rate that it sustains"
		if d.SLO != nil {
			text += " with " + d.SLO.Words()
		}
		return text
	}
	parts := []string{"a closed loop of " + quantity.Plural(d.MaxConns, "worker")}
	if d.RateAsked != nil {
		parts = []string{quantity.PerSecond(*d.RateAsked)}
		if text := arrivals(d.Arrivals); text != "" {
			parts = append(parts, text)
		}
	}
	length := quantity.Plural(d.Requests, "request")
	if d.Planned > 0 {
		length = quantity.Lasting(d.Planned)
	}
	if d.WarmUp > 0 {
		length += " after " + quantity.Lasting(d.WarmUp) + " of warm-up"
	}
	return strings.Join(append(parts, length), ", ")
}

// arrivals says how the requests of a rate are spread.
func arrivals(of string) string {
	switch load.Arrivals(of) {
	case load.Poisson:
		return "Poisson arrivals"
	case load.Constant:
		return "evenly spaced"
	}
	return of
}

func loadClaims(d *report.Load) (claims []sheet.Claim) {
	if !d.Valid {
		texts := append(slices.Clone(d.Invalid), d.Doubt())
		claims = append(claims, sheet.Claim{Word: "INVALID", Tone: sheet.Bad, Text: texts[0], More: texts[1:]})
	}
	v := d.Verdict()
	c := sheet.Claim{Word: v.Word, Tone: sheet.Unsure, Whole: d.Valid && d.SLO == nil && d.Search == nil, Text: v.Text, More: v.Missed}
	switch {
	case v.Held == nil:
	case *v.Held:
		c.Tone = sheet.Good
	default:
		c.Tone = sheet.Bad
	}
	if d.SLO != nil && d.Search == nil && (d.Valid || d.Response.Count == 0) {
		c.More = append(c.More, d.Headline())
	}
	c.More = append(c.More, d.Remarks()...)
	return append(claims, c)
}

// loadWindows is what was tried to find the highest rate.
func loadWindows(windows []report.LoadWindow) *sheet.Table {
	t := &sheet.Table{Name: "windows", Columns: []sheet.Column{
		{Left: true, Cut: true}, {Title: "rate"}, {Left: true}, {Title: "p50"}, {Title: "p99"}, {Title: "failed"}, {Title: "why", Left: true, Rank: 1},
	}}
	for _, w := range windows {
		word, tone := windowWord(w)
		t.Rows = append(t.Rows, sheet.Row{Cells: []sheet.Cell{
			{Text: w.Phase},
			{Text: quantity.PerSecond(w.Rate)},
			{Text: word, Tone: tone},
			{Text: quantity.Latency(w.P50)},
			{Text: quantity.Latency(w.P99)},
			{Text: quantity.Count(w.Failed)},
			{Text: w.Missed},
		}})
	}
	return t
}

func windowWord(w report.LoadWindow) (string, sheet.Tone) {
	switch {
	case !w.Valid:
		return "invalid", sheet.Plain
	case !w.Held:
		return "missed", sheet.Bad
	}
	return "held", sheet.Good
}

// loadLatencies is the table of latencies, with what its columns mean. There is no lag in a closed loop: a worker sends when
// it can.
func loadLatencies(d *report.Load) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{{Left: true}, {Title: "response"}, {Title: "service"}}}
	of := []report.Latencies{d.Response, d.Service}
	if d.Lag.Count > 0 {
		t.Columns, of = append(t.Columns, sheet.Column{Title: "lag"}), append(of, d.Lag)
	}
	for i, v := range d.Response.Values() {
		row := sheet.Row{Cells: []sheet.Cell{{Text: v.Name, Tone: sheet.Soft}}}
		for _, l := range of {
			row.Cells = append(row.Cells, sheet.Cell{Text: latencyText(l.Values()[i])})
		}
		t.Rows = append(t.Rows, row)
	}
	response := "how long a user waits: from when the request was due to the end of its answer"
	if d.Loop == "closed" {
		response = "from when its worker turned to the request to the end of its answer"
	}
	t.Beside.Add("response", response)
	t.Beside.Add("service", "from when it was sent")
	if d.Loop != "closed" && d.Lag.Count > 0 {
		t.Beside.Add("lag", "what it waited to be sent"+lagParts(d))
	}
	t.Beside.Add(dash, report.TooFew(d.Response))
	for _, note := range d.LatencyNotes() {
		t.Notes = append(t.Notes, sheet.Note{Text: note})
	}
	return t
}

func latencyText(v report.LatencyValue) string {
	if !v.Known {
		return dash
	}
	return quantity.Latency(v.Seconds)
}

// lagParts says what the lag was made of.
func lagParts(d *report.Load) string {
	var parts []string
	if d.Pacer.Count > 0 {
		parts = append(parts, "pacer late "+tail(d.Pacer))
	}
	switch {
	case d.NoConn.Count == 0:
	case d.NoConn.Max == 0:
		parts = append(parts, "there was always a connection free")
	default:
		parts = append(parts, "no connection free "+tail(d.NoConn))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; of that " + strings.Join(parts, ", ")
}

func tail(l report.Latencies) string {
	v := l.Tail()
	return v.Name + " " + quantity.Latency(v.Seconds)
}

// causesListed is how many causes of errors are facts; a page lists them all.
const causesListed = 6

// loadAnswers say what came back: how much, and how well.
func loadAnswers(d *report.Load) (facts sheet.Facts) {
	facts.Add("throughput", loadThroughput(d))
	facts.Add("requests", loadRequests(d))
	var statuses []string
	for _, s := range d.Statuses {
		statuses = append(statuses, fmt.Sprintf("%d: %s", s.Status, countOf(s.Count, d.Requests)))
	}
	facts.Add("statuses", strings.Join(statuses, "; "))
	if more := len(d.Causes) - causesListed; more > 0 {
		facts.Add("errors", append(loadCauses(d, d.Causes[:causesListed-1]), fmt.Sprintf("and %d other causes", more+1))...)
	} else {
		facts.Add("errors", loadCauses(d, d.Causes)...)
	}
	return facts
}

func loadCauses(d *report.Load, causes []report.CauseCount) (texts []string) {
	for _, c := range causes {
		texts = append(texts, countOf(c.Count, d.Requests)+": "+c.Cause)
	}
	return texts
}

// countOf is a number of things and which part of all that is: 12 (0.1 %).
func countOf(n, of int64) string {
	if n == 0 || of <= 0 {
		return quantity.Count(n)
	}
	return quantity.Count(n) + " (" + quantity.Part(n, of) + ")"
}

func loadThroughput(d *report.Load) string {
	text := quantity.PerSecond(d.Rate) + " done"
	if d.RateAsked != nil {
		text = quantity.PerSecond(*d.RateAsked) + " asked, " + text
	}
	good := "successes"
	if d.SLO != nil && d.SLO.Within > 0 {
		good += " within " + quantity.Seconds(d.SLO.Within)
	}
	return text + ", " + quantity.PerSecond(d.Goodput) + " good (" + good + ")"
}

func loadRequests(d *report.Load) string {
	text := quantity.Count(d.Requests)
	switch d.Sent {
	case d.Requests:
	case 0:
		text += ", none of them sent"
	default:
		text += ", " + quantity.Count(d.Sent) + " of them sent"
	}
	if d.Failed == 0 {
		text += ", none failed"
	} else {
		text += ", " + countOf(d.Failed, d.Requests) + " failed"
	}
	if d.Timeouts > 0 {
		text += ", of these " + quantity.Count(d.Timeouts) + " with a timeout"
	}
	if d.Unfinished > 0 {
		text += ", " + quantity.Count(d.Unfinished) + " unfinished at the end"
	}
	if d.Bytes > 0 {
		text += "; " + quantity.Bytes(d.Bytes) + " of bodies"
	}
	return text
}

// loadServer says what the kernel did to the server meanwhile.
func loadServer(s *report.LoadServer) (facts sheet.Facts) {
	if s == nil {
		return nil
	}
	name := "PID " + strconv.Itoa(s.PID)
	if s.Name != "" {
		name = s.Name + ", " + name
	}
	if s.LimitCPUs != nil {
		name += ", limit " + quantity.CPUs(*s.LimitCPUs)
	}
	if s.CPUSeconds != nil {
		name += "; used " + quantity.Seconds(*s.CPUSeconds) + " of CPU time"
	}
	if s.CPUPerRequest != nil {
		name += ", " + quantity.Latency(*s.CPUPerRequest) + " a request"
	}
	facts.Add("server", name)
	switch {
	case s.ThrottledShare != nil:
		facts.Add("throttled", "in "+throttled(s.ThrottledPeriods, s.Periods, s.ThrottledSeconds))
	case s.LimitCPUs != nil:
		facts.Add("throttled", "no period was counted")
	}
	return facts
}

// loadGenerator says how the generator did.
func loadGenerator(d *report.Load) (facts sheet.Facts) {
	text := quantity.Count(d.Connections) + " at most"
	switch {
	case d.AllInUse:
		text = "all " + quantity.Count(d.MaxConns) + " in use: requests waited for one"
	case d.MaxConns > d.Connections:
		text += " of " + quantity.Count(d.MaxConns)
	}
	facts.Add("connections", text+", "+quantity.Count(d.Opened)+" opened")
	its := ""
	if d.GeneratorOf > 1 {
		its = "its "
	}
	text = quantity.Share(d.CPUShare) + " of " + its + quantity.CPUs(float64(d.GeneratorOf))
	if d.Pacer.Count > 0 {
		late, at := d.Pacer.Tail(), " at most"
		if late.Percentile > 0 {
			at = " at " + late.Name
		}
		text += ", late by itself " + quantity.Latency(late.Seconds) + at
	}
	if d.Realtime {
		text += ", with real-time priority"
	}
	facts.Add("generator", text)
	return facts
}

// loadPlan says what was asked of the generator.
func loadPlan(d *report.Load) (facts sheet.Facts) {
	if len(d.Targets) == 1 {
		facts.Add("target", loadTarget(d.Targets))
	}
	facts.Add("load", loadAsked(d))
	if d.SLO != nil {
		facts.Add("SLO", d.SLO.Words())
	}
	switch {
	case d.Loop == "closed":
		facts.Add("connections", quantity.Count(d.MaxConns))
	case d.MaxConns > 0:
		facts.Add("connections", quantity.Count(d.MaxConns)+" at most")
	}
	if d.Timeout > 0 {
		facts.Add("timeout", quantity.Lasting(d.Timeout))
	}
	if d.Loop != "closed" {
		facts.Add("seed", strconv.FormatUint(d.Seed, 10))
	}
	facts.Add("engine", d.Engine)
	facts.Add("began", d.Began)
	facts.Add("took", quantity.Lasting(d.Elapsed))
	facts.Add("made by", d.MadeBy)
	return facts
}
