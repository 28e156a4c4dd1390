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
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// Tune shows what to do, the settings side by side, how to set it, every run, and how that was measured.
func Tune(document *report.Tune) *sheet.Sheet {
	d := newTuneDoc(document)
	s := &sheet.Sheet{
		Verb: "tune", Subject: d.summary(), Warnings: d.Warnings, Document: document,
		Claims:  []sheet.Claim{{Word: d.word(), Tone: d.tone(), Whole: true, Text: d.Verdict.Text, More: d.Verdict.Also}},
		Command: report.Typed(d.Command), Again: []string{d.SeedText()},
	}
	if !d.Finished {
		s.Resume = d.Resume
	}
	s.Add(sheet.Section{Title: "Limits", Quiet: true, Blocks: []sheet.Block{d.limits()}})
	if d.LimitsMemory() {
		s.Add(sheet.Section{Title: "What a request costs by memory limit", Detail: true, Blocks: []sheet.Block{d.memoryChart()}})
	} else {
		s.Add(sheet.Section{Title: "The highest rate by limit", Detail: true, Blocks: []sheet.Block{d.limitsChart()}})
	}
	parts := d.parts()
	for i, p := range parts {
		if i == 0 {
			p.main(s)
		} else {
			p.other(s)
		}
	}
	s.Add(sheet.Section{Title: "How to set it", Blocks: []sheet.Block{tuneHow(d.Verdict.How)}})
	for _, p := range parts[:min(1, len(parts))] {
		for _, section := range p.drawings() {
			section.Detail, section.Folded, section.About = true, true, p.where()
			s.Add(section)
		}
	}
	s.Add(sheet.Section{Title: "How it was measured", Blocks: []sheet.Block{d.facts(parts)}})
	s.Add(sheet.Section{Title: "Environment", Detail: true, Folded: true, Blocks: []sheet.Block{d.environment()}})
	s.Add(sheet.Section{Title: "Runs without figures", Blocks: []sheet.Block{sheet.Listed(d.Failures())}})
	s.Add(sheet.Section{Title: "For benchstat", Detail: true, Folded: true, Blocks: []sheet.Block{tuneBenchstat(parts)}})
	return s
}

// A tuneDoc is a document with what is looked up in it repeatedly.
type tuneDoc struct {
	*report.Tune
	gogc bool // any setting has one
	keys []report.TuneKey
}

func newTuneDoc(d *report.Tune) *tuneDoc {
	d = report.Sane(d)
	return &tuneDoc{Tune: d, gogc: d.WithGOGC(), keys: d.Keys()}
}

// color is a setting's in all charts and tables: that of the current one is the base.
func (d *tuneDoc) color(k report.TuneKey) sheet.Color {
	return sheet.BaseColor + sheet.Color(max(0, slices.Index(d.keys, k)))
}

// A dimension is what settings differ in.
type dimension struct {
	name string
	of   func(report.TuneKey) string // dash: it is left unchanged
}

// dimensions are GOMAXPROCS, GOGC, and what else is varied.
func (d *tuneDoc) dimensions() (all []dimension) {
	if d.WithProcs() {
		all = append(all, dimension{"GOMAXPROCS", func(k report.TuneKey) string { return strconv.Itoa(k.Procs) }})
	}
	if d.gogc {
		all = append(all, dimension{"GOGC", func(k report.TuneKey) string {
			if k.GOGC == 0 {
				return dash
			}
			return strconv.Itoa(k.GOGC)
		}})
	}
	for i, v := range d.Varied {
		all = append(all, dimension{v.Name, func(k report.TuneKey) string {
			pairs := k.Vary.All()
			if i >= len(pairs) {
				return dash
			}
			return cmp.Or(pairs[i].Value, "unset")
		}})
	}
	return all
}

// name distinguishes a setting from the others, in few letters.
func (d *tuneDoc) name(k report.TuneKey) string {
	var values []string
	for _, dim := range d.dimensions() {
		values = append(values, dim.of(k))
	}
	return strings.Join(values, " / ")
}

