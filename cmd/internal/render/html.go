package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
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
	page, err := newPage(printableSheet(s))
	if err != nil {
		return err
	}
	page.Document = template.JS(document)
	// Parsed when a page is written and not when the command starts: it takes half a millisecond.
	t, err := template.New("page.html").Parse(pageHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, page)
}

// A page is what the template shows: a sheet whose tones are classes, and whose charts are drawn.
type page struct {
	Verb, Subject string
	Style         template.CSS
	Claims        []pageClaim
	Warnings      []string
	Resume        string
	Parts         []pagePart
	Command       string
	Again         []string
	Document      template.JS
	Script        template.JS
}

type pageClaim struct {
	Word, Class, Of, Anchor, Text string
	More                          []string
}

// A pagePart is a section, or several that are facts only and stand beside each other.
type pagePart struct {
	Title, Anchor, About string
	Folded               bool
	Badge                pageClaim
	Blocks               []pageBlock
	Grid                 []pagePart
}

// A pageBlock has one of these.
type pageBlock struct {
	Facts    []pageFact
	Table    *pageTable
	Chart    template.HTML
	Lines    []string
	Class    string // of the lines
	Listed   []string
	Commands []sheet.Command
	Findings []pageFinding
}

type pageFact struct {
	Name, Key, Class string
	Texts            []string
	Table            *pageTable
}

type pageFinding struct {
	finding.Finding
	Class, Page string
}

type pageTable struct {
	Name         string
	Titled, Long bool
	Head         []pageCell
	Rows         []pageRow
	Beside       []sheet.Fact
	Notes        []string
}

type pageRow struct {
	Class, Group string
	Cells        []pageCell
}

type pageCell struct {
	Text, Class, Title, Key string
	First                   bool
	More                    []string
}

func newPage(s *sheet.Sheet) (*page, error) {
	p := &page{
		Verb: s.Verb, Subject: tight(s.Subject), Warnings: tightAll(s.Warnings), Resume: s.Resume, Command: s.Command, Again: tightAll(s.Again),
	}
	for _, c := range s.Claims {
		p.Claims = append(p.Claims, newPageClaim(c))
	}
	var charts []sheet.Chart
	for _, section := range s.Sections {
		part := pagePart{
			Title: tight(section.Title), Anchor: section.Anchor, About: tight(section.About), Folded: section.Folded, Badge: newPageClaim(section.Badge),
		}
		onlyFacts := true
		for _, b := range section.Blocks {
			if d, ok := b.(sheet.Detail); ok {
				b = d.Block
			}
			if c, ok := b.(sheet.Chart); ok {
				charts = append(charts, c)
			}
			_, isFacts := b.(sheet.Facts)
			onlyFacts = onlyFacts && isFacts
			block, err := newPageBlock(b, section.Title)
			if err != nil {
				return nil, err
			}
			part.Blocks = append(part.Blocks, block)
		}
		if !onlyFacts || section.Folded {
			p.Parts = append(p.Parts, part)
			continue
		}
		if n := len(p.Parts); n == 0 || p.Parts[n-1].Grid == nil {
			p.Parts = append(p.Parts, pagePart{})
		}
		last := &p.Parts[len(p.Parts)-1]
		last.Grid = append(last.Grid, part)
	}
	p.Style = template.CSS(pageCSS)
	if len(charts) > 0 {
		p.Style += template.CSS(chart.CSS)
		p.Script = template.JS(chart.Script(charts))
	}
	return p, nil
}

func newPageClaim(c sheet.Claim) pageClaim {
	p := pageClaim{Word: c.Word, Of: c.Of, Anchor: c.Anchor, Text: tight(c.Text), More: tightAll(c.More), Class: "sure"}
	switch c.Tone {
	case sheet.Bad:
		p.Class = "failed"
	case sheet.Unsure, sheet.Soft:
		p.Class = "unsure"
	}
	return p
}

func newPageBlock(b sheet.Block, title string) (out pageBlock, err error) {
	switch b := b.(type) {
	case sheet.Facts:
		for _, f := range b {
			fact := pageFact{Name: f.Name, Key: tight(f.Key), Class: class(f.Tone), Texts: tightAll(f.Texts)}
			if f.Table != nil {
				fact.Table = newPageTable(f.Table, f.Name)
			}
			out.Facts = append(out.Facts, fact)
		}
	case *sheet.Table:
		out.Table = newPageTable(b, title)
	case sheet.Lines:
		out.Lines, out.Class = tightAll(b.Texts), class(b.Tone)
	case sheet.Listed:
		out.Listed = tightAll(b)
	case sheet.Commands:
		out.Commands = b
	case sheet.Findings:
		for _, f := range b {
			f.Summary, f.Evidence, f.Fix = tight(f.Summary), tightAll(f.Evidence), tight(f.Fix)
			out.Findings = append(out.Findings, pageFinding{f, class(sheet.ToneOf(f.Severity)), rulePage(f)})
		}
	case sheet.Chart:
		out.Chart, err = chart.HTML(b)
	}
	return out, err
}

// newPageTable has all columns that have anything to say: a page scrolls.
func newPageTable(t *sheet.Table, title string) *pageTable {
	g := fit(t, 1<<20, func(sheet.Column) bool { return true })
	out := &pageTable{Name: t.Name, Notes: tightAll(g.notes())}
	if out.Name == "" {
		out.Name = title
	}
	for _, f := range t.Beside {
		f.Texts = tightAll(f.Texts)
		out.Beside = append(out.Beside, f)
	}
	for k, i := range g.columns {
		text := strings.TrimSpace(g.titles[k])
		out.Titled = out.Titled || text != ""
		out.Long = out.Long || t.Columns[i].Wrap
		out.Head = append(out.Head, pageCell{Text: tight(text), Class: columnClass(t.Columns[i])})
	}
	for _, r := range t.Rows {
		row := pageRow{}
		switch {
		case r.Group:
			row.Group = cell(r, 0).Text
		case r.Total:
			row.Class = "total"
		case r.Best:
			row.Class = "best"
		}
		for k, i := range g.columns {
			c := cell(r, i)
			class := strings.TrimSpace(columnClass(t.Columns[i]) + " " + class(c.Tone))
			made := pageCell{Text: indented(tight(cell(r, i).Text)), Class: class, Title: out.Head[k].Text, First: k == 0, More: tightAll(c.More)}
			if k == 0 && r.Color != sheet.NoColor {
				made.Key = colorClass(r.Color)
			}
			row.Cells = append(row.Cells, made)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// indented keeps the blanks that a text begins with, as the names in a tree do.
func indented(text string) string {
	rest := strings.TrimLeft(text, " ")
	return strings.Repeat("\u00a0", len(text)-len(rest)) + rest
}

func columnClass(c sheet.Column) string {
	var classes []string
	if c.Left {
		classes = append(classes, "left")
	}
	if c.Wrap || c.Under {
		classes = append(classes, "wrap")
	}
	return strings.Join(classes, " ")
}

// colorClass is the class of a series, as package chart has it.
func colorClass(c sheet.Color) string { return chart.Class(c) }

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

func tightAll(texts []string) (out []string) {
	for _, text := range texts {
		out = append(out, tight(text))
	}
	return out
}
