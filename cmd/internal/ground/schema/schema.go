// Package schema answers: what does a JSON document look like? In goes the type that it is written from, and what each name means;
// out comes its JSON Schema. Nothing is said twice: the types are those that the verbs write.
package schema

import (
	"encoding"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Schema is one, or a part of one.
type Schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // one, or a list of them
	Format      string             `json:"format,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	Values      *Schema            `json:"additionalProperties,omitempty"` // of a map, whose names may be any
}

// Of is the schema of a document, with what the names in it mean. Fields may be added to a document: it may have others, too.
func Of(document any, title string, meanings map[string]string) *Schema {
	t := reflect.TypeOf(document)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := of(t, meanings)
	s.Dialect, s.Title = "https://json-schema.org/draft/2020-12/schema", title
	return s
}

// Meanings are those from lists of names, where each line is "name: meaning". What a later list says about a name comes first.
func Meanings(lists ...string) map[string]string {
	meanings := map[string]string{}
	for _, list := range lists {
		for _, line := range strings.Split(list, "\n") {
			if name, meaning, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(name, "#") {
				meanings[name] = meaning
			}
		}
	}
	return meanings
}

// Write writes it for people and programs.
func (s *Schema) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

func of(t reflect.Type, meanings map[string]string, above ...reflect.Type) *Schema {
	if t.Kind() == reflect.Pointer {
		s := of(t.Elem(), meanings, above...)
		return s.orNull()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &Schema{Type: "string", Format: "date-time"}
	case t.Implements(reflect.TypeFor[json.Marshaler]()) && t.Kind() == reflect.Int64: // a time, in seconds
		return &Schema{Type: "number"}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return &Schema{Type: "string"}
	case slices.Contains(above, t):
		return &Schema{Type: "object"}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		s := &Schema{Type: "array", Items: of(t.Elem(), meanings, above...)}
		if t.Kind() == reflect.Slice {
			s.orNull()
		}
		return s
	case reflect.Map:
		s := &Schema{Type: "object", Values: of(t.Elem(), meanings, above...)}
		return s.orNull()
	case reflect.Struct:
		s := &Schema{Type: "object", Properties: map[string]*Schema{}}
		s.add(t, meanings, append(above, t))
		slices.Sort(s.Required)
		return s
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number"}
	case reflect.Interface:
		return &Schema{}
	}
	return &Schema{Type: "integer"}
}

// orNull lets it be null, too: for what is not known or not there.
func (s *Schema) orNull() *Schema {
	if one, ok := s.Type.(string); ok {
		s.Type = []string{one, "null"}
	}
	return s
}

// add adds the fields of a struct, and of those that are embedded in it.
func (s *Schema) add(t reflect.Type, meanings map[string]string, above []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.add(f.Type, meanings, above)
			continue
		case name == "-" || !f.IsExported():
			continue
		}
		field := of(f.Type, meanings, above...)
		field.Description = meanings[name]
		s.Properties[name] = field
		if !strings.Contains(options, "omit") {
			s.Required = append(s.Required, name)
		}
	}
}