// factor is what the names are of.
func (d *tuneDoc) factor() string {
	var names []string
	for _, dim := range d.dimensions() {
		names = append(names, dim.name)
	}
	return strings.Join(names, " / ")
}

// A tunePart is what is shown of a load.
type tunePart struct {
	*report.TuneAt
	*tuneDoc
}

// parts are the loads, that of the verdict first.
func (d *tuneDoc) parts() (parts []tunePart) {
	for i := range d.Loads {
		if p := (tunePart{d.At(i), d}); i == d.Main() {
			parts = slices.Insert(parts, 0, p)
		} else {
			parts = append(parts, p)
		}
	}
	return parts
}

// word is the answer in a word. A limit that will do is not a change.
func (d *tuneDoc) word() string {
	switch {
	case d.Failure != "":
		return failedWord
	case !d.Verdict.Settled():
		return "undecided"
	case len(d.Limits) > 0:
		return "enough"
	}
	return d.Verdict.Kind
}

const failedWord = "error" // ended it, regardless of what is known all the same

// tone is that of the word: what to change, and what to weigh, must be visible from afar.
func (d *tuneDoc) tone() sheet.Tone {
	switch d.word() {
	case string(search.Change), "enough":
		return sheet.Good
	case string(search.Trade):
		return sheet.Warn
	case failedWord:
		return sheet.Bad
	}
	return settledTone(d.Verdict.Settled())
}

func settledTone(settled bool) sheet.Tone {
	if settled {
		return sheet.Strong
	}
	return sheet.Unsure
}

// main adds the load that the verdict rests on. Its drawings come later.
func (p tunePart) main(s *sheet.Sheet) {
	s.Add(sheet.Section{Title: p.change(), About: p.RestsOn(), Blocks: []sheet.Block{p.effects()}})
	s.Add(sheet.Section{Title: "The change in numbers", Detail: true, Blocks: []sheet.Block{p.numbers()}})
	section := p.section(p.settings())
	section.Quiet = p.where() == ""
	s.Add(section)
	s.Add(sheet.Section{Title: frontTitle, Blocks: []sheet.Block{p.frontier()}})
}

// other adds another load, in one section.
func (p tunePart) other(s *sheet.Sheet) {
	section := p.section(p.settings())
	section.Folded, section.About = true, strings.Join(p.measured(), "; ")
	var more sheet.Sheet
	more.Add(sheet.Section{Title: p.change(), Blocks: []sheet.Block{p.frontier(), p.effects(), p.numbers()}})
	for _, drawn := range append(more.Sections, p.drawings()...) {
		section.Blocks = append(section.Blocks, sheet.Detail{Block: sheet.Lines{Tone: sheet.Strong, Texts: []string{drawn.Title}}})
		for _, b := range drawn.Blocks {
			section.Blocks = append(section.Blocks, sheet.Detail{Block: b})
		}
	}
	s.Add(section)
}

// section begins that of a load.
func (p tunePart) section(blocks ...sheet.Block) sheet.Section {
	s := sheet.Section{Title: cmp.Or(p.where(), "Settings"), Blocks: blocks}
	if len(p.Loads) > 1 {
		s.Badge = sheet.Claim{Word: p.Advice(), Tone: settledTone(p.Settled())}
	}
	return s
}

// where says which load it is; "" if there isn't one.
func (p tunePart) where() string {
	l := p.TuneLoad
	switch {
	case l.Rate > 0 && l.Share > 0:
		return "At " + quantity.WholeShare(l.Share) + " of its limit (" + quantity.PerSecond(l.Rate) + ")"
	case l.Rate > 0:
		return "At " + quantity.PerSecond(l.Rate)
	case l.Connections > 0:
		return "In " + tuneClosedLoop(l)
	}
	return ""
}

func tuneClosedLoop(l report.TuneLoad) string {
	return "a closed loop of " + quantity.Plural(l.Connections, "connection")
}

// title is a quantity's name.
func (d *tuneDoc) title(of string) string {
	switch {
	case of == report.TuneCPU:
		return "CPU " + d.Subject.Each()
	case of == report.TuneTime && d.Subject.Kind == "gobench":
		return "time " + d.Subject.Each()
	}
	return of
}

