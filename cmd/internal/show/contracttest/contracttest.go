// Package contracttest holds the JSON documents of a command to what is written of them: their outline, and one meaning for each
// name. It is for tests only.
package contracttest

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Format is the file that describes the documents, from a folder of a package in cmd/internal.
const Format = "../../../../docs/report-format.md"

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

// names collects the fields' names, with what they are in.
func names(fields []field, in string, found map[string]string) {
	for _, f := range fields {
		if found[f.name] == "" {
			found[f.name] = in + "." + f.name
		}
		names(f.fields, in+"."+f.name, found)
	}
}

// Names are those of all fields of documents, each with a place where it stands.
func Names(documents []any) map[string]string {
	found := map[string]string{}
	for _, d := range documents {
		t := reflect.TypeOf(d)
		names(fieldsOf(t), strings.ToLower(t.Name()), found)
	}
	return found
}

// Section is the text of the file from a head to the next one of its kind, and where it stands.
func Section(t *testing.T, file, head string) (data []byte, begin, end int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head = "\n## " + head + "\n"
	begin = strings.Index(string(data), head)
	if begin < 0 {
		t.Fatalf("%s has no section %q", file, strings.TrimSpace(head))
	}
	begin += len(head)
	if end = strings.Index(string(data[begin:]), "\n## "); end < 0 {
		return data, begin, len(data)
	}
	return data, begin, begin + end + 1
}

// Meanings are how often each name has one in the table of a section.
func Meanings(t *testing.T, file, head string) map[string]int {
	t.Helper()
	data, begin, end := Section(t, file, head)
	documented := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(string(data[begin:end]), -1) {
		documented[m[1]]++
	}
	return documented
}

// Outline holds the outline of documents in a section to their types, or writes it.
func Outline(t *testing.T, documents []any, file, head string, update bool) {
	t.Helper()
	var b strings.Builder
	for _, d := range documents {
		typ := reflect.TypeOf(d)
		b.WriteString("\n### " + strings.ToLower(typ.Name()) + "\n\n")
		outline(&b, fieldsOf(typ), "    ")
	}
	b.WriteByte('\n')
	data, begin, end := Section(t, file, head)
	if string(data[begin:end]) == b.String() {
		return
	}
	if !update {
		t.Fatalf("the outline in %s is not that of the documents; -update writes it", file)
	}
	if err := os.WriteFile(file, []byte(string(data[:begin])+b.String()+string(data[end:])), 0o644); err != nil {
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
