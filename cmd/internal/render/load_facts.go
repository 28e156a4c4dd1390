package render

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// What all forms of load's document say, in the same words.

// printableLoad returns a copy of d whose texts are printable: URLs, errors and names of processes come from outside.
func printableLoad(d *report.Load) *report.Load {
	c := *d
	for _, text := range []*string{&c.MadeBy, &c.Time, &c.Began, &c.Loop, &c.Arrivals, &c.Engine} {
		*text = printable(*text)
	}
	texts := func(from []string) []string {
		to := slices.Clone(from)
		for i := range to {
			to[i] = printable(to[i])
		}
		return to
	}
	c.Invalid, c.Warnings = texts(d.Invalid), texts(d.Warnings)
	c.Targets, c.Causes = slices.Clone(d.Targets), slices.Clone(d.Causes)
	for i, target := range c.Targets {
		c.Targets[i].Method, c.Targets[i].URL = printable(target.Method), printable(target.URL)
	}
	for i, cause := range c.Causes {
		c.Causes[i].Cause = printable(cause.Cause)
	}
	if d.SLO != nil {
		slo := *d.SLO
		slo.Text, slo.Missed = printable(slo.Text), slices.Clone(slo.Missed)
		for i, m := range slo.Missed {
			slo.Missed[i] = report.LoadMissed{Objective: printable(m.Objective), Was: printable(m.Was)}
		}
		c.SLO = &slo
	}
	if d.Server != nil {
		server := *d.Server
		server.Name = printable(server.Name)
		c.Server = &server
	}
	if d.Search != nil {
		search := *d.Search
		search.Text, search.Windows = printable(search.Text), slices.Clone(search.Windows)
		for i, w := range search.Windows {
			search.Windows[i].Phase, search.Windows[i].Missed = printable(w.Phase), printable(w.Missed)
		}
		c.Search = &search
	}
	return &c
}

// loadTitle says what was done.
func loadTitle(d *report.Load) string {
	return targetName(d) + ": " + loadAsked(d)
}

// targetName names the target, or how many there are.
func targetName(d *report.Load) string {
	switch len(d.Targets) {
	case 0:
		return "no target"
	case 1:
		return d.Targets[0].Method + " " + d.Targets[0].URL
	}
	return plural(int64(len(d.Targets)), "target")
}

