package sheet

// A Table is rows of cells below the titles of columns. Where it is too wide, it first takes the short titles, then columns
// give way by their rank, then names are cut.
type Table struct {
	Name    string // for readers who can't see it
	Columns []Column
	Rows    []Row
	Notes   []Note
	Beside  Facts // what the columns mean: next to the table where there is room, else below it
}

// A Column is what the cells of a column have in common.
type Column struct {
	Title  string
	Short  string // a shorter title; "": none
	Left   bool   // words are to the left, numbers to the right
	Rank   int    // 0: it is always there; else the higher, the sooner it goes
	With   string // title of the column without which it goes too: an interval goes with its value
	Even   bool   // it is shown even if all its cells are empty
	Cut    bool   // its cells may be cut to fit
	Wrap   bool   // its cells may go on in the next line
	Under  bool   // a terminal writes its cells below the row; if they may also go on in the next line, only without room
	Detail bool   // for pages only
}

// A Row is a row of a table.
type Row struct {
	Cells []Cell // as many as there are columns, or fewer
	Group bool   // the first cell is the title of the rows below it
	Best  bool   // the row that is recommended: an arrow points to it
	Total bool   // the sum of the rows above it
	Color Color  // of its key in the charts next to it
}

// A Cell is a text in a table.
type Cell struct {
	Text string
	Tone Tone
	More []string // further lines of the cell, for pages
}

// A Note is a sentence below a table.
type Note struct {
	Text   string
	Needs  []string // titles of the columns that it speaks of
	Narrow string   // what is left to say where one of these is not there; "": nothing
}

// Add adds a row of plain texts, and returns it so that tones and marks can be set.
func (t *Table) Add(texts ...string) *Row {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	t.Rows = append(t.Rows, Row{Cells: cells})
	return &t.Rows[len(t.Rows)-1]
}
