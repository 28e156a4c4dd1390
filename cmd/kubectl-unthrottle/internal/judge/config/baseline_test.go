package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var some = []BaselineFinding{
	{"K004", "deploy/api.yaml", "Deployment/api", "api", "GOMAXPROCS"},
	{"K001", "deploy/api.yaml", "Deployment/api", "api", "GOMAXPROCS"},
	{"K009", "", "Deployment/<b> in shop", "", ""},
	{"K004", "deploy/api.yaml", "Deployment/api", "api", "GOMAXPROCS"}, // twice in one file
}

func TestWriteRead(t *testing.T) {
	var b bytes.Buffer
	if err := WriteBaseline(&b, some); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "version": 1,
  "findings": [
    {"rule":"K009","workload":"Deployment/<b> in shop"},
    {"rule":"K001","file":"deploy/api.yaml","workload":"Deployment/api","container":"api","variable":"GOMAXPROCS"},
    {"rule":"K004","file":"deploy/api.yaml","workload":"Deployment/api","container":"api","variable":"GOMAXPROCS"},
    {"rule":"K004","file":"deploy/api.yaml","workload":"Deployment/api","container":"api","variable":"GOMAXPROCS"}
  ]
}
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
	path := filepath.Join(t.TempDir(), "baseline.json")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadBaseline(t.Context(), path)
	if err != nil || len(got) != 4 || got[0] != some[2] {
		t.Errorf("%+v, %v", got, err)
	}
	b.Reset()
	if err := WriteBaseline(&b, nil); err != nil || b.String() != "{\n  \"version\": 1,\n  \"findings\": []\n}\n" {
		t.Errorf("%q, %v", &b, err)
	}
}

func TestParseBaseline(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "line 1: unexpected end",
		"{\n\"version\": 1,\n\"find":        "line 3: unexpected end",
		`[]`:                                "cannot unmarshal array",
		`{}`:                                "no version",
		`{"version": 2, "findings": "odd"}`: "a newer one wrote it",
		`{"version": 0}`:                    "there is no version 0",
		`{"version": "1"}`:                  "cannot unmarshal string",
		`{"version": 1, "findings": {}}`:    "cannot unmarshal object",
		`{"version": 1, "findings": [{}]}`:  "finding 1 has no rule",
		`{"version": 1}`:                    "",
		`{"version": 1, "findings": [{"rule": "K001", "workload": "Pod/a", "later": 1}], "more": 2}`: "",
	} {
		_, err := ParseBaseline([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadBaseline(t.Context(), filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	known, gone := CompareBaseline([]BaselineFinding{some[0], some[1], some[0], some[0]}, some)
	if !slices.Equal(known, []bool{true, true, true, false}) || !reflect.DeepEqual(gone, []BaselineFinding{some[2]}) {
		t.Errorf("%v, %+v", known, gone)
	}
	if known, gone := CompareBaseline(nil, nil); len(known) != 0 || gone != nil {
		t.Errorf("%v, %+v", known, gone)
	}
}

// FuzzParseBaseline: anything that is read can be written and read again.
func FuzzParseBaseline(f *testing.F) {
	f.Add([]byte(`{"version": 1, "findings": [{"rule": "K001", "file": "a", "workload": "Pod/a"}]}`))
	f.Add([]byte(`{"version": 2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := ParseBaseline(data)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteBaseline(&b, first); err != nil {
			t.Fatal(err)
		}
		again, err := ParseBaseline(b.Bytes())
		known, gone := CompareBaseline(again, first)
		if err != nil || len(again) != len(first) || slices.Contains(known, false) || gone != nil {
			t.Errorf("%+v\nthen %+v, %v", first, again, err)
		}
	})
}
