package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestContents lists what the test's own binary is made of.
func TestContents(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := contents("v1.2.3", self)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Metadata.Component; got.Type != "application" || got.Version != "v1.2.3" {
		t.Errorf("the bill is of %+v", got)
	}
	stdlib := "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")
	if !slices.ContainsFunc(b.Components, func(c component) bool { return c.PURL == stdlib }) {
		t.Errorf("no %s in %+v", stdlib, b.Components)
	}
	if _, err := contents("v1.2.3", "main.go"); err == nil {
		t.Error("a source file has no contents")
	}
}

func TestOrigin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "archive.tar.gz")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	document, err := attest([]string{"origin", "v1.2.3", "0123abcd", file})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"name":"archive.tar.gz","digest":{"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}`,
		`"gitCommit":"0123abcd"`, `"version":"v1.2.3"`, `"_type":"https://in-toto.io/Statement/v1"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if _, err := attest([]string{"origin", "v1.2.3", "0123abcd", file + ".missing"}); err == nil {
		t.Error("a file that is not there has an origin")
	}
	if _, err := attest([]string{"origin"}); err == nil {
		t.Error("no usage")
	}
}
