package workload

// Made says what the manifest of a workload was rendered from. Its places are places in the rendered text, which isn't a file.
type Made struct {
	Chart         string // the directory or the file of a Helm chart, or ""
	Kustomization string // the directory of a kustomization, or ""
	File          string // the template, or the resource of the kustomization; "": that is not known
	Lines         []Line // of that file, for each line of what was made
}

// String is what makes it: "the chart shop", "the kustomization overlays/prod".
func (m *Made) String() string {
	if m.Chart != "" {
		return "the chart " + m.Chart
	}
	return "the kustomization " + m.Kustomization
}

// A Line is a line of a file, and where its text begins. The zero value is one that is not known.
type Line struct {
	Number, Column int
	Indent         int // where the same text begins in what was made; 0: it does not have the same
}

// Place is a place in the file that it was made of: the line, if it is known which one that is.
func (m *Made) Place(p Position) Position {
	if m == nil || p.Line == 0 {
		return p
	}
	p.Offset, p.End = 0, 0
	var l Line
	if p.Line <= len(m.Lines) {
		l = m.Lines[p.Line-1]
	}
	column := l.Column
	if l.Indent > 0 {
		column = max(1, column+p.Column-l.Indent)
	}
	p.Line, p.Column, p.EndLine = l.Number, column, l.Number
	return p
}
