package chart

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A Picture is strips below each other as an image of its own, for a README or a slide. Its colours follow the reader's.
type Picture struct {
	Title    string
	From, To float64 // seconds that are drawn
	Rows     []PictureRow
	Ran      string // what it was outside of the spans
	Was      string // and in them
}

// A PictureRow is a strip.
type PictureRow struct {
	Name  string
	Spans []sheet.Span
	Notes []string // next to it, two at most
}

// Sizes of a picture, in pixels.
const (
	pictureWide  = 880
	pictureLeft  = 156 // of the names
	pictureRight = 190 // of the notes
	pictureTop   = 46
	pictureRow   = 54
	pictureTall  = 34 // of a strip
)

const pictureStyle = `text{font:14px system-ui,sans-serif;fill:#1a1d21}.soft{fill:#565f6b;font-size:12px}.title{font-weight:600}` +
	`.paper{fill:#fff}.ran{fill:#0a5bb8}.was{fill:#f4d3d0}.tick{stroke:#d8dce2}` +
	`@media(prefers-color-scheme:dark){text{fill:#e8eaed}.soft{fill:#a6aeb8}.paper{fill:#14171b}.ran{fill:#79b4ff}.was{fill:#5c2f2c}.tick{stroke:#3a4149}}`

// SVG writes the picture.
func (p *Picture) SVG(w io.Writer) error {
	var b strings.Builder
	tall := pictureTop + pictureRow*len(p.Rows) + 40
	wide := float64(pictureWide - pictureLeft - pictureRight)
	x := func(at float64) float64 { return pictureLeft + wide*(at-p.From)/(p.To-p.From) }
	text := func(class string, x, y float64, anchor, s string) {
		fmt.Fprintf(&b, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`+"\n", pictureWide, tall)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", html.EscapeString(p.Title), pictureStyle)
	fmt.Fprintf(&b, `<rect class="paper" width="%d" height="%d"/>`+"\n", pictureWide, tall)
	text("title", 16, 28, "start", p.Title)
	for i, row := range p.Rows {
		y := float64(pictureTop + pictureRow*i)
		text("name", 16, y+22, "start", row.Name)
		fmt.Fprintf(&b, `<rect class="ran" x="%.1f" y="%.1f" width="%.1f" height="%d"/>`+"\n", x(p.From), y, wide, pictureTall)
		var path strings.Builder
		for _, s := range row.Spans {
			if from, to := max(s.From, p.From), min(s.To, p.To); from < to {
				fmt.Fprintf(&path, "M%.1f %.1fh%.1fv%dh%.1fz", x(from), y, x(to)-x(from), pictureTall, x(from)-x(to))
			}
		}
		if path.Len() > 0 {
			fmt.Fprintf(&b, `<path class="was" d="%s"/>`+"\n", path.String())
		}
		for j, note := range row.Notes {
			text("note", x(p.To)+12, y+14+18*float64(j), "start", note)
		}
	}
	bottom := float64(pictureTop + pictureRow*len(p.Rows) - 10)
	for at := p.From; at <= p.To+1e-9; at += (p.To - p.From) / 4 {
		fmt.Fprintf(&b, `<path class="tick" d="M%.1f %.1fv6"/>`+"\n", x(at), bottom-6)
		text("soft", x(at), bottom+14, "middle", quantity.Seconds(at-p.From))
	}
	key := bottom + 32
	for i, k := range []struct{ class, text string }{{"ran", p.Ran}, {"was", p.Was}} {
		left := x(p.From) + 150*float64(i)
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%.1f" width="12" height="12"/>`+"\n", k.class, left, key-10)
		text("soft", left+18, key, "start", k.text)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
