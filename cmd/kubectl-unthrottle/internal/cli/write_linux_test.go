package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
)

// TestWriteFullDisk has room for the first file's new text, and not for the second one's: both stay as they were.
func TestWriteFullDisk(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=48k"); err != nil {
		t.Skipf("no small file system can be mounted (needs root): %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	var files []fix.File
	for _, name := range []string{"a", "b"} {
		f := fix.File{Name: filepath.Join(small, name), Old: []byte("old " + name), New: bytes.Repeat([]byte{'x'}, 24<<10)}
		must(t, os.WriteFile(f.Name, f.Old, 0o644))
		files = append(files, f)
	}
	if err := writeFiles(files); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), files[1].Name) {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(small)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("there are %v", entries)
	}
	for _, f := range files {
		if now, err := os.ReadFile(f.Name); err != nil || !bytes.Equal(now, f.Old) {
			t.Errorf("%s is %.20q, %v", f.Name, now, err)
		}
	}
}

// TestWriteOwner replaces a file of another user's.
func TestWriteOwner(t *testing.T) {
	f := fix.File{Name: filepath.Join(t.TempDir(), "a"), Old: []byte("old"), New: []byte("new")}
	must(t, os.WriteFile(f.Name, f.Old, 0o644))
	if err := os.Chown(f.Name, 65534, 65534); err != nil {
		t.Skipf("a file can't be given to another user (needs root): %v", err)
	}
	must(t, writeFiles([]fix.File{f}))
	info, err := os.Stat(f.Name)
	must(t, err)
	if is := info.Sys().(*syscall.Stat_t); is.Uid != 65534 || is.Gid != 65534 {
		t.Errorf("it belongs to %d:%d now", is.Uid, is.Gid)
	}
}

const killedIn = "UNTHROTTLE_KILLED_IN"

// TestWriteKilled kills a process before a file is in its place: the next one removes what it left.
func TestWriteKilled(t *testing.T) {
	if dir := os.Getenv(killedIn); dir != "" {
		_, err := prepareFile(fix.File{Name: filepath.Join(dir, "a"), Old: []byte("old"), New: []byte("half")}, map[string]bool{})
		must(t, err)
		must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	f := fix.File{Name: filepath.Join(t.TempDir(), "a"), Old: []byte("old"), New: []byte("new")}
	must(t, os.WriteFile(f.Name, f.Old, 0o644))
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriteKilled$")
	cmd.Env = append(os.Environ(), killedIn+"="+filepath.Dir(f.Name))
	if err := cmd.Run(); err == nil {
		t.Fatal("it was not killed")
	}
	left := func() []os.DirEntry {
		entries, err := os.ReadDir(filepath.Dir(f.Name))
		must(t, err)
		return entries
	}
	if now, err := os.ReadFile(f.Name); err != nil || string(now) != "old" || len(left()) != 2 {
		t.Errorf("it left %q, %v and %v", now, err, left())
	}
	must(t, writeFiles([]fix.File{f}))
	if now, err := os.ReadFile(f.Name); err != nil || string(now) != "new" || len(left()) != 1 {
		t.Errorf("after the next one there is %q, %v and %v", now, err, left())
	}
}
