package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// What is printed as YAML is the JSON document, regardless of what its strings look like.
func TestWriteYAML(t *testing.T) {
	type inner struct {
		Numbers []float64 `json:"numbers"`
		Empty   []string  `json:"empty"`
	}
	doc := struct {
		Zebra string            `json:"zebra"`
		Apple any               `json:"apple"`
		Texts []string          `json:"texts"`
		Of    map[string]*inner `json:"of"`
	}{
		"first", nil,
		[]string{"", "yes", "no", "null", "~", "1", "1e3", "0x1F", "2026-11-27", "a: b", "- a", "# a", "a\nb\n", "\t", "\x00\u2028\u202e", "'", `"`, "&a", "*a", "!!int 1", "{", "[", "%", "@", "`", "é", " a ", "|", "=", "<<", ".inf", "/a b/c", "Deployment/api in shop", "y", "On", "a-", "a,b"},

		map[string]*inner{"one": {[]float64{0, -1, 1.5, 1e21, 1e-9, 12345678901234567}, []string{}}, "<<": nil, "y": nil},
	}
	var text strings.Builder
	if err := writeYAML(&text, doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), "zebra: first\napple: null\n") {
		t.Errorf("the fields have lost their order:\n%s", &text)
	}
	if strings.ContainsAny(text.String(), "\x00\t\u202e\u2028") {
		t.Errorf("what is not printed is written:\n%q", &text)
	}
	var got, want any
	if err := yaml.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v\n%s", got, want, &text)
	}
}
