package render

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// golden compares with a file in testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i, line := range gotLines {
		if i >= len(wantLines) || line != wantLines[i] {
			t.Fatalf("line %d is\n%.300s\nwhich is not that of %s; -update writes it anew", i+1, line, file)
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Errorf("%s: got %d lines, want %d", file, len(gotLines), len(wantLines))
	}
}

var odd = regexp.MustCompile(`NaN|\bInf\b|ZgotmplZ|%!`)

// outsideText is what looks like a link or a number and is none: the targets, and histograms in the document.
var outsideText = regexp.MustCompile(`http://127\.0\.0\.1:8080/[a-z]*|"hdr_v2":"[^"]*"`)
