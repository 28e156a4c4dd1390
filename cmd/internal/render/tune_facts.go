package render

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// What all forms of tune's document say, in the same words.

// A tuneDoc is a document whose texts are printable and whose numbers are numbers, and what is looked up in it.
type tuneDoc struct {
	*report.Tune
	main   int               // number of the load that the verdict rests on; -1: there is none
	units  map[string]string // of a quantity: the name that it has among the metrics
	gogc   bool              // any setting has one
	colors map[tuneKey]int
}

// A tuneKey tells settings apart, whatever load they are run under.
type tuneKey struct{ procs, gogc int }

// The quantities that are shown, besides the percentiles.
const (
	quantityCPU       = "cpu"
	quantityTime      = "time"
	quantityRate      = "throughput"
	quantityThrottled = "throttled"
	quantityGC        = "gc"
	quantityMemory    = "memory"
)

func newTuneDoc(d *report.Tune) *tuneDoc {
	c := clean(reflect.ValueOf(*d)).Interface().(report.Tune)
	c.Command = d.Command // report.ShellWords takes care of it
	for i, how := range d.Verdict.How {
		lines := strings.Split(strings.TrimRight(how.Text, "\n"), "\n")
		for j := range lines {
			lines[j] = printable(lines[j])
		}
		c.Verdict.How[i].Text = strings.Join(lines, "\n")
	}
	t := &tuneDoc{Tune: &c, main: -1, units: map[string]string{}, colors: map[tuneKey]int{}}
	for i, l := range c.Loads {
		if t.main < 0 || l.Main {
			t.main = i
		}
	}
	if n := c.Verdict.Load; n >= 0 && n < len(c.Loads) {
		t.main = n
	}
	for _, s := range c.Settings {
		t.gogc = t.gogc || s.GOGC != 0
	}
	t.findUnits()
	t.chooseColors()
	return t
}

// greatest is beyond what anything measures; such a number would only make others infinite.
const greatest = 1e15

