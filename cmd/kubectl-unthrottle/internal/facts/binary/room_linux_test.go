package binary

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRoom: a tarball that unpacks to more than its file system has room for leaves some of it, and nothing behind; so does one whose
// context ends meanwhile.
func TestRoom(t *testing.T) {
	tmp := t.TempDir()
	const size = 96 << 20
	if err := unix.Mount("unthrottle-test", tmp, "tmpfs", 0, "size=100663296"); err != nil {
		t.Skipf("a small file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(tmp, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "bomb.tar.gz")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
	_, err = io.CopyN(z, zeros{}, 2*size)
	if err := errors.Join(err, z.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	whole, err := temporary()
	if err != nil {
		t.Fatal(err)
	}
	if free := room(whole); free != size {
		t.Errorf("there is room for %d, want %d", free, size)
	}
	whole.Close()
	if _, err := ReadImage(t.Context(), file, ""); err == nil || !strings.Contains(err.Error(), "no room to unpack it in "+tmp+" after 64 MiB") {
		t.Errorf("got %v", err)
	}
	left(t, tmp, size)

	ctx, cancel := context.WithCancel(t.Context())
	f, err := temporary()
	if err != nil {
		t.Fatal(err)
	}
	lots := &endless{t: t, text: make([]byte, 4096), cancel: cancel}
	if err := fill(ctx, f, lots, maxTarball); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}
	f.Close()
	left(t, tmp, size)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// left checks that nothing is left in a file system.
func left(t *testing.T, dir string, size int64) {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	if free := int64(s.Bavail) * s.Bsize; free != size {
		t.Errorf("%d of %d bytes are free", free, size)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("%v, left: %v", err, names)
	}
}
