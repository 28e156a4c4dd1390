package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/schema"
	"github.com/unthrottle/unthrottle/cmd/internal/show/contracttest"
)

// documents are all that the verbs write.
var documents = []any{Explain{}, Ps{}, Run{}, Bench{}, Load{}, Tune{}, Profile{}, Trace{}, Watch{}}

// TestNames holds every field of every document to one meaning: that in docs/report-format.md.
func TestNames(t *testing.T) {
	documented := contracttest.Meanings(t, contracttest.Format, "Names")
	found := contracttest.Names(documents)
	for name, where := range found {
		if documented[name] != 1 {
			t.Errorf("%s (%s) has %d meanings in docs/report-format.md", name, where, documented[name])
		}
	}
	for name := range documented {
		if found[name] == "" {
			t.Errorf("%s is in docs/report-format.md and in no document", name)
		}
	}
}

// TestUnits holds that no time is in another unit than seconds, and no share of another whole than 1.
func TestUnits(t *testing.T) {
	for name, where := range contracttest.Names(documents) {
		for _, unit := range []string{"_ns", "_us", "_ms", "_millis", "_micros", "_percent", "_pct", "_kib", "_mib"} {
			if strings.HasSuffix(name, unit) {
				t.Errorf("%s: times are in seconds, shares of 1, sizes in bytes", where)
			}
		}
	}
}

// TestSchema holds documents to their schemas: the samples, which may be of a version that had fewer fields, and those of now.
func TestSchema(t *testing.T) {
	page, err := os.ReadFile(contracttest.Format)
	if err != nil {
		t.Fatal(err)
	}
	meanings := schema.Meanings(string(page), "## Names")
	files, err := filepath.Glob("../../../../docs/samples/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		verb, _ := doc["verb"].(string)
		if empty := Empty(verb); empty != nil {
			seen[verb] = true
			for _, problem := range violations(schema.Of(empty, verb, meanings), doc, verb) {
				if !strings.Contains(problem, " lacks ") {
					t.Errorf("%s: %s", filepath.Base(file), problem)
				}
			}
		}
	}
	for _, verb := range Verbs() {
		if !seen[verb] {
			t.Errorf("there is no sample of %s", verb)
		}
		s := schema.Of(Empty(verb), verb, meanings)
		if s.Properties["made_by"].Description == "" {
			t.Errorf("%s: nothing says what its fields mean", verb)
		}
		data, err := json.Marshal(Empty(verb))
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		for _, problem := range violations(s, doc, verb) {
			t.Errorf("an empty document: %s", problem)
		}
	}
	if bad := violations(schema.Of(Run{}, "run", meanings), map[string]any{"version": "2", "verb": "run"}, "run"); len(bad) < 3 {
		t.Errorf("a document with nothing in it has only %v", bad)
	}
}

// violations are where a value is not what its schema says.
func violations(s *schema.Schema, v any, at string) (bad []string) {
	is := ""
	switch v := v.(type) {
	case nil:
		is = "null"
	case bool:
		is = "boolean"
	case string:
		is = "string"
	case float64:
		if is = "number"; v == math.Trunc(v) && may(s, "integer") {
			is = "integer"
		}
	case []any:
		is = "array"
		if s.Items != nil {
			for i, item := range v {
				bad = append(bad, violations(s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case map[string]any:
		is = "object"
		for _, name := range s.Required {
			if _, has := v[name]; !has {
				bad = append(bad, at+" lacks "+name)
			}
		}
		for name, value := range v {
			if of := cmp.Or(s.Properties[name], s.Values); of != nil {
				bad = append(bad, violations(of, value, at+"."+name)...)
			} else if s.Properties != nil {
				bad = append(bad, at+"."+name+" is not in the schema")
			}
		}
	}
	if s.Type != nil && !may(s, is) {
		bad = append(bad, fmt.Sprintf("%s is %s, and not %v", at, is, s.Type))
	}
	return bad
}

// may reports whether a value may be of a type.
func may(s *schema.Schema, is string) bool {
	switch t := s.Type.(type) {
	case string:
		return t == is
	case []string:
		return slices.Contains(t, is)
	}
	return true
}
