package chart

import (
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not as it was; after a look at it: go test -update\n%s", file, got)
	}
}

// small are charts whose drawings can be read in a golden file.
func small() map[string]sheet.Chart {
	curves := percentiles()
	for i, l := range curves.Lines {
		curves.Lines[i].Points = l.Points[10:16]
	}
	places, time := front(), overTime()
	for i, l := range places.Lines {
		places.Lines[i].Points = l.Points[:min(len(l.Points), 3)]
	}
	for i, s := range time.Rows {
		for k, l := range s.Lanes {
			time.Rows[i].Lanes[k].Steps = l.Steps[8:13]
		}
	}
	return map[string]sheet.Chart{
		"rows-blocks": blocks(4, 2), "rows-effects": effects(), "field-percentiles": curves, "field-front": places, "field-limits": limits(),
		"strips-time": time, "strips-activity": activity(), "fold": fold(1, true), "flame": flame(),
	}
}

func TestHTML(t *testing.T) {
	for name, c := range small() {
		golden(t, name+".html", drawn(t, c))
	}
	for name, c := range samples() {
		t.Run(name, func(t *testing.T) { wellFormed(t, drawn(t, c)) })
	}
}

func drawn(t *testing.T, c sheet.Chart) string {
	t.Helper()
	out, err := HTML(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// outlines are the paths that are drawn.
var outlines = regexp.MustCompile(`^([MLHVhv]-?[\d.]+([ -][\d.]+)*|z)+$`)

// wellFormed reads a figure as XML, and looks for numbers that aren't any.
func wellFormed(t *testing.T, figure string) {
	t.Helper()
	if bad := regexp.MustCompile(`NaN|Inf|ZgotmplZ|="-?\d+\.?\d*e`).FindString(figure); bad != "" {
		t.Fatalf("there is %q in it: %s", bad, figure)
	}
	for _, m := range regexp.MustCompile(` d="([^"]*)"`).FindAllStringSubmatch(figure, -1) {
		if !outlines.MatchString(m[1]) {
			t.Fatalf("%q is no path", m[1])
		}
	}
	d := xml.NewDecoder(strings.NewReader(figure))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v: %s", err, figure)
		}
		if e, ok := token.(xml.StartElement); ok && (e.Name.Local == "x" || e.Name.Local == "script") {
			t.Errorf("a text made the element %v", e)
		}
	}
}

// onPages are the samples of charts that need colours.
var onPages = []string{"field-settings", "field-tries", "field-front", "field-limits", "strips-shades", "flame"}

func TestText(t *testing.T) {
	tones := map[sheet.Tone]string{sheet.Strong: "*", sheet.Soft: "~", sheet.Bad: "!"}
	paint := func(tone sheet.Tone, text string) string { return tones[tone] + text + tones[tone] }
	for name, c := range samples() {
		var b strings.Builder
		for _, width := range []int{60, 80, 120} {
			lines := Text(c, width, nil)
			fits(t, lines, width)
			if len(lines) > 0 {
				fmt.Fprintf(&b, "%d columns:\n%s\n\n", width, strings.Join(lines, "\n"))
			}
			for i, l := range Text(c, width, paint) {
				if plain := strings.NewReplacer("*", "", "~", "", "!", "").Replace(l); plain != lines[i] {
					t.Errorf("%s: painted it is %q, and plain %q", name, plain, lines[i])
				}
			}
		}
		switch {
		case b.Len() > 0:
			golden(t, name+".txt", b.String())
		case !slices.Contains(onPages, name):
			t.Errorf("%s is not drawn", name)
		}
	}
}

func fits(t *testing.T, lines []string, width int) {
	t.Helper()
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > width || strings.ContainsFunc(l, func(r rune) bool { return r != ' ' && !unicode.IsGraphic(r) }) {
			t.Errorf("%d columns in %d: %q", n, width, l)
		}
	}
}

