package render

import (
	"encoding/json"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

func loadPageOf(t *testing.T, d *report.Load) string {
	t.Helper()
	var page strings.Builder
	if err := LoadHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestLoadHTML(t *testing.T) {
	for name, d := range loads() {
		golden(t, "load-"+name+".html", histogram.ReplaceAllString(loadPageOf(t, d), ""))
	}
}

// TestLoadHTMLPages holds what is true of every page.
func TestLoadHTMLPages(t *testing.T) {
	all := loads()
	all["hostile"] = hostileLoad()
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			page := loadPageOf(t, d)
			wellFormed(t, page)
			shown := outsideText.ReplaceAllString(page, "")
			if found := odd.FindString(shown); found != "" {
				t.Errorf("there is %q in the page", found)
			}
			loadsNothing(t, shown)
			var inside report.Load
			lines := slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool { return !strings.HasPrefix(line, `{"version"`) })
			if len(lines) != 1 {
				t.Fatalf("%d lines of the page begin as a document does", len(lines))
			}
			if err := json.Unmarshal([]byte(lines[0]), &inside); err != nil {
				t.Fatal(err)
			}
			var got, want strings.Builder
			report.WriteJSON(&got, inside)
			report.WriteJSON(&want, d)
			if got.String() != want.String() {
				t.Error("the document in the page is not the one that it was made of")
			}
			if len(page)-len(lines[0]) > 60_000 {
				t.Errorf("the page has %d bytes without its document", len(page)-len(lines[0]))
			}
		})
	}
}

// histogram is a whole histogram in the document. It is compressed, which another version of Go may do in another way.
var histogram = regexp.MustCompile(`"hdr_v2":"[^"]*"`)

// outsideText is what looks like a link or a number and is none: the targets, and histograms in the document.
var outsideText = regexp.MustCompile(`http://127\.0\.0\.1:8080/[a-z]*|"hdr_v2":"[^"]*"`)

// TestLoadHTMLBrowser measures the pages as TestBenchHTMLBrowser does.
func TestLoadHTMLBrowser(t *testing.T) {
	all := loads()
	all["hostile"] = hostileLoad()
	measurePages(t, pagesOf(t, all, loadPageOf), measure, []int{320, 390, 1280}, "held")
}

// TestLoadOdd renders documents that no load makes, but a file may hold.
func TestLoadOdd(t *testing.T) {
	wrong := loads()["held"]
	for i := range wrong.Axis {
		wrong.Axis[i].At, wrong.Axis[i].Length = -1e300, -1
		wrong.Axis[i].P99 = -5
		*wrong.Axis[i].Periods = -3
	}
	for i := range wrong.Response.Curve {
		wrong.Response.Curve[i].Percentile = float64(i*7) - 20
		wrong.Response.Curve[i].Seconds = math.Pow(-10, float64(i))
	}
	wrong.Response.Hist, wrong.SLO.Text, wrong.Response.P99 = "no histogram", "p99=", -1
	steps := loads()["held"]
	steps.Axis = slices.Repeat(steps.Axis, 10)
	zero := loads()["held"]
	zero.Response, zero.Service = report.Latencies{Count: 500000}, report.Latencies{Count: 500000, Curve: []report.CurvePoint{{}, {Percentile: 100}}}
	huge := loads()["held"]
	huge.Elapsed, huge.Rate, huge.Planned, huge.Response.Count, huge.Response.Max = 1e300, 1e300, 1e300, math.MaxInt64, 1e300
	one := loads()["held"]
	one.Response.Count, one.Lag.Count, one.Requests = 1, 0, 1
	search := loads()["find-max"]
	search.Search.Windows = []report.LoadWindow{{}, {Rate: -1, P99: -1}}
	for name, d := range map[string]*report.Load{
		"empty": {}, "wrong": wrong, "many steps": steps, "zero": zero, "huge": huge, "one": one, "search": search,
		"no windows": {Search: &report.LoadSearch{}}, "empty parts": {Summary: loadtest.Summary{SLO: &report.LoadSLO{}, Server: &report.LoadServer{}, Requests: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			wellFormed(t, loadPageOf(t, d))
			texts := map[string]string{"page": loadPageOf(t, d), "text": loadTextOf(t, d, Style{Width: 20}), "wide": loadTextOf(t, d, Style{Width: 300})}
			var hgrm, markdown strings.Builder
			if err := LoadHGRM(&hgrm, d); err != nil {
				t.Error(err)
			}
			if err := LoadMarkdown(&markdown, d); err != nil {
				t.Error(err)
			}
			texts["hgrm"], texts["markdown"] = hgrm.String(), markdown.String()
			for form, text := range texts {
				if found := odd.FindString(outsideText.ReplaceAllString(text, "")); found != "" {
					t.Errorf("%s: there is %q in %s", form, found, text)
				}
			}
		})
	}
	if err := LoadHTML(io.Discard, &report.Load{Summary: loadtest.Summary{Rate: math.Inf(1)}}); err == nil {
		t.Error("a document that can't be JSON made a page all the same")
	}
}
