package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/contracttest"
)

// TestNames holds every field of every document to one meaning.
func TestNames(t *testing.T) {
	var documents []any
	for _, verb := range Verbs() {
		documents = append(documents, Empty(verb))
	}
	contracttest.Names(t, documents, Names, "")
}

// TestSchema holds documents to their schemas: the samples, which may be of a version that had fewer fields, and those of now.
func TestSchema(t *testing.T) {
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
		if Empty(verb) != nil {
			seen[verb] = true
			for _, problem := range contracttest.Violations(Schema(verb), doc, verb) {
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
		s := Schema(verb)
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
		for _, problem := range contracttest.Violations(s, doc, verb) {
			t.Errorf("an empty document: %s", problem)
		}
	}
	if bad := contracttest.Violations(Schema("run"), map[string]any{"version": "2", "verb": "run"}, "run"); len(bad) < 3 {
		t.Errorf("a document with nothing in it has only %v", bad)
	}
}
