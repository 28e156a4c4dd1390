package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Load shows how a server fared under a load: what was done and whether it held, the latencies and how they went over time,
// and what else matters.
func Load(d *report.Load) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "load", Subject: d.Target() + ": " + loadAsked(d), Heading: true, Claims: loadClaims(d), Warnings: d.Warnings,
		Command: report.ShellWords(d.Command), Document: d,
	}
	if len(d.Targets) > 1 {
		s.Add(quiet("Targets", loadTargets(d.Targets)))
	}
	if d.Search != nil {
		tried := detail("What was tried", loadTries(d))
		tried.About = "p99 of the response by requests a second, a mark for each window"
		s.Add(tried)
		s.Add(quiet("Windows", loadWindows(d.Search.Windows)))
	}
	if d.Response.Count > 0 {
		s.Add(quiet("Latencies", loadLatencies(d)))
		curve := quiet("Percentiles", loadCurve(d))
		curve.About = "How long requests took, by percentile"
		s.Add(curve)
	}
	s.Add(quiet("Over time", loadOverTime(d)))
	if d.Requests > 0 {
		s.Add(quiet("Answers", loadAnswers(d)))
		s.Add(quiet("Server", known(d.Server, loadServer)))
		s.Add(quiet("Generator", loadGenerator(d)))
	}
	s.Add(detail("What was asked", loadPlan(d)))
	if len(d.Causes) > causesListed {
		s.Add(detail("All errors", sheet.Listed(loadCauses(d))))
	}
	return s
}

// loadTargets are several targets with their shares of the requests.
func loadTargets(targets []report.LoadTarget) (facts sheet.Facts) {
	sum := 0.0
	for _, t := range targets {
		sum += t.Weight
	}
	for _, t := range targets {
		facts.Add(orDash(when(sum > 0, quantity.Share(t.Weight/sum))), t.Method+" "+t.URL)
	}
	return facts
}

// loadAsked says how much was asked, in what manner, and for how long.
func loadAsked(d *report.Load) string {
	if d.Search != nil {
		return "the highest rate that it sustains" + around(" with ", loadSLO(d), "")
	}
	how := "a closed loop of " + quantity.Plural(d.MaxConns, "worker")
	if d.RateAsked != nil {
		rate := quantity.PerSecond(*d.RateAsked)
		if d.RateFrom > 0 {
			rate = quantity.PerSecond(d.RateFrom) + " to " + quantity.PerSecond(d.RateTo)
		}
		how = joined(", ", rate, arrivals(d.Arrivals)+around(" of ", d.RateFile, ""), bursts(d.Burst))
	}
	length := quantity.Plural(d.Requests, "request")
	switch {
	case d.Planned > 0 && d.Most > 0: // what came first
		length = quantity.Plural(d.Most, "request") + " or " + quantity.Lasting(d.Planned) + ", " +
			cmp.Or(when(d.Requests >= d.Most, "ended by their number"), when(d.Stopped, "stopped"), "ended by the time")
	case d.Planned > 0:
		length = quantity.Lasting(d.Planned)
	}
	return how + ", " + length + when(d.WarmUp > 0, " after "+quantity.Lasting(d.WarmUp)+" of warm-up")
}

func loadSLO(d *report.Load) string {
	if d.SLO == nil {
		return ""
	}
	return d.SLO.Words()
}

func loadClaims(d *report.Load) (claims []sheet.Claim) {
	if d.Hopeless != "" {
		var more []string
		if cause := d.HopelessCause(); cause != "" {
			more = append(more, cause)
		}
		return []sheet.Claim{{Word: "no result", Tone: sheet.Bad, Text: d.HopelessWords(), More: append(more, d.Remarks()...)}}
	}
	if !d.Valid {
		claims = append(claims, sheet.Claim{Word: "INVALID", Tone: sheet.Bad, Text: d.Void(), More: append(slices.Clone(d.Invalid), d.Doubt())})
	}
	v := d.Verdict()
	tone := sheet.Unsure
	if v.Held != nil {
		tone = tones[cmp.Or(when(*v.Held, "held"), "missed")]
	}
	c := sheet.Claim{Word: v.Word, Tone: tone, Whole: d.Valid && d.SLO == nil && d.Search == nil, Text: v.Text}
	c.More = slices.Concat(v.Missed, v.Also, d.Remarks())
	return append(claims, c)
}

