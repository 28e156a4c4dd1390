package guard

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// failing writes some bytes and then fails, as a full disk does.
type failing struct{ err error }

func (f failing) WriteTo(w io.Writer) (int64, error) {
	n, _ := io.WriteString(w, "half of")
	return int64(n), f.err
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := openDirectory(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, path); len(got) != 0 {
		t.Fatalf("trying the directory left %v", got)
	}
	// Other programs' files stay, however much they look like ours.
	others := []string{
		"throttled-other-20200101T000000.000Z-1.trace", d.prefix + "notes.trace", d.prefix + "20200101T000000.000Z-x.trace",
		d.prefix + "20200101T000000.000Z-1.trace.gz", ".throttled-other-1.tmp", "z.trace",
	}
	for _, name := range others {
		os.WriteFile(filepath.Join(path, name), nil, 0o600)
	}
	if err := os.Mkdir(filepath.Join(path, d.prefix+"20200101T000000.000Z-1.trace"), 0o700); err != nil {
		t.Fatal(err)
	}
	others = names(t, path)
	// A dead process of this program, and one that is alive, have not finished these.
	dead, alive := filepath.Join(path, "."+d.prefix+"1.tmp"), filepath.Join(path, "."+d.prefix+"2.tmp")
	os.WriteFile(dead, nil, 0o600)
	os.WriteFile(alive, nil, 0o600)
	at := time.Now()
	os.Chtimes(dead, at, at.Add(-2*time.Hour))

	var paths []string
	for i := 0; i < 4; i++ {
		file, n, err := d.write(at.Add(time.Duration(i)*time.Second), bytes.NewBufferString("trace"))
		if err != nil || n != 5 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		paths = append(paths, file)
	}
	data, err := os.ReadFile(paths[3])
	if err != nil || string(data) != "trace" {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Stat(paths[3]); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	want := append([]string{filepath.Base(alive), filepath.Base(paths[2]), filepath.Base(paths[3])}, others...)
	if got := names(t, path); !sameNames(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func sameNames(a, b []string) bool {
	set := func(names []string) map[string]bool {
		m := map[string]bool{}
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	return len(a) == len(b) && reflect.DeepEqual(set(a), set(b))
}

func TestDirectoryFull(t *testing.T) {
	path := t.TempDir()
	d, err := openDirectory(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	if file, _, err := d.write(time.Now(), failing{full}); !errors.Is(err, full) || file != "" {
		t.Errorf("%q, %v", file, err)
	}
	if got := names(t, path); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestDirectoryNotWritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	if _, err := openDirectory(filepath.Join(file, "dir"), 1); err == nil || !strings.Contains(err.Error(), "directory for snapshots") {
		t.Errorf("got %v", err)
	}
}
