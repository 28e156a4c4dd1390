package grpc

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wellKnown are messages of protocol buffers' own that JSON writes in other ways than as an object.
var wellKnown map[string]func(v any, depth int) ([]byte, error)

func init() { // some are in each other
	wellKnown = map[string]func(any, int) ([]byte, error){
		"google.protobuf.Timestamp": timestamp,
		"google.protobuf.Duration":  duration,
		"google.protobuf.FieldMask": fieldMask,
		"google.protobuf.Struct":    structure,
		"google.protobuf.Value":     anyValue,
		"google.protobuf.ListValue": listValue,
	}
	for name, kind := range map[string]int{
		"Double": kindDouble, "Float": kindFloat, "Int64": kindInt64, "UInt64": kindUint64, "Int32": kindInt32, "UInt32": kindUint32, "Bool": kindBool, "String": kindString, "Bytes": kindBytes,
	} {
		wellKnown["google.protobuf."+name+"Value"] = func(v any, _ int) ([]byte, error) {
			return new(message).scalar(&element{number: 1, kind: kind}, v, nil)
		}
	}
}

func timestamp(v any, _ int) ([]byte, error) {
	text, _ := v.(string)
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, fmt.Errorf("want a time such as 2026-01-02T15:04:05Z, got %s", told(v))
	}
	return moment(t.Unix(), int64(t.Nanosecond())), nil
}

func duration(v any, _ int) ([]byte, error) {
	const most = 315_576_000_000 // seconds
	text, _ := v.(string)
	number, ok := strings.CutSuffix(text, "s")
	whole, part, _ := strings.Cut(number, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, bad := strconv.ParseUint((part + "000000000")[:9], 10, 32)
	if !ok || err != nil || bad != nil || len(part) > 9 || seconds < -most || seconds > most {
		return nil, fmt.Errorf("want a time such as 1.5s, got %s", told(v))
	}
	if strings.HasPrefix(whole, "-") {
		return moment(seconds, -int64(nanos)), nil
	}
	return moment(seconds, int64(nanos)), nil
}

// moment is seconds and nanoseconds; 0 is nothing.
func moment(seconds, nanos int64) (data []byte) {
	if seconds != 0 {
		data = appendVarint(data, 1, uint64(seconds))
	}
	if nanos != 0 {
		data = appendVarint(data, 2, uint64(nanos))
	}
	return data
}

// fieldMask is such as "user.displayName,photo".
func fieldMask(v any, _ int) (data []byte, err error) {
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("want a string of paths, got %s", told(v))
	}
	for path := range strings.SplitSeq(text, ",") {
		var snake strings.Builder
		for _, c := range path {
			if c >= 'A' && c <= 'Z' {
				snake.WriteByte('_')
				c += 'a' - 'A'
			}
			snake.WriteRune(c)
		}
		if path != "" {
			data = appendBytes(data, 1, []byte(snake.String()))
		}
	}
	return data, nil
}

func structure(v any, depth int) (data []byte, err error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want an object, got %s", told(v))
	}
	var names []string
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value, err := anyValue(object[name], depth+1)
		if err != nil {
			return nil, err
		}
		data = appendBytes(data, 1, appendBytes(appendBytes(nil, 1, []byte(name)), 2, value))
	}
	return data, nil
}

func listValue(v any, depth int) (data []byte, err error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("want a list, got %s", told(v))
	}
	for _, v := range list {
		value, err := anyValue(v, depth+1)
		if err != nil {
			return nil, err
		}
		data = appendBytes(data, 1, value)
	}
	return data, nil
}

func anyValue(v any, depth int) ([]byte, error) {
	if depth > mostDepth {
		return nil, fmt.Errorf("more than %d values in each other", mostDepth)
	}
	switch v := v.(type) {
	case nil:
		return appendVarint(nil, 1, 0), nil
	case json.Number:
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%.50s is too large", v)
		}
		return appendDouble(nil, 2, f), nil
	case string:
		return appendBytes(nil, 3, []byte(v)), nil
	case bool:
		if v {
			return appendVarint(nil, 4, 1), nil
		}
		return appendVarint(nil, 4, 0), nil
	case map[string]any:
		data, err := structure(v, depth)
		return appendBytes(nil, 5, data), err
	}
	data, err := listValue(v, depth)
	return appendBytes(nil, 6, data), err
}
