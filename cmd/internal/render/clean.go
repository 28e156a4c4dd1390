package render

import (
	"math"
	"reflect"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// printableSheet returns a copy that is safe to show: its texts are printable, for names of processes, URLs and errors come
// from outside, and its numbers are numbers.
func printableSheet(s *sheet.Sheet) *sheet.Sheet {
	c := *s
	c.Document = nil
	c = clean(reflect.ValueOf(c)).Interface().(sheet.Sheet)
	c.Document = s.Document
	return &c
}

// greatest is beyond what anything measures; such a number would only make others infinite.
const greatest = 1e15

// clean copies a value. A number that is none, or beyond all measure, is 0.
func clean(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(printable(v.String()))
	case reflect.Float64:
		if f := v.Float(); !(math.Abs(f) <= greatest) { // NaN is not
			out.SetFloat(0)
		}
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
