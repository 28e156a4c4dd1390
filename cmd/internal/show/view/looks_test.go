package view

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/unthrottle/unthrottle/cmd/internal/show/browsertest"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// The looks of pages are compared with golden files, coarsely: a file says where the parts of a page are, which colours they
// have, where the texts of charts are, and how much is drawn: in a part, of that in colour, and in each of some fields of it,
// from 1 to 9, or . where nothing is. Another version of the browser, which draws letters in a slightly different way or breaks
// a line elsewhere, is within the tolerances. What is gone, moved, wider, of another colour or not drawn is not: TestLooksNotice
// holds that.

// lookedAt are the pages that are compared, one or two of each verb.
func lookedAt(t *testing.T) map[string]*sheet.Sheet {
	all := browserPages(t)
	pages := map[string]*sheet.Sheet{}
	for _, name := range []string{
		"ps", "explain", "run", "watch-throttled", "trace-throttled", "profile-live", "tune-change", "tune-limits", "load-held", "load-find-max", "bench-usual",
	} {
		pages[name] = all[name]
	}
	return pages
}

var lookedIn = []window{{390, 844, "light"}, {390, 844, "dark"}, {1280, 800, "light"}, {1280, 800, "dark"}}

// TestLooks compares pages with their golden files. With -artifacts the pages and the pictures are kept.
func TestLooks(t *testing.T) {
	slowtest.Plain(t)
	ctx := browsertest.Start(t)
	pages := lookedAt(t)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		openLook(t, ctx, name, pages[name])
		var looks []look
		for _, w := range lookedIn {
			become(t, ctx, w)
			l, picture := lookNow(t, ctx, w)
			looks = append(looks, l)
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%d-%s.png", name, w.width, w.scheme)), picture, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join("testdata", name+".look")
		was, _ := os.ReadFile(path) // no file: no looks
		differences := compareLooks(readLooks(string(was)), looks)
		if *update && len(differences) > 0 { // what is within the tolerances stays, or each browser would write another file
			if err := os.WriteFile(path, []byte(writeLooks(looks)), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, difference := range differences {
			t.Errorf("%s: %s; -update writes it", path, difference)
		}
	}
}

// openLook opens a page with letters that are the same everywhere.
func openLook(t *testing.T, ctx context.Context, name string, s *sheet.Sheet) {
	t.Helper()
	visit(t, ctx, writePage(t, name, s))
	var missingFonts string
	browsertest.Do(t, ctx, chromedp.Evaluate(sameFonts, &missingFonts))
	if missingFonts != "" {
		browsertest.Missing(t, "there is no font like "+missingFonts+", which Debian has in fonts-liberation")
	}
}

// sameFonts sets fonts by name, and says which one is not there. A name that is not known is not an error to a browser, so it
// measures: ten m are 8.33 em wide in Liberation Sans and in what is made to replace it, and 6 em in Liberation Mono.
const sameFonts = `(() => {
  const rule = document.createElement("style");
  rule.textContent = 'body { font-family: "Liberation Sans" } code, pre { font-family: "Liberation Mono" }';
  document.head.append(rule);
  const pen = document.createElement("canvas").getContext("2d");
  for (const [font, width] of [["Liberation Sans", 833], ["Liberation Mono", 600]]) {
    pen.font = '100px "' + font + '"';
    if (Math.abs(pen.measureText("mmmmmmmmmm").width / 10 - width / 10) > .5) return font;
  }
  return "";
})()`

// A look is how a page looks in a window.
type look struct {
	name  string // of the window
	parts []part
}

// A part is an element of a page.
type part struct {
	Name       string
	X, Y, W, H int
	Colors     []string // of its texts and of what is drawn, if it has no parts of its own
	Texts      []int    // of a chart: how many, and where their middle is, in thousandths of its size

	// What the picture is drawn on, of 255; how much is drawn, and how much in colour, as tenths of the height that it would have
	// if it filled the width: a line that is broken elsewhere changes neither.
	paper, ink, color int
	fields            []string // how much is drawn where
}

// lookNow looks at the page as shown now.
func lookNow(t *testing.T, ctx context.Context, w window) (look, []byte) {
	t.Helper()
	l := look{name: w.String()}
	var picture []byte
	browsertest.Do(t, ctx, chromedp.Evaluate(partsNow, &l.parts), chromedp.FullScreenshot(&picture, 100))
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	pixels := image.NewRGBA(decoded.Bounds())
	draw.Draw(pixels, pixels.Bounds(), decoded, image.Point{}, draw.Src)
	for i := range l.parts {
		if p := &l.parts[i]; len(p.Colors) > 0 {
			p.drawn(pixels, int(w.width))
		}
	}
	return l, picture
}

// partsNow lists the parts of the page. Those that are folded are opened, and named so.
const partsNow = `(() => {
  const which = "h1, .verdicts, .warnings, section, .facts > div, details, .chart, .scroll, dl, .commands";
  const hex = text => { const c = text.match(/[\d.]+/g).map(Number);
    return c.length === 4 && c[3] === 0 ? "" : "#" + c.slice(0, 3).map(v => v.toString(16).padStart(2, "0")).join(""); };
  for (const e of document.querySelectorAll("details:not([open])")) { e.open = true; e.dataset.folded = ""; }
  const shown = e => e.checkVisibility({visibilityProperty: true});
  const colors = part => {
    const all = new Set();
    for (const e of [part, ...part.querySelectorAll("*")]) {
      if (!shown(e)) continue;
      const s = getComputedStyle(e);
      if (e instanceof SVGElement) {
        if (/^(svg|g|defs|title|desc|pattern|clipPath)$/.test(e.tagName)) continue;
        for (const of of e.tagName === "line" ? [s.stroke] : [s.fill, s.stroke]) if (of.startsWith("rgb")) all.add(hex(of));
      } else {
        all.add(hex(s.backgroundColor));
        if ([...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) all.add(hex(s.color));
      }
    }
    all.delete("");
    return [...all].sort();
  };
  const texts = (part, of) => {
    const boxes = [...part.querySelectorAll("svg text")].filter(shown).map(e => e.getBoundingClientRect()).filter(b => b.width);
    const mean = values => Math.round(1000 * values.reduce((a, b) => a + b, 0) / values.length);
    return boxes.length ? [boxes.length, mean(boxes.map(b => (b.x + b.width / 2 - of.x) / of.width)), mean(boxes.map(b => (b.y + b.height / 2 - of.y) / of.height))] : [];
  };
  return [...document.querySelectorAll(which)].filter(shown).map(e => {
    const box = e.getBoundingClientRect();
    const kind = e.tagName.toLowerCase() + (e.classList[0] ? "." + e.classList[0] : "") + ("folded" in e.dataset ? " folded" : "");
    const title = e.matches(".scroll") ? e.ariaLabel : (e.matches("h1") ? e : e.querySelector("h2, h3"))?.textContent;
    return {
      Name: [kind, title].filter(Boolean).join(" ").replace(/\s+/g, " "), X: Math.round(box.x), Y: Math.round(box.y + scrollY), W: Math.round(box.width), H: Math.round(box.height),
      Colors: e.querySelector(which) ? [] : colors(e), Texts: e.matches(".chart") ? texts(e, box) : [],
    };
  });
})()`

// drawn measures what is drawn of a part: how much its pixels differ from the paper, which is what most of them are. It is divided
// into fields about as wide as 30 pixels on a phone and 50 on a desk.
func (p *part) drawn(picture *image.RGBA, width int) {
	of := image.Rect(p.X, p.Y, p.X+p.W, p.Y+p.H).Intersect(picture.Bounds())
	if of.Empty() {
		return
	}
	across := 12
	if width > 800 {
		across = 24
	}
	down := min(max(1, of.Dy()/32), 12)
	pixel := func(x, y int) (grey, color int) {
		at := picture.PixOffset(x, y)
		r, g, b := int(picture.Pix[at]), int(picture.Pix[at+1]), int(picture.Pix[at+2])
		return (3*r + 6*g + b) / 10, max(r, g, b) - min(r, g, b)
	}
	var often [256]int
	for y := of.Min.Y; y < of.Max.Y; y++ {
		for x := of.Min.X; x < of.Max.X; x++ {
			grey, _ := pixel(x, y)
			often[grey]++
		}
	}
	p.paper = slices.Index(often[:], slices.Max(often[:]))
	var ink, color float64
	sums, counts := make([]float64, across*down), make([]float64, across*down)
	for y := of.Min.Y; y < of.Max.Y; y++ {
		for x := of.Min.X; x < of.Max.X; x++ {
			grey, colored := pixel(x, y)
			differs := float64(max(grey-p.paper, p.paper-grey))
			i := (y-of.Min.Y)*down/of.Dy()*across + (x-of.Min.X)*across/of.Dx()
			sums[i] += differs
			counts[i]++
			ink += differs
			color += float64(colored)
		}
	}
	p.ink, p.color = int(10*ink/255/float64(of.Dx())), int(10*color/255/float64(of.Dx()))
	for row := range down {
		var line strings.Builder
		for column := range across {
			i := row*across + column
			line.WriteByte(levels[level(sums[i]/max(1, counts[i]))])
		}
		p.fields = append(p.fields, line.String())
	}
}

const levels = ".123456789"

// level is how much is drawn, from 0 to 9. Letters cover little of their paper, so it is not linear.
func level(mean float64) int { return min(9, int(math.Round(9*math.Sqrt(mean/140)))) }

// writeLooks and readLooks: a line for each window, then one for each part with its place, size, colours and name, and below it
// what is drawn.
func writeLooks(looks []look) string {
	var b strings.Builder
	for _, l := range looks {
		fmt.Fprintf(&b, "::: %s\n", l.name)
		for _, p := range l.parts {
			colors := strings.Join(p.Colors, ",")
			if colors == "" {
				colors = "-"
			}
			fmt.Fprintf(&b, "%d %d %d %d %s %s\n", p.X, p.Y, p.W, p.H, colors, p.Name)
			if len(p.Texts) > 0 {
				fmt.Fprintf(&b, "\ttexts %d %d %d\n", p.Texts[0], p.Texts[1], p.Texts[2])
			}
			if len(p.fields) > 0 {
				fmt.Fprintf(&b, "\tpaper %d ink %d color %d\n", p.paper, p.ink, p.color)
			}
			for _, line := range p.fields {
				fmt.Fprintf(&b, "\t%s\n", line)
			}
		}
	}
	return b.String()
}

func readLooks(text string) (looks []look) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		l := len(looks) - 1
		if name, ok := strings.CutPrefix(line, "::: "); ok {
			looks = append(looks, look{name: name})
			continue
		}
		if field, ok := strings.CutPrefix(line, "\t"); ok {
			last := &looks[l].parts[len(looks[l].parts)-1]
			texts := make([]int, 3)
			if n, _ := fmt.Sscanf(field, "texts %d %d %d", &texts[0], &texts[1], &texts[2]); n == 3 {
				last.Texts = texts
			} else if n, _ := fmt.Sscanf(field, "paper %d ink %d color %d", &last.paper, &last.ink, &last.color); n != 3 {
				last.fields = append(last.fields, field)
			}
			continue
		}
		words := strings.SplitN(line, " ", 6)
		var p part
		for i, n := range []*int{&p.X, &p.Y, &p.W, &p.H} {
			*n, _ = strconv.Atoi(words[i])
		}
		if words[4] != "-" {
			p.Colors = strings.Split(words[4], ",")
		}
		p.Name = words[5]
		looks[l].parts = append(looks[l].parts, p)
	}
	return looks
}

