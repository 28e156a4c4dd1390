package attach

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoDirectory takes a trace where there is no directory for files, as in an image of one program.
func TestNoDirectory(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nosuch"))
	s, err := newScratch()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "a trace"); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if _, err := s.WriteTo(&b); err != nil || b.String() != "a trace" {
		t.Errorf("it holds %q, %v", b.String(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
