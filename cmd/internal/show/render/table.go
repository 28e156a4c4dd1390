package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Widths of tables, in columns of a terminal.
const (
	between   = 2  // two cells
	shortest  = 8  // of a name that is cut
	wrapLeast = 20 // of a cell that goes on in the next line
	besideMin = 30 // of words next to a table
)

// A grid is a table as it fits on a screen.
type grid struct {
	table   *sheet.Table
	columns []int // that are shown, by their number
	titles  []string
	widths  []int
	best    bool // a row is marked
	lowered bool // what would go on in the next line is below its row
}

// fit chooses the columns that there is room for: first shorter titles, then columns are dropped by their rank, then names are cut. A
// column whose cells are all empty is not shown.
func fit(t *sheet.Table, room int, keep func(sheet.Column) bool) *grid {
	g := &grid{table: t, best: slices.ContainsFunc(t.Rows, func(r sheet.Row) bool { return r.Best })}
	for i, c := range t.Columns {
		if keep(c) && (c.Even || i == 0 || slices.ContainsFunc(t.Rows, func(r sheet.Row) bool { return cell(r, i).Text != "" })) {
			g.columns = append(g.columns, i)
		}
	}
	g.measure(false)
	if g.width() > room {
		g.measure(true)
	}
	for g.width()-g.spare() > room {
		last := -1
		for _, i := range g.columns {
			if r := t.Columns[i].Rank; r > 0 && (last < 0 || r >= t.Columns[last].Rank) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		g.drop(last)
		g.measure(true)
	}
	g.lower(room)
	if g.measure(false); g.width() > room {
		g.measure(true)
	}
	g.squeeze(room)
	return g
}

// lower takes a column away that can be written below the rows, if names would be cut to make room for it.
func (g *grid) lower(room int) {
	for k, i := range g.columns {
		if c := g.table.Columns[i]; c.Wrap && c.Under && g.width()-max(0, g.widths[k]-wrapLeast) > room {
			g.lowered = true
			g.drop(i)
			return
		}
	}
}

// drop removes a column, and those that mean nothing without it.
func (g *grid) drop(i int) {
	title := g.table.Columns[i].Title
	g.columns = slices.DeleteFunc(g.columns, func(j int) bool { return j == i || title != "" && g.table.Columns[j].With == title })
}

// measure finds how wide the columns are.
func (g *grid) measure(short bool) {
	g.titles, g.widths = make([]string, len(g.columns)), make([]int, len(g.columns))
	for k, i := range g.columns {
		c := g.table.Columns[i]
		g.titles[k] = c.Title
		if short && c.Short != "" {
			g.titles[k] = c.Short
		}
		if k == 0 && g.best {
			g.titles[k] = "  " + g.titles[k]
		}
		g.widths[k] = visible(g.titles[k])
		for _, r := range g.table.Rows {
			if !r.Group {
				g.widths[k] = max(g.widths[k], visible(g.text(r, k)))
			}
		}
	}
}

// text is a row's text in a column of the grid.
func (g *grid) text(r sheet.Row, k int) string {
	text := cell(r, g.columns[k]).Text
	switch {
	case k > 0 || !g.best:
	case r.Best:
		return "→ " + text
	default:
		return "  " + text
	}
	return text
}

func cell(r sheet.Row, i int) sheet.Cell {
	if i < len(r.Cells) {
		return r.Cells[i]
	}
	return sheet.Cell{}
}

func (g *grid) width() int {
	sum := between * (len(g.widths) - 1)
	for _, w := range g.widths {
		sum += w
	}
	return sum
}

// spare is how much narrower columns can be made whose cells can be cut or go on in the next line.
func (g *grid) spare() (sum int) {
	for k, i := range g.columns {
		switch c := g.table.Columns[i]; {
		case c.Cut:
			sum += max(0, g.widths[k]-shortest)
		case c.Wrap:
			sum += max(0, g.widths[k]-wrapLeast)
		}
	}
	return sum
}

// squeeze makes columns narrower that can be, the last ones first.
func (g *grid) squeeze(room int) {
	for k := len(g.columns) - 1; k >= 0; k-- {
		over, c := g.width()-room, g.table.Columns[g.columns[k]]
		switch {
		case over <= 0:
			return
		case c.Wrap:
			g.widths[k] = max(min(wrapLeast, g.widths[k]), g.widths[k]-over)
		case c.Cut:
			g.widths[k] = max(min(shortest, g.widths[k]), g.widths[k]-over)
		}
	}
}

// notes returns the notes that apply to the columns shown.
func (g *grid) notes() (texts []string) {
	for _, n := range g.table.Notes {
		text := n.Text
		for _, title := range n.Needs {
			if !slices.ContainsFunc(g.columns, func(i int) bool { return g.table.Columns[i].Title == title }) {
				text = n.Narrow
			}
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// table writes a table, with what its columns mean next to it or below it, and its notes.
func (t *screen) table(table *sheet.Table, indent string) {
	room := t.width - len(indent)
	if t.style.Width == 0 {
		room = 1 << 20 // not a terminal: lines may be of any length
	}
	g := fit(table, room, func(c sheet.Column) bool { return !c.Detail && (!c.Under || c.Wrap) })
	lines := g.lines(t.style)
	left := len(indent) + g.width() + 4
	room = t.width - left
	beside := room >= besideMin && len(lines) == len(table.Rows)+1
	if !beside {
		room = t.width - len(indent)
	}
	legend := t.legend(table.Beside, room)
	for i, line := range lines {
		if i == 0 && line == "" {
			continue // it has no titles
		}
		t.open()
		line = indent + strings.ReplaceAll(line, "\n", "\n"+indent)
		if i > 0 && beside && i <= len(legend) {
			line += strings.Repeat(" ", left-visible(line)) + legend[i-1]
		}
		t.WriteString(strings.TrimRight(line, " ") + "\n")
		if i > 0 {
			t.under(g, table.Rows[i-1], indent)
		}
	}
	if beside {
		legend = legend[min(len(legend), len(lines)-1):]
	}
	for _, line := range legend {
		t.WriteString(indent + line + "\n")
	}
	for _, note := range g.notes() {
		t.toned(indent, sheet.Soft, note)
	}
}

// under writes what a row has in columns that are written below it: where the last column begins, or a little to the right where it has taken the room of one.
func (t *screen) under(g *grid, r sheet.Row, indent string) {
	left := g.width() - g.widths[len(g.widths)-1]
	if g.lowered {
		left = 2 * between
	}
	for i, c := range g.table.Columns {
		text := cell(r, i).Text
		if !c.Under || text == "" || slices.Contains(g.columns, i) {
			continue
		}
		if c.Title != "" {
			text = c.Title + ": " + text
		}
		tone := sheet.Soft
		if own := cell(r, i).Tone; own != sheet.Plain {
			tone = own
		}
		t.toned(indent+strings.Repeat(" ", left), tone, text)
	}
}

// legend is facts as lines of a width.
func (t *screen) legend(facts sheet.Facts, width int) (lines []string) {
	names := 0
	for _, f := range facts {
		names = max(names, visible(f.Name)+1)
	}
	for _, f := range facts {
		name := t.style.Paint(sheet.Strong, fmt.Sprintf("%-*s", names, f.Name))
		text := Style{Width: width}.wrap(strings.Join(f.Texts, " "), names)
		lines = append(lines, strings.Split(name+text, "\n")...)
	}
	return lines
}

// lines are the table's titles and rows. A row whose last cell goes on below is one text of several lines.
func (g *grid) lines(style Style) []string {
	titles := ""
	if slices.ContainsFunc(g.titles, func(title string) bool { return strings.TrimSpace(title) != "" }) {
		titles = g.line(slices.Clone(g.titles), func(_ int, part string) string { return style.Paint(sheet.Soft, part) })
	}
	lines := []string{titles}
	for _, r := range g.table.Rows {
		if r.Group {
			lines = append(lines, style.Paint(sheet.Strong, cell(r, 0).Text))
			continue
		}
		texts := make([]string, len(g.columns))
		for k := range g.columns {
			texts[k] = g.text(r, k)
		}
		lines = append(lines, g.line(texts, func(k int, part string) string {
			tone := cell(r, g.columns[k]).Tone
			if tone == sheet.Plain && (r.Total || r.Best && k == 0) {
				tone = sheet.Strong
			}
			return style.Paint(tone, part)
		}))
	}
	return lines
}

// line puts texts side by side: words to the left of their columns, numbers to the right.
func (g *grid) line(texts []string, paint func(k int, part string) string) string {
	for k, text := range texts {
		c, width := g.table.Columns[g.columns[k]], g.widths[k]
		switch {
		case visible(text) <= width:
		case c.Wrap:
			text = Style{Width: g.width()}.wrap(text, g.width()-width)
		default:
			text = cut(text, width)
		}
		switch {
		case !c.Left:
			text = fmt.Sprintf("%*s", width, text)
		case k < len(texts)-1:
			text = fmt.Sprintf("%-*s", width, text)
		}
		parts := strings.Split(text, "\n")
		for j, part := range parts {
			parts[j] = paint(k, part)
		}
		texts[k] = strings.Join(parts, "\n")
	}
	return strings.TrimRight(strings.Join(texts, strings.Repeat(" ", between)), " ")
}
