//go:build unix

package ours

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const nobody = 65534

// open is a directory like /tmp, that another user can reach.
func open(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// needRoot skips a test that gives files to another user.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
}

func give(t *testing.T, path string) {
	t.Helper()
	if err := os.Lchown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDir: what is there is taken only if it is ours alone.
func TestDir(t *testing.T) {
	for name, c := range map[string]struct {
		before  func(t *testing.T, tmp, dir string)
		root    bool
		refused string // "": it is taken
	}{
		"nothing there": {func(*testing.T, string, string) {}, false, ""},
		"ours":          {func(t *testing.T, _, dir string) { must(t, os.Mkdir(dir, 0o700)) }, false, ""},
		"ours, for others to read": {func(t *testing.T, _, dir string) {
			must(t, os.Mkdir(dir, 0o755))
		}, false, ""},
		"for others to write": {func(t *testing.T, _, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "programs"), 0o700))
			must(t, os.Chmod(filepath.Join(dir, "programs"), 0o770))
		}, false, "others may write to"},
		"a parent for others to write": {func(t *testing.T, _, dir string) {
			must(t, os.Mkdir(dir, 0o777))
			must(t, os.Chmod(dir, 0o777))
		}, false, "others may write to"},
		"a file": {func(t *testing.T, _, dir string) { must(t, os.WriteFile(dir, nil, 0o600)) }, false, "is not a directory"},
		"our link": {func(t *testing.T, tmp, dir string) {
			must(t, os.Mkdir(filepath.Join(tmp, "disk"), 0o700))
			must(t, os.Symlink(filepath.Join(tmp, "disk"), dir))
		}, false, ""},
		"a circle of links": {func(t *testing.T, _, dir string) { must(t, os.Symlink(dir, dir)) }, false, "more than 40 links"},
		"another user's": {func(t *testing.T, _, dir string) {
			must(t, os.Mkdir(dir, 0o755))
			give(t, dir)
		}, true, "belongs to another user"},
		"another user's programs": {func(t *testing.T, _, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "programs"), 0o700))
			give(t, filepath.Join(dir, "programs"))
		}, true, "belongs to another user"},
		"another user's link to ours": {func(t *testing.T, tmp, dir string) {
			must(t, os.Mkdir(filepath.Join(tmp, "mine"), 0o700))
			must(t, os.Symlink(filepath.Join(tmp, "mine"), dir))
			give(t, dir)
		}, true, "is a link of another user's"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root {
				needRoot(t)
			}
			tmp := open(t)
			dir := filepath.Join(tmp, "unthrottle-0")
			c.before(t, tmp, dir)
			got, err := Dir(filepath.Join(dir, "programs"))
			if c.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				if info, err := os.Lstat(got); err != nil || info.Mode().Perm()&0o022 != 0 {
					t.Errorf("%s: %v, %v", got, info.Mode(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want %q", got, err, c.refused)
			}
		})
	}
}

// TestCache: without a home it is among the temporary files, and not where another user was first.
func TestCache(t *testing.T) {
	tmp := open(t)
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	dir, err := Cache("runs")
	must(t, err)
	if !strings.HasPrefix(dir, tmp+"/"+shared()+"/") {
		t.Errorf("it is %s", dir)
	}
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v", info.Mode())
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	if dir, err = Cache("runs"); err != nil || !strings.HasPrefix(dir, home) {
		t.Errorf("with a home: %s, %v", dir, err)
	}
	t.Setenv("HOME", "")
	needRoot(t)
	give(t, filepath.Join(tmp, shared()))
	if dir, err := Cache("runs"); err == nil {
		t.Errorf("another user's is taken: %s", dir)
	}
}

// TestPrivate: a file that others may have written is not taken for ours.
func TestPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	must(t, os.WriteFile(path, nil, 0o644))
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	must(t, Private(f))
	must(t, os.Chmod(path, 0o664))
	if err := Private(f); err == nil || !strings.Contains(err.Error(), "others may write") {
		t.Error(err)
	}
	must(t, os.Chmod(path, 0o644))
	needRoot(t)
	give(t, path)
	if err := Private(f); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Error(err)
	}
}
