package result

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/contracttest"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// TestNames holds every field of every document to one meaning.
func TestNames(t *testing.T) {
	contracttest.Names(t, slices.Collect(maps.Values(documents)), names, report.Names)
}

// TestSchema: each verb's document has one, and one that was written is as it says.
func TestSchema(t *testing.T) {
	for _, verb := range Verbs() {
		if s := Schema(verb); s == nil || s.Properties["made_by"].Description == "" {
			t.Errorf("%s: %+v", verb, s)
		}
	}
	if s := Schema("install"); s != nil {
		t.Errorf("install: %+v", s)
	}
	data, err := os.ReadFile("../page/testdata/audit.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, problem := range contracttest.Violations(Schema("audit"), doc, "audit") {
		t.Error(problem)
	}
}
