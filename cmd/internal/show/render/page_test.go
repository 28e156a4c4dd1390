package render

import (
	"bytes"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// TestContrast holds texts to what WCAG calls AA, 4.5 to 1, in both schemes, and marks to 3 to 1.
func TestContrast(t *testing.T) {
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(pageCSS, -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes, want light and dark", len(schemes))
	}
	for i, scheme := range schemes {
		color := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+): #(\w{6})`).FindAllStringSubmatch(scheme[1], -1) {
			color[m[1]] = luminance(m[2])
		}
		for _, paper := range []string{"paper", "panel"} {
			for text, least := range map[string]float64{
				"ink": 4.5, "soft": 4.5, "accent": 4.5, "good": 4.5, "bad": 4.5, "warn": 4.5, "other": 3,
			} {
				light, dark := max(color[text], color[paper]), min(color[text], color[paper])
				if got := (light + 0.05) / (dark + 0.05); got < least {
					t.Errorf("scheme %d: %s on %s has a contrast of %.2f", i, text, paper, got)
				}
			}
		}
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

// The page of a rule is shown by the command that runs.
func TestProgram(t *testing.T) {
	s := &sheet.Sheet{Verb: "lint"}
	s.Add(sheet.Section{Blocks: []sheet.Block{sheet.Findings{{Rule: "K001", Verdict: "counted in thousandths"}}}})
	for program, want := range map[string]string{"": "ore: unthrottle help K001", "kubectl unthrottle": "ore: kubectl unthrottle help K001"} {
		s.Program = program
		for name, write := range map[string]func(io.Writer) error{
			"text": func(w io.Writer) error { return Text(w, s, Style{}) },
			"page": func(w io.Writer) error { return HTML(w, s) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil || !strings.Contains(b.String(), want) {
				t.Errorf("%s of %q does not say %q: %v", name, program, want, err)
			}
			// Only unthrottle has a verb that shows a document again.
			if again := strings.Contains(b.String(), "unthrottle report lint.json"); again != (name == "page" && program == "") {
				t.Errorf("%s of %q speaks of the verb report: %v", name, program, again)
			}
		}
	}
}
