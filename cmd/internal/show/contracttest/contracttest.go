// Package contracttest holds the JSON documents of a command to their lists of names, which give each one meaning, and to their schemas. It is
// for tests only.
package contracttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/schema"
)

// Names holds every name in documents to one meaning: that in their own list, or else in the other documents' list. Every name with a
// meaning must be in a document.
func Names(t *testing.T, documents []any, own, others string) {
	t.Helper()
	meanings, already := count(own), count(others)
	found := map[string]string{}
	for _, d := range documents {
		typ := reflect.Indirect(reflect.ValueOf(d)).Type()
		names(fieldsOf(typ), strings.ToLower(typ.Name()), found)
	}
	listed := slices.Sorted(maps.Keys(meanings))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		where := found[name]
		if meanings[name] > 1 {
			t.Errorf("%s (%s) has %d meanings in names.txt", name, where, meanings[name])
		} else if meanings[name] == 0 && already[name] != 1 {
			at, _ := slices.BinarySearch(listed, name)
			listed = slices.Insert(listed, at, name)
			t.Errorf("%s has no meaning: line %d of names.txt must be\n%s: WHAT IT MEANS", where, at+2, name)
		}
		for _, unit := range []string{"_ns", "_us", "_ms", "_millis", "_micros", "_percent", "_pct", "_kib", "_mib"} {
			if strings.HasSuffix(name, unit) {
				t.Errorf("%s: times are in seconds, shares of 1, sizes in bytes", where)
			}
		}
	}
	for name := range meanings {
		if found[name] == "" {
			t.Errorf("%s is in names.txt and in no document", name)
		}
	}
}

// count is how many meanings a list has for each name. Its first line is about the list.
func count(list string) map[string]int {
	n := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(list), "\n")[1:] {
		name, _, _ := strings.Cut(line, ": ")
		n[name]++
	}
	return n
}

// A field is one of a document's JSON.
type field struct {
	name   string
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
			fields = append(fields, field{name, inner})
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

// Violations are where a value is not what its schema says.
func Violations(s *schema.Schema, v any, at string) (bad []string) {
	is := ""
	switch v := v.(type) {
	case nil:
		is = "null"
	case bool:
		is = "boolean"
	case string:
		is = "string"
	case float64:
		if is = "number"; v == math.Trunc(v) && may(s, "integer") {
			is = "integer"
		}
	case []any:
		is = "array"
		if s.Items != nil {
			for i, item := range v {
				bad = append(bad, Violations(s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case map[string]any:
		is = "object"
		for _, name := range s.Required {
			if _, has := v[name]; !has {
				bad = append(bad, at+" lacks "+name)
			}
		}
		for name, value := range v {
			if of := cmp.Or(s.Properties[name], s.Values); of != nil {
				bad = append(bad, Violations(of, value, at+"."+name)...)
			} else if s.Properties != nil {
				bad = append(bad, at+"."+name+" is not in the schema")
			}
		}
	}
	if s.Type != nil && !may(s, is) {
		bad = append(bad, fmt.Sprintf("%s is %s, and not %v", at, is, s.Type))
	}
	return bad
}

// may reports whether a value may be of a type.
func may(s *schema.Schema, is string) bool {
	switch t := s.Type.(type) {
	case string:
		return t == is
	case []string:
		return slices.Contains(t, is)
	}
	return true
}
