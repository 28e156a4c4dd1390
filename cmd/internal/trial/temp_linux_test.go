package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/runner"
)

// TestTempDir: a directory that a killed lab has left is removed by the next, one of a living lab is not.
func TestTempDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living := filepath.Join(os.TempDir(), runner.OwnName(tempPrefix))
	part := strings.Split(filepath.Base(living), "-")
	part[3] = "999999999" // no such process
	dead := filepath.Join(os.TempDir(), strings.Join(part, "-"))
	for _, dir := range []string{living, dead} {
		if err := os.MkdirAll(filepath.Join(dir, "cache"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir, remove, err := TempDir()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{living: true, dead: false, dir: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", path, err, want)
		}
	}
	remove()
	if _, err := os.Stat(dir); err == nil {
		t.Error("it is not removed")
	}
}