// unit is that of a quantity's figures.
func (p tunePart) unit(of string) quantity.Unit {
	return quantity.UnitOf(p.Metric(of))
}

// text writes a quantity's figure.
func (p tunePart) text(of string, v float64) string {
	if of == report.TuneRate {
		return quantity.PerSecond(v)
	}
	return p.unit(of).Text(v)
}

// median writes that of a setting; "" if it is not known.
func (p tunePart) median(s report.TuneSetting, of string) string {
	if v, ok := p.Median(s, of); ok {
		return p.text(of, v)
	}
	return ""
}

// tuneMedian writes a measure's; "" if it is not known.
func tuneMedian(s report.TuneSetting, of lab.Measure) string {
	if of == lab.GCShare && s.GC != nil && s.GC.CPUShare > 0 { // also where no run that counts reported its collections
		return quantity.Share(s.GC.CPUShare)
	}
	m := s.Metrics[string(of)]
	return when(m.N > 0, quantity.UnitOf(string(of)).Text(m.Median))
}

// typical writes what is next to a change; without one it is the median.
func (p tunePart) typical(s report.TuneSetting, of string) string {
	if v, ok := p.Beside(s, of); ok {
		return effectText(of, v)
	}
	return p.median(s, of)
}

// effectText writes what an effect is from or to, which is in seconds, a second, or a share.
func effectText(of string, v float64) string {
	switch of {
	case report.TuneThrottled:
		return quantity.Share(v)
	case report.TuneRate:
		return quantity.PerSecond(v)
	}
	return quantity.Latency(v)
}

// effectTone is how an effect is intended: no tone where it is not sure.
func effectTone(e report.TuneEffect) sheet.Tone { return tones[e.Says] }

// settings are the table of a load.
func (p tunePart) settings() *sheet.Table {
	t := &sheet.Table{Name: "settings"}
	add := func(c sheet.Column, cell func(s report.TuneSetting) sheet.Cell) {
		t.Columns = append(t.Columns, c)
		for i, s := range p.Settings {
			t.Rows[i].Cells = append(t.Rows[i].Cells, cell(s))
		}
	}
	for _, s := range p.Settings {
		t.Rows = append(t.Rows, sheet.Row{Best: s.Best, Color: p.color(s.Key())})
	}
	for i, dim := range p.dimensions() {
		add(sheet.Column{Title: dim.name, Left: i == 0}, func(s report.TuneSetting) sheet.Cell {
			tag := p.Tag(s)
			return sheet.Cell{Text: dim.of(s.Key()) + when(i == 0 && tag != "", " ("+tag+")")}
		})
	}
	add(sheet.Column{Title: "runs", Rank: 6}, func(s report.TuneSetting) sheet.Cell { return sheet.Cell{Text: strconv.Itoa(s.Runs)} })
	figure := func(rank int, short, of string) {
		text := p.median
		if of == p.Tail || of == report.TuneCPU {
			text = p.typical
		}
		add(sheet.Column{Title: p.title(of), Short: short, Rank: rank}, func(s report.TuneSetting) sheet.Cell { return sheet.Cell{Text: text(s, of)} })
	}
	// The change is with the interval, which goes before it, or with it.
	changes := func(rank, intervalRank int, name, of string) {
		add(sheet.Column{Title: name + " change", Rank: rank}, func(s report.TuneSetting) sheet.Cell {
			if e, ok := p.Effect(s, of); ok {
				return sheet.Cell{Text: quantity.Change(e.Ratio), Tone: effectTone(e)}
			}
			return sheet.Cell{}
		})
		add(sheet.Column{Title: "interval", Rank: intervalRank, With: name + " change"}, func(s report.TuneSetting) sheet.Cell {
			if e, ok := p.Effect(s, of); ok && e.Interval() {
				return sheet.Cell{Text: quantity.Changes(e.Low, e.High)}
			}
			return sheet.Cell{}
		})
	}
	tail := p.Tail
	if tail != "p50" && tail != report.TuneTime {
		figure(7, "", "p50")
	}
	if tail == report.TuneRate {
		figure(5, "", p.Percentile())
	}
	figure(0, "", tail)
	first, second := [2]int{2, 4}, [2]int{3, 9}
	if p.Objective == report.TuneCPU {
		first, second = second, first
	}
	changes(first[0], first[1], tail, tail)
	figure(0, "CPU", report.TuneCPU)
	changes(second[0], second[1], "CPU", report.TuneCPU)
	for _, m := range lab.Measures {
		if m.TuneRank > 0 {
			add(sheet.Column{Title: m.Title, Rank: m.TuneRank}, func(s report.TuneSetting) sheet.Cell {
				return sheet.Cell{Text: tuneMedian(s, m.Measure)}
			})
		}
	}
	for _, text := range p.Notes() {
		t.Notes = append(t.Notes, sheet.Note{Text: text})
	}
	if text := p.BestNote(); text != "" {
		t.Notes = append(t.Notes, sheet.Note{Text: text})
	}
	if len(p.Settings) > 1 {
		t.Notes = append(t.Notes, sheet.Note{Text: p.ChangesNote()})
	}
	return t
}

