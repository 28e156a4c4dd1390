package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

//go:embed profile.html
var profileHTML string

//go:embed profile.js
var profileJS string

// ProfileHTML writes the document of profile as a page in the manner of BenchHTML. It has a script of its own, without
// which all is there too: with it the flame graph can be zoomed and searched.
func ProfileHTML(w io.Writer, d *report.Profile) error {
	document, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("writing the document into its page: %w", err)
	}
	page, err := parsePage("profile.html", profileHTML)
	if err != nil {
		return err
	}
	return page.Execute(w, newProfilePage(printableProfile(d), document))
}

// profilePage is what the template shows.
type profilePage struct {
	Style          template.CSS
	Title, Summary string
	Headline, Hint string
	Why            []string
	Warnings       []string
	Flame          *profileFlame
	Head           []htmlCell
	Groups         []profileGroup
	Based          bool
	Facts          []htmlFact
	Next           []htmlCommand
	Command        string
	Commands       []htmlCommand
	Document       template.JS
	Script         template.JS
}

func newProfilePage(d *report.Profile, document []byte) profilePage {
	p := profilePage{
		Style: pageStyle(), Title: "unthrottle profile: " + profileName(d), Summary: tight(profileTitle(d)), Why: d.Why, Warnings: d.Warnings,
		Head: profileHead(d), Groups: profileGroups(d), Based: d.Base != nil, Next: profileNext(d), Command: report.ShellWords(d.Command),
		Document: template.JS(document), Script: template.JS(profileJS), Flame: newProfileFlame(d),
	}
	p.Headline = "There are no samples in it"
	if d.Excess.Share != nil {
		p.Headline = tight(percent(*d.Excess.Share) + " of the CPU time is in classes that grow with GOMAXPROCS")
		p.Hint = tight(upperFirst(d.Hint())) + "."
	}
	for _, f := range profileFacts(d) {
		for i := range f.Texts {
			f.Texts[i] = tight(f.Texts[i])
		}
		p.Facts = append(p.Facts, f)
	}
	for i := range p.Next {
		p.Next[i].Lines = strings.ReplaceAll(p.Next[i].Lines, "\n  ", "\n")
	}
	p.Commands = []htmlCommand{documentCommand("profile")}
	return p
}

// Sizes of the flame graph.
const (
	flameRow  = 18 // pixels
	flameDeep = 64 // rows; what is deeper is not drawn
	flameText = 1. // percent of the width below which there is no room for a letter
)

// A profileFlame is the tree of stacks, roots at the top: each frame as wide as its CPU time.
type profileFlame struct {
	Label   string
	Height  int
	Frames  []flameFrame
	Classes []flameClass
	Cut     bool // there are deeper ones
}

type flameFrame struct {
	Left, Width string
	Top         int
	Class       string
	Name, Title string
}

type flameClass struct {
	Class, Share string
	Excess       bool
}

// newProfileFlame lays out the frames; nil if there are none.
func newProfileFlame(d *report.Profile) *profileFlame {
	if d.CPU <= 0 || len(d.Frames) == 0 {
		return nil
	}
	excess := map[string]bool{}
	g := &profileFlame{Label: "Flame graph: stacks of functions, each as wide as its CPU time."}
	for _, c := range bySize(d.Classes) {
		excess[c.Name] = c.Excess
		if c.CPU > 0 {
			g.Classes = append(g.Classes, flameClass{c.Name, percent(c.Share), c.Excess})
			g.Label += " " + c.Name + " " + percent(c.Share) + ";"
		}
	}
	type place struct{ next, end float64 } // where the next child begins, and where its parent ends
	places := []place{{0, 100}}
	for _, f := range d.Frames {
		depth := max(1, min(f.Depth, len(places)))
		of := &places[depth-1]
		left := of.next
		width := min(max(0, 100*f.CPU/d.CPU), of.end-left)
		of.next += width
		places = append(places[:depth], place{left, left + width})
		if depth > flameDeep {
			g.Cut = true
			continue
		}
		frame := flameFrame{
			Left: inPercent(left), Width: inPercent(width), Top: (depth - 1) * flameRow, Class: classOf(f.Class, excess[f.Class]),
			Title: fmt.Sprintf("%s: %s, %s of the CPU time, %s", f.Function, seconds(f.CPU), percent(f.CPU/d.CPU), f.Class),
		}
		if width >= flameText {
			frame.Name = shortFunction(f.Function)
		}
		g.Frames = append(g.Frames, frame)
		g.Height = max(g.Height, depth*flameRow)
	}
	return g
}

// classOf is a class of the page's style; a name that is none of ours has no colour.
func classOf(name string, excess bool) string {
	for _, r := range name {
		if r != '-' && (r < 'a' || r > 'z') {
			return ""
		}
	}
	if excess {
		return "c-" + name + " grows"
	}
	return "c-" + name
}

// Style is for the template: the class of a row's colour.
func (r profileRow) Style() string { return classOf(r.Class, false) }

// Style likewise.
func (c flameClass) Style() string { return classOf(c.Class, c.Excess) }

// shortFunction leaves out the directories of a function's package.
func shortFunction(name string) string {
	head, rest, generic := strings.Cut(name, "[")
	if generic {
		rest = "[" + rest
	}
	return head[strings.LastIndexByte(head, '/')+1:] + rest
}
