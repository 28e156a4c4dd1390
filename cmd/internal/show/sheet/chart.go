package sheet

import "github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"

// A Chart is a drawing as data: where things are, in the units of its axes, and what they are called. Package chart draws
// it as SVG and, where that can be read, as characters.
type Chart interface {
	Block
	Empty() bool // there is nothing to be drawn
}

// Figure is what all charts have.
type Figure struct {
	Title  string   // above it; "": that of its section is enough
	About  string   // all of it in words, for readers who don't see it
	Legend []string // sentences below it
	Keys   []Key    // what shapes mean
}

// A Key explains a shape, or a colour.
type Key struct {
	Shape Shape
	Open  bool
	Color Color
	Text  string
}

// A Color distinguishes series: the same one is the same thing in all charts and tables of a sheet. 1 is the base of all comparisons, such
// as the current setting.
type Color int

const (
	NoColor    Color = 0   // that of text
	BaseColor  Color = 1   // what the others are compared with
	BadColor   Color = -1  // what should not be
	GoodColor  Color = -2  // what is better than it was
	FirstFlame Color = 100 // the colours of a flame graph's classes, which are many and pale
)

// How many colours there are; then they begin again.
const (
	Colors      = 8
	FlameColors = 15
)

// A Shape is what represents a value.
type Shape int

const (
	Dot      Shape = iota
	Diamond        // far from the others, or it missed
	Triangle       // there is a remark about it
)

// A Stroke is the manner of a line.
type Stroke int

const (
	Solid Stroke = iota
	Dotted
	Dashed
	NoStroke // points only
)

// An Axis is a direction of a chart.
type Axis struct {
	Title string
	Unit  quantity.Unit
	Scale Scale
	High  float64   // it is from 0 to here; 0: as the values need it
	Ticks []float64 // that matter; nil: round values
}

// A Scale is how values are spread on an axis.
type Scale int

const (
	Fitting     Scale = iota // linear, from 0 where that costs little room; logarithmic where the values need it
	Linear                   // linear between its ends
	Percentiles              // values are percentiles from 0 to 100: from each nine to the next it is equally far
	Changes                  // values are ratios, logarithmic, with ticks at round changes
)

// Rows is a chart of rows on one axis: an interval and its middle, and a mark for each run.
type Rows struct {
	Figure
	Factor string // what the rows are values of: above their names
	X      Axis
	Rules  []Rule // down through all rows
	Rows   []Series
	Joined bool   // thin lines join marks that have the same thread
	Side   string // what the bars at the side are; "": no bars
}

// A Band is a part of an axis that is shaded.
type Band struct{ From, To float64 }

// A Rule is a line at a value.
type Rule struct {
	At    float64
	Text  string
	Color Color
}

// A Series is a row of a chart.
type Series struct {
	Label
	Middle, Low, High *float64 // nil: not known
	MiddleText        string   // written above the middle
	RangeText         string   // after it, where there is room
	Band              *Band    // nil: none
	Marks             []Mark
	Empty             string // is written if there are no values
	Share             *float64
	ShareText         string // of the bar at the side
}

// A Label is what is next to a row.
type Label struct {
	Name  string
	Tag   string // such as best
	Lines []Cell
	Color Color
}

// A Mark is a value.
type Mark struct {
	At     float64
	Place  float64 // how far down its row, from 0 to 1
	Thread int     // 0: none
	Shape  Shape
	Open   bool
	Title  string
}

// A Field is a chart with two axes.
type Field struct {
	Figure
	X, Y   Axis
	Chance *float64 // from there on X is shaded: too few values are beyond it
	Lines  []Line   // the first is on top
	Rules  []Rule   // across, at a value of Y
	Posts  []Rule   // up, at a value of X
	Limits []Limit
}

// A Line is points that are joined, or not.
type Line struct {
	Name   string // at its end; "": none
	Short  string // in place of the name where there is little room; what it means is for the legend to say
	Tag    string // after the name, where there is room
	Stroke Stroke
	Color  Color
	Points []Point
}

// A Point is a value of a Field.
type Point struct {
	X, Y  float64
	Shape Shape
	Show  Show
	Open  bool
	Color Color  // 0: the line's
	Name  string // next to it, kept apart from other names
	Text  string // above it: its value
	Title string
}

// A Show is how much is seen of a point.
type Show int

const (
	Hidden Show = iota // the line goes through it
	Small
	Large
	Background
)

// A Limit is a point below which a line must pass.
type Limit struct {
	X, Y float64
	Text string
}

// Strips is rows of something over time, all on one axis.
type Strips struct {
	Figure
	Factor string
	X      Axis
	Each   float64 // a mark each, such as a period; 0: round ticks
	Rows   []Strip
}

// A Strip is one thing over time.
type Strip struct {
	Label
	Y     Axis
	Lanes []Lane
	Rule  *Rule  // across, at a value of Y
	End   string // what a terminal writes behind it
	Page  bool   // a terminal does without it
}

// A Lane is steps of one kind.
type Lane struct {
	Kind  LaneKind
	Title string
	Steps []Step
}

// A LaneKind is how the steps of a lane are drawn. All but Shaded, whose lanes are below each other, share the strip.
type LaneKind int

const (
	Filled LaneKind = iota // from the ground up to the value
	Drawn                  // a line at the value
	Shaded                 // a line of its own: the higher the value, from 0 to 1, the darker
	Ran                    // on where the step is, and off elsewhere
)

// A Step is a time and a value.
type Step struct {
	From, To, Value float64
	Title           string
}

// A Fold is time cut into periods, which lie below each other: what has their rhythm forms a column.
type Fold struct {
	Figure
	Wall, Period, Phase float64 // seconds; the phase is when the first whole period begins
	Refill              bool    // a period begins when a quota is refilled
	Second              float64 // seconds from there until a second quota is refilled; 0: none
	Was                 string  // what it was in the spans: frozen
	Spans               []Span
	Seconds             bool // a terminal shows a row a second, in time, and not periods on top of each other
}

// A Span is a piece of time, in seconds.
type Span struct{ From, To float64 }

// A Flame is stacks of functions, as wide as their cost.
type Flame struct {
	Figure
	Frames  []Frame
	Classes []Class
}

// A Frame is a function on a stack.
type Frame struct {
	Depth       int     // from 1 on
	From, Width float64 // shares of the whole
	Name, Title string
	Class       string // of a Class
	Marked      bool
}

// A Class is a kind of frames, with a colour of its own.
type Class struct {
	Name, Text string
	Color      Color // FirstFlame and on
	Marked     bool
}

func (*Rows) block()   {}
func (*Field) block()  {}
func (*Strips) block() {}
func (*Fold) block()   {}
func (*Flame) block()  {}

// Empty reports whether there is nothing to be drawn.
func (c *Rows) Empty() bool { return c == nil || len(c.Rows) == 0 }

// Empty reports whether there is nothing to be drawn.
func (c *Field) Empty() bool { return c == nil || len(c.Lines) == 0 }

// Empty reports whether there is nothing to be drawn.
func (c *Strips) Empty() bool { return c == nil || len(c.Rows) == 0 }

// Empty reports whether there is nothing to be drawn.
func (c *Fold) Empty() bool {
	return c == nil || !(c.Wall > 0 && c.Wall < 1e9) || !(c.Period > 0 && c.Period < 1e9) || c.Wall/c.Period > 1e6
}

// Empty reports whether there is nothing to be drawn.
func (c *Flame) Empty() bool { return c == nil || len(c.Frames) == 0 }
