package view

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// hostile is a text that tries to break anything it is put into.
const hostile = `</script><b>x` + "\x1b[2J\u202e" + `<!--"'&{{.}}`

// words are those of commands that are elements of their own.
var words = regexp.MustCompile(`<span>([^<]*)</span>`)

// forms are a sheet as text, Markdown and page; a page's text has ordinary blanks here, and no
// elements around words.
func forms(t *testing.T, s *sheet.Sheet) map[string]string {
	t.Helper()
	var text, md, page bytes.Buffer
	for _, err := range []error{render.Text(&text, s, render.Style{}), render.Markdown(&md, s), render.HTML(&page, s)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string]string{"text": text.String(), "markdown": md.String(), "page": words.ReplaceAllString(strings.ReplaceAll(page.String(), "\u00a0", " "), "$1")}
}

var odd = regexp.MustCompile(`NaN|\bInf\b|ZgotmplZ|%!`)

// sane draws the sheet of a document that no verb makes, but a file may hold.
func sane(t *testing.T, s *sheet.Sheet) {
	t.Helper()
	all := forms(t, s)
	wellFormed(t, all["page"])
	for _, width := range []int{20, 300} {
		var b strings.Builder
		if err := render.Text(&b, s, render.Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		all["narrow or wide text"] += b.String()
	}
	for form, text := range all {
		if found := odd.FindString(histogram.ReplaceAllString(text, "")); found != "" {
			t.Errorf("%s: there is %q in %s", form, found, text)
		}
	}
}

// histogram is a whole histogram in a document, which isn't text.
var histogram = regexp.MustCompile(`"hdr_v2":"[^"]*"`)

var (
	loading = regexp.MustCompile(`(?i)https?:|//[a-z]|\bsrc\s*=|\bsrcset\b|url\(|@import|@font-face|<(link|img|iframe|object|embed|base|form)\b|\son[a-z]+\s*=|javascript:`)
	outside = regexp.MustCompile(`http://[a-z0-9.]+:[0-9]+/[a-z/?=0-9]*|"hdr_v2":"[^"]*"`) // looks like a link in a document but isn't one
	titles  = regexp.MustCompile(` title="[^"]*"`)                                         // names of functions such as parseHTTP, with a colon behind them
	link    = regexp.MustCompile(`href="([^"]*)"`)
)

// selfContained holds that a page loads nothing, runs nothing but what draw adds, leads to what is on it only, and holds the
// document that it was made of.
func selfContained(t *testing.T, s *sheet.Sheet) {
	t.Helper()
	var b bytes.Buffer
	if err := render.HTML(&b, s); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	wellFormed(t, page)
	if found := loading.FindString(outside.ReplaceAllString(titles.ReplaceAllString(page, ""), "")); found != "" {
		t.Errorf("there is %q in the page", found)
	}
	if n := strings.Count(page, "<script"); n > 2 || n == 2 && !strings.Contains(page, "<script>"+chart.Script(charts(s))+"</script>") {
		t.Errorf("%d scripts: there is the document, which doesn't run, and what charts need", n)
	}
	if !strings.Contains(page, `<script type="application/json" id="document">`) {
		t.Error("the document does not have the type that keeps it from being run")
	}
	for _, l := range link.FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(l[1], "#") || strings.Count(page, `id="`+l[1][1:]+`"`) != 1 {
			t.Errorf("a link leads to %q, which is not on the page", l[1])
		}
	}
	lines := slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool { return !strings.HasPrefix(line, "{") })
	if len(lines) != 1 {
		t.Fatalf("%d lines of the page begin as a document does", len(lines))
	}
	want, err := json.Marshal(s.Document)
	if err != nil {
		t.Fatal(err)
	}
	if lines[0] != string(plain.JSON(want)) {
		t.Error("the document in the page is not the one that it was made of")
	}
	if len(page)-len(lines[0]) > pageMost {
		t.Errorf("the page has %d bytes without its document", len(page)-len(lines[0]))
	}
}

// charts are those of a sheet.
func charts(s *sheet.Sheet) (all []sheet.Chart) {
	for _, section := range s.Sections {
		for _, b := range section.Blocks {
			if c, ok := b.(sheet.Chart); ok {
				all = append(all, c)
			}
		}
	}
	return all
}

// harmless draws the sheet of a document that wants to do harm.
func harmless(t *testing.T, s *sheet.Sheet) {
	t.Helper()
	sane(t, s)
	selfContained(t, s)
	for form, text := range forms(t, s) {
		if form != "page" { // which wellFormed has read
			safe(t, text)
		}
	}
}

// pageMost is how large a page may be without its document.
const pageMost = 120_000
