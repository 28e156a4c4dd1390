package golive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// opens counts how often the file at a path is opened, under any name, for as long as the test lasts.
func opens(t *testing.T, path string) func() int {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Close(watch) })
	if _, err := unix.InotifyAddWatch(watch, path, unix.IN_OPEN); err != nil {
		t.Skip(err)
	}
	return func() int {
		n, buf := 0, make([]byte, 1<<12)
		for {
			m, err := unix.Read(watch, buf)
			if err != nil || m == 0 {
				return n
			}
			n += m
		}
	}
}

// TestReplacedLibrary: what is mapped is looked at, and what has replaced it is not opened: a watchdog or a tape would act.
func TestReplacedLibrary(t *testing.T) {
	dir := t.TempDir()
	library, device := filepath.Join(dir, "lib.so"), filepath.Join(dir, "device")
	if err := os.WriteFile(library, make([]byte, 4096), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	if err := syscall.Mknod(device, syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		if err := syscall.Mkfifo(device, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(library), os.Symlink(device, library)); err != nil {
		t.Fatal(err)
	}
	opened := opens(t, device)
	if f, err := os.OpenFile(device, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
		f.Close()
	}
	if opened() == 0 {
		t.Skip("here it isn't told that a file is opened")
	}

	self := fmt.Sprintf("/proc/%d", os.Getpid())
	text, err := os.ReadFile(self + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := parseMaps(strings.NewReader(string(text)))
	i := slices.IndexFunc(maps, func(m mapping) bool { return strings.HasPrefix(m.path, library) })
	if err != nil || i < 0 {
		t.Fatalf("it is not among the mappings: %v", err)
	}
	tree := foreign.Open("")
	defer tree.Close()
	if f, err := openMapped(tree, self, maps[i]); err == nil { // through the mapping, if we may
		if f.Inode() != maps[i].inode {
			t.Error("another file than the one that is mapped")
		}
		if r, err := f.Open(); err != nil {
			t.Error(err)
		} else {
			r.Close()
		}
		f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(device, &st); err != nil {
		t.Fatal(err)
	}
	for _, inode := range []uint64{maps[i].inode, st.Ino} { // where the mapping can't be used; and a device that has the right number
		m := maps[i]
		m.start, m.end, m.path, m.inode = 1, 2, library, inode
		f, err := openMapped(tree, self, m)
		if err != nil {
			continue
		}
		if r, err := f.Open(); err == nil {
			r.Close()
			t.Error("a device was opened")
		}
		f.Close()
	}
	if n := opened(); n > 0 {
		t.Errorf("the device was opened: %d bytes of events", n)
	}
}
