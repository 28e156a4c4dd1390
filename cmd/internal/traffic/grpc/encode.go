package grpc

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file makes messages of JSON, in the way that protocol buffers map the two.

// parse reads JSON values that follow each other.
func parse(data []byte) (values []any, err error) {
	const most = 1_000_000
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		var v any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values, nil
		case err != nil:
			return nil, fmt.Errorf("the message is not JSON: %w", err)
		case len(values) == most:
			return nil, fmt.Errorf("there are more than %d messages", most)
		}
		values = append(values, v)
	}
}

// encode makes a message of a value.
func (m *message) encode(v any, depth int) (to []byte, err error) {
	if depth > mostDepth {
		return nil, fmt.Errorf("%s: more than %d messages in each other", m.name, mostDepth)
	}
	if m.name == anyName {
		return m.schema.any(v, depth)
	}
	if special, ok := wellKnown[m.name]; ok {
		data, err := special(v, depth)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		return data, nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is an object, and not %s", m.name, told(v))
	}
	var elements []*element
	values := map[*element]any{}
	oneofs := map[int]string{}
	for name, value := range object {
		e := m.byName[name]
		switch {
		case e == nil:
			var names []string
			for _, e := range m.byName {
				if !slices.Contains(names, e.name) {
					names = append(names, e.name)
				}
			}
			return nil, fmt.Errorf("%s has no field %q%s", m.name, name, others("; it has ", names))
		case value == nil && e.of != ".google.protobuf.Value": // null is as good as nothing
			continue
		case values[e] != nil:
			return nil, fmt.Errorf("%s: %s is there twice", m.name, e.name)
		case e.oneof > 0 && oneofs[e.oneof] != "":
			return nil, fmt.Errorf("%s: of %s and %s there may be one", m.name, min(e.name, oneofs[e.oneof]), max(e.name, oneofs[e.oneof]))
		}
		oneofs[e.oneof] = e.name
		values[e] = value
		elements = append(elements, e)
	}
	slices.SortFunc(elements, func(a, b *element) int { return a.number - b.number })
	for _, e := range elements {
		if to, err = m.element(e, values[e], to, depth); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// element appends a field: one, all of a list, or those of a map.
func (m *message) element(e *element, v any, to []byte, depth int) ([]byte, error) {
	if !e.repeated {
		return m.one(e, v, to, depth)
	}
	if e.kind == kindMessage {
		if entry, err := m.schema.message(e.of); err == nil && entry.isMap {
			return entry.entries(e, v, to, depth)
		}
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s.%s is a list, and not %s", m.name, e.name, told(v))
	}
	var err error
	for _, v := range list {
		if v == nil {
			return nil, fmt.Errorf("%s.%s: a list has no null", m.name, e.name)
		}
		if to, err = m.one(e, v, to, depth); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// entries appends those of a map, in the order of their keys.
func (m *message) entries(e *element, v any, to []byte, depth int) ([]byte, error) {
	object, ok := v.(map[string]any)
	key, value := m.byName["key"], m.byName["value"]
	if !ok || key == nil || value == nil {
		return nil, fmt.Errorf("%s is a map, and not %s", e.name, told(v))
	}
	var names []string
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var of any = name
		if key.kind == kindBool {
			of = name == "true"
			if name != "true" && name != "false" {
				return nil, fmt.Errorf("%s: the key %q is neither true nor false", e.name, name)
			}
		}
		entry, err := m.one(key, of, nil, depth)
		if err == nil {
			entry, err = m.one(value, object[name], entry, depth)
		}
		if err != nil {
			return nil, err
		}
		to = appendBytes(to, e.number, entry)
	}
	return to, nil
}

// one appends a single value.
func (m *message) one(e *element, v any, to []byte, depth int) ([]byte, error) {
	if e.kind == kindMessage {
		inner, err := m.schema.message(e.of)
		if err != nil {
			return nil, err
		}
		data, err := inner.encode(v, depth+1)
		if err != nil {
			return nil, err
		}
		return appendBytes(to, e.number, data), nil
	}
	to, err := m.scalar(e, v, to)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", m.name, e.name, err)
	}
	return to, nil
}

// scalar appends what isn't a message.
func (m *message) scalar(e *element, v any, to []byte) ([]byte, error) {
	switch e.kind {
	case kindDouble, kindFloat:
		f, err := float(v)
		if err != nil {
			return nil, err
		}
		if e.kind == kindDouble {
			return appendDouble(to, e.number, f), nil
		}
		if single := float32(f); math.IsInf(float64(single), 0) && !math.IsInf(f, 0) {
			return nil, fmt.Errorf("%v is too large", f)
		}
		return binary.LittleEndian.AppendUint32(appendTag(to, e.number, wire32), math.Float32bits(float32(f))), nil
	case kindBool:
		b, ok := v.(bool)
		if !ok {
			return nil, fmt.Errorf("want true or false, got %s", told(v))
		}
		n := uint64(0)
		if b {
			n = 1
		}
		return appendVarint(to, e.number, n), nil
	case kindString:
		s, ok := v.(string)
		if !ok || !utf8.ValidString(s) {
			return nil, fmt.Errorf("want a string, got %s", told(v))
		}
		return appendBytes(to, e.number, []byte(s)), nil
	case kindBytes:
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("want a string in base64, got %s", told(v))
		}
		data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "="))
		if err != nil {
			return nil, fmt.Errorf("not base64: %w", err)
		}
		return appendBytes(to, e.number, data), nil
	case kindEnum:
		n, err := m.schema.enum(e.of, v)
		return appendVarint(to, e.number, uint64(n)), err
	}
	w, ok := wholes[e.kind]
	if !ok {
		return nil, fmt.Errorf("fields of kind %d are not known here", e.kind)
	}
	n, err := whole(v, w.low, w.high)
	if err != nil {
		return nil, err
	}
	switch w.wire {
	case wire32:
		return binary.LittleEndian.AppendUint32(appendTag(to, e.number, wire32), uint32(n)), nil
	case wire64:
		return binary.LittleEndian.AppendUint64(appendTag(to, e.number, wire64), n), nil
	}
	if e.kind == kindSint32 || e.kind == kindSint64 {
		n = n<<1 ^ uint64(int64(n)>>63)
	}
	return appendVarint(to, e.number, n), nil
}

