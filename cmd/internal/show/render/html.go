package render

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

//go:embed page.css
var pageCSS string

//go:embed page.html
var pageHTML string

// HTML writes a sheet as a page: one file, which loads nothing, reads well without a script, and holds the document itself.
func HTML(w io.Writer, s *sheet.Sheet) error {
	document, err := json.Marshal(s.Document) // escapes <, > and &, so that no text ends the element it is in
	if err != nil {
		return fmt.Errorf("writing the document into its page: %w", err)
	}
	page := newPage(printableSheet(s))
	page.Document = template.JS(plain.JSON(document))
	// Parsed when a page is written and not when the command starts: it takes half a millisecond.
	rule := func(f finding.Finding) string { return rulePage(s.By(), f) }
	t, err := template.New("page.html").Funcs(pageFuncs).Funcs(template.FuncMap{"rule": rule}).Parse(pageHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, page)
}

// A page is what the template shows: a sheet, its sections next to and below each other, and what they need.
type page struct {
	*sheet.Sheet
	Parts    []part
	Style    template.CSS
	Document template.JS
	Script   template.JS
}

// A part is a section, or several that are facts only and are next to each other.
type part struct {
	Beside   bool
	Sections []sheet.Section
}

// newPage arranges a sheet, which it changes: a page has room for details.
func newPage(s *sheet.Sheet) *page {
	p := &page{Sheet: s, Style: template.CSS(pageCSS)}
	var charts []sheet.Chart
	for _, section := range s.Sections {
		facts := !section.Folded
		for i, b := range section.Blocks {
			if d, ok := b.(sheet.Detail); ok {
				b = d.Block
				section.Blocks[i] = b
			}
			facts = facts && isFacts(b)
			if c, ok := b.(sheet.Chart); ok {
				charts = append(charts, c)
			}
		}
		if last := len(p.Parts) - 1; facts && last >= 0 && p.Parts[last].Beside {
			p.Parts[last].Sections = append(p.Parts[last].Sections, section)
		} else {
			p.Parts = append(p.Parts, part{facts, []sheet.Section{section}})
		}
	}
	if len(charts) > 0 {
		p.Style += template.CSS(chart.CSS)
		p.Script = template.JS(chart.Script(charts))
	}
	return p
}

func isFacts(b sheet.Block) bool { _, is := b.(sheet.Facts); return is }

// pageFuncs are what the template needs besides the sheet.
var pageFuncs = template.FuncMap{
	"tight": tight, "class": class, "claim": claimClass, "headline": headline, "table": newPageTable, "chart": chart.HTML, "severity": sheet.ToneOf, "code": code,
}

// headline is a claim as it is on a page, alone: in a line its word comes before. What begins with a metric stays, and what was typed.
func headline(c sheet.Claim) string {
	text := c.Text
	if c.Typed {
		return text
	}
	for i, r := range text {
		switch {
		case r == ' ' && i > 0:
			return strings.ToUpper(text[:1]) + text[1:]
		case r < 'a' || r > 'z':
			return text
		}
	}
	return text
}

// claimClass is how a claim and its word look.
func claimClass(tone sheet.Tone) string {
	switch tone {
	case sheet.Good:
		return "good"
	case sheet.Warn:
		return "weigh"
	case sheet.Bad:
		return "failed"
	case sheet.Unsure, sheet.Soft:
		return "unsure"
	}
	return "sure"
}

// phone is how wide a table may be, in characters, to be read as one on a phone; the rows of a wider one become blocks there.
const phone = 48

type pageTable struct {
	*sheet.Table
	Name            string
	Titled, Stacked bool
	Head            []pageCell
	Lines           []pageRow
	Said            []string
}

type pageRow struct {
	Class string
	Group bool
	Cells []pageCell
}

type pageCell struct {
	Text, Class, Title, Key string
	More                    []string
}

// newPageTable has all columns that have anything to say. It is called after what it is in, if it has no name.
func newPageTable(t *sheet.Table, in string) *pageTable {
	g := fit(t, 1<<20, func(sheet.Column) bool { return true })
	out := &pageTable{Table: t, Name: cmp.Or(t.Name, in), Stacked: g.width() > phone, Said: g.notes()}
	for k, i := range g.columns {
		text := strings.TrimSpace(g.titles[k])
		out.Titled = out.Titled || text != ""
		out.Head = append(out.Head, pageCell{Text: text, Class: columnClass(t.Columns[i])})
	}
	for _, r := range t.Rows {
		row := pageRow{Group: r.Group}
		switch {
		case r.Total:
			row.Class = "total"
		case r.Best:
			row.Class = "best"
		}
		for k, i := range g.columns {
			c, head := cell(r, i), out.Head[k]
			row.Cells = append(row.Cells, pageCell{
				Text: indented(tight(c.Text)), Class: strings.TrimSpace(head.Class + " " + class(c.Tone)), Title: head.Text, More: c.More,
			})
		}
		if r.Color != sheet.NoColor {
			row.Cells[0].Key = chart.Class(r.Color)
		}
		out.Lines = append(out.Lines, row)
	}
	return out
}

// indented keeps the blanks that a text begins with, as the names in a tree do.
func indented(text string) string {
	rest := strings.TrimLeft(text, " ")
	return strings.Repeat("\u00a0", len(text)-len(rest)) + rest
}

func columnClass(c sheet.Column) string {
	left, wrap := "", ""
	if c.Left {
		left = "left "
	}
	if c.Wrap || c.Under {
		wrap = "wrap"
	}
	return strings.TrimSpace(left + wrap)
}

// code is a command. A browser breaks a flag after its dashes, unless its word is an element of its own.
func code(command string) template.HTML {
	words := strings.Split(command, " ")
	for i, word := range words {
		words[i] = "<span>" + template.HTMLEscapeString(word) + "</span>"
	}
	return template.HTML(strings.Join(words, " "))
}

// class is the class of a tone.
func class(tone sheet.Tone) string {
	return map[sheet.Tone]string{
		sheet.Strong: "strong", sheet.Soft: "soft", sheet.Good: "better", sheet.Bad: "worse", sheet.Warn: "warn", sheet.Unsure: "soft",
	}[tone]
}

// tight keeps a unit on the line of its number.
func tight(text string) string {
	parts := words(text)
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, " ", "\u00a0")
	}
	return strings.Join(parts, " ")
}
