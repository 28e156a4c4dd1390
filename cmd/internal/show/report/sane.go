package report

import (
	"math"
	"reflect"
)

// greatest is beyond anything that is measured; a larger number would only make others infinite.
const greatest = 1e15

// Sane copies a document. Numbers in it that nothing measures become 0, and are left out of maps: unthrottle does not write
// them, but a file may hold them.
func Sane[D any](d *D) *D { return sane(reflect.ValueOf(d)).Interface().(*D) }

func sane(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Float64:
		if measurable(v) {
			out.SetFloat(v.Float())
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			out.Index(i).Set(sane(v.Index(i)))
		}
	case reflect.Array:
		for i := range v.Len() {
			out.Index(i).Set(sane(v.Index(i)))
		}
	case reflect.Map:
		if v.IsNil() {
			break
		}
		out.Set(reflect.MakeMap(v.Type()))
		for _, key := range v.MapKeys() {
			if e := v.MapIndex(key); measurable(e) {
				out.SetMapIndex(key, sane(e))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(sane(v.Elem()))
		}
	case reflect.Struct:
		out.Set(v) // with the fields that are not exported, such as those of a time
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(sane(v.Field(i)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

// measurable reports whether a value is anything but a number, or a number that can be measured.
func measurable(v reflect.Value) bool {
	return v.Kind() != reflect.Float64 || math.Abs(v.Float()) <= greatest // NaN is not
}