// loadWindows is what was tried to find the highest rate.
func loadWindows(windows []report.LoadWindow) *sheet.Table {
	t := &sheet.Table{Name: "windows", Columns: []sheet.Column{
		{Left: true, Cut: true},
		{Title: "rate"},
		{Left: true},
		{Title: "p50"},
		{Title: "p99"},
		{Title: "failed"},
		{Title: "why", Left: true, Rank: 1},
	}}
	for _, w := range windows {
		word := windowWord(w)
		row := t.Add(w.Phase, quantity.PerSecond(w.Rate), word,
			quantity.Latency(w.P50), quantity.Latency(w.P99), quantity.Count(w.Failed), cmp.Or(w.Missed, when(!w.Valid, "generator too slow")))
		row.Cells[2].Tone = tones[word]
	}
	return t
}

func windowWord(w report.LoadWindow) string {
	return cmp.Or(when(!w.Valid, "invalid"), when(!w.Held, "missed"), "held")
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
		texts := []string{v.Name}
		for _, l := range of {
			texts = append(texts, latencyText(l.Values()[i]))
		}
		t.Add(texts...).Cells[0].Tone = sheet.Soft
	}
	if d.Loop == "closed" {
		t.Beside.Add("response", "from when a worker took up the request to the end of its answer")
	} else {
		t.Beside.Add("response", "how long a user waits: from when the request was due to the end of its answer")
	}
	t.Beside.Add("service", "from when it was sent")
	t.Beside.Add("lag", when(d.Loop != "closed" && d.Lag.Count > 0, "what it waited to be sent"+lagParts(d)))
	t.Beside.Add(dash, report.TooFew(d.Response))
	for _, note := range d.LatencyNotes() {
		t.Notes = append(t.Notes, sheet.Note{Text: note})
	}
	return t
}

func latencyText(v report.LatencyValue) string {
	return orDash(when(v.Known, quantity.Latency(v.Seconds)))
}

// lagParts says what the lag was made of.
func lagParts(d *report.Load) string {
	free := cmp.Or(when(d.NoConn.Max == 0, "there was always a connection free"), "no connection free "+tail(d.NoConn))
	return around("; of that ", joined(", ", when(d.Pacer.Count > 0, "pacer late "+tail(d.Pacer)), when(d.NoConn.Count > 0, free)), "")
}

func tail(l report.Latencies) string {
	v := l.Tail()
	return v.Name + " " + quantity.Latency(v.Seconds)
}

// causesListed is how many causes of errors are facts; a page lists them all.
const causesListed = 6

// loadAnswers say what came back: how much, and how well.
func loadAnswers(d *report.Load) (facts sheet.Facts) {
	good := "successes"
	if d.SLO != nil && d.SLO.Within > 0 {
		good += " within " + quantity.Seconds(d.SLO.Within)
	}
	facts.Add("throughput", around("", known(d.RateAsked, quantity.PerSecond), " asked, ")+quantity.PerSecond(d.Done())+" done, "+
		quantity.PerSecond(d.Goodput)+" good ("+good+")")
	sent := cmp.Or(when(d.Sent != 0, quantity.Count(d.Sent)), "none")
	failed := cmp.Or(when(d.Failed != 0, countOf(d.Failed, d.Requests)), "none")
	facts.Add("requests", quantity.Count(d.Requests)+when(d.Sent != d.Requests, ", "+sent+" of them sent")+", "+failed+" failed"+
		when(d.Timeouts > 0, ", of these "+quantity.Count(d.Timeouts)+" with a timeout")+
		when(d.Unfinished > 0, ", "+quantity.Count(d.Unfinished)+" unfinished at the end")+
		when(d.Bytes > 0, "; "+quantity.Bytes(d.Bytes)+" of bodies"))
	var statuses []string
	for _, s := range d.Statuses {
		statuses = append(statuses, fmt.Sprintf("%d: %s", s.Status, countOf(s.Count, d.Requests)))
	}
	facts.Add("statuses", strings.Join(statuses, "; "))
	causes := loadCauses(d)
	if more := len(causes) - causesListed; more > 0 {
		causes = append(causes[:causesListed-1], fmt.Sprintf("and %d other causes", more+1))
	}
	facts.Add("errors", causes...)
	return facts
}