// compared are the names of the current setting and of the one that is compared with it.
func (p tunePart) compared() (from, to string) {
	from, to = "current", "best"
	if s := p.Current(); s != nil {
		from = p.name(s.Key())
	}
	if p.Rival != nil {
		to = p.name(p.Rival.Key())
	}
	return from, to
}

// change is the title of what the verdict is about.
func (p tunePart) change() string {
	from, to := p.compared()
	return "Change from " + from + " to " + to
}

// frontier are the settings to choose from, with what each costs and gives relative to the current one.
func (p tunePart) frontier() *sheet.Table {
	var rows []frontRow
	for _, s := range p.Front() {
		name := p.name(s.Key())
		if tag := p.Tag(s); tag != "" {
			name += " (" + tag + ")"
		}
		row := frontRow{Row: sheet.Row{Color: p.color(s.Key()), Best: s.Best, Cells: []sheet.Cell{{Text: name}}}, take: p.Take(s)}
		for _, of := range []string{report.TuneCPU, p.Tail} {
			var change, interval sheet.Cell
			if e, ok := p.Effect(s, of); ok {
				change = sheet.Cell{Text: quantity.Change(e.Ratio), Tone: effectTone(e)}
				if e.Interval() {
					interval.Text = quantity.Changes(e.Low, e.High)
				}
			}
			row.changes = append(row.changes, change, interval)
		}
		rows = append(rows, row)
	}
	return frontTable(p.factor(), p.Tail, rows)
}

// numbers are what the verdict is about, in numbers.
func (p tunePart) numbers() *sheet.Table {
	from, to := p.compared()
	t := &sheet.Table{Name: "the change", Columns: []sheet.Column{
		{Left: true}, {Title: from}, {Title: to}, {Title: "change"}, {Title: "95 % interval"}, {Title: "by signed ranks", Rank: 1}, {Title: "p", Rank: 2}, {Left: true},
	}}
	for _, e := range p.Effects {
		of := p.Quantity(e)
		name := p.title(of)
		if e.Metric == report.TunePooled {
			name = p.Percentile() + " of whole windows"
		}
		cells := make([]sheet.Cell, len(t.Columns))
		cells[0].Text, cells[1].Text, cells[2].Text = name, effectText(of, e.From), effectText(of, e.To)
		if e.Ratio > 0 {
			cells[3].Text = quantity.Change(e.Ratio)
		}
		if e.Ratio > 0 && e.Interval() {
			cells[4].Text = quantity.Changes(e.Low, e.High)
		}
		if e.RankHigh > 0 {
			cells[5].Text, cells[6].Text = quantity.Changes(e.RankLow, e.RankHigh), strconv.FormatFloat(e.P, 'g', 2, 64)
		}
		cells[7] = sheet.Cell{Text: e.SaidInFull(), Tone: effectTone(e)}
		t.Rows = append(t.Rows, sheet.Row{Cells: cells})
	}
	return t
}

func tuneHow(how []report.TuneHow) (commands sheet.Commands) {
	for _, h := range how {
		commands = append(commands, sheet.Command{About: h.Where + ":", Lines: h.Lines()})
	}
	return commands
}

