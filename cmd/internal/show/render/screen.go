package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// usualWidth is how wide tables and drawings are where nothing says how wide the screen is.
const usualWidth = 80

// Text writes a sheet for a terminal, or for a file that is read like one.
func Text(w io.Writer, s *sheet.Sheet, style Style) error {
	t := &screen{style: style, width: style.Width, program: s.By()}
	if t.width == 0 {
		t.width = usualWidth
	}
	s = printableSheet(s)
	t.claims(s.Claims)
	if s.Heading {
		t.line("", s.Subject)
		t.gap = true
	}
	for _, section := range s.Sections {
		if !section.Detail {
			t.section(section)
		}
	}
	for _, text := range s.Warnings {
		t.line(t.style.Paint(sheet.Bad, "warning: "), text)
	}
	t.gap = t.gap || len(s.Warnings) > 0
	t.again(s)
	_, err := io.WriteString(w, t.String())
	return err
}

// A screen collects the text.
type screen struct {
	strings.Builder
	style   Style
	program string // of the sheet
	width   int    // of what is laid out; lines of words may be of any length if the style says so
	gap     bool   // an empty line comes before what is written next
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

// toned writes words in a tone. Colour codes don't reach over lines.
func (t *screen) toned(mark string, tone sheet.Tone, text string) {
	for _, line := range strings.Split(t.style.wrap(text, len(mark)), "\n") {
		t.line(mark, t.style.Paint(tone, strings.TrimLeft(line, " ")))
	}
}

func (t *screen) claims(claims []sheet.Claim) {
	for _, c := range claims {
		below := ""
		switch {
		case c.Whole && len(claims) > 1:
			below = "  "
			t.line(t.style.Paint(sheet.Strong, "→ "), alone(c))
		case c.Whole:
			t.toned("", sheet.Strong, alone(c))
		default:
			t.line("", t.style.Paint(c.Tone, c.Word)+": "+c.Text)
		}
		for _, text := range c.More {
			t.line(below, text)
		}
	}
	t.gap = t.gap || len(claims) > 0
}

// alone is the text of a claim where nothing around it says what it is about.
func alone(c sheet.Claim) string {
	if c.Alone != "" {
		return c.Alone
	}
	return c.Text
}

func (t *screen) section(s sheet.Section) {
	if !s.Quiet {
		if s.Title != "" {
			title := t.style.Paint(sheet.Strong, s.Title)
			if s.Badge.Word != "" {
				title += ": " + t.style.Paint(s.Badge.Tone, s.Badge.Word)
			}
			t.line("", title)
		}
		if s.About != "" {
			t.line("  ", t.style.Paint(sheet.Soft, s.About))
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

func (t *screen) block(b sheet.Block) {
	switch b := b.(type) {
	case sheet.Facts:
		t.facts(b)
	case *sheet.Table:
		t.table(b, "  ")
	case sheet.Lines:
		for _, text := range b.Texts {
			t.toned("", b.Tone, text)
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
		for _, line := range chart.Text(b, t.width, t.style.Paint) {
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
		mark := "  " + t.style.Paint(sheet.Strong, f.Name) + strings.Repeat(" ", names-visible(f.Name))
		if len(f.Texts) == 0 {
			f.Texts = []string{""} // the key is all
		}
		for i, text := range f.Texts {
			if i == 0 && f.Key != "" {
				text = t.style.Paint(f.Tone, f.Key) + text
			}
			t.line(mark, text)
			mark = strings.Repeat(" ", names+2)
		}
		if f.Table != nil {
			t.table(f.Table, strings.Repeat(" ", names+2))
		}
	}
}

// finding writes what a rule found, with evidence and fix.
func (t *screen) finding(f finding.Finding) {
	t.line("  ", t.style.Paint(sheet.ToneOf(f.Severity), f.Verdict)+": "+f.Summary)
	for _, e := range f.Evidence {
		t.line("    ", e)
	}
	t.line("    fix: ", f.Fix)
	t.line("    ", t.style.Paint(sheet.Soft, "more: "+rulePage(t.program, f)))
}

// rulePage is the command that shows where a finding's rule is described.
func rulePage(program string, f finding.Finding) string {
	return program + " help " + f.Rule
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
		t.line("", t.style.Paint(sheet.Soft, text))
	}
	if s.Command != "" {
		t.open()
		t.WriteString(t.style.Paint(sheet.Soft, fmt.Sprintf("To repeat: %s", s.Command)) + "\n")
	}
	t.gap = true
}
