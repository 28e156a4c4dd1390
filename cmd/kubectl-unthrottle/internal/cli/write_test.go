package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
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

// TestWriteWithin: what was found in a directory is written in it, wherever its place leads by now.
func TestWriteWithin(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "a.yaml")
	for _, c := range []struct {
		name  string
		spoil func(dir string) // after it was read
		want  string           // of the error
	}{
		{"as it was", func(string) {}, ""},
		{"a link to a file outside", func(dir string) {
			must(t, os.Remove(filepath.Join(dir, "sub", "a.yaml")))
			must(t, os.Symlink(victim, filepath.Join(dir, "sub", "a.yaml")))
		}, "no longer in"},
		{"a link to a directory outside", func(dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "sub")))
			must(t, os.Symlink(outside, filepath.Join(dir, "sub")))
		}, "no longer in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := fix.File{Name: filepath.Join(dir, "sub", "a.yaml"), Within: dir, Old: []byte("old"), New: []byte("new")}
			must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
			must(t, os.WriteFile(f.Name, f.Old, 0o600))
			must(t, os.WriteFile(victim, f.Old, 0o600))
			c.spoil(dir)
			if err := writeFiles([]fix.File{f}); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if now, err := os.ReadFile(victim); err != nil || string(now) != "old" {
				t.Errorf("the file outside is %q, %v", now, err)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
				t.Errorf("outside there are %v, %v", entries, err)
			}
		})
	}
	// The place leads out, or to another file, after it was prepared.
	dir := t.TempDir()
	f := fix.File{Name: filepath.Join(dir, "sub", "a.yaml"), Within: dir, Old: []byte("old"), New: []byte("new")}
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	must(t, os.WriteFile(f.Name, f.Old, 0o600))
	r, err := prepareFile(f, map[string]bool{})
	must(t, err)
	must(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "was")))
	must(t, os.Symlink(outside, filepath.Join(dir, "sub")))
	if err := r.in(r.rename); err == nil {
		t.Error("it is renamed through a link that leads out")
	}
	must(t, os.Remove(filepath.Join(dir, "sub")))
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	must(t, os.WriteFile(f.Name, []byte("another"), 0o600))
	if err := r.in(r.rename); err == nil || !strings.Contains(err.Error(), "in the meantime") {
		t.Errorf("another file is replaced: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
