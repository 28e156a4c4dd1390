package render

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

func TestPaint(t *testing.T) {
	if got := (Style{}).Paint(sheet.Bad, "x"); got != "x" {
		t.Errorf("without colour %q", got)
	}
	if got := (Style{Color: true}).Paint(sheet.Bad, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("with colour %q", got)
	}
	if got := (Style{Color: true}).Paint(sheet.Bad, ""); got != "" {
		t.Errorf("nothing painted: %q", got)
	}
}

func TestWrap(t *testing.T) {
	tests := []struct {
		width, indent int
		text, want    string
	}{
		{0, 4, "any length goes", "any length goes"},
		{30, 4, "one two three four five six seven", "one two three four five\n    six seven"},
		{30, 20, "no room to speak of is left here", "no room to speak of is left here"},
		{24, 2, "averyveryverylongwordindeed that can't be broken", "averyveryverylongwordindeed\n  that can't be broken"},
		{26, 4, "\x1b[1mbold\x1b[0m words take no room for codes", "\x1b[1mbold\x1b[0m words take no\n    room for codes"},
	}
	for _, tt := range tests {
		if got := (Style{Width: tt.width}).wrap(tt.text, tt.indent); got != tt.want {
			t.Errorf("wrap(%q) at %d: got %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

// wide is a table with a column of each kind.
func wide() *sheet.Table {
	return &sheet.Table{
		Columns: []sheet.Column{
			{Title: "name", Left: true, Cut: true},
			{Title: "p99"},
			{Title: "interval", Rank: 2, With: "CPU"},
			{Title: "CPU time", Short: "CPU", Rank: 3},
			{Title: "empty", Rank: 1},
			{Title: "why", Left: true, Wrap: true, Rank: 1},
			{Title: "below", Under: true},
			{Title: "page", Detail: true},
		},
		Rows: []sheet.Row{
			{Group: true, Cells: []sheet.Cell{{Text: "the first ones"}}},
			{Best: true, Cells: []sheet.Cell{{Text: "a rather long name"}, {Text: "5.60 ms"}, {Text: "4 to 7 ms"}, {Text: "1.2 s"}, {}, {Text: "it is the best of all that were tried"}, {Text: "a line of its own"}, {Text: "x"}}},
			{Total: true, Cells: []sheet.Cell{{Text: "all"}, {Text: "12 ms", Tone: sheet.Bad}}},
		},
		Notes:  []sheet.Note{{Text: "Intervals and CPU are shown.", Needs: []string{"interval", "CPU time"}, Narrow: "Intervals are left out."}, {Text: "Always."}},
		Beside: sheet.Facts{{Name: "p99", Texts: []string{"how long one of a hundred waits"}}},
	}
}

func TestTable(t *testing.T) {
	for _, width := range []int{120, 60, 34} {
		var b strings.Builder
		s := &sheet.Sheet{Sections: []sheet.Section{{Quiet: true, Blocks: []sheet.Block{wide()}}}}
		if err := Text(&b, s, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("table.%d", width), b.String())
	}
}

// TestShortTitles: where they are enough no column goes, and they stay where one has gone.
func TestShortTitles(t *testing.T) {
	table := &sheet.Table{
		Columns: []sheet.Column{{Title: "n"}, {Title: "GOMAXPROCS=1", Short: "with 1"}, {Title: "GOMAXPROCS=2", Short: "with 2"}, {Title: "memory", Rank: 1}},
		Rows:    []sheet.Row{{Cells: []sheet.Cell{{Text: "1"}, {Text: "2"}, {Text: "3"}, {Text: "4"}}}},
	}
	for room, want := range map[int]string{37: "n GOMAXPROCS=1 GOMAXPROCS=2 memory", 36: "n with 1 with 2 memory", 25: "n with 1 with 2 memory", 24: "n with 1 with 2"} {
		g := fit(table, room, func(sheet.Column) bool { return true })
		if got := strings.Join(g.titles, " "); got != want || g.width() > room {
			t.Errorf("in %d columns: %s, %d wide; want %s", room, got, g.width(), want)
		}
	}
}

// TestLowered: what would take the room of a name goes below the rows, and next to them where there is room for both.
func TestLowered(t *testing.T) {
	s := &sheet.Sheet{Sections: []sheet.Section{{Quiet: true, Blocks: []sheet.Block{&sheet.Table{
		Columns: []sheet.Column{{Title: "rule", Left: true, Cut: true}, {Title: "n"}, {Left: true, Wrap: true, Under: true}, {Title: "fix", Left: true, Under: true}},
		Rows: []sheet.Row{
			{Cells: []sheet.Cell{{Text: "a rather long name"}, {Text: "4"}, {Text: "what is wrong with it, in many words"}, {Text: "another"}}},
			{Cells: []sheet.Cell{{Text: "short"}, {Text: "16"}}},
		},
	}}}}}
	for width, want := range map[int]string{
		50: `
  rule                 n
  a rather long name   4  what is wrong with it,
                          in many words
                          fix: another
  short               16
`,
		40: `
  rule                 n
  a rather long name   4
      what is wrong with it, in many
      words
      fix: another
  short               16
`,
	} {
		var b strings.Builder
		if err := Text(&b, s, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + b.String(); got != want {
			t.Errorf("in %d columns:%s", width, got)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 5, "short"},
		{"a program with a very long name", 16, "a program with…"},
		{"docker-0123456789abcdef.scope", 21, "docker-012…cdef.scope"},
		{"  └ docker-0123456789…cdef0123456789.scope", 25, "  └ docker-012…6789.scope"},
		{"two longest-of-all-words", 8, "two lon…"},
	} {
		if got := cut(tt.text, tt.width); got != tt.want {
			t.Errorf("%q in %d: got %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

// everything is a sheet with a block of each kind.
func everything() *sheet.Sheet {
	return &sheet.Sheet{
		Verb: "load", Subject: "GET http://localhost/", Heading: true, Resume: "unthrottle load --resume", Command: "unthrottle load x", Again: []string{"The seed is 7."},
		Claims:   []sheet.Claim{{Word: "SLO held", Tone: sheet.Good, Text: "p99 ≤ 50 ms", More: []string{"It was 5.6 ms."}, Of: "main", Anchor: "main"}},
		Warnings: []string{"a <warning>"}, Document: map[string]int{"version": 1},
		Sections: []sheet.Section{
			{Title: "Main", Anchor: "main", About: "what it is", Blocks: []sheet.Block{wide(), sheet.Lines{Tone: sheet.Soft, Texts: []string{"A sentence."}}}},
			{Title: "Facts", Quiet: true, Blocks: []sheet.Block{sheet.Facts{{Name: "limit", Key: "0.5 CPUs", Tone: sheet.Strong, Texts: []string{", set by its own cgroup", "and more"}, Table: wide()}}}},
			{Title: "More", Detail: true, Blocks: []sheet.Block{sheet.Listed{"one", "two"}}},
			{Title: "Others", Folded: true, Badge: sheet.Claim{Word: "keep", Tone: sheet.Good}, Blocks: []sheet.Block{sheet.Listed{"three"}, sheet.Detail{Block: sheet.Listed{"for pages only"}}}},
			{Title: "Wrong", Blocks: []sheet.Block{sheet.Findings{{Rule: "throttled", Verdict: "throttled", Severity: finding.Critical, Summary: "It stands still.", Evidence: []string{"9 of 10 periods"}, Fix: "raise the limit"}}}},
			{Title: "Next", Blocks: []sheet.Block{sheet.Commands{{About: "To see more:", Lines: []string{"unthrottle ps", "unthrottle watch"}}}}},
		},
	}
}

func TestForms(t *testing.T) {
	for name, write := range map[string]func(*strings.Builder) error{
		"everything.txt":   func(b *strings.Builder) error { return Text(b, everything(), Style{Width: 80}) },
		"everything.color": func(b *strings.Builder) error { return Text(b, everything(), Style{Width: 80, Color: true}) },
		"everything.md":    func(b *strings.Builder) error { return Markdown(b, everything()) },
		"everything.html":  func(b *strings.Builder) error { return HTML(b, everything()) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		got := strings.Replace(b.String(), pageCSS, "", 1)
		golden(t, name, got)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s: %v; -update writes it. Got:\n%s", path, err, got)
	}
}

var update = flag.Bool("update", false, "write what was drawn into the golden files")
