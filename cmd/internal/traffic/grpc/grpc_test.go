package grpc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// What follows writes descriptors: each function makes a field of the message around it.
type part []byte

func text(number int, s string) part { return appendBytes(nil, number, []byte(s)) }

func in(number int, parts ...part) part {
	return appendBytes(nil, number, bytes.Join(asBytes(parts), nil))
}

func asBytes(parts []part) (all [][]byte) {
	for _, p := range parts {
		all = append(all, p)
	}
	return all
}

func typed(name string, number, kind int, more ...part) part {
	return in(2, append([]part{text(1, name), part(appendVarint(nil, 3, uint64(number))), part(appendVarint(nil, 5, uint64(kind)))}, more...)...)
}

func of(name string) part    { return text(6, name) }
func repeated() part         { return appendVarint(nil, 4, 3) }
func named(name string) part { return text(10, name) }
func oneof(n int) part       { return appendVarint(nil, 9, uint64(n)) }
func optional() part         { return appendVarint(nil, 17, 1) }

// shop is a file with a service, and with a message that has a field of every kind.
func shop() []byte {
	kinds := []part{text(1, "All")}
	for kind := 1; kind <= kindSint64; kind++ {
		switch kind {
		case 10:
		case kindMessage:
			kinds = append(kinds, typed("f11", 11, kind, of(".shop.All")))
		case kindEnum:
			kinds = append(kinds, typed("f14", 14, kind, of(".shop.Size")))
		default:
			kinds = append(kinds, typed(fmt.Sprint("f", kind), kind, kind))
		}
	}
	return bytes.Join(asBytes([]part{
		text(1, "shop.proto"), text(2, "shop"), text(3, "google/protobuf/timestamp.proto"),
		in(4, kinds...),
		in(4, text(1, "Order"),
			typed("customer_id", 1, kindInt64, named("customerId")),
			typed("items", 2, kindMessage, repeated(), of(".shop.Order.Item")),
			typed("labels", 3, kindMessage, repeated(), of(".shop.Order.LabelsEntry")),
			typed("counts", 4, kindInt32, repeated()),
			typed("card", 5, kindString, oneof(0)),
			typed("voucher", 6, kindString, oneof(0)),
			typed("note", 7, kindString, oneof(1), optional()),
			typed("when", 8, kindMessage, of(".google.protobuf.Timestamp")),
			typed("what", 9, kindMessage, of(".google.protobuf.Value")),
			typed("flags", 10, kindMessage, repeated(), of(".shop.Order.FlagsEntry")),
			in(3, text(1, "Item"), typed("name", 1, kindString), typed("size", 2, kindEnum, of(".shop.Size"))),
			in(3, text(1, "LabelsEntry"), typed("key", 1, kindString), typed("value", 2, kindString), in(7, part(appendVarint(nil, 7, 1)))),
			in(3, text(1, "FlagsEntry"), typed("key", 1, kindBool), typed("value", 2, kindUint32), in(7, part(appendVarint(nil, 7, 1)))),
		),
		in(5, text(1, "Size"), in(2, text(1, "SMALL")), in(2, text(1, "LARGE"), part(appendVarint(nil, 2, 7)))),
		in(6, text(1, "Till"),
			in(2, text(1, "Buy"), text(2, ".shop.Order"), text(3, ".shop.All")),
			in(2, text(1, "Try"), text(2, ".shop.All"), text(3, ".shop.All")),
			in(2, text(1, "Lost"), text(2, ".shop.Nowhere"), text(3, ".shop.All")),
			in(2, text(1, "Watch"), text(2, ".shop.All"), text(3, ".shop.All"), part(appendVarint(nil, 6, 1))),
		),
	}), nil)
}

// times is the file that the shop imports.
func times() []byte {
	return bytes.Join(asBytes([]part{
		text(1, "google/protobuf/timestamp.proto"), text(2, "google.protobuf"), in(4, text(1, "Timestamp")), in(4, text(1, "Value")),
	}), nil)
}

func set(files ...[]byte) (all []byte) {
	for _, f := range files {
		all = appendBytes(all, 1, f)
	}
	return all
}

