package executable

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestLikeStandard compares what is read with what Go's own packages read: from this test, and from this system's programs, Go's and
// others.
func TestLikeStandard(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{self}
	for _, pattern := range []string{"/usr/bin/*", "/usr/sbin/*", "/usr/local/go/bin/*", "/usr/local/go/pkg/tool/*/*", "/usr/lib/*/*.so*"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found[:min(len(found), 300)]...)
	}
	inGo := 0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if same(t, name, f) {
			inGo++
		}
		f.Close()
	}
	t.Logf("%d files, %d of Go", len(files), inGo)
	if inGo == 0 {
		t.Error("none is a Go program, not even this one")
	}
}

func same(t *testing.T, name string, f *os.File) (inGo bool) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	want, err := elf.NewFile(f)
	got, ours := Read(f, info.Size())
	if err != nil {
		if ours == nil {
			t.Errorf("%s: read, and debug/elf says %v", name, err)
		}
		return false
	}
	if ours != nil {
		t.Errorf("%s: %v", name, ours)
		return false
	}
	if got.Order != want.ByteOrder || got.Word == 8 != (want.Class == elf.ELFCLASS64) || got.Machine != want.Machine || got.Fixed != (want.Type == elf.ET_EXEC) {
		t.Errorf("%s: %+v, not %+v", name, got, want.FileHeader)
	}
	var loads []elf.ProgHeader
	for _, p := range want.Progs {
		if p.Type == elf.PT_LOAD {
			p.Align = 0 // it is not used
			loads = append(loads, p.ProgHeader)
		}
	}
	if !reflect.DeepEqual(got.Loads, loads) {
		t.Errorf("%s: segments %+v, not %+v", name, got.Loads, loads)
	}
	for _, kind := range used {
		s := want.Section(kind)
		has, ok := got.Section(kind)
		if exists := s != nil && s.Type != elf.SHT_NOBITS; ok != exists || ok && (has.Addr != s.Addr || has.Offset != s.Offset || has.Size != s.Size || has.Type != s.Type) {
			t.Errorf("%s: section %s is %v %+v, not %+v", name, kind, ok, has, s)
		}
	}
	standard, err := buildinfo.Read(f)
	mine, ours := got.BuildInfo()
	if (err == nil) != (ours == nil) || err == nil && !reflect.DeepEqual(standard, mine) {
		t.Errorf("%s: build information %v %v, not %v %v", name, mine, ours, standard, err)
	}
	return err == nil
}

// TestNone is what is no ELF file, or hardly one.
func TestNone(t *testing.T) {
	for _, text := range []string{"", "#!/bin/sh\n", "\x7fELF", "MZ and more than sixteen bytes"} {
		if _, err := Read(bytes.NewReader([]byte(text)), int64(len(text))); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
	short := "\x7fELF\x02\x01\x01 and then nothing"
	if _, err := Read(bytes.NewReader([]byte(short)), int64(len(short))); !errors.Is(err, ErrOdd) {
		t.Errorf("%q: %v", short, err)
	}
}