// How far a look may be from what it was.
const (
	sameX      = 4    // pixels, of a left edge or a width
	sameH      = 30   // pixels of a height, or a line of text
	sameShare  = 0.06 // of a height, where that is more
	sameText   = 15   // thousandths of a chart's width
	samePaper  = 8    // of 255
	sameInk    = 8    // an eighth of what is drawn
	sameField  = 0.6  // of 9, the mean of the differences of a part's fields
	sameFields = 0.08 // of the fields, that may differ by more than 2
)

// compareLooks says what differs by more than another browser would make of the same page.
func compareLooks(want, got []look) (differences []string) {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("there are %d looks, want %d", len(got), len(want))}
	}
	for i, w := range want {
		for _, difference := range compareParts(w.parts, got[i].parts) {
			differences = append(differences, w.name+": "+difference)
		}
	}
	return differences
}

func compareParts(want, got []part) (differences []string) {
	names := func(parts []part) (all []string) {
		for _, p := range parts {
			all = append(all, p.Name)
		}
		return all
	}
	if w, g := names(want), names(got); !slices.Equal(w, g) {
		for i := range min(len(w), len(g)) {
			if w[i] != g[i] {
				return []string{fmt.Sprintf("after %d parts there is %q, want %q", i, g[i], w[i])}
			}
		}
		return []string{fmt.Sprintf("there are %d parts, want %d", len(g), len(w))}
	}
	say := func(p part, format string, values ...any) {
		differences = append(differences, p.Name+": "+fmt.Sprintf(format, values...))
	}
	for i, w := range want {
		g := got[i]
		above, aboveNow := 0, 0 // a part moves with what is above it
		if i > 0 {
			above, aboveNow = want[i-1].Y, got[i-1].Y
		}
		tall := func(n int) int { return max(sameH, int(sameShare*float64(n))) }
		switch {
		case far(w.X, g.X, sameX) || far(w.W, g.W, sameX):
			say(w, "it is %d wide at %d, want %d at %d", g.W, g.X, w.W, w.X)
		case far(w.H, g.H, tall(w.H)):
			say(w, "it is %d high, want %d", g.H, w.H)
		case far(w.Y-above, g.Y-aboveNow, tall(w.Y-above)):
			say(w, "it begins %d below what is before it, want %d", g.Y-aboveNow, w.Y-above)
		}
		if !slices.Equal(w.Colors, g.Colors) {
			say(w, "the colours are %v, want %v", g.Colors, w.Colors)
		}
		for i, most := range []int{0, sameText, 2 * sameText} {
			if len(w.Texts) != len(g.Texts) || len(w.Texts) > 0 && far(w.Texts[i], g.Texts[i], most) {
				say(w, "how many texts there are, and where, is %v, want %v", g.Texts, w.Texts)
				break
			}
		}
		if far(w.paper, g.paper, samePaper) {
			say(w, "its paper is %d, want %d", g.paper, w.paper)
		}
		if far(w.ink, g.ink, 2+w.ink/sameInk) || far(w.color, g.color, 2+w.color/sameInk) {
			say(w, "what is drawn is %d, and %d in colour; want %d and %d", g.ink, g.color, w.ink, w.color)
		}
		if fault := compareFields(w.fields, g.fields); fault != "" {
			say(w, "%s", fault)
		}
	}
	return differences
}

