package ours

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// write makes a file as a verb does.
func write(t *testing.T, path, text string) error {
	t.Helper()
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f.Keep()
}

func umask(t *testing.T, mask int) {
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

// TestModes: a new file respects the umask, an old one keeps its mode.
func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	for _, c := range []struct {
		mask int
		want fs.FileMode
	}{{0o077, 0o600}, {0o022, 0o644}, {0o002, 0o664}} {
		umask(t, c.mask)
		os.Remove(path)
		must(t, write(t, path, "new"))
		if info, err := os.Stat(path); err != nil || info.Mode() != c.want {
			t.Errorf("umask %#o: %v, want %v", c.mask, info.Mode(), c.want)
		}
	}
	must(t, os.Chmod(path, 0o400))
	must(t, write(t, path, "newer"))
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o400 {
		t.Errorf("it was 0400: %v", info.Mode())
	}
	if text, _ := os.ReadFile(path); string(text) != "newer" {
		t.Errorf("%q", text)
	}
}

// TestNothingLeft: until the file is complete the old one is there, and nothing next to it; and nothing else when it is dropped.
func TestNothingLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	must(t, os.WriteFile(path, []byte("old"), 0o644))
	f, err := Create(path)
	must(t, err)
	io.WriteString(f, "new")
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("%q", text)
	}
	f.Drop()
	must(t, write(t, path, "newer"))
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("there is %v", left)
	}
}

// named makes a file in a directory the way it is done on a file system that has no files without a name.
func named(t *testing.T, path string) *File {
	t.Helper()
	dir, err := openDir(filepath.Dir(path))
	must(t, err)
	f := &File{dir: dir, name: filepath.Base(path)}
	fd, err := f.createNamed(0o600)
	must(t, err)
	f.File = os.NewFile(uintptr(fd), path)
	return f
}

// TestSwapped: a link in the place of the unfinished file is neither followed nor given the file's name.
func TestSwapped(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(t.TempDir(), "precious")
	must(t, os.WriteFile(precious, []byte("secret"), 0o600))
	path := filepath.Join(dir, "out.json")
	f := named(t, path)
	io.WriteString(f, "report")
	temp := filepath.Join(dir, f.temp)
	must(t, os.Remove(temp))
	must(t, os.Symlink(precious, temp))
	if err := f.Keep(); !errors.Is(err, errSwapped) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the link has the name")
	}
	info, err := os.Stat(precious)
	must(t, err)
	if text, _ := os.ReadFile(precious); info.Mode() != 0o600 || string(text) != "secret" {
		t.Errorf("the file that it leads to: %v, %q", info.Mode(), text)
	}

	f = named(t, path)
	io.WriteString(f, "report")
	must(t, f.Keep())
	if text, _ := os.ReadFile(path); string(text) != "report" {
		t.Errorf("%q", text)
	}
}

// TestDirectorySwapped: another directory in the place of the one that was opened changes nothing.
func TestDirectorySwapped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	elsewhere := t.TempDir()
	must(t, os.Mkdir(dir, 0o755))
	f, err := Create(filepath.Join(dir, "out.json"))
	must(t, err)
	must(t, os.Rename(dir, dir+"-moved"))
	must(t, os.Symlink(elsewhere, dir))
	must(t, f.Keep())
	if left, _ := os.ReadDir(elsewhere); len(left) > 0 {
		t.Errorf("it went elsewhere: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir+"-moved", "out.json")); err != nil {
		t.Error(err)
	}
}

// TestForeignLinks: root is not led through a link of another user, neither on the way nor at the end.
func TestForeignLinks(t *testing.T) {
	needRoot(t)
	theirs, elsewhere := open(t), t.TempDir()
	give(t, theirs)
	way := filepath.Join(theirs, "way")
	must(t, os.Symlink(elsewhere, way))
	give(t, way)
	if err := write(t, filepath.Join(way, "out.json"), "x"); err == nil || !strings.Contains(err.Error(), "link of another user") {
		t.Errorf("on the way: %v", err)
	}
	end := filepath.Join(theirs, "out.json")
	device := filepath.Join(elsewhere, "fifo")
	must(t, syscall.Mkfifo(device, 0o600))
	must(t, os.Symlink(device, end))
	give(t, end)
	if _, inPlace, err := InPlace(end); inPlace || err != nil {
		t.Errorf("at the end: written through it: %v", err)
	}
	must(t, write(t, end, "x"))
	if info, err := os.Lstat(end); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link was not replaced: %v", info.Mode())
	}
	own := filepath.Join(theirs, "own")
	must(t, os.Symlink(elsewhere, own))
	must(t, write(t, filepath.Join(own, "y.json"), "x"))
	if _, err := os.Stat(filepath.Join(elsewhere, "y.json")); err != nil {
		t.Errorf("our own link: %v", err)
	}
}

// TestInPlace: pipes, devices and our own descriptors are written to directly, without waiting.
func TestInPlace(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	if _, inPlace, err := InPlace(fifo); !inPlace || !errors.Is(err, ErrNoReader) {
		t.Errorf("a pipe that nobody reads: %v", err)
	}
	read, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer read.Close()
	hears := func(path string, r *os.File) {
		t.Helper()
		f, inPlace, err := InPlace(path)
		if err != nil || !inPlace {
			t.Fatalf("%s: %v", path, err)
		}
		io.WriteString(f, "hello")
		f.Close()
		buf := make([]byte, 10)
		r.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := r.Read(buf); string(buf[:n]) != "hello" {
			t.Errorf("%s: %q, %v", path, buf[:n], err)
		}
	}
	hears(fifo, read)
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	for _, path := range []string{"/dev/fd/", "/proc/self/fd/"} {
		hears(path+strconv.Itoa(int(w.Fd())), r)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	must(t, err)
	defer file.Close()
	file.WriteString("before ")
	f, inPlace, err := InPlace("/dev/fd/" + strconv.Itoa(int(file.Fd())))
	if err != nil || !inPlace {
		t.Fatal(err)
	}
	f.WriteString("after")
	f.Close()
	if text, _ := os.ReadFile(file.Name()); string(text) != "before after" {
		t.Errorf("a descriptor of a file: %q", text)
	}
	for _, path := range []string{os.DevNull, "/dev/stdout"} {
		f, inPlace, err := InPlace(path)
		if err != nil || !inPlace {
			t.Fatalf("%s: %v", path, err)
		}
		f.Close()
	}
	if _, inPlace, err := InPlace(t.TempDir()); !inPlace || !errors.Is(err, unix.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
	if _, inPlace, err := InPlace(filepath.Join(t.TempDir(), "new")); inPlace || err != nil {
		t.Errorf("a new file: %v", err)
	}
}