func loadCauses(d *report.Load) (texts []string) {
	for _, c := range d.Causes {
		texts = append(texts, countOf(c.Count, d.Requests)+": "+c.Cause)
	}
	return texts
}

// countOf writes a number and its share of the whole: 12 (0.1 %).
func countOf(n, of int64) string {
	return quantity.Count(n) + when(n != 0, around(" (", quantity.Part(n, of), ")"))
}

// loadServer says what the kernel did to the server during the load.
func loadServer(s report.LoadServer) (facts sheet.Facts) {
	facts.Add("server", around("", s.Name, ", ")+"PID "+strconv.Itoa(s.PID)+around(", limit ", known(s.LimitCPUs, quantity.CPUs), "")+
		around("; used ", known(s.CPUSeconds, quantity.Seconds), " of CPU time")+
		around(", ", known(s.CPUPerRequest, quantity.Latency), " per request"))
	facts.Add("throttled", limitDid(s.LimitCPUs, s.ThrottledShare, s.ThrottledPeriods, s.Periods, s.ThrottledSeconds))
	return facts
}

// loadGenerator says how the generator did.
func loadGenerator(d *report.Load) (facts sheet.Facts) {
	used := cmp.Or(when(d.AllInUse, "all "+quantity.Count(d.MaxConns)+" in use: requests waited for one"),
		quantity.Count(d.Connections)+" at most"+when(d.MaxConns > d.Connections, " of "+quantity.Count(d.MaxConns)))
	facts.Add("connections", used+", "+quantity.Count(d.Opened)+" opened")
	late := d.Pacer.Tail()
	at := " at " + cmp.Or(when(late.Percentile > 0, late.Name), "most")
	facts.Add("generator", quantity.Share(d.CPUShare)+" of "+when(d.GeneratorOf > 1, "its ")+quantity.CPUs(float64(d.GeneratorOf))+
		when(d.Pacer.Count > 0, ", late by itself "+quantity.Latency(late.Seconds)+at)+when(len(d.LateBecause) > 0, " ("+strings.Join(d.LateBecause, ", and ")+")")+
		when(d.Realtime, ", with real-time priority"))
	facts.Add("machine", d.MachineText())
	return facts
}

// loadPlan says what was asked of the generator.
func loadPlan(d *report.Load) (facts sheet.Facts) {
	open := d.Loop != "closed"
	facts.Add("target", when(len(d.Targets) == 1, d.Target()))
	facts.Add("load", loadAsked(d))
	facts.Add("SLO", loadSLO(d))
	facts.Add("connections", when(!open || d.MaxConns > 0, quantity.Count(d.MaxConns)+when(open, " at most")))
	facts.Add("timeout", when(d.Timeout > 0, quantity.Lasting(d.Timeout)))
	facts.Add("seed", when(open, strconv.FormatUint(d.Seed, 10)))
	facts.Add("engine", d.Engine)
	facts.Add("began", d.Began)
	facts.Add("took", quantity.Lasting(d.Elapsed))
	facts.Add("made by", d.MadeBy)
	return facts
}
