package render

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

func tunePageOf(t *testing.T, d *report.Tune) string {
	t.Helper()
	var page strings.Builder
	if err := TuneHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// embedded is the document in a page. The golden files are without it: it stands beside them, in a file of its own.
var embedded = regexp.MustCompile(`(?m)^\{"version".*$`)

func TestTuneHTML(t *testing.T) {
	for name, d := range tunes() {
		golden(t, "tune-"+name+".html", embedded.ReplaceAllString(tunePageOf(t, d), ""))
	}
}

// tuneOutside is what looks like a link and is none: what the fixtures' documents ask for.
var tuneOutside = regexp.MustCompile(`http://127\.0\.0\.1:8080/[a-z]*|//go:debug`)

// TestTuneHTMLPages holds what is true of every page.
func TestTuneHTMLPages(t *testing.T) {
	all := tunes()
	for name, text := range hostileTexts {
		all["hostile "+name] = hostileTune(text)
	}
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			page := tunePageOf(t, d)
			wellFormed(t, page)
			shown := tuneOutside.ReplaceAllString(page, "")
			loadsNothing(t, shown)
			if found := odd.FindString(shown); found != "" {
				t.Errorf("there is %q in the page", found)
			}
			lines := embedded.FindAllString(page, -1)
			if len(lines) != 1 {
				t.Fatalf("%d lines of the page begin as a document does", len(lines))
			}
			var inside report.Tune
			if err := json.Unmarshal([]byte(lines[0]), &inside); err != nil {
				t.Fatal(err)
			}
			var got, want strings.Builder
			report.WriteJSON(&got, inside)
			report.WriteJSON(&want, d)
			if got.String() != want.String() {
				t.Error("the document in the page is not the one that it was made of")
			}
			if !strings.HasPrefix(name, "hostile") && len(page) > 300_000 {
				t.Errorf("the page has %d bytes", len(page))
			}
			for _, chart := range regexp.MustCompile(`<svg role="img"[^>]*>`).FindAllString(page, -1) {
				if !strings.Contains(chart, `aria-label="`) || strings.Contains(chart, `aria-label=""`) {
					t.Errorf("a drawing has no text: %s", chart)
				}
			}
		})
	}
	t.Logf("change: %d bytes, of which the document has %d", len(tunePageOf(t, all["change"])), len(embedded.FindString(tunePageOf(t, all["change"]))))
}

// TestTuneHTMLDraws: what has no data is not drawn.
func TestTuneHTMLDraws(t *testing.T) {
	for name, want := range map[string]int{"change": 6, "keep": 4, "job": 4, "nothing": 0, "limits": 1, "interrupted": 5, "loads": 17} {
		if got := strings.Count(tunePageOf(t, tunes()[name]), `<svg role="img"`); got != want {
			t.Errorf("%s: %d drawings, want %d", name, got, want)
		}
	}
}

// TestTuneHTMLContrast holds the settings' colours, which names are written in, to what WCAG calls AA.
func TestTuneHTMLContrast(t *testing.T) {
	papers := regexp.MustCompile(`--paper: #(\w{6})`).FindAllStringSubmatch(pageCSS, -1)
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(tuneHTML, -1)
	if len(schemes) != 2 || len(papers) != 2 {
		t.Fatalf("%d and %d schemes, want light and dark", len(schemes), len(papers))
	}
	for i, scheme := range schemes {
		paper, n := luminance(papers[i][1]), 0
		for _, m := range regexp.MustCompile(`--(s\d): #(\w{6})`).FindAllStringSubmatch(scheme[1], -1) {
			color := luminance(m[2])
			if got := (max(color, paper) + 0.05) / (min(color, paper) + 0.05); got < 4.5 {
				t.Errorf("scheme %d: %s has a contrast of %.2f", i, m[1], got)
			}
			n++
		}
		if n != colorsMost {
			t.Errorf("scheme %d has %d colours, want %d", i, n, colorsMost)
		}
	}
}

// TestTuneHTMLBrowser measures the pages as TestBenchHTMLBrowser does, and looks at what the browser has to say of them.
func TestTuneHTMLBrowser(t *testing.T) {
	all := tunes()
	all["hostile"], all["long"] = hostileTune(hostile), hostileTune(hostileTexts["long"][:400])
	open := pagesOf(t, all, tunePageOf)
	for name, page := range open {
		open[name] = strings.ReplaceAll(page, "<details>", "<details open>")
	}
	measurePages(t, open, tuneMeasure, []int{320, 375, 1280}, "change")
}

// tuneMeasure is measure, and also reports errors, requests that a page makes, and drawings' texts that reach out of it.
var tuneMeasure = strings.Replace(measure, `  for (const frame of frames) {
`, `  for (const frame of frames) {
    const requests = frame.contentWindow.performance.getEntriesByType("resource");
    if (requests.length) say(frame.name + ": it asks for " + requests[0].name);
    for (const e of frame.contentDocument.querySelectorAll("svg text")) {
      const box = e.getBoundingClientRect();
      if (box.width && (box.left < -1 || box.right > frame.clientWidth + 1)) say(frame.name + ": reaches out: " + e.textContent);
    }
`, 1)
