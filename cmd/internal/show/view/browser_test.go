package view

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/unthrottle/unthrottle/cmd/internal/show/browsertest"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// A window is what a page is shown in.
type window struct {
	width, height int64
	scheme        string // light or dark
}

func (w window) String() string { return fmt.Sprintf("%d wide, %s", w.width, w.scheme) }

// TestBrowser opens pages in a browser, as wide as phones and as a desk's screen, light and dark, and measures what a reader
// would stumble over. With -artifacts the pages are kept.
func TestBrowser(t *testing.T) {
	slowtest.Plain(t)
	ctx := browsertest.Start(t)
	pages := browserPages(t)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		visit(t, ctx, writePage(t, name, pages[name]))
		for _, w := range []window{{320, 700, "light"}, {390, 844, "light"}, {390, 844, "dark"}, {1280, 800, "dark"}, {1280, 800, "light"}} {
			become(t, ctx, w)
			for _, fault := range faults(t, ctx) {
				t.Errorf("%s, %v: %s", name, w, fault)
			}
		}
		var said string
		browsertest.Do(t, ctx, chromedp.Evaluate(zoom, &said))
		if said != "" {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// browserPages are those of each verb that have the most on them, and those whose texts are the worst.
func browserPages(t *testing.T) map[string]*sheet.Sheet {
	watches, traces, profiles, tunes, loads, benches := watches(), traces(t), profiles(), tunes(), loads(), benches()
	return map[string]*sheet.Sheet{
		"ps":      Ps(psDocument()),
		"explain": Explain(explains()["throttled now"]), "explain-levels": Explain(explains()["three levels up, seen from outside"]),
		"run":             Run(runs()["run throttled"]),
		"watch-throttled": Watch(watches["throttled"]), "watch-long": Watch(watches["long"]), "watch-hostile": Watch(hostileWatch()),
		"trace-throttled": Trace(traces["throttled"]), "trace-empty": Trace(traces["empty"]), "trace-hostile": Trace(hostileTrace(t)),
		"profile-live": Profile(profiles["live"]), "profile-alone": Profile(profiles["alone"]), "profile-hostile": Profile(hostileProfile()),
		"tune-change": Tune(tunes["change"]), "tune-loads": Tune(tunes["loads"]), "tune-limits": Tune(tunes["limits"]), "tune-gogc": Tune(tunes["gogc"]), "tune-doubts": Tune(tunes["doubts"]),
		"load-held": Load(loads["held"]), "load-missed": Load(loads["missed"]), "load-find-max": Load(loads["find-max"]), "load-hostile": Load(hostileLoad()),
		"bench-usual": Bench(benches["usual"]), "bench-failures": Bench(benches["failures"]), "bench-large": Bench(benches["large"]), "bench-readfile": Bench(benches["readfile"]), "bench-several": Bench(benches["several"]),
		"tune-hostile": Tune(hostileTune(hostile)), "tune-long": Tune(hostileTune(strings.Repeat("very", 100))),
	}
}

// faults are what a reader would stumble over in the page as it is shown now: something wider than the page, cut off, too small,
// too pale, or on top of another text; and a table that scrolls sideways on a phone. All that is folded is opened.
func faults(t *testing.T, ctx context.Context) (all []string) {
	t.Helper()
	browsertest.Do(t, ctx, chromedp.Evaluate(measure, &all))
	return all
}

const measure = `(() => {
  const found = new Set(), say = text => found.add(text);
  const root = document.documentElement, width = root.clientWidth;
  const style = e => getComputedStyle(e), short = e => JSON.stringify(e.textContent.trim().slice(0, 60));
  const requests = performance.getEntriesByType("resource");
  if (requests.length) say("it asks for " + requests[0].name);
  for (const e of document.querySelectorAll("details")) e.open = true;

  if (root.scrollWidth > width) say("the page is " + root.scrollWidth + " wide");
  if (width === 390) for (const e of document.querySelectorAll(".scroll"))
    if (e.scrollWidth > e.clientWidth) say("a table scrolls sideways: " + e.ariaLabel + ", " + e.scrollWidth + " wide");
  for (const e of document.querySelectorAll(".label, .bar"))
    if (e.scrollHeight > e.clientHeight + 1) say("cut off: " + short(e));
  for (const e of document.querySelectorAll("p, li, pre, figcaption, dd, td, th, .name, svg text"))
    if (parseFloat(style(e).fontSize) < 12) say("too small: " + short(e));
  for (const e of document.querySelectorAll("svg text")) {
    const box = e.getBoundingClientRect();
    if (box.width && (box.left < -1 || box.right > width + 1)) say("reaches out: " + short(e));
  }

  // Contrast, as WCAG counts it, of each text with what is behind it. What is half transparent lets through what is below.
  const color = text => { const c = text.match(/[\d.]+/g).map(Number); return c.length < 4 ? [...c, 1] : c; };
  const over = (top, below, opacity) => [0, 1, 2].map(i => top[i] * top[3] * opacity + below[i] * (1 - top[3] * opacity));
  const light = c => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const above = e => { const all = []; for (let n = e; n; n = n.parentElement) all.unshift(n); return all; };
  const canvas = style(root).colorScheme === "dark" ? [18, 18, 18] : [255, 255, 255];
  const pale = (e, ink) => {
    let paper = canvas, opacity = 1;
    for (const n of above(e)) {
      const s = style(n);
      if (!(n instanceof SVGElement)) paper = over(color(s.backgroundColor), paper, 1);
      opacity *= s.opacity;
    }
    const [high, low] = [light(over(color(ink), paper, opacity)), light(paper)].sort((a, b) => b - a);
    const contrast = (high + .05) / (low + .05);
    if (contrast < 4.5) say("a contrast of " + contrast.toFixed(2) + ": " + short(e));
  };
  const texts = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || e.closest("script, style, title") || !e.checkVisibility({visibilityProperty: true})) continue;
    if (texts.at(-1) !== e) texts.push(e);
  }
  for (const e of texts) pale(e, e instanceof SVGElement ? style(e).fill : style(e).color);
  for (const e of document.querySelectorAll("[data-head]")) {
    const head = getComputedStyle(e, "::before");
    if (head.content !== "none" && e.checkVisibility()) pale(e, head.color);
  }

  // Texts of a chart that are on top of each other. A box is higher than what is written in it.
  for (const chart of document.querySelectorAll(".chart:not(:has(.flame))")) {
    const boxes = texts.filter(e => chart.contains(e)).map(e => {
      const b = e.getBoundingClientRect(), less = b.height / 6;
      return {e, left: b.left, right: b.right, top: b.top + less, bottom: b.bottom - less};
    });
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
      if (a.e.contains(b.e) || b.e.contains(a.e)) return;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1.5 && high > 1.5) say("on top of each other: " + short(a.e) + " and " + short(b.e));
    }));
  }
  return [...found];
})()`

// zoom tries a flame graph, if there is one: a click makes a frame as wide as the graph, and what is searched for is summed up.
const zoom = `(() => {
  const flame = document.querySelector(".flame");
  if (!flame) return "";
  const [input, button, sum] = flame.previousElementSibling.children, second = flame.children[Math.min(3, flame.children.length - 1)];
  const width = second.style.width;
  second.click();
  if (second.style.width !== "100%" || button.hidden) return "a click does not zoom: " + second.outerHTML;
  if (flame.children[0].style.width !== "100%") return "the root is " + flame.children[0].style.width;
  button.click();
  if (Math.abs(parseFloat(second.style.width) - parseFloat(width)) > .01) return "it does not zoom back";
  input.value = second.title.split(":")[0];
  input.dispatchEvent(new Event("input"));
  if (!/^[1-9][0-9.]* % of/.test(sum.textContent)) return "found " + sum.textContent;
  return "";
})()`

// writePage makes a page of a sheet, and returns the name of its file.
func writePage(t *testing.T, name string, s *sheet.Sheet) string {
	t.Helper()
	var page strings.Builder
	if err := render.HTML(&page, s); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.ArtifactDir(), name+".html")
	if err := os.WriteFile(file, []byte(page.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func visit(t *testing.T, ctx context.Context, file string) {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	browsertest.Do(t, ctx, chromedp.Navigate("file://"+file))
}

// become shows the page in a window.
func become(t *testing.T, ctx context.Context, w window) {
	t.Helper()
	browsertest.Do(t, ctx, chromedp.EmulateViewport(w.width, w.height), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: w.scheme},
	}))
}
