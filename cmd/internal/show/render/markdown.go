package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Markdown writes a sheet to be put into an issue or a pull request: the answers, what they are of, tables and facts. Charts
// and what only a page has room for are left out.
func Markdown(w io.Writer, s *sheet.Sheet) error {
	var m mark
	s = printableSheet(s)
	for _, c := range s.Claims {
		text := c.Word + ": " + c.Text
		if c.Whole {
			text = alone(c)
		}
		m.paragraph("**" + markdown(text) + "**")
		for _, more := range c.More {
			m.paragraph(markdown(more))
		}
	}
	if s.Subject != "" {
		m.paragraph(markdown(s.Subject))
	}
	for _, section := range s.Sections {
		if !section.Detail {
			m.section(section)
		}
	}
	for _, text := range s.Warnings {
		fmt.Fprintf(&m, "- warning: %s\n", markdown(text))
	}
	_, err := io.WriteString(w, strings.TrimRight(m.String(), "\n")+"\n")
	return err
}

// A mark collects the Markdown.
type mark struct{ strings.Builder }

func (m *mark) paragraph(text string) { m.WriteString(text + "\n\n") }

func (m *mark) section(s sheet.Section) {
	if !s.Quiet && s.Title != "" {
		title := s.Title
		if s.Badge.Word != "" {
			title += ": " + s.Badge.Word
		}
		m.paragraph("### " + markdown(title))
		if s.About != "" {
			m.paragraph(markdown(s.About))
		}
	}
	for _, b := range s.Blocks {
		m.block(b)
	}
}

func (m *mark) block(b sheet.Block) {
	switch b := b.(type) {
	case sheet.Facts:
		for _, f := range b {
			fmt.Fprintf(m, "- %s: %s\n", markdown(f.Name), markdown(f.Key+strings.Join(f.Texts, "; ")))
		}
		m.WriteByte('\n')
		for _, f := range b {
			if f.Table != nil {
				m.table(f.Table)
			}
		}
	case *sheet.Table:
		m.table(b)
	case sheet.Lines:
		for _, text := range b.Texts {
			m.paragraph(markdown(text))
		}
	case sheet.Listed:
		for _, text := range b {
			fmt.Fprintf(m, "- %s\n", markdown(text))
		}
		m.WriteByte('\n')
	case sheet.Commands:
		for _, c := range b {
			m.paragraph(markdown(c.About))
			lines, fence := strings.Join(c.Lines, "\n"), "```"
			for strings.Contains(lines, fence) {
				fence += "`"
			}
			m.paragraph(fence + "\n" + lines + "\n" + fence)
		}
	case sheet.Findings:
		for _, f := range b {
			fmt.Fprintf(m, "- **%s**: %s\n", markdown(f.Verdict), markdown(f.Summary))
			for _, e := range f.Evidence {
				fmt.Fprintf(m, "  - %s\n", markdown(e))
			}
			fmt.Fprintf(m, "  - fix: %s\n", markdown(f.Fix))
		}
		m.WriteByte('\n')
	}
}

func (m *mark) table(t *sheet.Table) {
	g := fit(t, 1<<20, func(c sheet.Column) bool { return !c.Detail })
	for k := range g.columns {
		m.WriteString("| " + markdown(strings.TrimSpace(g.titles[k])) + " ")
	}
	m.WriteString("|\n")
	for _, i := range g.columns {
		if t.Columns[i].Left {
			m.WriteString("|:---")
		} else {
			m.WriteString("|---:")
		}
	}
	m.WriteString("|\n")
	for _, r := range t.Rows {
		for k := range g.columns {
			text := markdown(strings.TrimSpace(g.text(r, k)))
			if text != "" && (r.Group || r.Best && k == 0) {
				text = "**" + text + "**"
			}
			m.WriteString("| " + text + " ")
		}
		m.WriteString("|\n")
	}
	m.WriteByte('\n')
	for _, note := range g.notes() {
		m.paragraph(markdown(note))
	}
}

var markdownEscapes = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)

// markdown escapes what would be markup.
func markdown(text string) string { return markdownEscapes.Replace(text) }
