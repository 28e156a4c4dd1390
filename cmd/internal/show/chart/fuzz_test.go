package chart

import (
	"math"
	"reflect"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A source makes charts of bytes.
type source struct{ rest []byte }

func (s *source) next(below int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := int(s.rest[0])
	s.rest = s.rest[1:]
	return b % below
}

var (
	strangeFloats = []float64{
		0, 1, 0.5, 99, 100, 0.001, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-9, 1e15, 99.9999,
		0.1, 1e-200, 1e200, math.Copysign(0, -1),
	}
	strangeInts  = []int{0, 1, 2, 3, 7, 64, 100, 114, -1, -2, 1000, math.MaxInt, math.MinInt}
	strangeTexts = []string{"", "p99", "a long name of several words", `<x a="b">&amp;'`, "−12 %", "100 ms", "é日本", "averyveryverylongnamewithoutanyspace"}
	units        = []quantity.Unit{quantity.Bare, quantity.Second, quantity.Byte, quantity.Percent, quantity.Of1, quantity.Rate, quantity.CPU, quantity.Ratio}
)

// fill fills a value from the bytes.
func (s *source) fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[quantity.Unit]() {
		v.Set(reflect.ValueOf(units[s.next(len(units))]))
		return
	}
	switch v.Kind() {
	case reflect.Float64:
		f := strangeFloats[s.next(len(strangeFloats))]
		if s.next(3) == 0 {
			f *= float64(s.next(256))
		}
		v.SetFloat(f)
	case reflect.Int:
		if v.Type() == reflect.TypeFor[int]() || s.next(8) == 0 {
			v.SetInt(int64(strangeInts[s.next(len(strangeInts))]))
		} else {
			v.SetInt(int64(s.next(6)))
		}
	case reflect.String:
		v.SetString(strangeTexts[s.next(len(strangeTexts))])
	case reflect.Bool:
		v.SetBool(s.next(2) == 1)
	case reflect.Pointer:
		if s.next(2) == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			s.fill(v.Elem())
		}
	case reflect.Slice:
		n := s.next(6)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			s.fill(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			s.fill(v.Field(i))
		}
	}
}

func FuzzChart(f *testing.F) {
	r := random(7)
	for range 40 {
		data := make([]byte, 1+r.IntN(600))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data}
		c := []sheet.Chart{&sheet.Rows{}, &sheet.Field{}, &sheet.Strips{}, &sheet.Fold{}, &sheet.Flame{}}[s.next(5)]
		s.fill(reflect.ValueOf(c).Elem())
		wellFormed(t, drawn(t, c))
		width := 1 + s.next(140)
		fits(t, Text(c, width, func(_ sheet.Tone, text string) string { return text }), width)
	})
}