// summary is what was tuned, in a line.
func (d *tuneDoc) summary() string {
	limit := d.limitText()
	switch limit {
	case "":
	case "none":
		limit = "no limit"
	default:
		limit = "limit " + limit
	}
	return joined(", ", d.subject(), limit, d.tookText())
}

// subject names what was tuned.
func (d *tuneDoc) subject() string {
	return cmp.Or(d.Subject.Name, report.ShellWords(d.Subject.Command), d.Subject.URL)
}

// limitText says what the program was held to, and by what.
func (d *tuneDoc) limitText() string {
	kind := cmp.Or(limitKind(d.LimitKind), d.LimitKind)
	var each []string
	for i := range d.Limits {
		each = append(each, d.LimitText(&d.Limits[i]))
	}
	switch {
	case d.LimitCPUs > 0 && len(each) == 0:
		each = []string{quantity.CPUs(d.LimitCPUs)}
	case d.LimitCPUs > 0:
		each = []string{quantity.CPUs(d.LimitCPUs) + " and " + quantity.Either(each)}
	}
	switch {
	case len(each) == 0:
		return kind
	case kind == "" || kind == "none":
		return quantity.List(each)
	}
	return quantity.List(each) + " (" + kind + ")"
}

// tookText says how much was done in all.
func (d *tuneDoc) tookText() string {
	switch n := int64(len(d.Runs)); {
	case n > 0:
		return quantity.Plural(n, "run") + " in " + quantity.Lasting(d.Seconds)
	case d.Seconds > 0:
		return "it took " + quantity.Lasting(d.Seconds)
	}
	return ""
}

// atOnceText says how much was made at the same time, where that was so, or might have been, and why not more.
func (d *tuneDoc) atOnceText() string {
	a := d.AtOnce
	switch {
	case a == nil || a.Runs == 0 && a.InTurn == "":
		return ""
	case a.Runs == 0:
		return "nothing, as " + a.InTurn
	}
	text := quantity.Plural(int64(a.Runs), "run") + ", all settings of a block at the same time" + when(d.Subject.Kind == "server" && d.Environment.Node == "", ", each in a network of its own")
	if a.InTurn != "" {
		text += "; then in turn, as " + a.InTurn
	}
	return text
}

// facts say how it was measured.
func (d *tuneDoc) facts(parts []tunePart) (f sheet.Facts) {
	f.Add("program", d.subject())
	if c := d.Current; c.Procs > 0 && d.WithProcs() {
		text := joined(", ", strconv.Itoa(c.Procs), c.Why)
		if c.GoDefault > 0 && c.GoDefault != c.Procs {
			text += fmt.Sprintf(" (Go's default is %d)", c.GoDefault)
		}
		f.Add("current", text)
	}
	f.Add("limit", d.limitText())
	if len(parts) > 0 {
		name := "load"
		if parts[0].where() == "" && d.Subject.Load == "" && d.Subject.Units == "" {
			name = "search"
		}
		f.Add(name, parts[0].measured()...)
	}
	f.Add("time", d.tookText())
	f.Add("at once", d.atOnceText())
	f.Add("margin", d.MarginText())
	if len(parts) > 0 {
		f.Add("tail margin", d.TailMarginText(parts[0].Percentile()))
	}
	f.Add("by", d.Objective)
	return f
}

