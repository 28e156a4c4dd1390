package report

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents are all that the verbs write.
var documents = []any{Explain{}, Ps{}, Run{}, Bench{}, Load{}, Tune{}, Profile{}, Trace{}, Watch{}}

// A field is one of a document's JSON.
type field struct {
	name   string
	list   bool
	fields []field
}

// fieldsOf lists what of a type becomes JSON.
func fieldsOf(t reflect.Type, above ...reflect.Type) (fields []field) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(above, t) || t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := fieldsOf(f.Type, append(above, t)...)
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			fields = append(fields, inner...)
		default:
			fields = append(fields, field{name, f.Type.Kind() == reflect.Slice, inner})
		}
	}
	return fields
}

const formatFile = "../../../docs/report-format.md"

// names collects the fields' names, with what they are in.
func names(fields []field, in string, found map[string]string) {
	for _, f := range fields {
		if found[f.name] == "" {
			found[f.name] = in + "." + f.name
		}
		names(f.fields, in+"."+f.name, found)
	}
}

func allNames() map[string]string {
	found := map[string]string{}
	for _, d := range documents {
		t := reflect.TypeOf(d)
		names(fieldsOf(t), strings.ToLower(t.Name()), found)
	}
	return found
}

// TestNames holds every field of every document to one meaning: that in docs/report-format.md.
func TestNames(t *testing.T) {
	data, err := os.ReadFile(formatFile)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "\n## Names\n")
	documented := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(table, -1) {
		documented[m[1]]++
	}
	found := allNames()
	for name, where := range found {
		if documented[name] != 1 {
			t.Errorf("%s (%s) has %d meanings in docs/report-format.md", name, where, documented[name])
		}
	}
	for name := range documented {
		if found[name] == "" {
			t.Errorf("%s is in docs/report-format.md and in no document", name)
		}
	}
}

// TestUnits holds that no time is in another unit than seconds, and no share of another whole than 1.
func TestUnits(t *testing.T) {
	for name, where := range allNames() {
		for _, unit := range []string{"_ns", "_us", "_ms", "_millis", "_micros", "_percent", "_pct", "_kib", "_mib"} {
			if strings.HasSuffix(name, unit) {
				t.Errorf("%s: times are in seconds, shares of 1, sizes in bytes", where)
			}
		}
	}
}

// TestOutline holds the outline of the documents in docs/report-format.md to their types.
func TestOutline(t *testing.T) {
	data, err := os.ReadFile(formatFile)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range documents {
		typ := reflect.TypeOf(d)
		b.WriteString("\n### " + strings.ToLower(typ.Name()) + "\n\n")
		outline(&b, fieldsOf(typ), "    ")
	}
	b.WriteByte('\n')
	const head = "\n## Documents\n"
	begin := strings.Index(string(data), head) + len(head)
	end := strings.Index(string(data), "## Names\n")
	if begin < 100 || end < begin {
		t.Fatal("docs/report-format.md has no place for the outline")
	}
	if string(data[begin:end]) == b.String() {
		return
	}
	if !*update {
		t.Fatal("the outline in docs/report-format.md is not that of the documents; -update writes it")
	}
	if err := os.WriteFile(formatFile, []byte(string(data[:begin])+b.String()+string(data[end:])), 0o644); err != nil {
		t.Fatal(err)
	}
}

// outline writes plain fields on lines of their own, and below them those that have fields.
func outline(b *strings.Builder, fields []field, indent string) {
	const width = 118
	line := ""
	flush := func() {
		if line != "" {
			b.WriteString(indent + line + "\n")
		}
		line = ""
	}
	for _, f := range fields {
		if len(f.fields) > 0 {
			continue
		}
		name := f.title()
		if line != "" && len(indent)+len(line)+2+len(name) > width {
			line += ","
			flush()
		}
		if line != "" {
			line += ", "
		}
		line += name
	}
	flush()
	for _, f := range fields {
		if len(f.fields) > 0 {
			b.WriteString(indent + f.title() + ":\n")
			outline(b, f.fields, indent+"  ")
		}
	}
}

func (f field) title() string {
	if f.list {
		return f.name + "[]"
	}
	return f.name
}
