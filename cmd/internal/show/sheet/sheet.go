// Package sheet answers: what does a screen show, and in which order? A sheet is a plain value between a document, which
// holds what was found, and a screen, which has a width, colours and markup. View makes sheets, render draws them as text,
// Markdown and HTML, and tests compare them.
//
// Texts in a sheet are whole: nothing below takes them apart or adds to them. What must give way where there is little room
// says so itself: a column has a rank, a note the columns that it speaks of and its shorter form. Texts that come from
// outside, such as names of processes, need no care here: render makes them safe to print.
package sheet

import (
	"cmp"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
)

// A Tone says how a text is intended. A screen has a colour or a weight for it, or neither.
type Tone int

const (
	Plain  Tone = iota
	Strong      // is read first
	Soft        // is read last
	Good
	Bad
	Warn
	Unsure // not settled
)

// ToneOf is the tone of a finding.
func ToneOf(s finding.Severity) Tone {
	switch s {
	case finding.Info:
		return Plain
	case finding.Warning:
		return Warn
	}
	return Bad
}

// A Sheet is what is shown of one document.
type Sheet struct {
	Program string // that runs, as people type it: "kubectl unthrottle"; "": unthrottle
	Verb    string // that made the document
	Subject string // what it is of: the title of a page
	Heading bool   // a terminal shows the subject too, after the answer

	Claims   []Claim
	Warnings []string
	Sections []Section

	Resume   string   // the command that goes on with what is not finished; "": it is finished
	Command  string   // that made the document, as a shell reads it
	Again    []string // what else to know for doing it again
	Document any      // that a page holds, so that it can be shown again
}

// By is the program that runs, as people type it.
func (s *Sheet) By() string { return cmp.Or(s.Program, "unthrottle") }

// A Claim is an answer.
type Claim struct {
	Word   string // such as "throttled"
	Tone   Tone
	Whole  bool     // the text says it all; the word is for a page only
	Text   string   // one sentence
	Typed  bool     // which begins with what the user has typed: it has no capital
	Alone  string   // the same where nothing around it says what it is about: on a terminal; "": Text will do
	More   []string // what belongs to it, a line each
	Of     string   // what it is about, where there are several
	Anchor string   // of the section that says more
}

// A Section is a part of a sheet, with a title on pages, and on a terminal unless it is quiet.
type Section struct {
	Title  string
	Anchor string
	About  string // one line below the title
	Quiet  bool   // a terminal does without the title and what is about it
	Detail bool   // for pages only: more than a terminal has room for
	Folded bool   // a page shows it when it is asked for
	Badge  Claim  // next to the title of what is folded: a word and its tone
	Blocks []Block
}

// A Block is one thing in a section: Facts, *Table, Lines, Commands, Findings, Listed, a chart, or a Detail.
type Block interface{ block() }

// Detail is a block for pages only, in a section that is not.
type Detail struct{ Block Block }

// Facts are names, each with what is known of it.
type Facts []Fact

// A Fact is a name and what is known of it.
type Fact struct {
	Name  string
	Key   string // what its first text begins with, in a tone of its own
	Tone  Tone   // of the key
	Texts []string
	Table *Table // below the texts
}

// Lines are sentences, a paragraph each.
type Lines struct {
	Tone  Tone
	Texts []string
}

// Commands are lines to be copied, each with what they are for.
type Commands []Command

// A Command is lines to be copied: for a shell, or for a file.
type Command struct {
	About string
	Lines []string
}

// Findings are what rules found, with evidence and fix.
type Findings []finding.Finding

// Listed are texts that may be many, such as the errors of runs.
type Listed []string

func (Facts) block()    {}
func (*Table) block()   {}
func (Lines) block()    {}
func (Commands) block() {}
func (Findings) block() {}
func (Listed) block()   {}
func (Detail) block()   {}

// Add adds a fact unless nothing is known of it: empty texts are left out.
func (f *Facts) Add(name string, texts ...string) {
	fact := Fact{Name: name}
	for _, text := range texts {
		if text != "" {
			fact.Texts = append(fact.Texts, text)
		}
	}
	if len(fact.Texts) > 0 {
		*f = append(*f, fact)
	}
}

// Add adds a section unless there is nothing in it.
func (s *Sheet) Add(section Section) {
	var blocks []Block
	for _, b := range section.Blocks {
		if !empty(b) {
			blocks = append(blocks, b)
		}
	}
	if section.Blocks = blocks; len(blocks) > 0 {
		s.Sections = append(s.Sections, section)
	}
}

func empty(b Block) bool {
	switch b := b.(type) {
	case nil:
		return true
	case Facts:
		return len(b) == 0
	case *Table:
		return b == nil || len(b.Rows) == 0
	case Lines:
		return len(b.Texts) == 0
	case Commands:
		return len(b) == 0
	case Findings:
		return len(b) == 0
	case Listed:
		return len(b) == 0
	case Detail:
		return empty(b.Block)
	case Chart:
		return b.Empty()
	}
	return false
}