// TestBodies: what protoc --encode writes for the same message, and the five bytes before it.
func TestBodies(t *testing.T) {
	for _, c := range []struct{ method, json, want string }{
		{"Buy", `{}`, ""},
		{"Buy", ` `, ""},
		{"Buy", `{"customerId": "5", "note": null}`, "0805"},
		{"Buy", `{"customer_id": -1}`, "08ffffffffffffffffff01"},
		{"Buy", `{"items": [{"name": "tea", "size": "LARGE"}, {}], "counts": [1, 300]}`, "1207" + "0a03746561" + "1007" + "1200" + "2001" + "20ac02"},
		{"Buy", `{"labels": {"b": "2", "a": ""}}`, "1a05" + "0a0161" + "1200" + "1a06" + "0a0162" + "120132"},
		{"Buy", `{"flags": {"true": 3}}`, "5204" + "0801" + "1003"},
		{"Buy", `{"card": "x", "note": "y"}`, "2a0178" + "3a0179"},
		{"Buy", `{"when": "1970-01-01T00:00:02.5Z"}`, "4208" + "0802" + "1080cab5ee01"},
		{"Buy", `{"what": null}`, "4a02" + "0800"},
		{"Buy", `{"what": {"k": [true, "s"]}}`, "4a14" + "2a12" + "0a10" + "0a016b" + "120b" + "3209" + "0a022001" + "0a031a0173"},
		{"Try", `{"f1": 1.5, "f2": "-2", "f3": "-3", "f4": "18446744073709551615", "f5": 1e3}`, "09000000000000f83f" + "15000000c0" + "18fdffffffffffffffff01" + "20ffffffffffffffffff01" + "28e807"},
		{"Try", `{"f6": 1, "f7": 2, "f8": true, "f9": "é", "f12": "_-8", "f13": 5}`, "310100000000000000" + "3d02000000" + "4001" + "4a02c3a9" + "6202ffef" + "6805"},
		{"Try", `{"f14": 3, "f15": -1, "f16": -1, "f17": -1, "f18": 1}`, "7003" + "7dffffffff" + "8101ffffffffffffffff" + "880101" + "900102"},
		{"Try", `{"f11": {"f11": {"f13": 1}}, "f1": "NaN", "f2": "-Infinity"}`, "09010000000000f87f" + "15000080ff" + "5a04" + "5a02" + "6801"},
	} {
		m, err := Find(set(times(), shop()), "shop.Till/"+c.method)
		if err != nil {
			t.Fatal(err)
		}
		bodies, err := m.Bodies(t.Context(), []byte(c.json))
		if err != nil || len(bodies) != 1 {
			t.Errorf("%s: %d bodies, %v", c.json, len(bodies), err)
			continue
		}
		head, body := bodies[0][:5], bodies[0][5:]
		if got := hex.EncodeToString(body); got != c.want || head[0] != 0 || int(binary.BigEndian.Uint32(head[1:])) != len(body) {
			t.Errorf("%s: got %x %s, want %s", c.json, head, got, c.want)
		}
		if m.Path != "/shop.Till/"+c.method {
			t.Errorf("posted to %s", m.Path)
		}
	}
	m, _ := Find(set(times(), shop()), "shop.Till/Buy")
	bodies, err := m.Bodies(t.Context(), []byte(`{"customerId": 1}`+"\n"+`{"customerId": 2} {}`))
	if err != nil || len(bodies) != 3 || !bytes.HasSuffix(bodies[1], []byte{8, 2}) || len(bodies[2]) != 5 {
		t.Errorf("three messages: %x, %v", bodies, err)
	}
}