func TestNothing(t *testing.T) {
	for _, c := range []sheet.Chart{nil, (*sheet.Rows)(nil), &sheet.Field{}, &sheet.Strips{}, &sheet.Fold{Wall: 1}, &sheet.Flame{}} {
		if out, err := HTML(c); out != "" || err != nil {
			t.Errorf("%T: %q, %v", c, out, err)
		}
		if Text(c, 80, nil) != nil || Script([]sheet.Chart{c}) != "" {
			t.Errorf("%T is drawn", c)
		}
	}
	if Text(effects(), 0, nil) != nil {
		t.Error("there is a drawing without columns")
	}
}

func TestScript(t *testing.T) {
	if got := Script([]sheet.Chart{effects(), flame(), flame()}); strings.Count(got, "use strict") != 1 || strings.ContainsAny(got, "<&") {
		t.Errorf("it is %q", got)
	}
}

// TestMany draws what is thinned, and what would be wide.
func TestMany(t *testing.T) {
	if many := drawn(t, blocks(3, 300)); strings.Contains(many, "joined") || !strings.Contains(many, "too many runs") {
		t.Error("lines join 300 blocks")
	}
	named := settings()
	named.Lines[2].Name = "a name that has no room at the end"
	if out := drawn(t, named); strings.Count(out, `class="end `) != 6 || !strings.Contains(out, "</svg> a name that has no room") {
		t.Error("a long name is not explained by a key")
	}
	deep := flame()
	deep.Frames = append(deep.Frames, sheet.Frame{Depth: 99, Width: 1}, sheet.Frame{Depth: math.MinInt, Width: 1})
	if out := drawn(t, deep); !strings.Contains(out, "are left out") {
		t.Error("that frames are left out is not said")
	}
	for range 3 {
		named.Lines = append(named.Lines, named.Lines...)
	}
	wellFormed(t, drawn(t, named))
	long := fold(1, true)
	long.Wall, long.Period, long.Spans = 1e6, 1, []sheet.Span{{From: 0, To: 1e6}, {From: 5, To: 3}}
	wellFormed(t, drawn(t, long))
	fits(t, Text(long, 80, nil), 80)
}

