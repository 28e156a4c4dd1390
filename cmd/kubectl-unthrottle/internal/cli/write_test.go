package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/fix"
)

// Files are replaced all, or none.
func TestWriteFiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string) // what becomes of b before it is written
		err   string
	}{
		{"all well", func(*testing.T, string) {}, ""},
		{"gone", func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "b"))) }, "no such file"},
		{"changed", func(t *testing.T, dir string) { must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("x"), 0o600)) }, "in the meantime"},
		{"a directory", func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "b")))
			must(t, os.Mkdir(filepath.Join(dir, "b"), 0o700))
		}, "b: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			var files []fix.File
			for _, name := range []string{"a", "b"} {
				file := filepath.Join(dir, name)
				must(t, os.WriteFile(file, []byte("old "+name), 0o640))
				files = append(files, fix.File{Name: file, Old: []byte("old " + name), New: []byte("new " + name)})
			}
			c.spoil(t, dir)
			err := writeFiles(files)
			want := "new a"
			if c.err != "" {
				want = "old a"
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), files[1].Name) {
					t.Errorf("error %v, want one with %q", err, c.err)
				}
			} else if err != nil {
				t.Error(err)
			}
			got, err := os.ReadFile(files[0].Name)
			if err != nil || string(got) != want {
				t.Errorf("a is %q, want %q, %v", got, want, err)
			}
			if info, err := os.Stat(files[0].Name); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("a has the mode %v, %v", info.Mode(), err)
			}
			entries, err := os.ReadDir(dir)
			must(t, err)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") {
					t.Errorf("%s is left behind", e.Name())
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