func TestWrongMessages(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                      "the message is not JSON",
		`[]`:                                     "shop.Order is an object, and not a list",
		`{"nosuch": 1}`:                          `shop.Order has no field "nosuch"; it has card, counts, customer_id, flags, items, labels, note, voucher, what, when`,
		`{"customer_id": 1.5}`:                   "shop.Order.customer_id: 1.5 is not a whole number",
		`{"customer_id": "9223372036854775808"}`: "out of its range",
		`{"customer_id": 1e400}`:                 "is not a whole number",
		`{"customer_id": true}`:                  "want a whole number, got true",
		`{"customer_id": 1, "customerId": 2}`:    "customer_id is there twice",
		`{"card": "a", "voucher": "b"}`:          "of card and voucher there may be one",
		`{"items": {}}`:                          "shop.Order.items is a list, and not an object",
		`{"items": [null]}`:                      "a list has no null",
		`{"items": [{"size": "HUGE"}]}`:          `"HUGE" is not a value of shop.Size; there are LARGE, SMALL`,
		`{"items": [{"name": 5}]}`:               "shop.Order.Item.name: want a string, got 5",
		`{"labels": []}`:                         "labels is a map, and not a list",
		`{"flags": {"yes": 1}}`:                  `the key "yes" is neither true nor false`,
		`{"when": "yesterday"}`:                  `google.protobuf.Timestamp: want a time such as 2026-01-02T15:04:05Z, got "yesterday"`,
		`{"customer_id": 1} {"note": 1}`:         "message 2: shop.Order.note",
		`{"what": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: "more than 100 values in each other",
	} {
		m, err := Find(set(shop(), times()), "shop.Till.Buy")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Bodies(t.Context(), []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	m, _ := Find(set(shop()), "shop.Till/Try")
	for text, want := range map[string]string{
		`{"f2": 1e39}`:    "too large",
		`{"f1": "1e999"}`: "want a number",
		`{"f13": -1}`:     "out of its range, 0 to 4294967295",
		`{"f8": "true"}`:  "want true or false",
		`{"f12": "%"}`:    "not base64",
		`{"f12": 5}`:      "a string in base64",
		`{"f11": 1}`:      "shop.All is an object, and not 1",
		strings.Repeat(`{"f11":`, 150) + "{}" + strings.Repeat("}", 150): "more than 100 messages in each other",
	} {
		if _, err := m.Bodies(t.Context(), []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"shop.Till/Sell":  "shop.Till has no method Sell; it has Buy, Lost, Try, Watch",
		"shop.Kiosk/Buy":  "there is no service shop.Kiosk; there are shop.Till",
		"shop.Till/Watch": "shop.Till/Watch streams, and only unary calls are sent",
		"shop.Till/Lost":  "nothing describes the message shop.Nowhere",
		"Buy":             `"Buy" is not a method such as pkg.Service/Method`,
		"shop.Till/":      "is not a method",
		"a/b/c":           "is not a method",
		"a.b?/c":          "is not a method",
	} {
		if _, err := Find(set(shop()), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := Find([]byte("\xff"), "shop.Till/Buy"); err == nil || !strings.Contains(err.Error(), "not a descriptor set") {
		t.Error(err)
	}
	if _, err := Find(nil, "shop.Till/Buy"); err == nil || !strings.Contains(err.Error(), "no file in the descriptor set") {
		t.Error(err)
	}
	deep := text(1, "M")
	for range 300 {
		deep = append(text(1, "M"), in(3, deep)...)
	}
	if _, err := Find(set(append(text(1, "deep.proto"), in(4, deep)...)), "a.B/C"); err == nil || !strings.Contains(err.Error(), "more than 100 messages") {
		t.Error(err)
	}
	// A field of a kind that is not known here, such as a group, is reported when it is used.
	odd := bytes.Join(asBytes([]part{
		text(1, "odd.proto"), in(4, text(1, "M"), typed("g", 1, 10), typed("n", 2, kindInt32)), in(6, text(1, "S"), in(2, text(1, "C"), text(2, ".M"))),
	}), nil)
	m, err := Find(set(odd), "S/C")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Bodies(t.Context(), []byte(`{"n": 1}`)); err != nil {
		t.Error(err)
	}
	if _, err := m.Bodies(t.Context(), []byte(`{"g": 1}`)); err == nil || !strings.Contains(err.Error(), "fields of kind 10") {
		t.Error(err)
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"0s": "", "1.5s": "0801" + "1080cab5ee01", "-1s": "08ffffffffffffffffff01", "-0.5s": "10" + varint(-500_000_000), "1": "!", "s": "!", "1.1234567890s": "!", "999999999999s": "!", "1.-5s": "!",
	} {
		data, err := duration(text, 0)
		if got := hex.EncodeToString(data); (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if data, err := fieldMask("user.displayName,photo", 0); err != nil || string(data) != "\n\x11user.display_name\n\x05photo" {
		t.Errorf("%q, %v", data, err)
	}
}

func varint(v int64) string { return hex.EncodeToString(binary.AppendUvarint(nil, uint64(v))) }

// FuzzFind: whatever a descriptor set and a message say, handling both comes to an end.
func FuzzFind(f *testing.F) {
	f.Add(set(times(), shop()), []byte(`{"customerId": 5, "items": [{}], "what": {"a": 1e300}}`))
	f.Add([]byte{10, 0}, []byte(`{}`))
	f.Fuzz(func(t *testing.T, descriptors, messages []byte) {
		for _, name := range []string{"shop.Till/Buy", "shop.Till/Try"} {
			m, err := Find(descriptors, name)
			if err != nil {
				continue
			}
			bodies, err := m.Bodies(t.Context(), messages)
			for _, b := range bodies {
				if err == nil && fields(b[5:], func(field) error { return nil }) != nil {
					t.Errorf("%q makes %x, which is no message", messages, b)
				}
			}
		}
	})
}

// box is a file with a message that holds any other, and with a service that takes it.
func box() []byte {
	return bytes.Join(asBytes([]part{
		text(1, "box.proto"), text(2, "box"), text(3, "google/protobuf/any.proto"),
		in(4, text(1, "Box"), typed("held", 1, kindMessage, of(".google.protobuf.Any")), typed("more", 2, kindMessage, repeated(), of(".google.protobuf.Any"))),
		in(4, text(1, "Lid"), typed("size", 1, kindInt32), typed("box", 2, kindMessage, of(".box.Box"))),
		in(6, text(1, "Store"), in(2, text(1, "Put"), text(2, ".box.Box"), text(3, ".box.Box"))),
	}), nil)
}

// anyFile is protocol buffers' own.
func anyFile() []byte {
	return bytes.Join(asBytes([]part{text(1, "google/protobuf/any.proto"), text(2, "google.protobuf"), in(4, text(1, "Any"), typed("type_url", 1, kindString), typed("value", 2, kindBytes))}), nil)
}

// TestAny: what a message holds is found by its name, however deep it is.
func TestAny(t *testing.T) {
	m, err := Find(set(box(), anyFile()), "box.Store/Put")
	if err != nil {
		t.Fatal(err)
	}
	held := func(url string, data []byte) part { return in(1, text(1, url), in(2, data)) }
	for text, want := range map[string]part{
		`{"held": {"@type": "type.googleapis.com/box.Lid", "size": 3}}`:        held("type.googleapis.com/box.Lid", appendVarint(nil, 1, 3)),
		`{"held": {"@type": "x/y/google.protobuf.Duration", "value": "1.5s"}}`: held("x/y/google.protobuf.Duration", moment(1, 500_000_000)),
		`{"held": {"value": true, "@type": "/google.protobuf.BoolValue"}}`:     held("/google.protobuf.BoolValue", appendVarint(nil, 1, 1)),
		`{"held": {}}`:   in(1),
		`{"held": null}`: nil,
		`{"held": {"@type": "a/box.Lid", "box": {"held": {"@type": "b/box.Lid", "size": 1}}}}`:     held("a/box.Lid", in(2, held("b/box.Lid", appendVarint(nil, 1, 1)))),
		`{"held": {"@type": "a/google.protobuf.Any", "value": {"@type": "b/box.Lid", "size": 1}}}`: held("a/google.protobuf.Any", append(appendBytes(nil, 1, []byte("b/box.Lid")), appendBytes(nil, 2, appendVarint(nil, 1, 1))...)),
	} {
		bodies, err := m.Bodies(t.Context(), []byte(text))
		if err != nil || !bytes.Equal(bodies[0], frame(want)) {
			t.Errorf("%s: %x, %v, want %x", text, bodies, err, frame(want))
		}
	}
	deep := `{"@type": "a/google.protobuf.Any", "value": `
	for text, want := range map[string]string{
		`{"held": 5}`:                                                              "google.protobuf.Any is an object, and not 5",
		`{"held": {"size": 3}}`:                                                    `google.protobuf.Any has no "@type" such as "type.googleapis.com/pkg.Message"`,
		`{"held": {"@type": 3}}`:                                                   `has no "@type" such as`,
		`{"held": {"@type": "type.googleapis.com/"}}`:                              `has no "@type" such as`,
		`{"held": {"@type": "a/box.Nosuch"}}`:                                      `an "@type" names box.Nosuch: nothing describes the message box.Nosuch: is its file there, too?`,
		`{"held": {"@type": "a/box.Lid", "colour": 1}}`:                            `box.Lid has no field "colour"; it has box, size`,
		`{"held": {"@type": "a/google.protobuf.Duration"}}`:                        `google.protobuf.Duration in google.protobuf.Any is written as "value", and nothing else`,
		`{"held": {"@type": "a/google.protobuf.Duration", "value": "1s", "x": 2}}`: `is written as "value", and nothing else`,
		`{"held": {"@type": "a/google.protobuf.Duration", "value": "soon"}}`:       "want a time such as 1.5s",
		`{"held": ` + strings.Repeat(deep, 150) + "{}" + strings.Repeat("}", 151):  "more than 100 messages in each other",
	} {
		if _, err := m.Bodies(t.Context(), []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}