// targetTexts lists several targets with their shares of the requests.
func targetTexts(targets []report.LoadTarget) (texts []string) {
	sum := 0.0
	for _, t := range targets {
		sum += t.Weight
	}
	for _, t := range targets {
		text := t.Method + " " + t.URL
		if sum > 0 && len(targets) > 1 {
			text = padLeft(percent(t.Weight/sum), 6) + "  " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// loadAsked says how much was asked, in what manner, and for how long.
func loadAsked(d *report.Load) string {
	if d.Search != nil {
		text := "the highest rate that it sustains"
		if d.SLO != nil {
			text += " with " + sloText(d.SLO.Text)
		}
		return text
	}
	parts := []string{"a closed loop of " + plural(int64(d.MaxConns), "worker")}
	if d.RateAsked != nil {
		parts = []string{perSecond(*d.RateAsked)}
		if text := arrivalsText(d.Arrivals); text != "" {
			parts = append(parts, text)
		}
	}
	length := plural(d.Requests, "request")
	if d.Planned > 0 {
		length = lasting(d.Planned)
	}
	if d.WarmUp > 0 {
		length += " after " + lasting(d.WarmUp) + " of warm-up"
	}
	return strings.Join(append(parts, length), ", ")
}

func arrivalsText(arrivals string) string {
	switch load.Arrivals(arrivals) {
	case load.Poisson:
		return "Poisson arrivals"
	case load.Constant:
		return "evenly spaced"
	}
	return arrivals
}

// A loadVerdictText is what is answered first.
type loadVerdictText struct {
	Claim, Class string // as in htmlVerdict
	Text         string // "": nothing was asked of the server
	Missed       []string
}

// invalidText says what follows from a result that is not valid.
func invalidText(d *report.Load) string {
	switch {
	case !d.OurFault:
		return "The server did not take the load that was planned: these are not its latencies under that."
	case d.SLO != nil && d.SLO.Held:
		return "What the generator was late by itself is in these figures: without it they would be better, not worse."
	}
	return "What was measured may be the generator and not the server: don't rely on these figures."
}

// loadVerdict tells whether what was asked of the server held, or what was found.
func loadVerdict(d *report.Load) loadVerdictText {
	v := loadVerdictText{Class: "unsure"}
	switch {
	case d.Search != nil:
		v.Claim, v.Text = "highest rate", d.Search.Text
		if d.Valid && d.Search.Sustains > 0 {
			v.Class = "sure"
		}
		return v
	case d.SLO == nil:
		return v
	}
	v.Text = sloText(d.SLO.Text)
	switch {
	case d.Requests == 0 || d.OurFault && !d.SLO.Held:
		v.Claim = "SLO not judged"
	case d.SLO.Held:
		v.Claim, v.Class = "SLO held", "sure"
	default:
		v.Claim, v.Class = "SLO missed", "failed"
	}
	for _, m := range d.SLO.Missed {
		v.Missed = append(v.Missed, sloText(m.Objective)+": "+wasText(m.Was))
	}
	return v
}

var sloSpaces = strings.NewReplacer("=", " ≤ ", ", ", ", ", ",", ", ", " %", " %", "%", " %")

// sloText writes p99=50ms,errors=1% for people.
func sloText(text string) string { return sloSpaces.Replace(text) }

// wasText makes words of what an objective was, which is a number or says why there is none.
func wasText(was string) string {
	if was != "" && was[0] >= '0' && was[0] <= '9' {
		return "it was " + was
	}
	return was
}

// objectives are the times that the SLO sets.
func objectives(d *report.Load) []report.LoadObjective {
	if d.SLO == nil {
		return nil
	}
	return d.SLO.Latencies
}

// withinText is the time within which an answer is good.
func withinText(d *report.Load) string {
	if d.SLO == nil || d.SLO.Within == 0 {
		return ""
	}
	return "within " + seconds(d.SLO.Within)
}

// loadRemarks are sentences without which the figures would be misunderstood.
func loadRemarks(d *report.Load) (texts []string) {
	if d.Stopped {
		text := "Stopped after " + lasting(d.Elapsed)
		if d.Planned > 0 {
			text += " of " + lasting(d.Planned)
		}
		texts = append(texts, text+": the figures are of the time until then.")
	}
	switch {
	case d.Search != nil && d.Requests > 0:
		text := "The latencies are those of one window"
		if d.RateAsked != nil {
			text += " at " + perSecond(*d.RateAsked)
		}
		texts = append(texts, text+".")
	case d.Search != nil:
	case d.Requests == 0:
		texts = append(texts, "No request was counted.")
	case d.Response.Count == 0:
		texts = append(texts, "No request was answered, and so there are no latencies.")
	}
	if d.Loop == "closed" && d.Search == nil {
		texts = append(texts, "A closed loop slows down with the server, and so it hides the server's standstills: few requests are sent while it stands still. With --rate they are seen.")
	}
	return texts
}

// latencyRow is a row of the table of latencies.
type latencyRow struct {
	name    string
	percent float64 // 0: none
	of      func(report.Latencies) float64
}

var latencyRows = []latencyRow{
	{"p50", 50, func(l report.Latencies) float64 { return l.P50 }},
	{"p75", 75, func(l report.Latencies) float64 { return l.P75 }},
	{"p90", 90, func(l report.Latencies) float64 { return l.P90 }},
	{"p95", 95, func(l report.Latencies) float64 { return l.P95 }},
	{"p99", 99, func(l report.Latencies) float64 { return l.P99 }},
	{"p99.9", 99.9, func(l report.Latencies) float64 { return l.P999 }},
	{"p99.99", 99.99, func(l report.Latencies) float64 { return l.P9999 }},
	{"max", 0, func(l report.Latencies) float64 { return l.Max }},
	{"mean", 0, func(l report.Latencies) float64 { return l.Mean }},
}

// latencyTable is the table of latencies. There is no lag in a closed loop: a worker sends when it can.
func latencyTable(d *report.Load) (head []htmlCell, rows [][]htmlCell) {
	columns := []report.Latencies{d.Response, d.Service}
	head = []htmlCell{{"", "left"}, {"response", ""}, {"service", ""}}
	if d.Lag.Count > 0 {
		columns, head = append(columns, d.Lag), append(head, htmlCell{"lag", ""})
	}
	for _, r := range latencyRows {
		row := []htmlCell{{r.name, "left"}}
		for _, l := range columns {
			row = append(row, htmlCell{Text: latencyCell(l, r)})
		}
		rows = append(rows, row)
	}
	return head, rows
}

func latencyCell(l report.Latencies, r latencyRow) string {
	if l.Count == 0 || r.percent > 0 && !l.Tell(r.percent) {
		return "–"
	}
	return latency(r.of(l))
}

// latencyLegend says what the columns of the table are.
func latencyLegend(d *report.Load) []htmlFact {
	open := d.Loop != "closed"
	response := htmlFact{"response", []string{"how long a user waits: from when the request was due to the end of its answer"}}
	if !open {
		response.Texts = []string{"from when its worker turned to the request to the end of its answer"}
	}
	facts := []htmlFact{response, {"service", []string{"from when it was sent"}}}
	if open && d.Lag.Count > 0 {
		text := "what it waited to be sent"
		if parts := lagParts(d); parts != "" {
			text += "; of that " + parts
		}
		facts = append(facts, htmlFact{"lag", []string{text}})
	}
	if few := tooFew(d.Response.Count); few != "" {
		facts = append(facts, htmlFact{"–", []string{few}})
	}
	return facts
}

// latencyNotes say which requests the latencies are of.
func latencyNotes(d *report.Load) (notes []string) {
	if without := d.Requests - d.Response.Count; without > 0 {
		notes = append(notes, fmt.Sprintf("The latencies are of %s: the other %s failed at once, which is not fast.",
			requests(d.Response.Count), thousands(without)))
	}
	if waited := d.Timeouts + d.Unfinished; waited > 0 {
		notes = append(notes, fmt.Sprintf("Among them %s without an answer, with the time that was waited.", are(waited)))
	}
	return notes
}

func are(n int64) string {
	if n == 1 {
		return "is 1"
	}
	return "are " + thousands(n)
}

// tooFew says which percentiles are left out; "": none.
func tooFew(count int64) string {
	for _, r := range latencyRows {
		if r.percent > 0 && count < loadtest.Needs(r.percent) {
			return fmt.Sprintf("fewer than %d requests are beyond it: %s needs %s", loadtest.BeyondLeast, r.name, thousands(loadtest.Needs(r.percent)))
		}
	}
	return ""
}

// lagParts says what the lag was made of.
func lagParts(d *report.Load) string {
	var parts []string
	if d.Pacer.Count > 0 {
		parts = append(parts, "pacer late "+tail(d.Pacer))
	}
	if d.NoConn.Count > 0 {
		text := "no connection free " + tail(d.NoConn)
		if d.NoConn.Max == 0 {
			text = "there was always a connection free"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// tail is the p99, or the maximum of what is too few for it.
func tail(l report.Latencies) string {
	if !l.Tell(99) {
		return "max " + latency(l.Max)
	}
	return "p99 " + latency(l.P99)
}

// latency prints seconds with three digits.
func latency(s float64) string { return metric("sec", s) }

// perSecond prints a rate: 840/s.
func perSecond(v float64) string {
	if math.Abs(v) >= 1000 {
		return thousands(int64(math.Round(v))) + "/s"
	}
	text := three(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "/s"
}

// thousands prints a count as 12,000.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return thousands(n) + " requests"
}

// lasting prints how long something lasted.
func lasting(s float64) string {
	s = max(0, min(s, 1e9)) // nothing lasts longer
	if s < 100 {
		return seconds(s)
	}
	return minutes(time.Duration(s * float64(time.Second)))
}

// part is a part of a whole as a percentage in brackets.
func part(n, of int64) string {
	if of <= 0 || n == 0 {
		return ""
	}
	share := float64(n) / float64(of)
	if share < 0.001 {
		return " (" + three(100*share) + " %)"
	}
	if share > 0.999 && n < of {
		return " (" + number(math.Floor(share*1e5)/1e3) + " %)"
	}
	return " (" + percent(share) + ")"
}

// answerFacts say what came back: how much, and how well. Of the causes of errors so many are listed.
func answerFacts(d *report.Load, causes int) (facts []htmlFact) {
	if d.Requests == 0 {
		return nil
	}
	add := func(name string, texts ...string) {
		if len(texts) > 0 {
			facts = append(facts, htmlFact{name, texts})
		}
	}
	add("throughput", throughputText(d))
	add("requests", requestsText(d))
	var statuses []string
	for _, s := range d.Statuses {
		statuses = append(statuses, fmt.Sprintf("%d: %s%s", s.Status, thousands(s.Count), part(s.Count, d.Requests)))
	}
	if len(statuses) > 0 {
		add("statuses", strings.Join(statuses, "; "))
	}
	var errors []string
	for i, c := range d.Causes {
		if i == causes && len(d.Causes) > causes+1 {
			errors = append(errors, fmt.Sprintf("and %d other causes", len(d.Causes)-causes))
			break
		}
		errors = append(errors, thousands(c.Count)+part(c.Count, d.Requests)+": "+c.Cause)
	}
	add("errors", errors...)
	return facts
}

func throughputText(d *report.Load) string {
	text := perSecond(d.Rate) + " done"
	if d.RateAsked != nil {
		text = perSecond(*d.RateAsked) + " asked, " + text
	}
	good := "successes"
	if within := withinText(d); within != "" {
		good += " " + within
	}
	text += ", " + perSecond(d.Goodput) + " good (" + good + ")"
	return text
}

func requestsText(d *report.Load) string {
	text := thousands(d.Requests)
	switch d.Sent {
	case d.Requests:
	case 0:
		text += ", none of them sent"
	default:
		text += ", " + thousands(d.Sent) + " of them sent"
	}
	switch d.Failed {
	case 0:
		text += ", none failed"
	default:
		text += ", " + thousands(d.Failed) + part(d.Failed, d.Requests) + " failed"
	}
	if d.Timeouts > 0 {
		text += ", of these " + thousands(d.Timeouts) + " with a timeout"
	}
	if d.Unfinished > 0 {
		text += ", " + thousands(d.Unfinished) + " unfinished at the end"
	}
	if d.Bytes > 0 {
		text += "; " + bytes(d.Bytes) + " of bodies"
	}
	return text
}

// generatorFacts say how the generator did.
func generatorFacts(d *report.Load) (facts []htmlFact) {
	if d.Requests == 0 {
		return nil
	}
	text := thousands(int64(d.Connections)) + " at most"
	switch {
	case d.AllInUse:
		text = "all " + thousands(int64(d.MaxConns)) + " in use: requests waited for one"
	case d.MaxConns > d.Connections:
		text += " of " + thousands(int64(d.MaxConns))
	}
	facts = append(facts, htmlFact{"connections", []string{text + ", " + thousands(d.Opened) + " opened"}})
	text = percent(d.CPUShare) + " of " + cpus(float64(d.GeneratorOf))
	if d.GeneratorOf > 1 {
		text = percent(d.CPUShare) + " of its " + cpus(float64(d.GeneratorOf))
	}
	if d.Pacer.Count > 0 {
		late := latency(d.Pacer.P99) + " at p99"
		if !d.Pacer.Tell(99) {
			late = latency(d.Pacer.Max) + " at most"
		}
		text += ", late by itself " + late
	}
	if d.Realtime {
		text += ", with real-time priority"
	}
	return append(facts, htmlFact{"generator", []string{text}})
}

// serverFacts say what the kernel did to the server meanwhile.
func serverFacts(d *report.Load) []htmlFact {
	s := d.Server
	if s == nil {
		return nil
	}
	name := "PID " + strconv.Itoa(s.PID)
	if s.Name != "" {
		name = s.Name + ", " + name
	}
	if s.LimitCPUs != nil {
		name += ", limit " + cpus(*s.LimitCPUs)
	}
	if s.CPUSeconds != nil {
		name += "; used " + seconds(*s.CPUSeconds) + " of CPU time"
	}
	if s.CPUPerRequest != nil {
		name += ", " + latency(*s.CPUPerRequest) + " a request"
	}
	facts := []htmlFact{{"server", []string{name}}}
	if text := serverThrottled(s); text != "" {
		facts = append(facts, htmlFact{"throttled", []string{text}})
	}
	return facts
}

// serverThrottled is throttledText of run, for what a load counts of a server.
func serverThrottled(s *report.LoadServer) string {
	switch {
	case s.ThrottledShare == nil && s.LimitCPUs == nil:
		return ""
	case s.ThrottledShare == nil:
		return "no period was counted"
	case s.ThrottledPeriods == 0:
		return "in none of " + thousands(s.Periods) + " periods"
	}
	return fmt.Sprintf("in %s of %s periods (%s), %s summed over CPUs", thousands(s.ThrottledPeriods), thousands(s.Periods),
		percent(*s.ThrottledShare), seconds(s.ThrottledSeconds))
}

// windowTable is what was tried to find the highest rate.
func windowTable(windows []report.LoadWindow) (head []htmlCell, rows [][]htmlCell) {
	head = []htmlCell{{"", "left"}, {"rate", ""}, {"", "left"}, {"p50", ""}, {"p99", ""}, {"failed", ""}, {"why", "left"}}
	for _, w := range windows {
		held := htmlCell{"held", "left better"}
		switch {
		case !w.Valid:
			held = htmlCell{"invalid", "left"}
		case !w.Held:
			held = htmlCell{"missed", "left worse"}
		}
		rows = append(rows, []htmlCell{
			{w.Phase, "left"},
			{perSecond(w.Rate), ""},
			held,
			{latency(w.P50), ""},
			{latency(w.P99), ""},
			{thousands(w.Failed), ""},
			{sloText(w.Missed), "left"},
		})
	}
	return head, rows
}
