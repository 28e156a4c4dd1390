package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
)

// TestSweep: an image that a killed command had pulled is removed by the next command of any kind, and one that is being read stays.
func TestSweep(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	alive, remove, err := ours.TempDir("image")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	parts := strings.Split(alive, "-")
	parts[len(parts)-2] = "1" // a process of this number that was started when the system was: it is gone
	gone := strings.Join(parts, "-")
	if err := os.MkdirAll(filepath.Join(gone, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if code := Main(t.Context(), []string{"version"}, func(string) string { return "" }, nil, io.Discard, io.Discard); code != 0 {
		t.Fatal(code)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); !slices.Equal(left, []string{alive}) {
		t.Errorf("left: %q", left)
	}
}