// measured says what the program was given to do, how much was run, and how much runs of one setting differ.
func (p tunePart) measured() (texts []string) {
	for _, text := range []string{p.loadText(), p.searchText(), p.noiseText()} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

func (p tunePart) loadText() string {
	l := p.TuneLoad
	var what, capacity, window, slo string
	switch {
	case l.Rate > 0:
		rate := quantity.PerSecond(l.Rate)
		if l.RateFrom > 0 {
			rate = quantity.PerSecond(l.RateFrom) + " to " + quantity.PerSecond(l.RateTo) + " in each window"
		}
		what = joined(", ", rate, arrivals(l.Arrivals)+around(" of ", l.RateFile, ""), bursts(l.Burst))
	case l.Connections > 0:
		what = tuneClosedLoop(l)
	case p.Subject.Load != "":
		takes := "which takes " + quantity.Lasting(l.Window) + when(l.WarmUp > 0, " and runs twice, as the first time the program is not warm")
		return joined(", ", p.Subject.Load, takes, p.Subject.Units) + "; how late it was itself is not known"
	case p.Subject.Units != "":
		what = "what comes by itself, as " + p.Subject.Units + " counts it"
	}
	if l.Rate > 0 && l.Share > 0 {
		capacity = quantity.WholeShare(l.Share) + " of its limit's CPU"
		if l.Capacity > 0 {
			capacity += " and " + quantity.WholeShare(l.Closed) + " of the " + quantity.PerSecond(l.Capacity) + " of a closed loop"
		}
	}
	if l.Window > 0 {
		window = quantity.Lasting(l.Window) + " windows"
		if 0 < l.FirstWindow && l.FirstWindow < l.Window {
			window += " (" + quantity.Lasting(l.FirstWindow) + " at first)"
		}
		if l.WarmUp > 0 {
			window += " after "
			if l.Overload > 0 {
				window += "an overload with " + quantity.Plural(l.Overload, "request") + " under way beside busy CPUs, as memory runs out when they pile up, the time to work them off, and "
			}
			window += quantity.Lasting(l.WarmUp) + " of warm-up"
			if l.Rush > 0 {
				window += fmt.Sprintf(", which begins with %d requests at once, as memory runs out in bursts", l.Rush)
			}
		}
	}
	if l.SLO != "" {
		slo = "SLO " + l.SLO
	}
	return joined(", ", what, capacity, window, slo)
}

func (p tunePart) searchText() string {
	var blocks, pairs, invalid string
	if p.Blocks > 0 {
		blocks = quantity.Plural(p.Blocks, "block")
	}
	if p.Fresh > 0 {
		pairs = quantity.Plural(p.Fresh, "fresh pair") + " of the best and the " + when(len(p.Fallen) == 0, "current") + when(len(p.Fallen) > 0, "base")
	}
	if p.Invalid > 0 && blocks != "" {
		invalid = quantity.Plural(p.Invalid, "run") + " not valid"
	}
	return joined(", ", blocks, pairs, invalid)
}

func (p tunePart) noiseText() string {
	var parts []string
	for _, of := range []string{"p99", report.TuneTime, report.TuneCPU, report.TuneRate} {
		if v, low, high, ok := p.NoiseOf(of); ok {
			name := of
			if of == "p99" {
				name = p.Percentile()
			}
			parts = append(parts, p.title(name)+" ±"+quantity.RoughShare(v)+" a run ("+quantity.RoughShare(low)+" to "+quantity.RoughShare(high)+")")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "noise: " + strings.Join(parts, ", ")
}

func (d *tuneDoc) environment() (f sheet.Facts) {
	e := d.Environment
	f.Add("limit", append([]string{cmp.Or(limitKind(e.LimitKind), e.LimitKind)}, e.Notes...)...)
	if e.OS != "" {
		f.Add("system", e.OS+"/"+e.Arch)
	}
	f.Add("node", e.Node)
	f.Add("kernel", e.Kernel)
	f.Add("CPU", e.CPU)
	if e.CPUs > 0 {
		f.Add("CPUs", quantity.CPUs(float64(e.CPUs))+" may be used")
	}
	if e.Memory > 0 {
		f.Add("memory", quantity.Bytes(e.Memory))
	}
	f.Add("Go", e.Go)
	f.Add("made by", d.MadeBy)
	f.Add("made at", d.Time)
	return f
}

// tuneBenchstat is for users who know benchstat.
func tuneBenchstat(parts []tunePart) sheet.Commands {
	filter := ""
	if slices.ContainsFunc(parts, func(p tunePart) bool { return p.Rival != nil }) {
		filter = " -filter /phase:confirm"
	}
	return sheet.Commands{{About: "Its comparisons are not paired, and so see less:", Lines: []string{
		"unthrottle report --format bench -o tune.txt tune.json",
		"benchstat -col /gomaxprocs" + filter + " -ignore /block tune.txt",
	}}}
}