// clean copies a value, and makes it safe to show: texts are printable, and a number that is none, or beyond all measure,
// is 0. From a map it is left out.
func clean(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(printable(v.String()))
	case reflect.Float64:
		if f := v.Float(); math.Abs(f) <= greatest { // NaN is not
			out.SetFloat(f)
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			out.Index(i).Set(clean(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMap(v.Type()))
		for _, key := range v.MapKeys() {
			if e := v.MapIndex(key); e.Kind() != reflect.Float64 || math.Abs(e.Float()) <= greatest {
				out.SetMapIndex(clean(key), clean(e))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(clean(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(clean(v.Field(i)))
		}
	default:
		out.Set(v)
	}
	return out
}

// The measures that a quantity may be, the first one first.
var quantityMeasures = map[string][]lab.Measure{
	"p50":             {lab.P50},
	"p90":             {lab.P90},
	"p99":             {lab.P99},
	quantityCPU:       {lab.CPUPerRequest, lab.CPUPerOp, lab.CPUTime},
	quantityTime:      {lab.OpTime, lab.WallTime},
	quantityRate:      {lab.RequestRate},
	quantityThrottled: {lab.ThrottledShare},
	quantityGC:        {lab.GCShare},
	quantityMemory:    {lab.PeakMemory},
}

// findUnits looks up what the quantities are called among the metrics.
func (d *tuneDoc) findUnits() {
	occurs := map[string]bool{}
	for _, m := range d.Metrics {
		occurs[m.Unit] = true
	}
	for _, s := range d.Settings {
		for unit := range s.Metrics {
			occurs[unit] = true
		}
	}
	for _, r := range d.Runs {
		for unit := range r.Metrics {
			occurs[unit] = true
		}
	}
	for quantity, measures := range quantityMeasures {
		if i := slices.IndexFunc(measures, func(m lab.Measure) bool { return occurs[string(m)] }); i >= 0 {
			d.units[quantity] = string(measures[i])
		}
	}
}

// chooseColors gives each setting a number: the current one 0, the best 1. On a page it has the same colour everywhere.
func (d *tuneDoc) chooseColors() {
	add := func(k tuneKey) {
		if _, ok := d.colors[k]; !ok {
			d.colors[k] = len(d.colors)
		}
	}
	for _, first := range []func(report.TuneSetting) bool{
		func(s report.TuneSetting) bool { return s.Current },
		func(s report.TuneSetting) bool { return s.Best && s.Load == d.main },
		func(report.TuneSetting) bool { return true },
	} {
		for _, s := range d.Settings {
			if first(s) {
				add(tuneKey{s.Procs, s.GOGC})
			}
		}
	}
	if len(d.Limits) > 0 {
		add(tuneKey{d.Current.Procs, 0})
	}
	for _, l := range d.Limits {
		for _, s := range l.Settings {
			add(tuneKey{s.Procs, 0})
		}
	}
}

// colorsMost is how many colours there are; after that they are used again.
const colorsMost = 8

func (d *tuneDoc) color(procs, gogc int) string {
	return "s" + strconv.Itoa(d.colors[tuneKey{procs, gogc}]%colorsMost)
}

// A tunePart is what is known at one load.
type tunePart struct {
	*tuneDoc
	number   int
	load     report.TuneLoad
	settings []report.TuneSetting
	runs     []report.TuneRun
	rival    *report.TuneSetting // that the confirmation compared with the current setting; nil: there was none
}

func (d *tuneDoc) part(number int) *tunePart {
	p := &tunePart{tuneDoc: d, number: number, load: d.Loads[number]}
	for _, s := range d.Settings {
		if s.Load == number {
			p.settings = append(p.settings, s)
		}
	}
	for _, r := range d.Runs {
		if r.Load == number {
			p.runs = append(p.runs, r)
		}
	}
	for i := range p.settings {
		s := &p.settings[i]
		if !s.Current && p.rival == nil && slices.ContainsFunc(p.runs, func(r report.TuneRun) bool { return r.Phase == "confirm" && of(r, *s) }) {
			p.rival = s
		}
	}
	return p
}

// parts are the loads, that of the verdict first.
func (d *tuneDoc) parts() (parts []*tunePart) {
	if d.main < 0 {
		return nil
	}
	parts = append(parts, d.part(d.main))
	for i := range d.Loads {
		if i != d.main {
			parts = append(parts, d.part(i))
		}
	}
	return parts
}

// of: the run is one of the setting.
func of(r report.TuneRun, s report.TuneSetting) bool { return r.Procs == s.Procs && r.GOGC == s.GOGC }

// name tells a setting from the others, in few letters: "2", or "2 / 200" where there is GOGC as well.
func (d *tuneDoc) name(procs, gogc int) string {
	switch {
	case !d.gogc:
		return strconv.Itoa(procs)
	case gogc == 0:
		return strconv.Itoa(procs) + " / –"
	}
	return strconv.Itoa(procs) + " / " + strconv.Itoa(gogc)
}

// factor is what the names are of.
func (d *tuneDoc) factor() string {
	if d.gogc {
		return "GOMAXPROCS / GOGC"
	}
	return "GOMAXPROCS"
}

// tail is the quantity by which settings are compared: a percentile, the time of a job, or what was asked for.
func (p *tunePart) tail() string {
	switch {
	case p.Objective == quantityRate && p.has(quantityRate):
		return quantityRate
	case p.Subject.Kind == "job" || p.Subject.Kind == "gobench":
		return quantityTime
	case p.load.Tail != "" && p.has(p.load.Tail):
		return p.load.Tail
	case p.has("p99"):
		return "p99"
	case !p.has("p50") && p.has(quantityTime):
		return quantityTime
	}
	return cmp.Or(p.load.Tail, "p99")
}

// has: the quantity is known of any setting or run of this load.
func (p *tunePart) has(quantity string) bool {
	unit := p.units[quantity]
	return unit != "" && (slices.ContainsFunc(p.settings, func(s report.TuneSetting) bool { return s.Metrics[unit].N > 0 }) ||
		slices.ContainsFunc(p.runs, func(r report.TuneRun) bool { _, ok := r.Metrics[unit]; return ok }))
}

// title is a quantity's name.
func (d *tuneDoc) title(quantity string) string {
	switch quantity {
	case quantityCPU:
		return "CPU " + d.each()
	case quantityTime:
		if d.Subject.Kind == "gobench" {
			return "time " + d.each()
		}
		return "time"
	case quantityMemory, quantityThrottled, quantityRate:
		return quantity
	case quantityGC:
		return "GC"
	case "slo":
		return "SLO held"
	}
	return quantity
}

// headline is the name at the head of a drawing: p99 stays small.
func (d *tuneDoc) headline(quantity string) string {
	if strings.HasPrefix(quantity, "p") {
		return d.title(quantity)
	}
	return upperFirst(d.title(quantity))
}

// each is "a request", or whatever the unit of work is.
func (d *tuneDoc) each() string {
	unit := cmp.Or(d.Subject.Unit, map[string]string{"job": "run", "gobench": "operation"}[d.Subject.Kind], "request")
	if strings.ContainsRune("aeio", rune(unit[0])) {
		return "an " + unit
	}
	return "a " + unit
}

// value prints a quantity.
func (d *tuneDoc) value(quantity string, v float64) string {
	unit := d.units[quantity]
	switch {
	case unit != "" && unit != quantity && quantity != quantityRate:
		return metric(known(unit), v)
	case quantity == quantityThrottled || quantity == quantityGC:
		return percent(v)
	case quantity == quantityRate:
		return perSecond(v)
	case quantity == quantityMemory:
		return bytes(int64(v))
	}
	return latency(v)
}

// known is a unit that metric can print values in: of cpu-ns/req it does not see that these are times.
func known(unit string) string {
	if strings.HasPrefix(unit, "cpu-ns/") {
		return "ns/op"
	}
	return unit
}

// effectValue prints what an effect is from or to, which is in seconds, a second, or a share.
func effectValue(quantity string, v float64) string {
	switch quantity {
	case quantityThrottled, "slo":
		return percent(v)
	case quantityRate:
		return perSecond(v)
	}
	return latency(v)
}

// axisUnit is the unit by which metric prints a quantity's ticks.
func (d *tuneDoc) axisUnit(quantity string) string {
	switch unit := d.units[quantity]; {
	case quantity == quantityRate:
		return "/s"
	case unit != quantity && unit != "":
		return known(unit)
	case quantity == quantityThrottled || quantity == quantityGC:
		return ""
	}
	return "sec"
}

// median is that of a setting's runs.
func (p *tunePart) median(s report.TuneSetting, quantity string) (float64, bool) {
	m, ok := s.Metrics[p.units[quantity]]
	return m.Median, ok && m.N > 0
}

// effect is what a quantity does from the current setting to another: by the confirmation if there is one, for the
// exploration speaks too well of the one that it picked.
func (p *tunePart) effect(s report.TuneSetting, quantity string) (e report.TuneEffect, confirmed, ok bool) {
	if p.rival != nil && of(report.TuneRun{Procs: s.Procs, GOGC: s.GOGC}, *p.rival) {
		if e, ok := p.find(p.load.Effects, quantity); ok && e.Ratio > 0 {
			return e, true, true
		}
	}
	e, ok = p.find(s.Versus, quantity)
	return e, false, ok && e.Ratio > 0
}

// find looks an effect up. What search compares by is called p99 also where a window carries a lower percentile only.
func (p *tunePart) find(effects []report.TuneEffect, quantity string) (report.TuneEffect, bool) {
	for _, e := range effects {
		if p.effectQuantity(e) == quantity {
			return e, true
		}
	}
	return report.TuneEffect{}, false
}

func (p *tunePart) effectQuantity(e report.TuneEffect) string {
	if e.Metric == "p99" && p.load.Tail != "" {
		return p.load.Tail
	}
	return e.Metric
}

// changed says a ratio as a signed percentage, or as a multiple where that would have four digits.
func changed(ratio float64) string {
	points := 100 * math.Abs(ratio-1)
	if points < 9.95 {
		points = math.Round(points*10) / 10
	} else {
		points = math.Round(points)
	}
	switch {
	case ratio >= 10:
		return three(ratio) + "×"
	case points == 0:
		return "0 %"
	case ratio > 1:
		return "+" + number(points) + " %"
	}
	return "−" + number(points) + " %"
}

func changedInterval(e report.TuneEffect) string {
	if e.Low <= 0 && e.High <= 0 {
		return ""
	}
	return changed(e.Low) + " to " + changed(e.High)
}

// effectClass is the colour that an effect is painted in: none where it is not sure.
func effectClass(e report.TuneEffect) string {
	switch e.Verdict {
	case "better":
		return " better"
	case "worse":
		return " worse"
	}
	return ""
}

// A tuneColumn is a column of the table of settings.
type tuneColumn struct {
	head  htmlCell
	cells []htmlCell
	rank  int // the lower, the sooner it gets room
}

// change is the heading of what a setting changes against the current one.
func change(quantity string) string {
	if quantity == quantityCPU {
		return "CPU change"
	}
	return quantity + " change"
}

// columns are the table of a load's settings.
func (p *tunePart) columns() (columns []tuneColumn) {
	add := func(rank int, title, class string, cell func(s report.TuneSetting) htmlCell) {
		c := tuneColumn{head: htmlCell{title, class}, rank: rank}
		known := rank == 0
		for _, s := range p.settings {
			made := cell(s)
			known = known || made.Text != ""
			c.cells = append(c.cells, made)
		}
		if known {
			columns = append(columns, c)
		}
	}
	add(0, "GOMAXPROCS", "left", func(s report.TuneSetting) htmlCell {
		text := "  "
		if s.Best {
			text = "→ "
		}
		text += strconv.Itoa(s.Procs)
		if s.Current {
			text += " (current)"
		}
		return htmlCell{text, "left"}
	})
	if p.gogc {
		add(0, "GOGC", "", func(s report.TuneSetting) htmlCell {
			if s.GOGC == 0 {
				return htmlCell{Text: "–"}
			}
			return htmlCell{Text: strconv.Itoa(s.GOGC)}
		})
	}
	add(6, "runs", "", func(s report.TuneSetting) htmlCell { return htmlCell{Text: strconv.Itoa(s.Runs)} })
	quantity := func(rank int, name string) {
		add(rank, p.title(name), "", func(s report.TuneSetting) htmlCell {
			if v, ok := p.median(s, name); ok {
				return htmlCell{Text: p.value(name, v)}
			}
			return htmlCell{}
		})
	}
	versus := func(rank, intervalRank int, name string) {
		add(rank, change(name), "", func(s report.TuneSetting) htmlCell {
			if e, _, ok := p.effect(s, name); ok && !s.Current {
				return htmlCell{changed(e.Ratio), strings.TrimSpace(effectClass(e))}
			}
			return htmlCell{}
		})
		add(intervalRank, "interval", "", func(s report.TuneSetting) htmlCell {
			if e, _, ok := p.effect(s, name); ok && !s.Current {
				text := changedInterval(e)
				if strings.Count(text, " %") == 2 { // there is little room: −66 to −47 %
					text = strings.Replace(text, " %", "", 1)
				}
				return htmlCell{Text: text}
			}
			return htmlCell{}
		})
	}
	tail := p.tail()
	if tail != "p50" && tail != quantityTime {
		quantity(7, "p50")
	}
	if tail == quantityRate {
		quantity(5, cmp.Or(p.load.Tail, "p99"))
	}
	quantity(1, tail)
	first, second := [2]int{2, 3}, [2]int{4, 9}
	if p.Objective == quantityCPU {
		first, second = second, first
	}
	versus(first[0], first[1], tail)
	quantity(1, quantityCPU)
	versus(second[0], second[1], quantityCPU)
	quantity(5, quantityThrottled)
	add(8, "GC", "", func(s report.TuneSetting) htmlCell {
		if s.GC != nil {
			return htmlCell{Text: percent(s.GC.CPUShare)}
		}
		if v, ok := p.median(s, quantityGC); ok {
			return htmlCell{Text: p.value(quantityGC, v)}
		}
		return htmlCell{}
	})
	quantity(10, quantityMemory)
	return columns
}

// fit takes as many columns as there is room for, the important ones first, and makes a table of them.
func fit(columns []tuneColumn, width int) (rows [][]htmlCell) {
	byRank := slices.Clone(columns)
	slices.SortStableFunc(byRank, func(a, b tuneColumn) int { return cmp.Compare(a.rank, b.rank) })
	room := width
	var taken []tuneColumn
	for _, c := range byRank {
		needs := visible(c.head.Text)
		for _, cell := range c.cells {
			needs = max(needs, visible(cell.Text))
		}
		if len(taken) > 0 {
			needs += 2
		}
		if needs <= room || c.rank <= 1 {
			room -= needs
			taken = append(taken, c)
		}
	}
	var cells [][]htmlCell
	for _, c := range columns {
		if slices.ContainsFunc(taken, func(t tuneColumn) bool { return t.rank == c.rank && t.head == c.head }) {
			cells = append(cells, append([]htmlCell{c.head}, c.cells...))
		}
	}
	if len(cells) == 0 {
		return nil
	}
	rows = make([][]htmlCell, len(cells[0]))
	for _, column := range cells {
		for i, cell := range column {
			rows[i] = append(rows[i], cell)
		}
	}
	return rows
}

// notes say what the table does not: why settings were dropped, what failed, and where the comparisons are from.
func (p *tunePart) notes() (notes []string) {
	for _, s := range p.settings {
		name := "GOMAXPROCS=" + strconv.Itoa(s.Procs)
		if s.GOGC != 0 {
			name += ", GOGC=" + strconv.Itoa(s.GOGC)
		}
		if s.Dropped != "" {
			notes = append(notes, name+" was dropped: "+s.Dropped)
		}
		if s.Broken > 0 {
			notes = append(notes, fmt.Sprintf("%s missed the SLO in %d of %s", name, s.Broken, plural(int64(s.Runs), "run")))
		}
		if s.Failed > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s failed", name, plural(int64(s.Failed), "run")))
		}
	}
	if p.rival != nil && len(p.load.Effects) > 0 {
		text := "Changes are against the current setting: " + p.name(p.rival.Procs, p.rival.GOGC) + " by the " +
			plural(int64(p.load.Pairs), "fresh pair") + " of the confirmation"
		if len(p.settings) > 2 {
			text += ", the others by the blocks of the exploration"
		}
		notes = append(notes, text+"; the intervals are 95 % ones. Medians are of all runs.")
	}
	return notes
}

// where says which load it is.
func (p *tunePart) where() string {
	l := p.load
	switch {
	case l.Rate > 0 && l.Share > 0:
		return "at " + ofCapacity(l.Share) + " of its capacity (" + perSecond(l.Rate) + ")"
	case l.Rate > 0:
		return "at " + perSecond(l.Rate)
	case l.Connections > 0:
		return "in " + p.closedLoop()
	}
	return ""
}

func (p *tunePart) closedLoop() string {
	return "a closed loop of " + plural(int64(p.load.Connections), "connection")
}

// advice is what to do at this load, in few words.
func (p *tunePart) advice() string {
	setting := strconv.Itoa(p.load.Procs)
	if p.load.GOGC != 0 {
		setting += " with GOGC=" + strconv.Itoa(p.load.GOGC)
	}
	switch {
	case !p.load.Done:
		return "not finished"
	case p.load.Kind == "change":
		return "set " + setting
	case p.load.Kind == "keep":
		return "keep " + setting
	}
	return "undecided"
}

// heading begins the table of a load.
func (p *tunePart) heading() string {
	switch where := p.where(); {
	case where == "":
		return ""
	case len(p.Loads) > 1:
		return where + ": " + p.advice()
	default:
		return where
	}
}

// noise says how much runs of one setting differ.
func (p *tunePart) noise() string {
	var parts []string
	for _, quantity := range []string{"p99", quantityTime, quantityCPU, quantityRate} {
		if sd, ok := p.load.Noise[quantity]; ok && sd > 0 && sd < 10 {
			name := quantity
			if quantity == "p99" {
				name = cmp.Or(p.load.Tail, quantity)
			}
			parts = append(parts, p.title(name)+" ±"+noisePoints(100*(math.Exp(sd)-1))+" % a run")
		}
	}
	return strings.Join(parts, ", ")
}

// noisePoints prints two digits of a percentage, and no fraction of a larger one.
func noisePoints(v float64) string {
	if v >= 9.95 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return number(math.Round(v*10) / 10)
}

// limitWords say what the program was held to, and by what.
func (d *tuneDoc) limitWords() string {
	kind := strings.Replace(d.LimitKind, "cgroup-v", "cgroup v", 1)
	switch {
	case len(d.Limits) > 0:
		var each []string
		for _, l := range d.Limits {
			each = append(each, limitName(l.CPUs))
		}
		text := listed(each)
		if kind != "" && kind != "none" {
			text += " (" + kind + ")"
		}
		return text
	case d.LimitCPUs <= 0:
		if kind == "none" {
			return "none"
		}
		return kind
	case kind == "" || kind == "none":
		return cpus(d.LimitCPUs)
	}
	return cpus(d.LimitCPUs) + " (" + kind + ")"
}

// limitName is a limit among several, one of which may be that there is none.
func limitName(limit float64) string {
	if limit <= 0 {
		return "no limit"
	}
	return cpus(limit)
}

func listed(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// loadWords say what the program was given to do.
func (p *tunePart) loadWords() string {
	l := p.load
	var parts []string
	switch {
	case l.Rate > 0:
		parts = append(parts, perSecond(l.Rate))
		if text := arrivalsText(l.Arrivals); text != "" {
			parts = append(parts, text)
		}
		if l.Share > 0 {
			text := ofCapacity(l.Share) + " of its capacity"
			if l.Capacity > 0 {
				text += " of " + perSecond(l.Capacity)
			}
			parts = append(parts, text)
		}
	case l.Connections > 0:
		parts = append(parts, p.closedLoop())
	}
	if l.Window > 0 {
		text := "windows of " + lasting(l.Window)
		if l.WarmUp > 0 {
			text += " after " + lasting(l.WarmUp) + " of warm-up"
		}
		parts = append(parts, text)
	}
	if l.SLO != "" {
		parts = append(parts, "SLO "+sloText(l.SLO))
	}
	return strings.Join(parts, ", ")
}

// searchWords say how much was run.
func (p *tunePart) searchWords() string {
	parts := []string{plural(int64(p.load.Blocks), "block") + " of all settings", plural(int64(p.load.Pairs), "fresh pair") + " of the best and the current"}
	if p.load.Pairs == 0 {
		parts = parts[:1]
	}
	if p.load.Invalid > 0 {
		parts = append(parts, plural(int64(p.load.Invalid), "run")+" not valid")
	}
	return strings.Join(parts, ", ")
}

// tookWords say how much was done in all.
func (d *tuneDoc) tookWords() string {
	if len(d.Runs) == 0 && d.Seconds <= 0 {
		return ""
	}
	if len(d.Runs) == 0 {
		return "it took " + lasting(d.Seconds)
	}
	return plural(int64(len(d.Runs)), "run") + " in " + lasting(d.Seconds)
}

// subject names what was tuned.
func (d *tuneDoc) subject() string {
	if d.Subject.Name != "" {
		return d.Subject.Name
	}
	if len(d.Subject.Command) > 0 {
		return report.ShellWords(d.Subject.Command)
	}
	return d.Subject.URL
}

// measured say how it was measured.
func (d *tuneDoc) measured() htmlFacts {
	f := htmlFacts{Title: "How it was measured"}
	f.add("program", d.subject())
	if d.Current.Procs > 0 {
		text := strconv.Itoa(d.Current.Procs)
		if d.Current.Why != "" {
			text += ", " + d.Current.Why
		}
		if d.Current.GoDefault > 0 && d.Current.GoDefault != d.Current.Procs {
			text += fmt.Sprintf(" (Go's default is %d)", d.Current.GoDefault)
		}
		f.add("current", text)
	}
	f.add("limit", d.limitWords())
	for _, p := range d.parts() {
		name := "load"
		if p.where() == "" {
			name = "search"
		}
		if p.number != d.main {
			name = "and " + p.where()
		}
		if p.number == d.main || p.where() != "" {
			f.add(name, p.loadWords(), p.searchText(), p.noiseText())
		}
	}
	f.add("time", d.tookWords())
	f.add("margin", marginWords(d.Margin))
	f.add("by", d.Objective)
	return f
}

func (p *tunePart) searchText() string {
	if p.load.Blocks == 0 && p.load.Pairs == 0 {
		return ""
	}
	return p.searchWords()
}

func (p *tunePart) noiseText() string {
	if text := p.noise(); text != "" {
		return "noise: " + text
	}
	return ""
}

func marginWords(margin float64) string {
	if margin <= 0 {
		return ""
	}
	return percent(margin) + "; a smaller difference is not worth while"
}

// runWords name a run.
func (d *tuneDoc) runWords(r report.TuneRun) string {
	text := r.Phase
	switch {
	case r.Phase == "confirm":
		text += " pair " + strconv.Itoa(r.Block)
	case r.Block > 0:
		text += " block " + strconv.Itoa(r.Block)
	}
	text = strings.TrimSpace(text) + ", GOMAXPROCS=" + strconv.Itoa(r.Procs)
	if r.GOGC != 0 {
		text += ", GOGC=" + strconv.Itoa(r.GOGC)
	}
	if len(d.Loads) > 1 && r.Load >= 0 && r.Load < len(d.Loads) && d.Loads[r.Load].Rate > 0 {
		text += " at " + perSecond(d.Loads[r.Load].Rate)
	}
	return text
}

// failures list runs that gave no figures, so many of them at most.
func (d *tuneDoc) failures(most int) (texts []string) {
	more := 0
	for _, r := range d.Runs {
		text := ""
		switch {
		case r.Error != "":
			text = "failed: " + r.Error
		case !r.Valid:
			text = "not valid: " + strings.Join(r.Invalid, "; ")
		default:
			continue
		}
		if len(texts) == most {
			more++
			continue
		}
		texts = append(texts, d.runWords(r)+" "+text)
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

// limitTable is what each limit carries; tail is the percentile in it.
func (d *tuneDoc) limitTable() (rows [][]htmlCell, tail string) {
	if len(d.Limits) == 0 {
		return nil, ""
	}
	var procs []int
	for _, l := range d.Limits {
		for _, s := range l.Settings {
			if !slices.Contains(procs, s.Procs) {
				procs = append(procs, s.Procs)
			}
		}
	}
	slices.Sort(procs)
	tail = "p99"
	if d.main >= 0 {
		tail = cmp.Or(d.Loads[d.main].Tail, tail)
	}
	head := []htmlCell{{"limit", "left"}}
	for _, n := range procs {
		head = append(head, htmlCell{"GOMAXPROCS=" + strconv.Itoa(n), ""})
	}
	rows = append(rows, append(head, htmlCell{"held", ""}, htmlCell{tail, ""}, htmlCell{d.title(quantityCPU), ""}, htmlCell{"will do", "left"}))
	for _, l := range d.Limits {
		row := []htmlCell{{limitName(l.CPUs), "left"}}
		best := 0.0
		for _, s := range l.Settings {
			best = max(best, s.Rate)
		}
		for _, n := range procs {
			row = append(row, limitCell(l, n, best))
		}
		held, p99, cpu := "–", "–", "–"
		if l.Of > 0 {
			held = fmt.Sprintf("%d of %d", l.Held, l.Of)
		}
		if l.P99 > 0 {
			p99 = latency(l.P99)
		}
		if l.CPU > 0 {
			cpu = latency(l.CPU)
		}
		will := htmlCell{"no", "left"}
		switch {
		case l.Will && l.CPUs == d.Verdict.LimitCPUs:
			will = htmlCell{"yes, smallest", "left better"}
		case l.Will:
			will = htmlCell{"yes", "left better"}
		case l.Of == 0:
			will = htmlCell{"–", "left"}
		}
		rows = append(rows, append(row, htmlCell{Text: held}, htmlCell{Text: p99}, htmlCell{Text: cpu}, will))
	}
	return rows, tail
}

// limitNotes say what is in that table, with these columns of the windows that were held.
func (d *tuneDoc) limitNotes(columns ...string) []string {
	return []string{d.RatesNote(), d.HeldNote(columns...)}
}

func limitCell(l report.TuneLimit, procs int, best float64) htmlCell {
	for _, s := range l.Settings {
		if s.Procs != procs {
			continue
		}
		text := "none"
		if s.Rate > 0 {
			text = perSecond(s.Rate)
		}
		if s.Rate > 0 && s.Rate == best && len(l.Settings) > 1 {
			text = "→ " + text
		}
		if s.Default {
			text += "*"
		}
		return htmlCell{Text: text}
	}
	return htmlCell{Text: "–"}
}

// ofCapacity writes a share in whole per cent.
func ofCapacity(share float64) string {
	if share < 0.005 {
		return "less than 1 %"
	}
	return percent(math.Round(share*100) / 100)
}
