package view

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

var update = flag.Bool("update", false, "write what was made into the golden files")

// golden compares a sheet with what it should say: all of it, with neither widths nor markup.
func golden(t *testing.T, name string, s *sheet.Sheet) {
	t.Helper()
	headlines(t, s)
	var b bytes.Buffer
	c := *s
	c.Document = nil
	dump(&b, reflect.ValueOf(c), "")
	path := filepath.Join("testdata", fileName(name)+".sheet")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s is not what it was; -update writes it.\n%s", path, b.String())
	}
}

// headlines fails for an answer that is too long to be read at a glance, and for a missing one. What it is about may have any name.
func headlines(t *testing.T, s *sheet.Sheet) {
	t.Helper()
	if len(s.Claims) == 0 {
		t.Error("there is no headline")
	}
	for _, c := range s.Claims {
		text := c.Text
		if s.Subject != "" {
			text = strings.ReplaceAll(text, s.Subject, "it")
		}
		if n := quantity.Words(text); n > report.HeadlineWords {
			t.Errorf("the headline has %d words: %q", n, c.Text)
		}
	}
}

// widths are how wide terminals are: a narrow one next to something else, the usual one, and a wide one.
var widths = []int{60, 80, 120}

// shown draws a sheet in all forms and widths: nothing that a terminal or a browser would take for its own gets through, no line but one to
// copy is wider than the screen, and words are whole. It returns the text of 80 columns.
func shown(t *testing.T, s *sheet.Sheet) (at80 string) {
	t.Helper()
	safe(t, drawn(t, s, 0))
	whole := wordsOf(t, s)
	for _, width := range widths {
		text := drawn(t, s, width)
		safe(t, text)
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > width && strings.Contains(strings.TrimSpace(line), " ") && !copied(s, line) {
				t.Errorf("at %d columns a line has %d: %q", width, n, line)
			}
		}
		for _, broken := range brokenWords(whole, text, width) {
			t.Errorf("at %d columns: %s", width, broken)
		}
	}
	at80 = drawn(t, s, 80)
	for _, c := range contradictions(drawn(t, s, 0)) {
		t.Errorf("it contradicts itself: %s", c)
	}
	var md, page bytes.Buffer
	if err := render.Markdown(&md, s); err != nil {
		t.Fatal(err)
	}
	safe(t, md.String())
	if err := render.HTML(&page, s); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, page.String())
	return at80
}

// copied reports whether a line is one of the sheet's commands, which are never broken.
func copied(s *sheet.Sheet, line string) bool {
	if strings.HasPrefix(line, "To go on: ") || strings.HasPrefix(line, "To repeat: ") {
		return true
	}
	for _, section := range s.Sections {
		for _, b := range section.Blocks {
			commands, _ := b.(sheet.Commands)
			for _, c := range commands {
				if slices.Contains(c.Lines, strings.TrimSpace(line)) {
					return true
				}
			}
		}
	}
	return false
}

func safe(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q gets through:\n%s", r, text)
			return
		}
	}
}

var scripts = regexp.MustCompile(`(?s)<script.*?</script>`)

// wellFormed reads a page as XML, which HTML need not be but ours is.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	page = scripts.ReplaceAllString(page, "") // which are not XML
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.Entity, d.AutoClose = true, xml.HTMLEntity, []string{"html", "body", "main"}
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil && strings.Contains(err.Error(), "unexpected EOF") {
			return
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			for _, r := range string(text) {
				if r != '\n' && r != '\u00a0' && r != '\t' && !unicode.IsPrint(r) {
					t.Fatalf("%q gets into the page", r)
				}
			}
		}
	}
}

// drawn is what a terminal of a width shows; 0 means lines of any length.
func drawn(t *testing.T, s *sheet.Sheet, width int) string {
	t.Helper()
	var b strings.Builder
	if err := render.Text(&b, s, render.Style{Width: width}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// screen compares what terminals of all widths show with a golden file.
func screen(t *testing.T, name string, s *sheet.Sheet) {
	t.Helper()
	path, text := filepath.Join("testdata", fileName(name)+".txt"), ""
	for _, width := range widths {
		text += fmt.Sprintf("::: %d columns\n%s", width, drawn(t, s, width))
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || text != string(want) {
		t.Errorf("%s: %v; -update writes it. Got:\n%s", path, err, text)
	}
}

func fileName(name string) string { return strings.NewReplacer(" ", "-", ",", "").Replace(name) }

func ptr[T any](v T) *T { return &v }

// dump writes what of a value is not zero, a line each.
func dump(b *bytes.Buffer, v reflect.Value, indent string) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		dump(b, v.Elem(), indent)
		return
	case reflect.Slice:
		if many(b, v, indent) {
			return
		}
		for i := range v.Len() {
			e := v.Index(i)
			for e.Kind() == reflect.Interface || e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			if line, ok := oneLine(e); ok {
				fmt.Fprintf(b, "%s- %s\n", indent, line)
				continue
			}
			name := ""
			if v.Type().Elem().Kind() == reflect.Interface {
				name = " " + e.Type().Name()
			}
			if name != "" {
				fmt.Fprintf(b, "%s-%s\n", indent, name)
				dump(b, e, indent+"  ")
				continue
			}
			var of bytes.Buffer
			dump(&of, e, indent+"  ")
			b.WriteString(strings.Replace(of.String(), indent+"  ", indent+"- ", 1))
		}
		return
	case reflect.Struct:
		if t, ok := v.Interface().(sheet.Table); ok {
			v = reflect.ValueOf(filled(t))
		}
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			if f.IsZero() || !v.Type().Field(i).IsExported() {
				continue
			}
			if line, ok := oneLine(f); ok {
				fmt.Fprintf(b, "%s%s: %s\n", indent, name, line)
				continue
			}
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			dump(b, f, indent+"  ")
		}
	}
}

