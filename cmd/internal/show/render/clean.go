package render

import (
	"reflect"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// printableSheet returns a copy that is safe to show: its texts are printable, for names of processes, URLs and errors come
// from outside.
func printableSheet(s *sheet.Sheet) *sheet.Sheet {
	c := *s
	c.Document = nil
	c = clean(reflect.ValueOf(c)).Interface().(sheet.Sheet)
	c.Document = s.Document
	return &c
}

// clean copies a value. Numbers stay unchanged: package chart draws none that can't be drawn.
func clean(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(plain.Line(v.String()))
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			out.Index(i).Set(clean(v.Index(i)))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(clean(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(clean(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(clean(v.Field(i)))
			}
		}
	}
	return out
}
