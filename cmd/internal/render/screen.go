package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// usualWidth is how wide tables and drawings are where nothing says how wide the screen is.
const usualWidth = 80

// Text writes a sheet for a terminal, or for a file that is read like one.
func Text(w io.Writer, s *sheet.Sheet, style Style) error {
	t := &screen{style: style, width: style.Width}
	if t.width == 0 {
		t.width = usualWidth
	}
	s = printableSheet(s)
	if s.Heading {
		t.line("", t.style.bold(s.Subject))
		t.gap = true
	}
	if !s.ClaimsLast {
		t.claims(s.Claims)
	}
	for _, section := range s.Sections {
		if !section.Detail {
			t.section(section)
		}
	}
	t.doubts(s.Warnings)
	t.again(s)
	if s.ClaimsLast {
		for _, c := range s.Claims {
			t.line(t.style.bold("→ "), alone(c))
		}
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// A screen is the text as far as it is written.
type screen struct {
	strings.Builder
	style Style
	width int  // of what is laid out; lines of words may be of any length if the style says so
	gap   bool // an empty line comes before what is written next
}

// line writes words, broken where the screen ends. Further lines begin below the words.
func (t *screen) line(mark, text string) {
	t.open()
	t.WriteString(strings.TrimRight(mark+t.style.wrap(text, visible(mark)), " ") + "\n")
}

// open writes the empty line that is due.
func (t *screen) open() {
	if t.gap {
		t.WriteByte('\n')
		t.gap = false
	}
}

// Paint gives a text the look of its tone, for what is drawn while it happens.
func (s Style) Paint(tone sheet.Tone, text string) string { return s.tone(tone, text) }

// tone paints a text.
func (s Style) tone(tone sheet.Tone, text string) string {
	switch tone {
	case sheet.Strong, sheet.Unsure:
		return s.bold(text)
	case sheet.Soft:
		return s.dim(text)
	case sheet.Good:
		return s.good(text)
	case sheet.Bad:
		return s.bad(text)
	case sheet.Warn:
		return s.paint("33", text)
	}
	return text
}

func (t *screen) claims(claims []sheet.Claim) {
	for _, c := range claims {
		switch {
		case c.Whole && len(claims) > 1:
			t.line(t.style.bad("→ "), alone(c))
		case c.Whole: // colour codes don't reach over lines
			for _, line := range strings.Split(t.style.wrap(alone(c), 0), "\n") {
				t.line("", t.style.bold(line))
			}
		default:
			t.line("", t.style.tone(c.Tone, c.Word)+": "+c.Text)
		}
		for _, text := range c.More {
			t.line("", text)
		}
	}
	t.gap = t.gap || len(claims) > 0
}

// alone is a claim that says it all.
func alone(c sheet.Claim) string {
	if c.Alone != "" {
		return c.Alone
	}
	return c.Text
}

func (t *screen) section(s sheet.Section) {
	if !s.Quiet {
		if s.Title != "" {
			t.line("", t.style.bold(s.Title)+t.badge(s.Badge))
		}
		if s.About != "" {
			t.line("  ", t.style.dim(s.About))
		}
	}
	first := true
	for _, b := range s.Blocks {
		if _, ok := b.(sheet.Detail); ok {
			continue
		}
		t.gap = t.gap || !first
		t.block(b)
		first = false
	}
	t.gap = true
}

// badge is what stands beside a title.
func (t *screen) badge(c sheet.Claim) string {
	if c.Word == "" {
		return ""
	}
	return ": " + t.style.tone(c.Tone, c.Word)
}

func (t *screen) block(b sheet.Block) {
	switch b := b.(type) {
	case sheet.Facts:
		t.facts(b)
	case *sheet.Table:
		t.table(b, "  ")
	case sheet.Lines:
		for _, text := range b.Texts {
			for _, line := range strings.Split(t.style.wrap(text, 0), "\n") {
				t.line("", t.style.tone(b.Tone, line))
			}
		}
	case sheet.Listed:
		for _, text := range b {
			t.line("  ", text)
		}
	case sheet.Commands:
		for i, c := range b {
			if i > 0 {
				t.gap = true
			}
			t.line("", c.About)
			for _, line := range c.Lines {
				t.open()
				t.WriteString(strings.TrimRight("  "+line, " ") + "\n") // never broken: it is copied
			}
		}
	case sheet.Findings:
		for _, f := range b {
			t.finding(f)
		}
	case sheet.Chart:
		for _, line := range chart.Text(b, t.width, t.style.tone) {
			t.open()
			t.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
}

// factNames is how wide the names of facts are at least.
const factNames = 12

func (t *screen) facts(facts sheet.Facts) {
	names := factNames
	for _, f := range facts {
		names = max(names, visible(f.Name)+1)
	}
	for _, f := range facts {
		mark := "  " + t.style.bold(f.Name) + strings.Repeat(" ", names-visible(f.Name))
		for i, text := range factTexts(f) {
			if i == 0 && f.Key != "" {
				text = t.style.tone(f.Tone, f.Key) + text
			}
			t.line(mark, text)
			mark = strings.Repeat(" ", names+2)
		}
		if f.Table != nil {
			t.table(f.Table, strings.Repeat(" ", names+2))
		}
	}
}

// factTexts are a fact's texts; one that has a key only has an empty one.
func factTexts(f sheet.Fact) []string {
	if len(f.Texts) == 0 {
		return []string{""}
	}
	return f.Texts
}

// finding writes what a rule found, with evidence and fix.
func (t *screen) finding(f finding.Finding) {
	t.line("  ", t.style.tone(sheet.ToneOf(f.Severity), f.Verdict)+": "+f.Summary)
	for _, e := range f.Evidence {
		t.line("    ", e)
	}
	t.line("    fix: ", f.Fix)
	t.line("    ", t.style.dim("more: "+rulePage(f)))
}

// rulePage is where a finding's rule is described.
func rulePage(f finding.Finding) string { return "docs/rules/" + f.Rule + ".md" }

// doubts are the warnings, a line each.
func (t *screen) doubts(warnings []string) {
	for _, text := range warnings {
		t.line(t.style.bad("warning: "), text)
	}
	t.gap = t.gap || len(warnings) > 0
}

// again says how to go on, or to repeat it.
func (t *screen) again(s *sheet.Sheet) {
	if s.Resume != "" {
		t.open()
		t.WriteString("To go on: " + s.Resume + "\n")
		t.gap = true
	}
	if len(s.Again) == 0 {
		return
	}
	for _, text := range s.Again {
		t.line("", t.style.dim(text))
	}
	if s.Command != "" {
		t.open()
		t.WriteString(t.style.dim(fmt.Sprintf("To repeat: %s", s.Command)) + "\n")
	}
	t.gap = true
}