// filled is a table without the columns that no one sees, as nothing is in them. So a new one is only in those golden files that have
// something to show in it.
func filled(t sheet.Table) sheet.Table {
	rows := slices.Clone(t.Rows)
	for i := range rows {
		rows[i].Cells = nil
	}
	var columns []sheet.Column
	for i, c := range t.Columns {
		if i > 0 && !c.Even && !slices.ContainsFunc(t.Rows, func(r sheet.Row) bool { return i < len(r.Cells) && r.Cells[i].Text != "" }) {
			continue
		}
		columns = append(columns, c)
		for k, r := range t.Rows {
			if i < len(r.Cells) {
				rows[k].Cells = append(rows[k].Cells, r.Cells[i])
			}
		}
	}
	t.Columns, t.Rows = columns, rows
	return t
}

// many writes values of a chart, of which there are many, as running text.
func many(b *bytes.Buffer, v reflect.Value, indent string) bool {
	switch v.Interface().(type) {
	case []sheet.Mark, []sheet.Point, []sheet.Step, []sheet.Frame, []sheet.Column, []sheet.Cell:
	default:
		return false
	}
	const width = 160
	line := indent
	for i := range v.Len() {
		text, _ := oneLine(v.Index(i))
		if len(line)+len(text) > width && line != indent {
			fmt.Fprintln(b, strings.TrimRight(line, " "))
			line = indent
		}
		line += "(" + text + ") "
	}
	fmt.Fprintln(b, strings.TrimRight(line, " "))
	return true
}

// oneLine writes plain values, and rows of a table.
func oneLine(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Pointer && v.Elem().Kind() != reflect.Struct {
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case sheet.Row:
		return rowLine(x), true
	case []sheet.Span: // of which there are many
		if len(x) == 0 {
			return "none", true
		}
		var sum float64
		for _, s := range x {
			sum += s.To - s.From
		}
		return fmt.Sprintf("%d of %.6g s in all, from %.6g to %.6g s", len(x), sum, x[0].From, x[len(x)-1].To), true
	case []sheet.Step: // of which there are many
		return joinedLines(v)
	case []sheet.Point:
		return joinedLines(v)
	case sheet.Fact:
		line := x.Name + ": "
		if x.Key != "" {
			line += fmt.Sprintf("{%d %s}", x.Tone, x.Key)
		}
		return line + strings.Join(x.Texts, " / "), x.Table == nil
	case sheet.Column, sheet.Mark, sheet.Point, sheet.Step, sheet.Span, sheet.Frame, sheet.Axis, sheet.Cell:
		var parts []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && v.Type().Field(i).IsExported() {
				parts = append(parts, fmt.Sprintf("%s:%v", v.Type().Field(i).Name, f.Interface()))
			}
		}
		return strings.Join(parts, " "), true
	}
	text := flat(v)
	return text, !strings.Contains(text, "\n") && len(text) < 150
}

// flat writes a value in one line, however long.
func flat(v reflect.Value) string {
	var parts []string
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return flat(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && v.Type().Field(i).IsExported() {
				parts = append(parts, v.Type().Field(i).Name+": "+flat(f))
			}
		}
		return strings.Join(parts, "; ")
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, flat(v.Index(i)))
		}
		return "[" + strings.Join(parts, " | ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// joinedLines writes plain values that are many, and have no texts, in one line.
func joinedLines(v reflect.Value) (string, bool) {
	var all []string
	for i := range v.Len() {
		line, _ := oneLine(v.Index(i))
		if strings.Contains(line, "Title:") {
			return "", false
		}
		all = append(all, line)
	}
	return strings.Join(all, ", "), true
}

func rowLine(r sheet.Row) string {
	var b strings.Builder
	for _, c := range r.Cells {
		b.WriteString("| " + c.Text)
		if c.Tone != sheet.Plain {
			fmt.Fprintf(&b, " {%d}", c.Tone)
		}
		for _, more := range c.More {
			b.WriteString(" / " + more)
		}
		b.WriteByte(' ')
	}
	for mark, is := range map[string]bool{"best": r.Best, "total": r.Total, "group": r.Group} {
		if is {
			b.WriteString("(" + mark + ")")
		}
	}
	return strings.TrimSpace(b.String())
}
