package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	N     int      `json:"n"`
	Again *inner   `json:"again,omitempty"`
	Names []string `json:"names"`
}

type Header struct {
	Version int `json:"version"`
}

type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

type document struct {
	Header
	At      time.Time          `json:"at"`
	For     seconds            `json:"for_seconds"`
	Maybe   *float64           `json:"maybe"`
	Rarely  string             `json:"rarely,omitempty"`
	By      map[string]float64 `json:"by"`
	Pairs   [][2]float64       `json:"pairs"`
	Inner   inner              `json:"inner"`
	Any     any                `json:"any"`
	Secret  string             `json:"-"`
	unknown bool
}

func TestOf(t *testing.T) {
	const names = "# A list\nn: another number\nmaybe: perhaps `null`: or not\n"
	got, err := json.Marshal(Of(document{unknown: true}, "a document", Meanings(names, "n: a number\n")))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "a document", "type": "object",
		"required": ["any", "at", "by", "for_seconds", "inner", "maybe", "pairs", "version"],
		"properties": {
			"version": {"type": "integer"},
			"at": {"type": "string", "format": "date-time"},
			"for_seconds": {"type": "number"},
			"maybe": {"type": ["number", "null"], "description": "perhaps ` + "`null`" + `: or not"},
			"rarely": {"type": "string"},
			"by": {"type": ["object", "null"], "additionalProperties": {"type": "number"}},
			"pairs": {"type": ["array", "null"], "items": {"type": "array", "items": {"type": "number"}}},
			"inner": {"type": "object", "required": ["n", "names"], "properties": {
				"n": {"type": "integer", "description": "a number"},
				"again": {"type": ["object", "null"]},
				"names": {"type": ["array", "null"], "items": {"type": "string"}}}},
			"any": {}
		}
	}`
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got %s", strings.ReplaceAll(string(got), ",", ",\n"))
	}
}
