package verb

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOutputName: what could not be written is named as the user has named it, and nothing is left of it.
func TestOutputName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.html")
	out, err := NewOutput(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = out.Finish(&fs.PathError{Op: "write", Path: out.whole.Name(), Err: syscall.ENOSPC})
	if want := "writing " + path + ": " + syscall.ENOSPC.Error(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}