func far(a, b, most int) bool { return a-b > most || b-a > most }

// compareFields compares what is drawn. What moved into the next field does not count as a difference.
func compareFields(want, got []string) string {
	if len(want) == 0 || len(got) == 0 {
		if len(want) != len(got) {
			return "one of them is empty"
		}
		return ""
	}
	sum, many, n := 0, 0, 0
	for y, line := range want {
		for x := range len(line) {
			d := max(nearest(value(want, x, y), got, x, y*len(got)/len(want)), nearest(value(got, x, y*len(got)/len(want)), want, x, y))
			sum += d
			if d > 2 {
				many++
			}
			n++
		}
	}
	if mean, share := float64(sum)/float64(n), float64(many)/float64(n); mean > sameField || share > sameFields {
		return fmt.Sprintf("what is drawn differs by %.2f of 9, and much in %.0f %% of the fields\n%s\nwant\n%s", mean, 100*share, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return ""
}

// nearest is how far a value is from the nearest one of a field and its neighbours.
func nearest(v int, fields []string, x, y int) int {
	least := 9
	for j := max(0, y-1); j <= min(len(fields)-1, y+1); j++ {
		for i := max(0, x-1); i <= min(len(fields[j])-1, x+1); i++ {
			least = min(least, max(v-value(fields, i, j), value(fields, i, j)-v))
		}
	}
	return least
}

func value(fields []string, x, y int) int { return strings.IndexByte(levels, fields[y][x]) }

// TestLooksNotice breaks pages on purpose, each in one way, and holds that one of the checks notices it: the comparison of looks,
// or what TestBrowser measures. What only another browser would do to a page is not noticed.
func TestLooksNotice(t *testing.T) {
	slowtest.Plain(t)
	ctx := browsertest.Start(t)
	phone, desk := window{390, 844, "light"}, window{1280, 800, "light"}
	const looks, nothing = "the looks", "nothing"
	css := func(rules string) string {
		return "const rule = document.createElement('style'); rule.textContent = `" + rules + "`; document.head.append(rule)"
	}
	pages := lookedAt(t)
	for _, tt := range []struct {
		name, page string
		in         window
		script     string
		by         string // looks, nothing, or what is said of what was measured
	}{
		{"a section is gone", "load-held", desk, `document.querySelectorAll("section")[1].remove()`, looks},
		{"a section is empty", "load-held", phone, `for (const e of document.querySelectorAll("section")[1].querySelectorAll("*")) e.style.opacity = 0`, looks},
		{"a folded section is open", "tune-change", desk, `document.querySelector("details").open = true`, looks},
		{"a title is another one", "tune-change", phone, `document.querySelector("h2").textContent = "something else"`, looks},
		{"it is moved aside", "ps", phone, css("main { margin-left: 40px }"), looks},
		{"it is as narrow as a phone", "trace-throttled", desk, css("main { max-width: 24rem }"), looks},
		{"what stood beside each other does not", "load-held", desk, css(".facts { display: block }"), looks},
		{"parts are far from each other", "watch-throttled", desk, css("section { margin-top: 10rem }"), looks},
		{"the letters are larger", "explain", phone, css("html { font-size: 22px }"), looks},
		{"the style is lost", "run", desk, `document.querySelector("style").remove()`, looks},
		{"a chart has no marks", "bench-usual", desk, css(".chart .dot, .chart .interval, .chart .median { opacity: 0 }"), looks},
		{"a chart has no bars", "load-held", desk, css(".chart .filled, .chart .shade, .chart .drawn, .chart .line { opacity: 0 }"), looks},
		{"a chart is flat", "tune-change", phone, css(".chart .plot { grid-auto-rows: 12px !important }"), looks},
		{"a chart has lost its colours", "bench-usual", phone, css(".chart { --mark: #888 !important } .chart * { --mark: #888 !important }"), looks},
		{"good and bad look alike", "tune-change", desk, css(".better, .worse { color: inherit !important }"), looks},
		{"it is dark", "profile-live", phone, "dark", looks},
		{"a table is not stacked", "ps", phone, css(".stacked tbody { display: table } .stacked tr { display: table-row } .stacked td, .stacked th { display: table-cell }"), looks},
		{"a table is too wide", "load-find-max", phone, css("table { min-width: 900px }"), "a table scrolls sideways"},
		{"a text is wider than the page", "explain", phone, css("dd { white-space: nowrap }"), "the page is "},
		{"the page is too wide", "run", phone, css("body { min-width: 500px }"), "the page is "},
		{"a text is pale", "profile-live", desk, css(":root { --soft: #8a929c }"), "a contrast of"},
		{"a text is half transparent", "profile-live", desk, css(".prose, dt { opacity: .6 }"), "a contrast of"},
		{"a text is of the other scheme", "run", desk, css("body { color: #e8eaed }"), "a contrast of"},
		{"texts are too small", "ps", phone, css("table { font-size: 10px }"), "too small"},
		{"labels of a chart are too large", "load-held", phone, css(".chart svg text { font-size: 22px }"), "reaches out"},
		{"labels of a chart are on top of each other", "load-held", desk, `const [a, b] = document.querySelectorAll(".chart svg text"); for (const n of ["x", "y", "dx", "dy", "text-anchor"]) b.setAttribute(n, a.getAttribute(n))`, "on top of each other"},
		{"a label is not where it was", "bench-usual", desk, css(".chart svg text { transform: translateX(60px) }"), looks},
		{"letters are drawn in another way", "load-held", desk, css("* { text-rendering: geometricPrecision; font-kerning: none }"), nothing},
		{"letters are a little wider", "tune-change", desk, css("body { letter-spacing: .02px }"), nothing},
		{"letters are a little wider on a phone", "ps", phone, css("body { letter-spacing: .02px }"), nothing},
		{"edges are softer", "bench-usual", desk, css(".chart * { shape-rendering: geometricPrecision }"), nothing},
		{"lines are broken elsewhere", "tune-change", desk, css(".prose, .more, .tablenote, .beside, .chart figcaption { max-width: 43rem }"), nothing},
		{"lines are broken elsewhere on a phone", "explain", phone, css("dd { padding-right: 4px } .more { padding-right: 6px }"), nothing},
		{"lines are a little higher", "profile-live", phone, css("body { line-height: 1.52 }"), nothing},
	} {
		openLook(t, ctx, tt.page, pages[tt.page])
		become(t, ctx, tt.in)
		l, _ := lookNow(t, ctx, tt.in)
		want := readLooks(writeLooks([]look{l}))[0]
		openLook(t, ctx, tt.page, pages[tt.page]) // as it was, with all that is folded
		var done any
		if tt.script == "dark" {
			become(t, ctx, window{tt.in.width, tt.in.height, "dark"})
		} else {
			browsertest.Do(t, ctx, chromedp.Evaluate("(() => {"+tt.script+"; return true })()", &done))
		}
		got, _ := lookNow(t, ctx, tt.in)
		differences, measurements := compareParts(want.parts, got.parts), faults(t, ctx)
		t.Logf("%s: %d differences, %d measurements: %.300q", tt.name, len(differences), len(measurements), append(differences, measurements...))
		switch all := append(differences, measurements...); tt.by {
		case looks:
			if len(differences) == 0 {
				t.Errorf("%s, in the page %s: the looks are the same", tt.name, tt.page)
			}
		case nothing:
			if len(all) > 0 {
				t.Errorf("%s, in the page %s: noticed: %.600q", tt.name, tt.page, all)
			}
		default:
			if !strings.Contains(strings.Join(measurements, "\n"), tt.by) {
				t.Errorf("%s, in the page %s: it is not measured that %q: %.600q", tt.name, tt.page, tt.by, all)
			}
		}
	}
}