// TestGrid folds 16 s at 4 s, in cells of a second.
func TestGrid(t *testing.T) {
	span := func(from, to float64) []sheet.Span { return []sheet.Span{{From: from, To: to}} }
	for _, tt := range []struct {
		name  string
		phase float64
		spans []sheet.Span
		want  string
	}{
		{"none", 0, nil, "0 0 0 0|0 0 0 0|0 0 0 0|0 0 0 0"},
		{"within a period", 0, span(1, 2.5), "0 1 0.5 0|0 0 0 0|0 0 0 0|0 0 0 0"},
		{"over an edge", 0, span(3.5, 5), "0 0 0 0.5|1 0 0 0|0 0 0 0|0 0 0 0"},
		{"over several", 0, span(3, 13), "0 0 0 1|1 1 1 1|1 1 1 1|1 0 0 0"},
		{"up to an edge", 0, span(2, 4), "0 0 1 1|0 0 0 0|0 0 0 0|0 0 0 0"},
		{"rows that begin earlier", 3, []sheet.Span{{From: 3.5, To: 4}, {From: 0, To: 3}}, "- 1 1 1|0.5 0 0 0|0 0 0 0|0 0 0 0|0 - - -"},
		{"beyond the ends", 0, []sheet.Span{{From: 15, To: 99}, {From: -3, To: 1}}, "1 0 0 0|0 0 0 0|0 0 0 0|0 0 0 1"},
		{"turned round", 0, span(3, 1), "0 0 0 0|0 0 0 0|0 0 0 0|0 0 0 0"},
		{"one in another", 0, []sheet.Span{{From: 0, To: 3}, {From: 1, To: 2}, {From: math.NaN(), To: 1}}, "1 1 1 0|0 0 0 0|0 0 0 0|0 0 0 0"},
	} {
		var rows []string
		for _, row := range newGrid(&sheet.Fold{Wall: 16, Period: 4, Phase: tt.phase}, foldRows, 4).parts(tt.spans, 16) {
			var cells []string
			for _, p := range row {
				text := fmt.Sprint(p.share())
				if p.seen == 0 {
					text = "-"
				}
				cells = append(cells, text)
			}
			rows = append(rows, strings.Join(cells, " "))
		}
		if got := strings.Join(rows, "|"); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestGridShares shares rows among periods: half of them frozen is half as dark.
func TestGridShares(t *testing.T) {
	c := &sheet.Fold{Wall: 240, Period: 0.1, Was: "frozen"}
	for i := 0; i < 2400; i += 2 {
		c.Spans = append(c.Spans, sheet.Span{From: float64(i)*0.1 + 0.05, To: float64(i)*0.1 + 0.1})
	}
	g := newGrid(c, foldRows, foldCells)
	if g.rows != 600 || g.each != 4 || newFold(c).Tall > 2*foldMost {
		t.Fatalf("%d rows of %d periods", g.rows, g.each)
	}
	half := fmt.Sprintf("M%d 0h%dv1h-%[2]dz", foldCells/2, foldCells/2)
	if out := drawn(t, c); strings.Count(out, `class="span `) != 1 || !strings.Contains(out, `class="span t4" d="`+half) {
		t.Errorf("the second half of each row is not half as dark as it could be: %.2000s", out)
	}
}

func TestSecond(t *testing.T) {
	s := NewSecond(0.1, 60)
	spans := []sheet.Span{{From: 0.05, To: 0.1}, {From: 0.95, To: 1.5}}
	if got, want := s.Row(1, spans, 1.25, nil), "   1 s ███ ███ ██"; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " 100 %") {
		t.Errorf("got %q", got)
	}
	if got, want := s.Legend("frozen"), "Each row is a second, each column 33.3 ms: · ran, █ frozen."; got != want {
		t.Errorf("got %q", got)
	}
	for _, width := range []int{-1, 0, 1, 7, 20, 500} {
		for _, period := range []float64{0, -1, math.NaN(), 0.05, 1e-9} {
			fits(t, []string{NewSecond(period, width).Row(3, spans, 5, nil)}, max(width, 0))
		}
	}
}

// TestContrast holds the colours of series, which names are written in, and those of flames, on which they are written, to
// what WCAG calls AA.
func TestContrast(t *testing.T) {
	page, err := os.ReadFile("../render/page.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`)
	colors := schemes.FindAllStringSubmatch(CSS, -1)
	around := schemes.FindAllStringSubmatch(string(page), -1)
	if len(colors) != 2 || len(around) != 2 {
		t.Fatalf("%d and %d schemes, want light and dark", len(colors), len(around))
	}
	for i := range colors {
		of := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+): #(\w{6})`).FindAllStringSubmatch(around[i][1]+colors[i][1], -1) {
			of[m[1]] = luminance(m[2])
		}
		of["s1"] = of["accent"]
		hold := func(text, paper string, least float64) {
			if got := (max(of[text], of[paper]) + 0.05) / (min(of[text], of[paper]) + 0.05); got < least || of[text] == of[paper] {
				t.Errorf("scheme %d: %s on %s has a contrast of %.2f", i, text, paper, got)
			}
		}
		for n := range sheet.Colors {
			hold("s"+strconv.Itoa(n+1), "paper", 4.5)
			hold("s"+strconv.Itoa(n+1), "panel", 4.5)
		}
		for n := range sheet.FlameColors {
			hold("ink", "f"+strconv.Itoa(n), 4.5)
		}
		hold("other", "paper", 3)
		hold("bad", "paper", 4.5)
		hold("good", "paper", 4.5)
		hold("soft", "paper", 4.5)
	}
}

// luminance is WCAG's relative luminance of a colour such as 1a1d21.
func luminance(hex string) (l float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}

// TestNumber: a place just left of the edge is on it, with no sign.
func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{-0.001: "0", math.Copysign(0, -1): "0", -0.01: "-0.01", 93.104: "93.1", 100: "100"} {
		if got := number(v); got != want {
			t.Errorf("number(%g) = %q, want %q", v, got, want)
		}
	}
}