// wholes are the kinds of whole numbers: their bounds, and what they are on the wire.
var wholes = map[int]struct {
	low  int64
	high uint64
	wire int
}{
	kindInt32: {math.MinInt32, math.MaxInt32, wireVarint}, kindSint32: {math.MinInt32, math.MaxInt32, wireVarint}, kindSfixed32: {math.MinInt32, math.MaxInt32, wire32},
	kindInt64: {math.MinInt64, math.MaxInt64, wireVarint}, kindSint64: {math.MinInt64, math.MaxInt64, wireVarint}, kindSfixed64: {math.MinInt64, math.MaxInt64, wire64},
	kindUint32: {0, math.MaxUint32, wireVarint}, kindFixed32: {0, math.MaxUint32, wire32},
	kindUint64: {0, math.MaxUint64, wireVarint}, kindFixed64: {0, math.MaxUint64, wire64},
}

// whole reads a whole number, which may be a string, or be written as 1e3. A negative one is as on the wire.
func whole(v any, low int64, high uint64) (uint64, error) {
	text, ok := numeral(v)
	if !ok {
		return 0, fmt.Errorf("want a whole number, got %s", told(v))
	}
	const longest = 40 // digits, or an exponent would make a number of any size
	n, ok := new(big.Int).SetString(text, 10)
	if !ok && len(text) <= longest {
		var f float64
		var err error
		if f, err = strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1<<53 && f == math.Trunc(f) {
			n, ok = big.NewInt(int64(f)), true
		}
	}
	if !ok {
		return 0, fmt.Errorf("%.50s is not a whole number", text)
	}
	if n.Cmp(big.NewInt(low)) < 0 || n.Cmp(new(big.Int).SetUint64(high)) > 0 {
		return 0, fmt.Errorf("%.50s is out of its range, %d to %d", text, low, high)
	}
	if n.Sign() < 0 {
		return uint64(n.Int64()), nil
	}
	return n.Uint64(), nil
}

// numeral is the text of a number, in quotes or not.
func numeral(v any) (text string, ok bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		return v, v != "" && len(v) < 400 && !strings.ContainsAny(v, " _xX")
	}
	return "", false
}

func float(v any) (float64, error) {
	text, ok := numeral(v)
	switch text {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, fmt.Errorf("want a number, got %s", told(v))
	}
	return f, nil
}

// enum is the number of a value.
func (s *schema) enum(of string, v any) (int32, error) {
	name := strings.TrimPrefix(of, ".")
	if name == "google.protobuf.NullValue" {
		return 0, nil
	}
	values, ok := s.enums[name]
	if !ok {
		return 0, fmt.Errorf("nothing describes the enum %s: is its file there, too?", name)
	}
	if text, ok := v.(string); ok {
		if n, ok := values[text]; ok {
			return n, nil
		}
	}
	if n, err := whole(v, math.MinInt32, math.MaxInt32); err == nil {
		return int32(n), nil
	}
	var names []string
	for name := range values {
		names = append(names, name)
	}
	return 0, fmt.Errorf("%s is not a value of %s%s", told(v), name, others("; there are ", names))
}

// told is a value in a sentence.
func told(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("%.50q", v)
	case json.Number:
		return fmt.Sprintf("%.50s", v)
	}
	return fmt.Sprint(v)
}
