package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestMutants(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.go")
	const text = "package p\n\nimport \"fmt\"\n\nfunc f(a, b int) bool {\n\ta++\n\tfmt.Print(-a)\n\treturn !(a+1 < b) && a != 0x2\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := mutants(&pkg{}, file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, string(text[m.from-1])+m.was+" "+m.is)
		if text[m.from:m.to] != m.was {
			t.Errorf("%s is not at its place", m)
		}
	}
	slices.Sort(got)
	want := []string{" != ==", " ! ", " && ||", " 0x2 (0x2+1)", " < <=", "+1 (1+1)", "a+ -", "a++ --"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestTry: a change that no test sees lives, one that a test sees is killed, and one of a package whose tests fail anyway is neither.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write("go.mod", "module p\n\ngo 1.21\n")
	const code = "package p\n\nfunc F(a int) int { return a + 1 }\n"
	file := write("p.go", code)
	for tests, want := range map[string]fate{
		"if F(1) != 2 { t.Error() }": killed,
		"F(1)":                       lived,
		"t.Error()":                  unfit,
	} {
		write("p_test.go", "package p\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { "+tests+" }\n")
		m := &mutant{of: &pkg{Dir: dir}, file: file, from: len("package p\n\nfunc F(a int) int { return a "), was: "+", is: "-"}
		m.to = m.from + 1
		work := t.TempDir()
		for at := work; at != os.TempDir() && at != "/"; at = filepath.Dir(at) { // the user nobody has to get there
			os.Chmod(at, 0o755)
		}
		t.Setenv("GOWORK", "off")
		if err := m.try(t.Context(), work); err != nil || m.fate != want {
			t.Errorf("%s: %s, %v, want %s", tests, m.fate, err, want)
		}
	}
}
